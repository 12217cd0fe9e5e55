"""The services keep their promises under faults, by seed; and a broken build of each promise is found.

A failure names the command that repeats it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pytest

from shared.billing import call_ledger, reservations
from shared.billing.call_ledger import CallAnswer, CallRecord
from shared.database.statements import CompiledStatement
from shared.llm.paid_calls import PaidCalls
from shared.llm.provider import Model
from shared.runtime.middlewares.dead_letter import DeadLetters
from tests.support.chaos.breakages import BREAKAGES
from tests.support.seeds import SEED, SEEDS
from tests.support.simulation.play import MESSAGE_LINES, Outcome, simulate
from tests.support.simulation.postgres import SimulatedPostgres

_DISABLE_JOURNAL: Final = "alter table graph_nodes disable trigger user"
_ENABLE_JOURNAL: Final = "alter table graph_nodes enable trigger user"


def _pay_without_reservation() -> None:
    """What a call costs at the most is not reserved before it is sent."""
    Model.max_cost_usd = lambda *_: Decimal(0)  # type: ignore[method-assign]


def _book_in_the_next_commit() -> None:
    """An answer is committed with its effects, and its cost is booked with the commit after that."""

    def record_answer(self: PaidCalls, call: CallRecord, answer: CallAnswer) -> None:
        for query in call_ledger.answer_queries(call.id, answer):
            self._unit.defer_query(query)
        if (reservation := self._reservations.get(call.id)) is not None:
            closing = reservations.settled(reservation.attempt, answer.cost_usd, answer.assumed_usd)
            book = reservations.closing_query(closing)
            self._unit.on_this_commit(lambda: self._unit.defer_query(book))

    PaidCalls.record_answer = record_answer  # type: ignore[method-assign]


def _ignore_caps() -> None:
    """A reservation is made also where a cap does not allow it."""

    def without_caps(statement: CompiledStatement) -> CompiledStatement:
        sql = str(statement._statement)
        assert reservations.IS_EXCEEDED in sql
        return CompiledStatement(sql.replace(reservations.IS_EXCEEDED, "false"))

    reservations._RESERVE = without_caps(reservations._RESERVE)  # type: ignore[misc]
    call_ledger._PAY_AND_RESERVE = without_caps(call_ledger._PAY_AND_RESERVE)  # type: ignore[misc]


def _lose_dead_letters() -> None:
    """A message that cannot be handled is acknowledged and not stored."""

    async def store(*_: Any) -> None:
        """Stores nothing."""

    DeadLetters._store = store  # type: ignore[assignment, method-assign]


@dataclass(frozen=True)
class BrokenBuild:
    name: str
    found_by: str
    """A part of the message of the invariant that finds it."""
    patch: Callable[[], None] = lambda: None
    statements: tuple[str, str] | None = None
    """Executed in the database before and after its simulations."""
    seeds: int = 10
    """In how many seeds it must be found."""


BROKEN_BUILDS: Final[Sequence[BrokenBuild]] = (
    BrokenBuild("fence", "differs from the state", BREAKAGES["epochs off"]),
    BrokenBuild("payment before effect", "that no budget has reserved", _pay_without_reservation),
    BrokenBuild("finished call", "was paid for twice", BREAKAGES["ledger off"]),
    BrokenBuild("one commit for effect and ledger", "in the ledger", _book_in_the_next_commit),
    BrokenBuild("budget", "of a cap of", _ignore_caps),
    BrokenBuild("journal row", "verification", statements=(_DISABLE_JOURNAL, _ENABLE_JOURNAL)),
    BrokenBuild("publish before commit", "before its commit", BREAKAGES["publish before commit"]),
    BrokenBuild("join on a stale look", "differs from the state", BREAKAGES["join comparison off"]),
    BrokenBuild("dead letter lost", "has no dead letter", _lose_dead_letters),
)


@contextmanager
def broken(build: BrokenBuild, postgres: SimulatedPostgres) -> Iterator[None]:
    """Applies the patch for the time of the block."""
    owners = [
        owner
        for name, module in list(sys.modules.items())
        if name.startswith(("shared", "services"))
        for owner in (module, *(each for each in vars(module).values() if isinstance(each, type)))
    ]
    before = [(owner, dict(vars(owner))) for owner in owners]
    build.patch()
    if build.statements is not None:
        postgres.monitor.execute(build.statements[0].encode())
    try:
        yield
    finally:
        for owner, attributes in before:
            for name, value in attributes.items():
                if vars(owner).get(name) is not value:
                    setattr(owner, name, value)
        if build.statements is not None:
            postgres.monitor.execute(build.statements[1].encode())


SHORT_SEEDS: Final = range(1, 3)
SHORT_AGENTS: Final = 2
ITERATIONS: Final = 5_000
AGENTS: Final = 25
ROUNDS: Final = 2
BROKEN_AGENTS: Final = 4


def test_no_promise_is_broken(simulated_postgres: SimulatedPostgres) -> None:
    """The last seed twice, with the same trace."""
    expected = undisturbed_graphs(simulated_postgres, rounds=1)
    for seed in SHORT_SEEDS:
        first = simulate(simulated_postgres, seed, agents=SHORT_AGENTS, rounds=1, expected=expected)
        assert_holds(first, "make test-simulation ARGS='-k test_no_promise_is_broken'")
        assert first.happened, "the seed has faults"
    second = simulate(simulated_postgres, seed, agents=SHORT_AGENTS, rounds=1, expected=expected)
    assert first.trace == second.trace, first_difference(first, second)


@pytest.mark.slow
def test_thousands_of_iterations(
    simulated_postgres: SimulatedPostgres, seed: int, seeds_wanted: int | None
) -> None:
    """5,000 iterations, or as many seeds as $VIGIL_TEST_SEEDS says."""
    expected = undisturbed_graphs(simulated_postgres, rounds=ROUNDS)
    iterations = tried = 0
    happened: Counter[str] = Counter()
    while tried < seeds_wanted if seeds_wanted else iterations < ITERATIONS:
        outcome = simulate(
            simulated_postgres, seed + tried, agents=AGENTS, rounds=ROUNDS, expected=expected
        )
        repeat = f"{SEED}={outcome.seed} {SEEDS}=1 make test-simulation ARGS='-k thousands'"
        assert_holds(outcome, repeat)
        iterations += outcome.iterations
        happened.update(outcome.happened)
        tried += 1
        print(f"seed {outcome.seed}: {outcome.iterations} iterations, {iterations} in all")
    print(f"{iterations} iterations in {tried} seeds: {dict(happened)}")


@pytest.mark.slow
@pytest.mark.parametrize("build", BROKEN_BUILDS, ids=lambda build: build.name)
def test_a_broken_build_is_found(simulated_postgres: SimulatedPostgres, build: BrokenBuild) -> None:
    found: list[str] = []
    with broken(build, simulated_postgres):
        for seed in range(1, build.seeds + 1):
            outcome = simulate(simulated_postgres, seed, agents=BROKEN_AGENTS, rounds=1)
            found += outcome.faults
            if any(build.found_by in fault for fault in outcome.faults):
                print(f"{build.name}: found by seed {seed}")
                return
    pytest.fail(f"not found in {build.seeds} seeds, which found {found}")


def undisturbed_graphs(postgres: SimulatedPostgres, *, rounds: int) -> frozenset[str]:
    """The fingerprint of the graphs of agents whose iterations no fault has disturbed. They are equal."""
    calm = simulate(postgres, 0, agents=SHORT_AGENTS, rounds=rounds, is_calm=True)
    assert calm.faults == []
    assert len(calm.fingerprints) == 1
    return calm.fingerprints


def assert_holds(outcome: Outcome, repeat: str) -> None:
    if outcome.faults:
        lines = [
            f"seed {outcome.seed}:",
            *outcome.faults,
            f"repeat it with {repeat}",
            "the end of its trace:",
        ]
        pytest.fail("\n".join([*lines, *outcome.lines[-MESSAGE_LINES:]]))


def first_difference(first: Outcome, second: Outcome) -> str:
    pairs = zip(first.lines, second.lines, strict=False)
    return next((f"{one}\n{other}" for one, other in pairs if one != other), "one trace is longer")
