"""With the settings that everybody has: how long a killed worker's step waits until another replica takes it."""

from collections.abc import AsyncIterator, Iterator
from typing import Final

import pytest

from shared.failpoints import Failpoint
from tests.chaos.conftest import visited
from tests.support.chaos.claims import seconds_until_taken
from tests.support.chaos.figures import Figures
from tests.support.chaos.house import lived_in
from tests.support.chaos.scenarios import Trial, unharmed
from tests.support.chaos.visit import Visit, Visitor
from tests.support.chaos.workers import WORKS_ON

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

REPLICAS: Final = dict.fromkeys(WORKS_ON, 2)
LONGEST_SECONDS: Final = 15.0
POINTS: Final = {
    Failpoint.MESSAGE_RECEIVED: "its message in hand",
    Failpoint.LEASE_TAKEN: "the step leased",
    Failpoint.CALL_UNSENT: "a call about to be sent",
    Failpoint.TOOL_APPLIED: "a tool's effect uncommitted",
}
WITHOUT_TOOLS: Final = {"observer"}


@pytest.fixture(scope="module")
async def visitor(
    tmp_path_factory: pytest.TempPathFactory, sandbox_server: str
) -> AsyncIterator[Visitor]:
    """Default settings, two replicas of each worker; of the two, whoever comes by first is killed."""
    home = tmp_path_factory.mktemp("defaults")
    async with visited(
        lived_in(home, sandbox_server, replicas=REPLICAS, settings={}, armed_together=True)
    ) as found:
        yield found


def cases() -> Iterator[tuple[str, Failpoint]]:
    for worker in WORKS_ON:
        for point in POINTS:
            if point is not Failpoint.TOOL_APPLIED or worker not in WITHOUT_TOOLS:
                yield worker, point


@pytest.mark.parametrize(("worker", "point"), list(cases()))
async def test_another_replica_takes_a_killed_workers_step(
    visitor: Visitor,
    undisturbed: Visit,
    figures: Figures,
    seed: int,
    worker: str,
    point: Failpoint,
) -> None:
    house = visitor.house
    both = house.replicas(worker)
    house.kept_down |= both
    house.arm(worker, point)
    since = await visitor.next_sequence()
    agent = await visitor.begin(seed)
    pid = await visitor.one_killed(both)
    in_flight = await visitor.in_flight(pid)
    waited = await seconds_until_taken(visitor.database, agent, WORKS_ON[worker], pid)
    unharmed(figures, undisturbed, Trial(await visitor.end(agent, since), in_flight))
    house.kept_down -= both
    await house.live(both)
    assert waited < LONGEST_SECONDS
    figures.sample(f"a worker killed with {POINTS[point]}: until another has its step", waited)
