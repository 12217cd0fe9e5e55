"""Everything a user can have, two of each so that lists have pages: the rows requested by the routes."""

from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import func, select, update

from shared.agents import conversations, memories
from shared.agents.conversations import TooManyOpenTurns
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import (
    Agent,
    ApiToken,
    BrowserSession,
    Delivery,
    GraphEdge,
    GraphEdgeType,
    GraphNode,
    GraphNodeType,
    InboxItem,
    Step,
)
from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, DeliveryStatus, MemoryKind, Phase, StepStatus
from shared.graph.scope import GraphScope
from shared.notifications import deliveries
from shared.workflow import dead_letters
from shared.workflow.iterations import StartedIteration
from tests.support.api.full_agent import (
    add_conclusions,
    add_investigation_requests,
    add_phase_run,
    end_iteration,
)
from tests.support.api.rows import (
    add_advice,
    add_distinct_pair,
    add_duplicates,
    add_evidence,
    add_merge,
    add_retracted_page,
)
from tests.support.attacks.routes import READ_PAGE
from tests.support.factories import make_iteration, make_ready
from tests.support.graph.evidence_rows import make_source
from tests.support.notifier.rows import make_webhook

One = Callable[..., Awaitable[str]]


async def make_owned_resources(
    database: Database, agent: Agent, owner: str, *, iterations: int, secret: str
) -> dict[str, str]:
    """Create the rows and return their ids and other private values, by the names of the route parameters."""
    await _make_ready(database, agent)
    await add_advice(database, agent)
    await add_conclusions(database, agent)
    await add_evidence(database, agent)
    started = await _make_iterations(database, agent, iterations)
    await add_investigation_requests(database, started)
    return {
        "agent": str(agent.id),
        "user": str(agent.owner_id),
        "phase": Phase.OBSERVER,
        "number": str(started.iteration.number),
        "iteration_id": str(started.iteration.id),
        "interaction_id": str(await add_phase_run(database, started)),
        "dead_letter": await _dead_letter(database, started),
        **await _make_types(database, agent, owner),
        **await _make_retractions(database, agent, owner),
        **await _existing_ids(database, agent),
        **await _make_merges(database, agent),
        **await _conversation(database, agent, owner),
        **await _make_destination(database, agent, owner, secret),
    }


async def _make_ready(database: Database, agent: Agent) -> None:
    async with database.transaction() as session:
        await make_ready(session, agent)


async def _make_iterations(database: Database, agent: Agent, count: int) -> StartedIteration:
    """Create the iterations and return the last one, which is running; the others have ended."""
    for _ in range(count - 1):
        started = await make_iteration(database, await _reload(database, agent))
        await add_phase_run(database, started)
        await end_iteration(database, started)
    return await make_iteration(database, await _reload(database, agent))


async def _reload(database: Database, agent: Agent) -> Agent:
    async with database.transaction() as session:
        return await session.get_one(Agent, agent.id)


async def _make_types(database: Database, agent: Agent, owner: str) -> dict[str, str]:
    """Create types with names that no other agent has."""
    node_type, edge_type = f"ThingOf{owner.capitalize()}", f"told_by_{owner}"
    common = {"agent_id": agent.id, "description": "x", "created_by": "test"}
    async with database.transaction() as session:
        await session.insert(
            GraphNodeType, **common, name=node_type, properties_schema={"type": "object"}
        )
        await session.insert(GraphEdgeType, **common, name=edge_type)
    return {"node_type": node_type, "edge_type": edge_type}


async def _make_retractions(database: Database, agent: Agent, owner: str) -> dict[str, str]:
    """Create two retracted pages, and one that may be retracted."""
    async with database.transaction() as session:
        await make_source(session, GraphScope(agent.owner_id, agent.id), READ_PAGE)
    for number in (1, 2):
        retraction = await add_retracted_page(
            database, agent, f"https://{owner}.example.org/{number}"
        )
    return {"source_id": str(retraction.source_id), "retraction_id": str(retraction.retraction_id)}


