"""An agent with advice, its evidence and hostile texts, written to the database as its services would."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeVar
from uuid import UUID, uuid4

from playwright.sync_api import Page, expect
from sqlalchemy import select

from shared.agents import agents
from shared.database.engine import Database
from shared.database.tables import Agent, GraphEdgeType, GraphNode, GraphNodeType
from shared.database.transaction import Transaction
from shared.graph import elements, system_types
from shared.graph.conclusions import conclusions
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.sources import store_pages
from shared.graph.retraction import retractions
from shared.graph.retraction.propagation import propagate_retractions
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from tests.support.factories import make_ready

T = TypeVar("T")

MISSION: Final = "Say which battery makers will run short of lithium, and when"
SENTENCE: Final = (
    "Halden Energy bought 41,000 tonnes of lithium hydroxide in 2025, 28% more than a year before."
)
PAGE: Final = "Halden buys ahead of its new line"
ADVICE: Final = "Hold Halden Energy"
ANALYSIS: Final = "Halden secures lithium before it needs it"
HOSTILE_ANALYSIS: Final = "An analysis that was told to misbehave"
DOUBTED: Final = "Kestrel stops a line"
HOSTILE: Final = (
    '<script>document.title = "taken"</script> <img src="x" onerror="document.title = \'taken\'">\n\n'
    "[click](javascript:document.title='taken') ![seen](//evil.example/pixel.png) "
    "<div hx-get='/taken' hx-trigger='load'></div> [out](//evil.example/page)"
)
"""Text that a page may make a model write: a script, event handlers and a tracking picture."""

_PAGES: Final = (
    {
        "url": "https://press.example/halden-2025",
        "title": PAGE,
        "content": f"Haldensund, 12 January. {SENTENCE} The company says that its new line begins in May.",
        "published_date": "2026-01-12",
    },
    {
        "url": "https://markets.example/lithium",
        "title": 'Lithium <script>document.title = "taken"</script>',
        "content": "The price of lithium hydroxide fell by 18% in 2025. "
        "Orran Mining sells lithium hydroxide to Halden Energy.",
        "published_date": "2026-02-02",
    },
    {
        "url": "https://rumours.example/kestrel",
        "title": "Kestrel in trouble",
        "content": "Kestrel Cells stopped one of its two lines in March 2026.",
        "published_date": "2026-03-04",
    },
)
_EVIDENCE: Final[dict[str, tuple[str, str, dict[str, Any]]]] = {
    "Halden Energy": (_PAGES[0]["url"], SENTENCE, {"tonnes_bought": 41000, "year": 2025}),
    "Orran Mining": (
        _PAGES[1]["url"],
        "Orran Mining sells lithium hydroxide to Halden Energy.",
        {},
    ),
    "Lithium hydroxide": (
        _PAGES[1]["url"],
        "The price of lithium hydroxide fell by 18% in 2025.",
        {"price_change_percent": -18},
    ),
    "Kestrel Cells": (
        _PAGES[2]["url"],
        "Kestrel Cells stopped one of its two lines in March 2026.",
        {"lines_stopped": 1},
    ),
}


@dataclass(frozen=True)
class AgentWithAdvice:
    agent_id: UUID
    owner_id: UUID
    name: str
    advice_id: UUID
    analysis_id: UUID
    hostile_id: UUID
    doubted_id: UUID
    halden_id: UUID


def run_in_thread(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in another thread: Playwright runs an event loop in this one."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(asyncio.run, coroutine).result()


@asynccontextmanager
async def open_database(url: str) -> AsyncIterator[Database]:
    database = Database(url, name="browser-tests")
    try:
        yield database
    finally:
        await database.close()


async def create_agent(url: str, other_agent_id: UUID, name: str) -> AgentWithAdvice:
    """Create an inactive agent for the owner of the agent `other_agent_id`."""
    async with open_database(url) as database:
        async with database.transaction() as session:
            agent = await _create_agent(session, other_agent_id, name)
            await retractions.retract_source(
                session,
                GraphScope(agent.owner_id, agent.agent_id),
                _PAGES[2]["url"],
                "nobody confirms it",
            )
        await propagate_retractions(database)
        return agent


async def _create_agent(session: Transaction, other_agent_id: UUID, name: str) -> AgentWithAdvice:
    owner_id = (
        await session.scalars(select(Agent.owner_id).where(Agent.id == other_agent_id))
    ).one()
    agent = await agents.create_agent(
        session, owner_id, name=name, mission=MISSION, interval_seconds=86_400, active=False
    )
    await make_ready(session, agent)
    scope = GraphScope(owner_id, agent.id)
    await _create_types(session, agent.id)
    await store_pages(session, scope, {"results": list(_PAGES)})
    node_ids = {node_name: await _add_node(session, scope, node_name) for node_name in _EVIDENCE}
    edge = await elements.add_edge(
        session,
        scope,
        Validators(),
        type_name="sells",
        source_id=node_ids["Orran Mining"],
        target_id=node_ids["Halden Energy"],
        properties={},
        evidence=[EvidenceInput(*_EVIDENCE["Orran Mining"][:2])],
    )
    analysis_id = await _add_analysis(
        session,
        scope,
        ANALYSIS,
        "pattern",
        f"Halden bought **more** [node:{node_ids['Halden Energy']}] while the price fell "
        f"[node:{node_ids['Lithium hydroxide']}], from a seller that it has [edge:{edge.id}].",
    )
    hostile_id = await _add_analysis(
        session,
        scope,
        HOSTILE_ANALYSIS,
        "observation",
        f"{HOSTILE} [node:{node_ids['Halden Energy']}] [link [node:{node_ids['Halden Energy']}]](//out.example/)",
    )
    doubted_id = await _add_analysis(
        session, scope, DOUBTED, "observation", f"A line stands [node:{node_ids['Kestrel Cells']}]."
    )
    advice_id = await _add_advice(session, scope, ADVICE, analysis_id, doubted_id)
    return AgentWithAdvice(
        agent.id,
        owner_id,
        name,
        advice_id,
        analysis_id,
        hostile_id,
        doubted_id,
        node_ids["Halden Energy"],
    )


async def add_advice(url: str, agent: AgentWithAdvice, name: str) -> UUID:
    """Adds advice `Wait for NAME`, on a subject of its own."""
    scope = GraphScope(agent.owner_id, agent.agent_id)
    subject, node_id = name.removeprefix("Wait for "), uuid4()
    async with open_database(url) as database, database.transaction() as session:
        columns = {"agent_id": agent.agent_id, "type": "Thing", "properties": {}}
        await session.insert(GraphNode, id=node_id, name=subject, **columns)
        other_id = await _add_analysis(
            session, scope, f"On {subject}", "observation", f"It stands [node:{node_id}]."
        )
        return await _add_advice(
            session,
            scope,
            name,
            agent.analysis_id,
            other_id,  # not the doubted one: advice cannot rest on it any more
            "and nothing speaks against it",
        )


async def _add_advice(
    session: Transaction,
    scope: GraphScope,
    name: str,
    analysis_id: UUID,
    second_id: UUID,
    second: str = "and the line of Kestrel stands",
) -> UUID:
    return await conclusions.add_advice(
        session,
        scope,
        name=name,
        action="HOLD",
        summary="Halden has what it needs until its new line begins; wait for that.",
        content=f"Halden has bought ahead [node:{analysis_id}], {second} [node:{second_id}]. "
        "Nothing has to be done before May.",
        confidence=0.72,
        horizon=f"{datetime.now(UTC).year + 1}-12-31",
        invalidation="Halden's next quarter shows that it bought less, or paid more for it.",
    )


async def _create_types(session: Transaction, agent_id: UUID) -> None:
    await system_types.ensure_system_types(session, agent_id)
    await session.insert(
        GraphNodeType,
        agent_id=agent_id,
        name="Thing",
        description="Any thing",
        properties_schema={"type": "object"},
        created_by="test",
    )
    await session.insert(
        GraphEdgeType, agent_id=agent_id, name="sells", description="sells to", created_by="test"
    )


async def _add_node(session: Transaction, scope: GraphScope, name: str) -> UUID:
    url, quote, properties = _EVIDENCE[name]
    node = await elements.add_node(
        session,
        scope,
        Validators(),
        type_name="Thing",
        name=name,
        properties=properties,
        evidence=[EvidenceInput(url, quote)],
    )
    return node.id


async def _add_analysis(
    session: Transaction,
    scope: GraphScope,
    name: str,
    kind: Literal["observation", "pattern"],
    content: str,
) -> UUID:
    return await conclusions.add_analysis(
        session,
        scope,
        name=name,
        kind=kind,
        summary=f"{name}, as three pages of this winter tell it.",
        content=content,
        confidence=0.8,
    )


def check_no_injection(page: Page) -> None:
    """Check that no markup of HOSTILE is in the page and none of its code has run."""
    expect(page).not_to_have_title("taken")
    assert (
        page.locator("main script, main img, main [onerror], main [hx-get='/taken']").count() == 0
    )
    assert page.locator("a[href^='javascript']").count() == 0
