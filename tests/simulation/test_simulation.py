"""The services keep their promises under faults, by seed; and a broken build of each promise is found.

A failure names the command that repeats it.
"""

from collections import Counter
from typing import Final

import pytest

from tests.support.seeds import SEED, SEEDS
from tests.support.simulation.broken import BROKEN_BUILDS, BrokenBuild, broken
from tests.support.simulation.play import Outcome, simulate
from tests.support.simulation.postgres import SimulatedPostgres

SHORT_SEEDS: Final = range(1, 3)
SHORT_AGENTS: Final = 3
ITERATIONS: Final = 5_000
AGENTS: Final = 25
ROUNDS: Final = 2
BROKEN_AGENTS: Final = 4
TRACE_LINES: Final = 100
"""Of a failure's message."""


def test_no_promise_is_broken(simulated_postgres: SimulatedPostgres) -> None:
    """Each seed twice, with the same trace."""
    expected = undisturbed_graphs(simulated_postgres, rounds=1)
    for seed in SHORT_SEEDS:
        first, second = (
            simulate(simulated_postgres, seed, agents=SHORT_AGENTS, rounds=1, expected=expected)
            for _ in range(2)
        )
        assert_holds(first, "make test-simulation ARGS='-k test_no_promise_is_broken'")
        assert first.happened, "the seed has faults"
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
        pytest.fail("\n".join([*lines, *outcome.lines[-TRACE_LINES:]]))


def first_difference(first: Outcome, second: Outcome) -> str:
    pairs = zip(first.lines, second.lines, strict=False)
    return next((f"{one}\n{other}" for one, other in pairs if one != other), "one trace is longer")
