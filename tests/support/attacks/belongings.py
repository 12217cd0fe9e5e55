"""All that a user can have, two of each so that lists have pages: rows beneath what the routes are asked about."""

from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from shared.agents import conversations, memories
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
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, DeliveryStatus, MemoryKind, Phase, StepStatus
from shared.graph.scope import GraphScope
from shared.notifications import deliveries
from shared.workflow import dead_letters
from shared.workflow.iterations import StartedIteration
from tests.support.api.full import conclude_more, end, lack, spoken
from tests.support.api.rows import advise, doubled, merged, rest_on_pages, retracted_page
from tests.support.attacks.routes import READ_PAGE
from tests.support.graph.evidence_rows import make_source
from tests.support.making import make_iteration, make_ready
from tests.support.notifier.rows import make_webhook

One = Callable[..., Awaitable[str]]


async def belongings(
    database: Database, agent: Agent, owner: str, *, iterations: int, secret: str
) -> dict[str, str]:
    """Their ids, and other words that are the owner's own, by the names of the parameters that they are given as."""
    await _make_ready(database, agent)
    await advise(database, agent)
    await conclude_more(database, agent)
    await rest_on_pages(database, agent)
    started = await _iterations(database, agent, iterations)
    await lack(database, started)
    return {
        "agent": str(agent.id),
        "user": str(agent.owner_id),
        "phase": Phase.OBSERVER,
        "number": str(started.iteration.number),
        "iteration_id": str(started.iteration.id),
        "interaction_id": str(await spoken(database, started)),
        "letter": await _letter(database, started),
        **await _types(database, agent, owner),
        **await _retracted(database, agent, owner),
        **await _found(database, agent),
        **await _merges(database, agent),
        **await _talk(database, agent, owner),
        **await _destination(database, agent, owner, secret),
    }


async def _make_ready(database: Database, agent: Agent) -> None:
    async with database.transaction() as session:
        await make_ready(session, await session.merge(agent))


async def _iterations(database: Database, agent: Agent, count: int) -> StartedIteration:
    """The last one, which runs; those before it have ended."""
    for _ in range(count - 1):
        ended = await make_iteration(database, await _again(database, agent))
        await spoken(database, ended)
        await end(database, ended)
    return await make_iteration(database, await _again(database, agent))


async def _again(database: Database, agent: Agent) -> Agent:
    async with database.transaction() as session:
        return await session.get_one(Agent, agent.id)


async def _types(database: Database, agent: Agent, owner: str) -> dict[str, str]:
    """Of names that no other agent's types have."""
    node_type, edge_type = f"ThingOf{owner.capitalize()}", f"told_by_{owner}"
    of = {"agent_id": agent.id, "description": "x", "created_by": "test"}
    async with database.transaction() as session:
        session.add(GraphNodeType(**of, name=node_type, properties_schema={"type": "object"}))
        session.add(GraphEdgeType(**of, name=edge_type))
    return {"node_type": node_type, "edge_type": edge_type}


async def _retracted(database: Database, agent: Agent, owner: str) -> dict[str, str]:
    """Two pages that are not believed, and one that may be retracted."""
    async with database.transaction() as session:
        await make_source(session, GraphScope(agent.owner_id, agent.id), READ_PAGE)
    for number in (1, 2):
        made = await retracted_page(database, agent, f"https://{owner}.example.org/{number}")
    return {"source_id": str(made.source_id), "retraction_id": str(made.retraction_id)}


async def _found(database: Database, agent: Agent) -> dict[str, str]:
    """What was made in passing."""
    async with database.transaction() as session:
        return {
            "step_id": await _one(session, Step, Step.agent_id == agent.id),
            "item_id": await _one(session, InboxItem, InboxItem.agent_id == agent.id),
            "edge_id": await _one(
                session, GraphEdge, GraphEdge.agent_id == agent.id, GraphEdge.type == "buys"
            ),
            "token_id": await _one(session, ApiToken, ApiToken.user_id == agent.owner_id),
            "session_id": await _one(
                session, BrowserSession, BrowserSession.user_id == agent.owner_id
            ),
            **{
                name: await _one(session, GraphNode, GraphNode.agent_id == agent.id, of_which)
                for name, of_which in (
                    ("node_id", GraphNode.name == "Halden Cells"),
                    ("analysis_id", GraphNode.type == ANALYSIS_TYPE),
                    ("advice_id", GraphNode.type == ADVICE_TYPE),
                    ("conclusion_id", GraphNode.type == ADVICE_TYPE),
                )
            },
        }


async def _merges(database: Database, agent: Agent) -> dict[str, str]:
    async with database.transaction() as session:
        await merged(session, agent, "Cell")
        kept, gone = await doubled(session, agent, "Mine", "Mines")
        merge_id = str(await merged(session, agent))
        return {"merge_id": merge_id, "kept": str(kept), "merged": str(gone)}


async def _one(session: AsyncSession, row: type[Any], *where: Any) -> str:
    found = await session.scalars(select(row.id).where(*where).order_by(row.id))
    return str(found.first())


async def _talk(database: Database, agent: Agent, owner: str) -> dict[str, str]:
    """An answer that failed, so that it can be asked for again and its stream ends; and a memory."""
    async with database.transaction() as session:
        step = await conversations.add_question(session, agent.id, f"What is known of {owner}?")
        assert isinstance(step, Step)
        step.status, step.error = StepStatus.FAILED, f"the model does not know {owner}"
        step.ended_at = func.clock_timestamp()
        for kind in (MemoryKind.FACT, MemoryKind.WISH):
            memory = await memories.remember(session, agent.id, kind, f"Spare {owner}")
        return {
            "message_id": str(ids.answer_id(agent.id, step.index)),
            "memory_id": str(memory),
        }


async def _destination(database: Database, agent: Agent, owner: str, secret: str) -> dict[str, str]:
    """One that is active, with a delivery that failed, so that it can be asked for again."""
    url = f"https://hooks.example.org/{owner}"
    await make_webhook(database, agent, f"{url}/2", secret=secret)
    made = await make_webhook(database, agent, url, secret=secret)
    async with database.transaction() as session:
        await deliveries.create_test(session, made)
        delivery = await deliveries.create_test(session, made)
        await session.execute(
            update(Delivery)
            .where(Delivery.id == delivery)
            .values(status=DeliveryStatus.FAILED, ended_at=func.clock_timestamp())
        )
    return {"destination_id": str(made), "delivery_id": str(delivery)}


async def _letter(database: Database, started: StartedIteration) -> str:
    async with database.transaction() as session:
        for step_id, payload in (
            (None, f"{started.iteration.id}".encode()),
            (started.observe.id, f"of {started.observe.id}".encode()),
        ):
            await dead_letters.store(
                session,
                actor="researcher",
                subject="query.requested",
                payload=payload,
                code="llm_key",
                error="the key is wrong",
                attempts=1,
                step_id=step_id,
            )
    return str(ids.dead_letter_id("query.requested", payload))
