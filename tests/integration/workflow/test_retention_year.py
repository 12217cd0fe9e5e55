"""Many days of iterations with retention: copies have the shape of real iterations, and tables keep their size."""

from typing import Final

import pytest
from sqlalchemy import text

from shared.database.engine import Database
from shared.database.tables import Agent
from shared.enums import IterationStatus
from shared.runtime.settings import Settings
from shared.workflow import iterations
from tests.support.factories import make_agent
from tests.support.retention.pruning import publish_ends
from tests.support.retention.simulation import PRUNED_TABLES, Simulation
from tests.support.retention.template import TABLES
from tests.support.running_services import ended_iteration, running_services
from tests.support.table_rows import change

DAYS: Final = 120
STEADY_DAY: Final = 60
MAX_CHANGE: Final = 0.05
FEW_BYTES: Final = 5 * 8192
"""Some pages more or less make no difference."""
FEW_INDEX_BYTES: Final = 128 * 1024
"""Indexes of random keys are small here, and their pages are split at random."""


async def record(database: Database, settings: Settings, count: int) -> Agent:
    """An agent that has done real iterations on the sandbox."""
    # Paused, so that it has no iteration but those that are requested.
    agent = await make_agent(database, active=False)
    async with running_services(settings):
        for number in range(1, count + 1):
            async with database.transaction() as session:
                row = await session.get_one(Agent, agent.id)
                row = await change(
                    session, row, run_requested_at=await iterations.database_time(session)
                )
            iteration = await ended_iteration(database, agent, number)
            assert iteration.status == IterationStatus.COMPLETED
    await publish_ends(database)
    return agent


async def simulate(
    database: Database, settings: Settings, agent: Agent, days: int, **others: int
) -> Simulation:
    return await Simulation.begin(
        database,
        settings.database_url,
        agent.id,
        policy=settings.retention_policy,
        days=days,
        **{"count": 1, "recorded": 2, **others},
    )


async def shape(database: Database, table: str, schema: str, condition: str) -> tuple[int, int]:
    """The number of rows, and the bytes of all their columns, some of which a copy cannot have in the same length."""
    async with database.snapshot() as session:
        names = await session.scalars(
            text(
                "select column_name from information_schema.columns where table_schema = 'public' and table_name = :table"
                " and data_type in ('text', 'jsonb', 'bytea', 'integer', 'numeric') order by 1"
            ),
            {"table": table},
        )
        sizes = " + ".join(f"coalesce(pg_column_size({name}), 0)" for name in names)
        row = (
            await session.execute(
                text(
                    f"select count(*), coalesce(sum({sizes}), 0) from {schema}.{table} as row where {condition}"
                )
            )
        ).one()
    return row[0], int(row[1])


async def test_copies_have_the_shape_of_real_iterations(
    database: Database, sandbox_settings: Settings
) -> None:
    agent = await record(database, sandbox_settings, 2)
    real = {}
    for table in TABLES:
        real[table] = await shape(database, table, "public", f"agent_id = '{agent.id}'")
    simulation = await simulate(database, sandbox_settings, agent, 1)
    [scope] = simulation.agents
    await simulation.run_day(0, 2)
    for table in TABLES:
        copied = await shape(database, table, "public", f"agent_id = '{scope.agent_id}'")
        assert copied[0] == real[table][0], table
        assert copied[1] == pytest.approx(real[table][1], rel=0.01), table
    assert await simulation.find_faults() == []


@pytest.mark.slow
async def test_tables_keep_their_size(database: Database, sandbox_settings: Settings) -> None:
    agent = await record(database, sandbox_settings, 2)
    simulation = await simulate(database, sandbox_settings, agent, DAYS)
    for day in range(DAYS):
        await simulation.run_day(day, 2)
        if day + 1 in (STEADY_DAY, DAYS):
            await simulation.measure(day + 1)
    for sizes, few in (
        (simulation.row_sizes, FEW_BYTES),
        (simulation.sizes, FEW_INDEX_BYTES),
    ):
        before, after = sizes[STEADY_DAY], sizes[DAYS]
        for table in PRUNED_TABLES:
            change = abs(after[table] - before[table])
            assert change <= max(few, MAX_CHANGE * before[table]), (table, before, after)
    assert all(simulation.pruned.values())
    assert await simulation.find_faults() == []
