"""A worker that is told to stop in the middle of a call: another replica has its steps at once."""

import signal
from collections.abc import AsyncIterator, Collection
from typing import Final
from uuid import UUID

import pytest

from shared.database.tables import Agent
from shared.enums import Phase
from tests.chaos.conftest import visited
from tests.support.chaos.claims import held_by, seconds_handed_over
from tests.support.chaos.figures import Figures
from tests.support.chaos.house import lived_in
from tests.support.chaos.mission import INSIGHTS, QUERIES
from tests.support.chaos.scenarios import Trial, unharmed
from tests.support.chaos.visit import Visit, Visitor
from tests.support.chaos.workers import WORKS_ON
from tests.support.waiting import until

pytestmark = pytest.mark.chaos

REPLICAS: Final = dict.fromkeys(WORKS_ON, 2)
SETTINGS: Final = {"VIGIL_DRAIN_SECONDS": "1"}
"""Of leases and republish_count those that everybody has: they must have no part in this."""
LONG_ANSWER_SECONDS: Final = 6.0
LONGEST_SECONDS: Final = 2.0
FIRST_CALLS: Final = {
    "observer": (Phase.OBSERVER, 1),
    "researcher": (Phase.KNOWLEDGE_ACQUISITION, QUERIES),
    "analyzer": (Phase.ANALYSIS_GENERATION, INSIGHTS),
    "adviser": (Phase.ADVICE_GENERATION, 1),
}
"""The phase in which each worker begins, and how many of its steps are under way at the same time."""


@pytest.fixture(scope="module")
async def visitor(
    tmp_path_factory: pytest.TempPathFactory, sandbox_server: str
) -> AsyncIterator[Visitor]:
    home = tmp_path_factory.mktemp("handover")
    async with visited(
        lived_in(home, sandbox_server, replicas=REPLICAS, settings=SETTINGS)
    ) as found:
        yield found


@pytest.mark.parametrize(
    "worker",
    [
        pytest.param(worker, marks=() if worker == "researcher" else pytest.mark.slow)
        for worker in WORKS_ON
    ],
)
async def test_a_stopping_workers_steps_are_taken_at_once(
    visitor: Visitor, undisturbed: Visit, figures: Figures, seed: int, worker: str
) -> None:
    house = visitor.house
    both = house.replicas(worker)
    since = await visitor.next_sequence()
    agent = await in_mid_call(visitor, worker, seed)
    name, held = await holder(visitor, both)
    house.kept_down.add(name)
    house.send(name, signal.SIGTERM)
    waited = await seconds_handed_over(visitor.database, held)
    await visitor.died(name, exit_code=0)
    assert "handed over unfinished work" in house.log(name)
    unharmed(figures, undisturbed, Trial(await visitor.end(agent, since), len(held)))
    house.kept_down.clear()
    await house.live(both)
    assert max(waited) < LONGEST_SECONDS
    for seconds in waited:
        figures.sample("a worker told to stop: until another has its step", seconds)


async def in_mid_call(visitor: Visitor, worker: str, seed: int) -> Agent:
    """An agent whose steps of that worker's have all begun, and wait for an answer that takes long."""
    phase, steps = FIRST_CALLS[worker]
    sandbox = visitor.sandbox
    sandbox.reset()
    sandbox.faults(
        {
            "kind": "latency",
            "phase": phase,
            "latency_seconds": LONG_ANSWER_SECONDS,
            "count": steps,
        }
    )
    agent = await visitor.begin_another(seed)

    async def look() -> bool:
        return sandbox.matched(phase) == steps

    await until(look, what=f"{steps} calls of {phase} to be under way")
    return agent


async def holder(visitor: Visitor, names: Collection[str]) -> tuple[str, dict[UUID, int]]:
    """One of the replicas that holds steps, and their epochs."""
    pids = visitor.house.fleet.pids()
    held = {name: await held_by(visitor.database, pids[name]) for name in sorted(names)}
    return next((name, steps) for name, steps in held.items() if steps)
