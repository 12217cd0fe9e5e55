"""Each service does all its work under its own NATS user and Postgres role."""

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
from tests.support.configuring import order_agent, wait_until_configured
from tests.support.forecast_terms import ADVICE_TERMS
from tests.support.running_services import BUILDERS, ended_iteration, running_services
from tests.support.secured_installation import SecuredInstallation

CONSUMER_SERVICES = sorted(BUILDERS)


async def test_the_whole_loop_runs_under_each_services_user_and_role(
    installation: SecuredInstallation, owner_database: Database, sandbox: str
) -> None:
    providers = {"sandbox_url": sandbox, "embedding_model": "any"}
    service_settings = {
        name: installation.settings(name, **providers) for name in CONSUMER_SERVICES
    }
    api = create_database(installation.settings("api"), "api")
    bus = create_bus(installation.settings("api"), "api")
    await bus.connect()
    agent, request = await order_agent(api, name=f"Watch {uuid4()}")
    with capture_logs() as lines:
        async with running_services(service_settings):
            await bus.publish(request)
            assert (await wait_until_configured(api, agent)).status == "completed"
            for number in (1, 2):
                await _request_run(api, agent)
                ended = await ended_iteration(api, agent, number)
                assert (ended.status, ended.errors) == (IterationStatus.COMPLETED, [])
    problems = [line for line in lines if line["log_level"] in ("warning", "error")]
    assert [line for line in problems if not line["event"].startswith("waiting for")] == []
    analysis_id = await _analysis_id(owner_database, agent.id)
    assert await _embedded_types(owner_database, agent.id) - {ANALYSIS_TYPE}
    await _add_advice(
        installation, GraphScope(agent.owner_id, agent.id), f"Facts [node:{analysis_id}]."
    )
    async with api.transaction() as session:
        assert (await session.scalars(select(InboxItem.agent_id))).all() == [agent.id]
        await session.delete(await session.merge(agent))
    await bus.close()
    await api.close()


async def _request_run(api: Database, agent: Agent) -> None:
    async with api.transaction() as session:
        row = await session.get_one(Agent, agent.id)
        row.run_requested_at = await iterations.database_time(session)


async def _embedded_types(owner_database: Database, agent_id: Any) -> set[str]:
    """Return the types of the nodes that have an embedding."""
    async with owner_database.transaction() as session:
        types = select(GraphNode.type).join(NodeEmbedding, NodeEmbedding.node_id == GraphNode.id)
        return set(await session.scalars(types.where(GraphNode.agent_id == agent_id)))


async def _analysis_id(owner_database: Database, agent_id: Any) -> Any:
    async with owner_database.transaction() as session:
        return (
            await session.scalars(
                select(GraphNode.id).where(
                    GraphNode.agent_id == agent_id, GraphNode.type == ANALYSIS_TYPE
                )
            )
        ).first()


async def _add_advice(installation: SecuredInstallation, scope: GraphScope, content: str) -> None:
    """Add advice as the Adviser's tool does; the sandbox model advises too rarely to wait for it."""
    database = create_database(installation.settings("adviser"), "adviser")
    try:
        async with database.transaction() as session:
            await conclusions.add_advice(
                session,
                scope,
                name="Hold",
                action="HOLD",
                summary="Hold.",
                content=content,
                **ADVICE_TERMS,
            )
    finally:
        await database.close()
