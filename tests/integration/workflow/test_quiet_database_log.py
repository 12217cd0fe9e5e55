"""Work as usual leaves no error in PostgreSQL's log: an error there is a fault."""

from collections.abc import Callable

import pytest
from sqlalchemy import update

from cli.local.postgres import EmbeddedPostgres
from shared.billing import budgets
from shared.billing.budgets import Caps
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.runtime.settings import Settings
from shared.workflow import iterations
from tests.support.engines import Postgres
from tests.support.factories import make_agent
from tests.support.running_services import ended_iteration, running_services
from tests.support.waiting import wait_until

AGENTS = 2


@pytest.fixture
def written(postgres: Postgres) -> Callable[[], str]:
    """Return lines that the server logs during the test; the tests of this process use it one after another."""
    if not isinstance(postgres, EmbeddedPostgres):
        pytest.skip("the log of a container is not a file")
    log, before = postgres.log, postgres.log.stat().st_size
    return lambda: log.read_bytes()[before:].decode(errors="replace")


async def test_iterations_and_refused_budgets_cause_no_error(
    sandbox_settings: Settings, database: Database, written: Callable[[], str]
) -> None:
    agents = [await make_agent(database, name=f"Watch {number}") for number in range(AGENTS)]
    async with running_services(sandbox_settings):
        for number in (1, 2):
            for agent in agents:
                await ended_iteration(database, agent, number)
            await run_again(database)
        for agent in agents:
            await ended_iteration(database, agent, 3)
        async with database.transaction() as session:
            await budgets.cap_agent(session, agents[0].id, Caps(calls_per_day=1))
        await run_again(database)
        await until_suspended(database, agents[0])
        for agent in agents[1:]:
            await ended_iteration(database, agent, 4)
        async with database.transaction() as session:
            await budgets.cap_installation(session, Caps(calls_per_day=1))
        await run_again(database)
        for agent in agents[1:]:
            await until_suspended(database, agent)
    faults = [line for line in written().splitlines() if "ERROR" in line or "FATAL" in line]
    assert faults == []


async def run_again(database: Database) -> None:
    async with database.transaction() as session:
        now = await iterations.database_time(session)
        await session.execute(update(Agent).values(run_requested_at=now))


async def until_suspended(database: Database, agent: Agent) -> None:
    async def look() -> bool:
        async with database.transaction() as session:
            return (await session.get_one(Agent, agent.id)).suspended_until is not None

    await wait_until(look, what=f"a refused budget to suspend {agent.name}", seconds=60)
