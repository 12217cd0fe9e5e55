"""Each actor does its whole work under its own NATS user and Postgres role."""

from typing import Any
from uuid import uuid4

from sqlalchemy import select
from structlog.testing import capture_logs

from shared.database.engine import Database
from shared.database.tables import Agent, GraphNode, InboxItem, NodeEmbedding
from shared.enums import ANALYSIS_TYPE, IterationStatus
from shared.graph.conclusions import conclusions
from shared.graph.scope import GraphScope
from shared.runtime.connections import create_bus, create_database
from shared.workflow import iterations
from tests.support.actors import BUILDERS, ended_iteration, running
from tests.support.committing import COMMITTED
from tests.support.configuring import configured, order_agent
from tests.support.guarded import Guarded

ACTORS = sorted(BUILDERS)


async def test_the_whole_loop_runs_under_its_own_users_and_roles(
    closed: Guarded, ours: Database, sandbox: str
) -> None:
    outside = {"sandbox_url": sandbox, "embedding_model": "any"}
    each = {name: closed.settings(name, **outside) for name in ACTORS}
    api = create_database(closed.settings("api"), "api")
    bus = create_bus(closed.settings("api"), "api")
    await bus.connect()
    agent, asked = await order_agent(api, name=f"Watch {uuid4()}")
    with capture_logs() as lines:
        async with running(each):
            await bus.publish(asked)
            assert (await configured(api, agent)).status == "completed"
            for number in (1, 2):
                await _ask_to_run(api, agent)
                ended = await ended_iteration(api, agent, number)
                assert (ended.status, ended.errors) == (IterationStatus.COMPLETED, [])
    wrong = [line for line in lines if line["log_level"] in ("warning", "error")]
    assert [line for line in wrong if not line["event"].startswith("waiting for")] == []
    analysis_id = await _an_analysis(ours, agent.id)
    assert await _embedded_types(ours, agent.id) - {ANALYSIS_TYPE}
    await _advise(closed, GraphScope(agent.owner_id, agent.id), f"Facts [node:{analysis_id}].")
    async with api.transaction() as session:
        assert (await session.scalars(select(InboxItem.agent_id))).all() == [agent.id]
        await session.delete(await session.merge(agent))
    await bus.close()
    await api.close()


async def _ask_to_run(api: Database, agent: Agent) -> None:
    async with api.transaction() as session:
        asked = await session.get_one(Agent, agent.id)
        asked.run_requested_at = await iterations.database_time(session)


async def _embedded_types(ours: Database, agent_id: Any) -> set[str]:
    """Of nodes that have a vector."""
    async with ours.transaction() as session:
        found = select(GraphNode.type).join(NodeEmbedding, NodeEmbedding.node_id == GraphNode.id)
        return set(await session.scalars(found.where(GraphNode.agent_id == agent_id)))


async def _an_analysis(ours: Database, agent_id: Any) -> Any:
    async with ours.transaction() as session:
        return (
            await session.scalars(
                select(GraphNode.id).where(
                    GraphNode.agent_id == agent_id, GraphNode.type == ANALYSIS_TYPE
                )
            )
        ).first()


async def _advise(closed: Guarded, scope: GraphScope, content: str) -> None:
    """What the Adviser's tool does; the sandbox's reader advises too rarely to wait for it."""
    database = create_database(closed.settings("adviser"), "adviser")
    try:
        async with database.transaction() as session:
            await conclusions.add_advice(
                session,
                scope,
                name="Hold",
                action="HOLD",
                summary="Hold.",
                content=content,
                **COMMITTED,
            )
    finally:
        await database.close()