async def _existing_ids(database: Database, agent: Agent) -> dict[str, str]:
    """Return the ids of rows created with other rows."""
    async with database.transaction() as session:
        is_bought = GraphEdge.agent_id == agent.id, GraphEdge.type == "buys"
        edge = (await session.scalars(select(GraphEdge).where(*is_bought).limit(1))).one()
        return {
            "source_node": str(edge.source_id),
            "target_node": str(edge.target_id),
            "step_id": await _first_id(session, Step, Step.agent_id == agent.id),
            "item_id": await _first_id(session, InboxItem, InboxItem.agent_id == agent.id),
            "edge_id": await _first_id(
                session, GraphEdge, GraphEdge.agent_id == agent.id, GraphEdge.type == "buys"
            ),
            "token_id": await _first_id(session, ApiToken, ApiToken.user_id == agent.owner_id),
            "session_id": await _first_id(
                session, BrowserSession, BrowserSession.user_id == agent.owner_id
            ),
            **{
                name: await _first_id(session, GraphNode, GraphNode.agent_id == agent.id, condition)
                for name, condition in (
                    ("node_id", GraphNode.name == "Halden Cells"),
                    ("analysis_id", GraphNode.type == ANALYSIS_TYPE),
                    ("advice_id", GraphNode.type == ADVICE_TYPE),
                    ("conclusion_id", GraphNode.type == ADVICE_TYPE),
                )
            },
        }


async def _make_merges(database: Database, agent: Agent) -> dict[str, str]:
    async with database.transaction() as session:
        await add_merge(session, agent, "Cell")
        kept, merged_id = await add_duplicates(session, agent, "Mine", "Mines")
        merge_id = str(await add_merge(session, agent))
        await add_distinct_pair(session, agent)
        pair_id = str(await add_distinct_pair(session, agent, "Quarry"))
        return {
            "merge_id": merge_id,
            "pair_id": pair_id,
            "kept": str(kept),
            "merged": str(merged_id),
        }


async def _first_id(session: Transaction, row: type[Any], *where: Any) -> str:
    row_ids = await session.scalars(select(row.id).where(*where).order_by(row.id))
    return str(row_ids.first())


async def _conversation(database: Database, agent: Agent, owner: str) -> dict[str, str]:
    """Create a failed answer, so that it can be retried and its stream ends; and a memory."""
    async with database.transaction() as session:
        step = await conversations.add_question(session, agent.id, f"What is known of {owner}?")
        assert not isinstance(step, TooManyOpenTurns | None)
        error = f"the model does not know {owner}"
        now = func.clock_timestamp()
        await session.update(Step, step.id, status=StepStatus.FAILED, error=error, ended_at=now)
        for kind in (MemoryKind.FACT, MemoryKind.WISH):
            memory = await memories.remember(session, agent.id, kind, f"Spare {owner}")
        return {
            "message_id": str(ids.answer_id(agent.id, step.index)),
            "memory_id": str(memory),
        }


async def _make_destination(
    database: Database, agent: Agent, owner: str, secret: str
) -> dict[str, str]:
    """Create an active destination with a failed delivery, so that it can be retried."""
    url = f"https://hooks.example.org/{owner}"
    await make_webhook(database, agent, f"{url}/2", secret=secret)
    destination_id = await make_webhook(database, agent, url, secret=secret)
    async with database.transaction() as session:
        await deliveries.create_test(session, destination_id)
        delivery = await deliveries.create_test(session, destination_id)
        await session.execute(
            update(Delivery)
            .where(Delivery.id == delivery)
            .values(status=DeliveryStatus.FAILED, ended_at=func.clock_timestamp())
        )
    return {"destination_id": str(destination_id), "delivery_id": str(delivery)}


async def _dead_letter(database: Database, started: StartedIteration) -> str:
    async with database.transaction() as session:
        for step_id, payload in (
            (None, f"{started.iteration.id}".encode()),
            (started.observe.id, f"of {started.observe.id}".encode()),
        ):
            await dead_letters.store(
                session,
                service="researcher",
                subject="query.requested",
                payload=payload,
                code="llm_key",
                error="the key is wrong",
                attempts=1,
                step_id=step_id,
            )
    return str(ids.dead_letter_id("query.requested", payload))
