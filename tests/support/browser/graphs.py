"""Graphs of their own for tests of the window: one that pages tell of, hostile ones too, and one that is a crowd."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.engine import Database
from shared.database.tables import GraphEdgeType, GraphNodeType, Source
from shared.graph import edges, nodes, system_types, types
from shared.graph.conclusions import conclusions
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.sources import store_pages
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.tools import Json
from tests.browser.conftest import Known
from tests.support.committing import SURE
from tests.support.making import make_agent

T = TypeVar("T")

HOSTILE: Final = '<img src=x onerror="document.title=1"> \u202eAG'
"""A name that would run something, and turn the letters around it."""
OLD_URL, NEW_URL, HOSTILE_URL = (
    "https://press.example/2024",
    "https://press.example/2025",
    "javascript:document.title=1",
)
OLD_QUOTE: Final = "Halden Cells bought 40 tonnes – ½ of all lithium."
PAGES: Final[list[Json]] = [
    {
        "url": OLD_URL,
        "title": "What was bought in 2024",
        "content": f"Über allem: {OLD_QUOTE} Nothing else was said.",
        "published_date": "2024-05-01",
    },
    {
        "url": NEW_URL,
        "title": "<script>document.title=1</script> in 2025",
        "content": "In 2025 Halden Cells bought 90 tonnes of it. Halden Cell is how some spell it.",
        "published_date": "2025-05-01",
    },
    {
        "url": HOSTILE_URL,
        "title": None,
        "content": 'He said: "<svg onload=document.title=1>" and </mark><script>document.title=1</script> too.',
    },
]
SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {
        "tonnes": {"type": "integer", "minimum": 0, "description": "Bought in a year"},
        "motto": {"type": "string"},
    },
}


@dataclass(frozen=True)
class Told:
    """An agent with a graph that rests on three pages."""

    agent_id: UUID
    maker: UUID
    double: UUID
    hostile: UUID
    edge: UUID
    analysis: UUID
    old_source: UUID
    hostile_source: UUID


def told(known: Known, name: str) -> Told:
    return _done(known, lambda database: _told(database, name))


def crowd(known: Known, name: str, *, of_nodes: int, of_edges: int) -> UUID:
    """The id of an agent with so many nodes and edges."""
    return _done(known, lambda database: _crowd(database, name, of_nodes, of_edges))


def _done(known: Known, work: Callable[[Database], Awaitable[T]]) -> T:
    """Beside the loop that drives the browser, in which nothing else can run."""

    async def all_of_it() -> T:
        database = Database(known.vigil.running.database_url, name="graphs", pool_size=1)
        try:
            return await work(database)
        finally:
            await database.close()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(lambda: asyncio.run(all_of_it())).result()


async def _told(database: Database, name: str) -> Told:
    agent = await make_agent(database, name=name, active=False)
    scope = GraphScope(agent.owner_id, agent.id)
    async with database.transaction() as session:
        await system_types.ensure_system_types(session, agent.id)
        await store_pages(session, scope, {"results": PAGES})
        await _types(session, scope)
    async with database.transaction() as session:
        by_url = dict(await _sources(session, scope))
        graph = _Writer(session, scope)
        # Overlapping: the whole sentence, and a part of it that begins and ends amid others.
        maker = await graph.node("Halden Cells", OLD_URL, OLD_QUOTE, tonnes=40)
        await graph.node("Halden Cells", NEW_URL, "Halden Cells bought 90 tonnes", tonnes=90)
        double = await graph.node("Halden Cell", NEW_URL, "Halden Cell is how some spell it.")
        lithium = await graph.node("Lithium", OLD_URL, "tonnes – ½ of all lithium. Nothing")
        hostile = await graph.node(
            HOSTILE, HOSTILE_URL, "</mark><script>document.title=1</script>", motto=HOSTILE
        )
        edge = await graph.edge(maker, lithium, OLD_URL, OLD_QUOTE)
        await graph.edge(maker, hostile, OLD_URL, OLD_QUOTE)
    async with database.transaction() as session:
        analysis = await conclusions.add_analysis(
            session,
            scope,
            name=f"{HOSTILE} buys lithium",
            kind="observation",
            summary="It buys.",
            content=f"Halden [node:{maker}] buys it [edge:{edge}].",
            **SURE,
        )
    return Told(
        agent.id, maker, double, hostile, edge, analysis, by_url[OLD_URL], by_url[HOSTILE_URL]
    )


@dataclass(frozen=True)
class _Writer:
    session: AsyncSession
    scope: GraphScope

    async def node(self, name: str, url: str, quote: str, **properties: object) -> UUID:
        added = await nodes.add_node(
            self.session,
            self.scope,
            Validators(),
            type_name="Maker",
            name=name,
            properties=properties,
            grounds=[EvidenceInput(url, quote)],
        )
        return added.id

    async def edge(self, source: UUID, target: UUID, url: str, quote: str) -> UUID:
        added = await edges.add_edge(
            self.session,
            self.scope,
            Validators(),
            type_name="buys",
            source_id=source,
            target_id=target,
            properties={},
            grounds=[EvidenceInput(url, quote)],
        )
        return added.id


async def _types(session: AsyncSession, scope: GraphScope) -> None:
    await types.create_node_type(
        session,
        scope,
        Validators(),
        name="Maker",
        description="Whoever makes or buys something",
        properties_schema=SCHEMA,
        example_properties={"tonnes": 4},
        created_by="graph_construction",
        justification="None that there was is about who buys.",
    )
    await types.create_edge_type(
        session,
        scope,
        name="buys",
        description="that one buys the other",
        source_types=["Maker"],
        target_types=[],
        created_by="graph_construction",
    )


async def _sources(session: AsyncSession, scope: GraphScope) -> list[tuple[str, UUID]]:
    found = await session.execute(
        select(Source.url, Source.id).where(Source.agent_id == scope.agent_id)
    )
    return [(row.url, row.id) for row in found]


async def _crowd(database: Database, name: str, of_nodes: int, of_edges: int) -> UUID:
    agent = await make_agent(database, name=name, active=False)
    async with database.transaction() as session:
        for type_name in ("Place", "Person"):
            session.add(
                GraphNodeType(
                    agent_id=agent.id,
                    name=type_name,
                    description=f"A {type_name}",
                    properties_schema={},
                    created_by="system",
                )
            )
        session.add(
            GraphEdgeType(agent_id=agent.id, name="knows", description="knows", created_by="system")
        )
        await session.flush()
        counts = {"agent": agent.id, "nodes": of_nodes, "edges": of_edges}
        for statement in _CROWD:
            await session.execute(text(statement), counts)
    return agent.id


_CROWD: Final = (
    # Some touched long ago, so that filters by age have something to do.
    "insert into graph_nodes (id, agent_id, type, name, properties, updated_at)"
    " select gen_random_uuid(), cast(:agent as uuid), case when i % 3 = 0 then 'Person' else 'Place' end,"
    " 'Number ' || i, '{}', now() - i * interval '1 hour' from generate_series(1, :nodes) i",
    # To the first few from all others, and from each to one that is not far: hubs and chains.
    "with numbered as (select id, row_number() over (order by updated_at desc) as i from graph_nodes"
    " where agent_id = :agent)"
    " insert into graph_edges (id, agent_id, type, source_id, target_id)"
    " select gen_random_uuid(), cast(:agent as uuid), 'knows', a.id, b.id from generate_series(0, :edges - 1) k"
    " join numbered a on a.i = 1 + k % :nodes"
    " join numbered b on b.i = 1 + (a.i * (1 + k / :nodes) / (2 + k / :nodes)) % :nodes"
    " where a.id <> b.id on conflict do nothing",
)
