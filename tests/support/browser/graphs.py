"""Graphs for tests of the web UI: a small one with evidence from pages, some hostile, and a large one."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, TypeVar
from uuid import UUID

from sqlalchemy import select, text

from shared.database.engine import Database
from shared.database.tables import Agent, GraphEdgeType, GraphNodeType, Source
from shared.database.transaction import Transaction
from shared.graph import elements, system_types, types
from shared.graph.conclusions import conclusions
from shared.graph.provenance.evidence import EvidenceInput
from shared.graph.provenance.sources import store_pages
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.tools import Json
from tests.browser.conftest import SharedInstallation
from tests.support.factories import make_agent
from tests.support.forecast_terms import ANALYSIS_TERMS

T = TypeVar("T")

HOSTILE: Final = '<img src=x onerror="document.title=1"> \u202eAG'
"""A name with an event handler and a right-to-left override."""
HOSTILE_SHOWN: Final = HOSTILE.replace("\u202e", "")
"""As every page shows it: it reads in one direction."""
OLD_URL, NEW_URL, HOSTILE_URL = (
    "https://press.example/2024",
    "https://press.example/2025",
    "javascript:document.title=1",
)
HOSTILE_QUOTE: Final = "</mark><script>document.title=1</script>"
OLD_QUOTE: Final = "Halden Cells bought 40 tonnes – ½ of all lithium."
# Headings name what the quotes below them are about.
PAGES: Final[list[Json]] = [
    {
        "url": OLD_URL,
        "title": "What was bought in 2024",
        "content": f"Deals with {HOSTILE}\n\nÜber allem: {OLD_QUOTE} Nothing else was said.",
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
        "content": f"Words of {HOSTILE}\n\n"
        f'He said: "<svg onload=document.title=1>" and {HOSTILE_QUOTE} too.',
    },
]
SECOND_SITE_PAGE: Final[Json] = {
    "url": "https://mines.example/halden",
    "title": "What mines sell",
    "content": "Lithium of the mines goes to Halden Cells alone.",
    "published_date": "2024-06-01",
}
SCHEMA: Final[Json] = {
    "type": "object",
    "properties": {
        "tonnes": {"type": "integer", "minimum": 0, "description": "Bought in a year"},
        "motto": {"type": "string"},
    },
}


@dataclass(frozen=True)
class GraphIds:
    """Ids of an agent, and of elements of its graph with evidence from three pages."""

    agent_id: UUID
    maker: UUID
    duplicate: UUID
    hostile: UUID
    edge: UUID
    analysis: UUID
    old_source: UUID
    hostile_source: UUID


def create_graph(
    installation: SharedInstallation, name: str, *, has_second_site: bool = False
) -> GraphIds:
    """`has_second_site`: a page of another site supports `edge` too."""
    return _run_in_thread(
        installation, lambda database: _create_graph(database, name, has_second_site)
    )


def create_large_graph(
    installation: SharedInstallation, name: str, *, node_count: int, edge_count: int
) -> UUID:
    """Create an agent with `node_count` nodes and up to `edge_count` edges; returns its id."""
    return _run_in_thread(
        installation, lambda database: _create_large_graph(database, name, node_count, edge_count)
    )


def _run_in_thread(installation: SharedInstallation, work: Callable[[Database], Awaitable[T]]) -> T:
    """Run `work` in another thread: Playwright runs an event loop in this one."""

    async def run() -> T:
        database = Database(installation.vigil.running.database_url, name="graphs", pool_size=1)
        try:
            return await work(database)
        finally:
            await database.close()

    with ThreadPoolExecutor(1) as executor:
        return executor.submit(lambda: asyncio.run(run())).result()


async def _create_graph(database: Database, name: str, has_second_site: bool) -> GraphIds:
    agent = await make_agent(database, name=name, active=False)
    scope = GraphScope(agent.owner_id, agent.id)
    async with database.transaction() as session:
        await system_types.ensure_system_types(session, agent.id)
        pages = [*PAGES, SECOND_SITE_PAGE] if has_second_site else PAGES
        await store_pages(session, scope, {"results": pages})
        await _create_types(session, scope)
    async with database.transaction() as session:
        source_ids = dict(await _list_sources(session, scope))
        graph = _Writer(session, scope)
        # Overlapping quotes: a whole sentence, and a span that begins inside it and ends after it.
        maker = await graph.node("Halden Cells", OLD_URL, OLD_QUOTE, tonnes=40)
        await graph.node("Halden Cells", NEW_URL, "Halden Cells bought 90 tonnes", tonnes=90)
        duplicate = await graph.node("Halden Cell", NEW_URL, "Halden Cell is how some spell it.")
        lithium = await graph.node("Lithium", OLD_URL, "tonnes – ½ of all lithium. Nothing")
        hostile = await graph.node(HOSTILE, HOSTILE_URL, HOSTILE_QUOTE, motto=HOSTILE)
        edge = await graph.edge(maker, lithium, OLD_URL, OLD_QUOTE)
        if has_second_site:
            quote = SECOND_SITE_PAGE["content"]
            await graph.edge(maker, lithium, SECOND_SITE_PAGE["url"], quote)
        await graph.edge(maker, hostile, OLD_URL, OLD_QUOTE)
    async with database.transaction() as session:
        analysis = await conclusions.add_analysis(
            session,
            scope,
            name=f"{HOSTILE} buys lithium",
            kind="observation",
            summary="It buys.",
            content=f"Halden [node:{maker}] buys it [edge:{edge}].",
            **ANALYSIS_TERMS,
        )
    return GraphIds(
        agent.id,
        maker,
        duplicate,
        hostile,
        edge,
        analysis,
        source_ids[OLD_URL],
        source_ids[HOSTILE_URL],
    )


@dataclass(frozen=True)
class _Writer:
    session: Transaction
    scope: GraphScope

    async def node(self, name: str, url: str, quote: str, **properties: object) -> UUID:
        node = await elements.add_node(
            self.session,
            self.scope,
            Validators(),
            type_name="Maker",
            name=name,
            properties=properties,
            evidence=[EvidenceInput(url, quote)],
        )
        return node.id

    async def edge(self, source: UUID, target: UUID, url: str, quote: str) -> UUID:
        edge = await elements.add_edge(
            self.session,
            self.scope,
            Validators(),
            type_name="buys",
            source_id=source,
            target_id=target,
            properties={},
            evidence=[EvidenceInput(url, quote)],
        )
        return edge.id


async def _create_types(session: Transaction, scope: GraphScope) -> None:
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


async def _list_sources(session: Transaction, scope: GraphScope) -> list[tuple[str, UUID]]:
    rows = await session.execute(
        select(Source.url, Source.id).where(Source.agent_id == scope.agent_id)
    )
    return [(row.url, row.id) for row in rows]


async def _create_large_graph(
    database: Database, name: str, node_count: int, edge_count: int
) -> UUID:
    agent = await make_agent(database, name=name, active=False)
    async with database.transaction() as session:
        for type_name in ("Place", "Person"):
            await session.insert(
                GraphNodeType,
                agent_id=agent.id,
                name=type_name,
                description=f"A {type_name}",
                properties_schema={},
                created_by="system",
            )
        await session.insert(
            GraphEdgeType, agent_id=agent.id, name="knows", description="knows", created_by="system"
        )
        counts = {"agent": agent.id, "nodes": node_count, "edges": edge_count}
        for statement in _LARGE_GRAPH_SQL:
            await session.execute(text(statement), counts)
    return agent.id


_LARGE_GRAPH_SQL: Final = (
    # Different ages, for the time slider and the filter by age.
    "insert into graph_nodes (id, agent_id, type, name, properties, created_at, updated_at)"
    " select gen_random_uuid(), cast(:agent as uuid), case when i % 3 = 0 then 'Person' else 'Place' end,"
    " 'Number ' || i, '{}', now() - i * interval '1 hour', now() - i * interval '1 hour'"
    " from generate_series(1, :nodes) i",
    # Edges from all nodes to the first few, and between close nodes: hubs and chains.
    "with numbered as (select id, created_at, row_number() over (order by updated_at desc) as i from graph_nodes"
    " where agent_id = :agent)"
    " insert into graph_edges (id, agent_id, type, source_id, target_id, created_at)"
    " select gen_random_uuid(), cast(:agent as uuid), 'knows', a.id, b.id, greatest(a.created_at, b.created_at)"
    " from generate_series(0, :edges - 1) k"
    " join numbered a on a.i = 1 + k % :nodes"
    " join numbered b on b.i = 1 + (a.i * (1 + k / :nodes) / (2 + k / :nodes)) % :nodes"
    " where a.id <> b.id on conflict do nothing",
)


def add_version(installation: SharedInstallation, graph: GraphIds, content: str) -> None:
    """Store another version of the page at OLD_URL, as after a change of the page."""

    async def add(database: Database) -> None:
        async with database.transaction() as session:
            owner_id = await session.scalar(
                select(Agent.owner_id).where(Agent.id == graph.agent_id)
            )
            assert owner_id is not None
            scope = GraphScope(owner_id, graph.agent_id)
            await store_pages(session, scope, {"results": [{**PAGES[0], "content": content}]})

    _run_in_thread(installation, add)
