"""Steps are found by their id or iteration, and not among all open steps: also while the table is small."""

from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import text

from shared.database.engine import Database
from shared.database.statements import STRICT, Batch, BoundQuery
from shared.workflow import iterations, leases, steps
from shared.workflow.iterations import StepChanges
from shared.workflow.leases import Lease
from tests.support.claims import AGENT_ROW
from tests.support.factories import make_agent, make_iteration
from tests.support.joins import QUERY


async def _plan(database: Database, query: BoundQuery[Any]) -> str:
    """The plan that workers use, whatever the values are."""
    statement = query.statement.bind({STRICT: False, **query.params}).sql.decode()
    async with database.connection() as connection:
        cursor = await connection.execute(f"explain (generic_plan) {statement}".encode())
        return "\n".join(row[0] for row in await cursor.fetchall())


@pytest.mark.parametrize("ended_steps", [60, 600])
async def test_a_step_is_found_by_its_id(database: Database, ended_steps: int) -> None:
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    iteration = started.iteration
    async with database.transaction() as session:
        planning = iterations.plan_steps(iteration, queries=[QUERY] * ended_steps, insights=[])
        await planning.execute(session)
        await session.execute(text("update steps set status = 'completed' where kind = 'query'"))
        await session.execute(text("analyze steps, iterations, agents"))
    lease = Lease(
        started.observe.id, iteration.id, agent.id, agent.owner_id, 1, "worker", 10.0, AGENT_ROW
    )
    seen = iterations.IterationRow(
        *[getattr(iteration, name) for name in iterations.IterationRow._fields]
    )
    batch = Batch()
    steps.end_with(batch, lease, {})
    (ending,) = batch._queries
    queries: dict[str, BoundQuery[Any]] = {
        "load": leases.load(lease.step_id, "worker"),
        "claim": leases.claim(lease, datetime.now(UTC)),
        "fence": leases.fence(lease),
        "renewal": leases.renewal(lease),
        "end": ending.query,
        "end of a wait": steps.wait_ending(lease),
        "load for the join": iterations.load_for_join(iteration.id, lease.step_id),
        "transition": iterations.move(seen, seen, StepChanges()),
    }
    for name, query in queries.items():
        plan = await _plan(database, query)
        assert "Seq Scan" not in plan, f"{name}\n{plan}"
        assert "steps_open_idx" not in plan, f"{name}\n{plan}"
        assert "steps_pkey" in plan, f"{name}\n{plan}"
