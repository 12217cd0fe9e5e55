"""Agents that do not work, each statement under the role of the service that executes it."""

from contextlib import AsyncExitStack

from sqlalchemy import delete, update

from shared.agents import agents
from shared.database.engine import Database
from shared.database.statements import Batch
from shared.database.tables import Agent, InboxItem
from shared.runtime.connections import create_database
from shared.workflow import attention
from tests.support.factories import make_agent
from tests.support.iteration_courses import KEY_ERROR, find_attention, notices, run_courses
from tests.support.secured_installation import SecuredInstallation
from tests.support.table_rows import remove


async def record(database: Database, agent: Agent) -> None:
    batch = Batch()
    batch.add(attention.lock_agent(agent.id))
    batch.add(attention.record_end(agent.id, [KEY_ERROR]))
    await database.write(batch)


async def test_services_may_record_and_end_what_needs_attention(
    installation: SecuredInstallation, owner_database: Database
) -> None:
    async with AsyncExitStack() as stack:
        aggregator, assistant, api = (
            create_database(installation.settings(name), name, pool_size=1)
            for name in ("aggregator", "assistant", "api")
        )
        for database in (aggregator, assistant, api):
            stack.push_async_callback(database.close)
        agent = await make_agent(owner_database, name="Failing")
        await run_courses(owner_database, agent, ["failed"] * 2)
        async with owner_database.transaction() as session:
            await session.execute(delete(InboxItem).where(InboxItem.agent_id == agent.id))
        await record(aggregator, agent)
        [notice] = await notices(owner_database, agent)
        assert notice.resolved_at is None
        assert await find_attention(api, agent) is not None
        for service in (assistant, api):
            await service.run(agents.end_backoff(agent.id))
        await api.run(agents.wake(agent.id))
        await run_courses(owner_database, agent, ["wrote nodes"])
        async with owner_database.transaction() as session:
            reopened = update(InboxItem).where(InboxItem.agent_id == agent.id)
            await session.execute(reopened.values(resolved_at=None))
        await record(aggregator, agent)
        [notice] = await notices(owner_database, agent)
        assert notice.resolved_at is not None
        async with owner_database.transaction() as session:
            await remove(session, await session.get_one(Agent, agent.id))
