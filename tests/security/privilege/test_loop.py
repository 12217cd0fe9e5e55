"""Each service does all its work under its own NATS user and Postgres role."""

from dataclasses import replace
from decimal import Decimal
from typing import Any, Final
from uuid import UUID, uuid4

from pydantic import SecretStr
from sqlalchemy import delete, func, select
from structlog.testing import capture_logs

from shared.database.engine import Database
from shared.database.tables import (
    Agent,
    EntailmentVerdict,
    Evidence,
    GraphNode,
    InboxItem,
    NodeEmbedding,
)
from shared.enums import (
    ADVICE_TYPE,
    ANALYSIS_TYPE,
    Entailment,
    IterationStatus,
    SentenceKind,
    SentenceVerdict,
)
from shared.graph.conclusions import conclusions, position_store
from shared.graph.conclusions.readings import ConclusionReadings, draft_of
from shared.graph.scope import GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.runtime.connections import create_bus, create_database
from shared.tools.readings import ClaimFinding, Findings, SentenceFinding
from shared.workflow import iterations
from tests.support.configuring import order_agent, wait_until_configured
from tests.support.embeddings.embedding_case import EMBEDDER
from tests.support.forecast_terms import ADVICE_TERMS
from tests.support.running_services import BUILDERS, ended_iteration, running_services
from tests.support.second_analysis import add_second_analysis
from tests.support.secured_installation import SecuredInstallation
from tests.support.table_rows import change, remove

CONSUMER_SERVICES = sorted(BUILDERS)


async def test_the_whole_loop_runs_under_each_services_user_and_role(
    installation: SecuredInstallation, owner_database: Database, sandbox: str
) -> None:
    # With the key of the sandbox, nothing would be read.
    changes = {"embedding_model": EMBEDDER, "openai_api_key": SecretStr("a-key")}
    service_settings = {
        name: installation.settings(name, sandbox_url=sandbox).model_copy(update=changes)
        for name in CONSUMER_SERVICES
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
    scope = GraphScope(agent.owner_id, agent.id)
    await _add_analysis(installation, scope, await _fact_id(owner_database, agent.id))
    analyses = await _analysis_ids(owner_database, agent.id)
    assert await _embedded_types(owner_database, agent.id) - {ANALYSIS_TYPE}
    await _add_advice(
        installation,
        scope,
        f"Facts {' '.join(f'[node:{analysis_id}]' for analysis_id in analyses)}.",
    )
    assert await _count_verdicts(owner_database, agent.id)
    await _check_advice(installation, scope, owner_database)
    async with api.transaction() as session:
        # The advice of this test, and perhaps one of the sandbox's Adviser.
        assert set(await session.scalars(select(InboxItem.agent_id))) == {agent.id}
        await remove(session, (agent))
    await bus.close()
    await api.close()


async def _request_run(api: Database, agent: Agent) -> None:
    async with api.transaction() as session:
        row = await session.get_one(Agent, agent.id)
        row = await change(session, row, run_requested_at=await iterations.database_time(session))
        row = await change(session, row, verification_usd_per_day=Decimal(1), entailment_share=0.5)


async def _embedded_types(owner_database: Database, agent_id: Any) -> set[str]:
    """Return the types of the nodes that have an embedding."""
    async with owner_database.transaction() as session:
        types = select(GraphNode.type).join(NodeEmbedding, NodeEmbedding.node_id == GraphNode.id)
        return set(await session.scalars(types.where(GraphNode.agent_id == agent_id)))


async def _analysis_ids(owner_database: Database, agent_id: Any) -> Any:
    async with owner_database.transaction() as session:
        analyses = await session.scalars(
            select(GraphNode.id).where(
                GraphNode.agent_id == agent_id, GraphNode.type == ANALYSIS_TYPE
            )
        )
        return list(analyses)


async def _fact_id(owner_database: Database, agent_id: Any) -> UUID:
    async with owner_database.transaction() as session:
        is_fact = GraphNode.agent_id == agent_id, GraphNode.type.not_in(RESERVED_TYPES)
        return (await session.scalars(select(GraphNode.id).where(*is_fact).limit(1))).one()


async def _add_analysis(
    installation: SecuredInstallation, scope: GraphScope, node_id: UUID
) -> None:
    """Add an analysis as the Analyzer's tool does: advice needs two."""
    database = create_database(installation.settings("analyzer"), "analyzer")
    try:
        async with database.transaction() as session:
            await add_second_analysis(session, scope, node_id)
    finally:
        await database.close()


async def _add_advice(installation: SecuredInstallation, scope: GraphScope, content: str) -> None:
    """Add advice as the Adviser's tool does; the sandbox model advises too rarely to wait for it."""
    database = create_database(installation.settings("adviser"), "adviser")
    try:
        async with database.transaction() as session:
            stands = await position_store.load_open(session, scope)
            await conclusions.add_advice(
                session,
                scope,
                name="Hold",
                action="HOLD",
                summary="Hold.",
                content=content,
                replaces=[each.id for each in stands],
                change="The facts are weighed anew since.",
                **ADVICE_TERMS,
            )
    finally:
        await database.close()


_TEXTS: Final = ("summary", "content", "invalidation")


async def _count_verdicts(owner_database: Database, agent_id: UUID) -> int:
    async with owner_database.transaction() as session:
        of_agent = select(func.count()).where(EntailmentVerdict.agent_id == agent_id)
        return await session.scalar(of_agent) or 0


async def _make_unchecked(owner_database: Database, scope: GraphScope) -> UUID:
    """Evidence whose verdict, if the services of this test have stored one, is deleted."""
    of_agent = Evidence.agent_id == scope.agent_id
    async with owner_database.transaction() as session:
        evidence = (await session.scalars(select(Evidence.id).where(of_agent).limit(1))).one()
        of_evidence = EntailmentVerdict.evidence_id == evidence
        await session.execute(delete(EntailmentVerdict).where(of_evidence))
        return evidence


async def _check_advice(
    installation: SecuredInstallation, scope: GraphScope, owner_database: Database
) -> None:
    """Reads what the advice cites, and stores verdicts, as the Adviser does."""
    async with owner_database.transaction() as session:
        of_agent = GraphNode.agent_id == scope.agent_id, GraphNode.type == ADVICE_TYPE
        advice = (await session.scalars(select(GraphNode).where(*of_agent))).all()[0]
    texts = {key: advice.properties[key] for key in _TEXTS}
    draft = draft_of(scope, ADVICE_TYPE, advice.name, **texts)
    evidence_id = await _make_unchecked(owner_database, scope)
    before = await _count_verdicts(owner_database, scope.agent_id)
    database = create_database(installation.settings("adviser"), "adviser")
    try:
        conclusion_readings = ConclusionReadings(replace(scope, step_id=uuid4()))
        async with database.transaction() as session:
            conclusion_readings.collect()
            conclusion_readings.add(draft)
            material = await conclusion_readings.load_material(session)
            assert material is not None
            conclusion_readings.use(
                Findings(
                    material,
                    "a-model",
                    uuid4(),
                    1,
                    {
                        (evidence_id, None): ClaimFinding(
                            Entailment.NOT_STATED, "It says something else."
                        )
                    },
                    {0: SentenceFinding(SentenceKind.STATES, SentenceVerdict.SUPPORTED)},
                )
            )
            conclusion_readings.add(draft)
            for query in conclusion_readings.storing():
                await query.execute(session)
    finally:
        await database.close()
    assert await _count_verdicts(owner_database, scope.agent_id) == before + 1
