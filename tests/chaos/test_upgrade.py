"""An upgrade under agents that work: the tables grow, then every actor is stopped and started, one after the other."""

import asyncio
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import pytest

from shared.database import migrate
from shared.database.tables import Agent
from tests.chaos.conftest import visited
from tests.support.chaos.figures import Figures
from tests.support.chaos.house import lived_in
from tests.support.chaos.scenarios import Trial, unharmed
from tests.support.chaos.visit import Visit, Visitor
from tests.support.chaos.workers import WORKS_ON
from tests.support.made_up import history_with

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

AGENTS: Final = 6
REPLICAS: Final = {**dict.fromkeys(WORKS_ON, 2), "aggregator": 2}
SETTINGS: Final = {"VIGIL_SCHEDULER_TICK_SECONDS": "0.1"}
COLUMNS: Final = """
for table in sorted(Base.metadata.tables):
    op.add_column(table, sa.Column("added_later", sa.Text(), nullable=True))
"""
TABLE: Final = 'op.create_table("added_later", sa.Column("id", sa.Uuid(), primary_key=True))'
INDEX: Final = 'create_index_beside_writers("calls_added_idx", "calls", ["added_later"])'


@pytest.fixture(scope="module")
async def visitor(
    tmp_path_factory: pytest.TempPathFactory, sandbox_server: str
) -> AsyncIterator[Visitor]:
    """With the leases and the grace that everybody has, so that nothing but the upgrade disturbs anybody."""
    home = tmp_path_factory.mktemp("upgrade")
    async with visited(
        lived_in(home, sandbox_server, replicas=REPLICAS, settings=SETTINGS)
    ) as found:
        yield found


async def test_tables_grow_under_working_actors(
    visitor: Visitor, undisturbed: Visit, figures: Figures, seed: int, tmp_path: Path
) -> None:
    scripts = history_with(tmp_path, COLUMNS, TABLE, INDEX)
    since = await visitor.next_sequence()
    visitor.sandbox.reset()
    # Statements asked several times on a connection are prepared there, and know what the tables were.
    agents = await begin(visitor, seed, AGENTS)
    await visitor.ended(agents[0])
    agents += await begin(visitor, seed + AGENTS, AGENTS)
    await asyncio.to_thread(migrate.upgrade, visitor.house.settings.database_url, scripts)
    agents += await begin(visitor, seed + 2 * AGENTS, 2)
    await all_unharmed(visitor, undisturbed, figures, agents, since)
    assert visitor.house.deaths == []
    figures.add("iterations under a migration", len(agents))


async def test_every_actor_is_restarted_in_turn(
    visitor: Visitor, undisturbed: Visit, figures: Figures, seed: int
) -> None:
    house = visitor.house
    since = await visitor.next_sequence()
    visitor.sandbox.reset()
    agents = []
    for number, (name, pid) in enumerate(sorted(house.fleet.pids().items())):
        agents += await begin(visitor, seed + number, 1)
        house.send(name, signal.SIGTERM)
        assert await visitor.died(name, exit_code=0) == pid
        await house.restarted(name, pid)
    await all_unharmed(visitor, undisturbed, figures, agents, since)
    figures.add("iterations under a rolling restart", len(agents))


async def begin(visitor: Visitor, seed: int, count: int) -> list[Agent]:
    return [await visitor.begin_another(seed + number) for number in range(count)]


async def all_unharmed(
    visitor: Visitor,
    undisturbed: Visit,
    figures: Figures,
    agents: Sequence[Agent],
    since: int,
) -> None:
    """All iterations together cost as many undisturbed ones; nothing was paid for twice."""
    for agent in agents:
        visit = await visitor.end(agent, since)
        own = Visit(visit.result, visit.faults, undisturbed.billed, 0)
        unharmed(figures, undisturbed, Trial(own, 0))
    wanted = {kind: times * len(agents) for kind, times in undisturbed.billed.items()}
    assert (visitor.sandbox.billed(), visitor.sandbox.repeated()) == (wanted, 0)
