"""Each service is killed before and after statements of its round trips; the result of the iteration does not change."""

import random
from collections.abc import Iterator
from typing import Final

import pytest

from cli.local.members import CONSUMER_SERVICES
from tests.support.chaos.figures import Figures
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.chaos.scenarios import assert_like_baseline, killed_at_statement
from tests.support.chaos.statement_kills import NEVER

pytestmark = pytest.mark.chaos

SERVICES: Final = ("scheduler", "observer", "researcher", "aggregator", "analyzer", "adviser")
KILLS: Final = 12
"""Kills of a service at different statements."""
SHORT: Final = ("researcher", "analyzer")


@pytest.fixture(autouse=True)
def _disarm(runner: ScenarioRunner) -> Iterator[None]:
    yield
    runner.installation.disarm()


@pytest.fixture(scope="module")
async def points(runner: ScenarioRunner, baseline: ScenarioRun) -> dict[str, int]:
    """The number of points at which each service can be killed in an iteration."""
    assert baseline.faults == ()
    for name in SERVICES:
        runner.installation.arm_statement(name, NEVER)
    await runner.run(seed=0)
    return {name: runner.installation.statements_passed(name) for name in SERVICES}


def test_all_services_that_work_for_an_agent_are_killed() -> None:
    assert set(SERVICES) < set(CONSUMER_SERVICES)


@pytest.mark.parametrize("service", SHORT)
async def test_killed_at_a_statement(
    runner: ScenarioRunner,
    baseline: ScenarioRun,
    points: dict[str, int],
    figures: Figures,
    service: str,
    seed: int,
) -> None:
    number = random.Random(seed).randrange(points[service])
    trial = await killed_at_statement(runner, service, number, seed)
    assert_like_baseline(figures, baseline, trial)
    figures.add("kills at a chosen point")


@pytest.mark.slow
@pytest.mark.parametrize("service", SERVICES)
async def test_killed_at_many_statements(
    runner: ScenarioRunner,
    baseline: ScenarioRun,
    points: dict[str, int],
    figures: Figures,
    service: str,
    seed: int,
) -> None:
    """The points are spread over the whole iteration."""
    chance = random.Random(seed)
    for part in range(KILLS):
        first, end = (points[service] * place // KILLS for place in (part, part + 1))
        number = chance.randrange(first, max(end, first + 1))
        trial = await killed_at_statement(runner, service, number, seed)
        assert_like_baseline(figures, baseline, trial)
        figures.add("kills at a chosen point")
