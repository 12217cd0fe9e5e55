"""Broken builds that simulations must find: each removes one promise of the product, at one place."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from shared.billing import call_ledger, reservations
from shared.billing.call_ledger import CallAnswer, CallRecord
from shared.database.statements import CompiledStatement
from shared.llm.paid_calls import PaidCalls
from shared.llm.provider import Model
from shared.runtime.middlewares.dead_letter import DeadLetters
from tests.support.chaos.breakages import BREAKAGES
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
            self._unit.on_commit(lambda: self._unit.defer_query(book))

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
