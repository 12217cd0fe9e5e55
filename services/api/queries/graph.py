"""The graph page by page: nodes, edges, types, neighbourhoods, counts."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Select,
    Uuid,
    any_,
    cast,
    exists,
    false,
    literal,
    select,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from services.api.queries import provenance
from shared.database.pagination import Keyset, slice_of
from shared.database.statements import Direct, listed
from shared.database.tables import GraphEdge, GraphEdgeType, GraphNode, GraphNodeType
from shared.database.tables.graph import NAME_WORDS
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.conclusions import citation_index
from shared.graph.context import survey
from shared.graph.entity_resolution import aliases
from shared.graph.retrieval import node_search, traversal
from shared.graph.retrieval.node_search import Sought, all_of
from shared.graph.retrieval.traversal import leading, touching
from shared.graph.scope import OWNED_SQL, STANDS, Scope
from shared.graph.types import EdgeType, NodeType, edge_types, node_types
from shared.schemas.base import EdgeView, NodeView, Page, Wanted
from shared.schemas.graph import (
    DrawingView,
    DrawnEdge,
    DrawnNode,
    EdgeDetails,
    EdgeTypeDetails,
    NeighbourhoodView,
    NodeDetails,
    NodeTypeDetails,
)

_NODES = Keyset("nodes", (GraphNode.updated_at, GraphNode.id))
_EDGES = Keyset("edges", (GraphEdge.updated_at, GraphEdge.id))
# Made once: each takes milliseconds, which is what a whole page may take.
_SOURCE, _TARGET = aliased(GraphNode), aliased(GraphNode)
_NODE_TYPES = Keyset("node types", (GraphNodeType.name,), descending=False)
_EDGE_TYPES = Keyset("edge types", (GraphEdgeType.name,), descending=False)


@dataclass(frozen=True)
class NodesWanted:
    type_name: str | None = None
    updated_since: datetime | None = None
    search: str | None = None
    """Words; every one of them begins a word of the name."""


@dataclass(frozen=True)
class EdgesWanted:
    type_name: str | None = None
    updated_since: datetime | None = None
    source_id: UUID | None = None
    target_id: UUID | None = None
    node_id: UUID | None = None
    """At either end."""


async def node_page(
    session: AsyncSession, scope: Scope, wanted: Wanted, of: NodesWanted
) -> Page[NodeView]:
    """Those touched last first."""
    statement = select(GraphNode).where(GraphNode.agent_id == scope.agent())
    if of.type_name is not None:
        statement = statement.where(GraphNode.type == of.type_name)
    if of.updated_since is not None:
        statement = statement.where(GraphNode.updated_at >= of.updated_since)
    if of.search is not None:
        statement = statement.where(_is_named(of.search))
    return (await slice_of(session, statement, _NODES, wanted)).page(NodeView.model_validate)


async def edge_page(
    session: AsyncSession, scope: Scope, wanted: Wanted, of: EdgesWanted
) -> Page[EdgeView]:
    """Those touched last first."""
    conditions = list(_conditions(of))
    statement = edges_of(scope).where(*conditions)
    if of.node_id is not None:
        statement = statement.where(
            GraphEdge.id.in_(_touching(scope, of.node_id, conditions, wanted))
        )
    return (await slice_of(session, statement, _EDGES, wanted)).page(edge_view)


def _conditions(of: EdgesWanted) -> Iterator[ColumnElement[bool]]:
    """All but the node at either end."""
    if of.type_name is not None:
        yield GraphEdge.type == of.type_name
    if of.updated_since is not None:
        yield GraphEdge.updated_at >= of.updated_since
    if of.source_id is not None:
        yield GraphEdge.source_id == of.source_id
    if of.target_id is not None:
        yield GraphEdge.target_id == of.target_id


def _touching(
    scope: Scope, node_id: UUID, conditions: Sequence[ColumnElement[bool]], wanted: Wanted
) -> Select[UUID]:
    """The page's edges by their ids: as many of either direction as the whole page holds, each through its own index.

    An `or` of both would read all that a hub has.
    """
    if wanted.cursor is not None:
        conditions = [*conditions, _EDGES.after(wanted.cursor)]
    ids = (
        select(
            _EDGES.ordered(
                select(GraphEdge.id).where(GraphEdge.agent_id == scope.agent(), at_it, *conditions)
            )
            .limit(wanted.limit + 1)
            .subquery()
            .c.id
        )
        for at_it in (GraphEdge.source_id == node_id, GraphEdge.target_id == node_id)
    )
    return select(union_all(*ids).subquery().c.id)


async def has_node(session: AsyncSession, scope: Scope, node_id: UUID) -> bool:
    found = exists().where(GraphNode.agent_id == scope.agent(), GraphNode.id == node_id)
    return bool(await session.scalar(select(found)))


async def has_edge(session: AsyncSession, scope: Scope, edge_id: UUID) -> bool:
    found = exists().where(GraphEdge.agent_id == scope.agent(), GraphEdge.id == edge_id)
    return bool(await session.scalar(select(found)))


async def node(session: AsyncSession, scope: Scope, node_id: UUID) -> NodeDetails | None:
    """None where the agent has no such node."""
    found = await session.scalar(
        select(GraphNode).where(GraphNode.agent_id == scope.agent(), GraphNode.id == node_id)
    )
    if found is None:
        return None
    touching = await edge_page(session, scope, Wanted(), EdgesWanted(node_id=node_id))
    return NodeDetails(
        **dict(NodeView.model_validate(found)),
        iteration_id=found.iteration_id,
        step_id=found.step_id,
        names=[
            each for each in await aliases.of_node(session, scope, node_id) if each != found.name
        ],
        cited_by=await citation_index.citing(session, scope, node_id),
        edges=touching,
        evidence=await provenance.of_node(session, scope, node_id, Wanted()),
    )


async def edge(session: AsyncSession, scope: Scope, edge_id: UUID) -> EdgeDetails | None:
    """None where the agent has no such edge."""
    found = (await session.execute(edges_of(scope).where(GraphEdge.id == edge_id))).one_or_none()
    if found is None:
        return None
    return EdgeDetails(
        **dict(edge_view(*found)),
        iteration_id=found[0].iteration_id,
        step_id=found[0].step_id,
        cited_by=await citation_index.citing(session, scope, edge_id),
        evidence=await provenance.of_edge(session, scope, edge_id, Wanted()),
    )


async def node_type_page(
    session: AsyncSession, scope: Scope, wanted: Wanted, name: str | None = None
) -> Page[NodeTypeDetails]:
    """By name; the one of that name where it is given."""
    statement = select(GraphNodeType).where(GraphNodeType.agent_id == scope.agent())
    if name is not None:
        statement = statement.where(GraphNodeType.name == name)
    found = await slice_of(session, statement, _NODE_TYPES, wanted)
    return found.page(NodeTypeDetails.model_validate)


async def edge_type_page(
    session: AsyncSession, scope: Scope, wanted: Wanted, name: str | None = None
) -> Page[EdgeTypeDetails]:
    """By name; the one of that name where it is given."""
    statement = select(GraphEdgeType).where(GraphEdgeType.agent_id == scope.agent())
    if name is not None:
        statement = statement.where(GraphEdgeType.name == name)
    found = await slice_of(session, statement, _EDGE_TYPES, wanted)
    return found.page(EdgeTypeDetails.model_validate)


def edges_of(scope: Scope) -> Select[GraphEdge, str, str]:
    """Each with its source's and its target's name."""
    return (
        select(GraphEdge, _SOURCE.name, _TARGET.name)
        .join(_SOURCE, _SOURCE.id == GraphEdge.source_id)
        .join(_TARGET, _TARGET.id == GraphEdge.target_id)
        .where(GraphEdge.agent_id == scope.agent())
    )


def edge_view(edge: GraphEdge, source_name: str, target_name: str) -> EdgeView:
    return EdgeView(
        id=edge.id,
        type=edge.type,
        source_id=edge.source_id,
        source_name=source_name,
        target_id=edge.target_id,
        target_name=target_name,
        properties=edge.properties,
        created_at=edge.created_at,
        updated_at=edge.updated_at,
        unsupported_since=edge.unsupported_since,
    )


def _is_named(search: str) -> ColumnElement[bool]:
    """Words as Postgres parts them, which an index has: not any letters within a word."""
    words = search.split()
    if not words:
        return false()
    return NAME_WORDS.op("@@")(all_of(words))


MOST_COUNTED: Final = 5_000
"""Of one type."""


@dataclass(frozen=True)
class TypeCounts:
    """By type; a figure of MOST_COUNTED means that many or more."""

    nodes: dict[str, int]
    edges: dict[str, int]

    @property
    def has_more(self) -> bool:
        return any(count >= MOST_COUNTED for count in (*self.nodes.values(), *self.edges.values()))


async def by_type(session: AsyncSession, scope: Scope) -> TypeCounts:
    return TypeCounts(
        await _counted(session, scope, _COUNTED_NODES),
        await _counted(session, scope, _COUNTED_EDGES),
    )


async def _counted(session: AsyncSession, scope: Scope, statement: Direct) -> dict[str, int]:
    rows = await statement.rows(session, {**scope.bound, "most": MOST_COUNTED})
    return {row[0]: row[1] for row in rows}


def _of(types: str, things: str) -> Direct:
    return Direct(
        f"select name, (select count(*) from (select from {things}"
        f" where agent_id = {types}.agent_id and type = {types}.name limit :most) counted) as count"
        f" from {types} where agent_id = {OWNED_SQL} order by name"
    )


_COUNTED_NODES: Final = _of("graph_node_types", "graph_nodes")
_COUNTED_EDGES: Final = _of("graph_edge_types", "graph_edges")


MAX_LIMIT = 1_000


@dataclass(frozen=True)
class Counts:
    """`nodes` counts them all, analyses and advice too."""

    nodes: int
    edges: int
    analyses: int
    advice: int
    has_more: bool = False
    """Of some type there are more than were counted."""


@dataclass(frozen=True)
class Types:
    nodes: list[NodeType]
    edges: list[EdgeType]


async def counts(session: AsyncSession, scope: Scope) -> Counts:
    return summed(await by_type(session, scope))


def summed(counted: TypeCounts) -> Counts:
    return Counts(
        nodes=sum(counted.nodes.values()),
        edges=sum(counted.edges.values()),
        analyses=counted.nodes.get(ANALYSIS_TYPE, 0),
        advice=counted.nodes.get(ADVICE_TYPE, 0),
        has_more=counted.has_more,
    )


async def types(session: AsyncSession, scope: Scope) -> Types:
    return Types(await node_types(session, scope), await edge_types(session, scope))


async def nodes(
    session: AsyncSession, scope: Scope, *, type_name: str | None = None, limit: int = 100
) -> list[NodeView]:
    """Those touched last first, MAX_LIMIT at most."""
    statement = select(GraphNode).where(GraphNode.agent_id == scope.agent())
    if type_name is not None:
        statement = statement.where(GraphNode.type == type_name)
    rows = await session.scalars(
        statement.order_by(GraphNode.updated_at.desc(), GraphNode.id.desc())
        .limit(_bounded(limit))
        .execution_options(populate_existing=True)
    )
    return [NodeView.model_validate(row) for row in rows]


async def edges(session: AsyncSession, scope: Scope, *, limit: int = 100) -> list[EdgeView]:
    """Those touched last first, MAX_LIMIT at most."""
    rows = await session.execute(
        edges_of(scope)
        .order_by(GraphEdge.updated_at.desc(), GraphEdge.id.desc())
        .limit(_bounded(limit))
        .execution_options(populate_existing=True)
    )
    return [edge_view(*row) for row in rows]


def _bounded(limit: int) -> int:
    return max(0, min(limit, MAX_LIMIT))


DEEPEST: Final = 2
MOST_NODES: Final = 200
EDGES_A_NODE: Final = 4
"""Edges told at most for each node that may be told."""


async def neighbourhood_of(
    session: AsyncSession, scope: Scope, node_id: UUID, *, depth: int, limit: int
) -> NeighbourhoodView | None:
    """At most `limit` nodes, the nearer before the farther; None where the agent has no such node."""
    nodes = await _nodes(session, scope, [node_id])
    if not nodes:
        return None
    found, seen, cut = {node_id: nodes[0]}, {node_id}, False
    for _ in range(depth):
        edges = await touching(session, scope, seen, limit * EDGES_A_NODE + 1)
        ends = dict.fromkeys(end for each in edges for end in (each.source_id, each.target_id))
        new = [end for end in ends if end not in found]
        room = limit - len(found)
        cut = cut or len(new) > room or len(edges) > limit * EDGES_A_NODE
        found |= {node.id: node for node in await _nodes(session, scope, new[:room])}
        seen = set(new[:room])
        if not seen:
            break
    among = await _among(session, scope, found, limit * EDGES_A_NODE + 1)
    return NeighbourhoodView(
        depth=depth,
        nodes=list(found.values()),
        edges=among[: limit * EDGES_A_NODE],
        cut=cut or len(among) > limit * EDGES_A_NODE,
    )


async def _nodes(session: AsyncSession, scope: Scope, wanted: Collection[UUID]) -> list[NodeView]:
    rows = await session.scalars(
        select(GraphNode).where(GraphNode.agent_id == scope.agent(), GraphNode.id.in_(wanted))
    )
    by_id = {row.id: NodeView.model_validate(row) for row in rows}
    return [by_id[each] for each in wanted if each in by_id]


async def _among(
    session: AsyncSession, scope: Scope, ids: Collection[UUID], limit: int
) -> list[EdgeView]:
    within = await leading(session, scope, ids, ids, limit)
    newest = GraphEdge.updated_at.desc(), GraphEdge.id.desc()
    statement = edges_of(scope).where(GraphEdge.id.in_([edge.id for edge in within]))
    return [edge_view(*row) for row in await session.execute(statement.order_by(*newest))]


MOST_DRAWN_NODES: Final = 2_000
FOUND_AT_MOST: Final = 50
"""Nodes that a search tells."""
_EDGES_AN_END: Final = 60
"""Of a node, in each direction, those touched last: an edge is left out only where it is old at both of its ends."""
_MOST_EDGES: Final = 3 * MOST_DRAWN_NODES
_NODES_A_HUB: Final = 4
"""Of those that are drawn by their edges, so that what these lead to is drawn too."""


@dataclass(frozen=True)
class Drawn:
    """Which nodes may be drawn: of any of `types`, or of all where there are none, and touched since then."""

    types: Sequence[str] = ()
    since: datetime | None = None


async def newest(session: AsyncSession, scope: Scope, of: Drawn, limit: int) -> DrawingView:
    """Those touched last."""
    order = GraphNode.updated_at.desc(), GraphNode.id.desc()
    rows = await session.execute(_drawn_nodes(scope, of).order_by(*order).limit(limit + 1))
    nodes = [DrawnNode(*row) for row in rows]
    return await _with_edges(session, scope, nodes[:limit], cut=len(nodes) > limit)


async def best_connected(session: AsyncSession, scope: Scope, of: Drawn, limit: int) -> DrawingView:
    """The nodes that most edges touch, of those touched last, and what those edges lead to."""
    most = max(1, limit // _NODES_A_HUB)
    hubs = [each.id for each in await survey.best_connected(scope, most).answer(session)]
    edges = await traversal.touching(session, scope, hubs, limit)
    ends = (end for edge in edges for end in (edge.source_id, edge.target_id))
    ids = list(dict.fromkeys([*hubs, *ends]))
    rows = await session.execute(_drawn_nodes(scope, of).where(_is_any_of(ids[:limit])))
    nodes = [DrawnNode(*row) for row in rows]
    return await _with_edges(session, scope, nodes, cut=True)


async def found(
    session: AsyncSession, scope: Scope, words: str, of: Drawn, limit: int = FOUND_AT_MOST
) -> DrawingView:
    """The best match first, by names and properties; as queryGraph finds them."""
    sought = Sought(words, list(of.types), updated_since=of.since)
    told = await node_search.find(session, scope, sought, limit)
    rows = await session.execute(_drawn_nodes(scope, of).where(GraphNode.id.in_(told.ids)))
    by_id = {row.id: DrawnNode(*row) for row in rows}
    nodes = [by_id[each] for each in told.ids if each in by_id]
    return await _with_edges(session, scope, nodes, cut=not told.is_all)


async def at(
    session: AsyncSession, scope: Scope, node_id: UUID, *, depth: int, limit: int
) -> DrawingView | None:
    """A node and what lies around it; None where the agent has no such node."""
    near = await neighbourhood_of(session, scope, node_id, depth=depth, limit=limit)
    if near is None:
        return None
    return DrawingView(
        nodes=[
            DrawnNode(each.id, each.type, each.name, each.updated_at, each.unsupported_since)
            for each in near.nodes
        ],
        edges=[DrawnEdge(each.type, each.source_id, each.target_id) for each in near.edges],
        cut=near.cut,
    )


def _drawn_nodes(scope: Scope, of: Drawn) -> Select[UUID, str, str, datetime, datetime | None]:
    """A DrawnNode's fields."""
    # Of the table, not of the class that is mapped to it: thousands of rows come without a look at each.
    columns = GraphNode.__table__.columns
    statement = select(*(columns[name] for name in DrawnNode._fields)).where(
        GraphNode.agent_id == scope.agent()
    )
    if of.types:
        statement = statement.where(GraphNode.type.in_(of.types))
    if of.since is not None:
        statement = statement.where(GraphNode.updated_at >= of.since)
    return statement


def _is_any_of(ids: Collection[UUID]) -> ColumnElement[bool]:
    return GraphNode.id == any_(cast(literal(listed(ids)), ARRAY(Uuid)))


async def _with_edges(
    session: AsyncSession, scope: Scope, nodes: list[DrawnNode], *, cut: bool
) -> DrawingView:
    edges = await _drawn_among(session, scope, [node.id for node in nodes])
    return DrawingView(nodes=nodes, edges=edges, cut=cut)


async def _drawn_among(
    session: AsyncSession, scope: Scope, ids: Collection[UUID]
) -> list[DrawnEdge]:
    values = {**scope.bound, "ids": listed(ids), "share": _EDGES_AN_END, "most": _MOST_EDGES}
    return [DrawnEdge(*row) for row in await _AMONG.rows(session, values)]


def _newest_at(end: str, other: str) -> str:
    # A range of one, for the reason that `shared.graph.retrieval.traversal` gives.
    newest = (
        "select id, type, source_id, target_id, updated_at, agent_id, unsupported_since"
        f" from graph_edges where {end}_id >= given.id and {end}_id <= given.id"
        f" order by {end}_id desc, updated_at desc limit :share"
    )
    return (
        f"select newest.* from given cross join lateral ({newest}) newest"
        f" where ({other}_id in (select id from given)) is true and agent_id = {OWNED_SQL} and {STANDS}"
    )


# `is true` has PostgreSQL keep the ids at hand to look each end up: it takes the edges for few, and would rather join by
# going through all ids for each of them, which are thousands of thousands of steps.
_AMONG: Final = Direct(
    "with given as materialized (select unnest(cast(:ids as uuid[])) as id)"
    " select type, source_id, target_id"
    f" from ({_newest_at('source', 'target')} union {_newest_at('target', 'source')}) among_them"
    " order by updated_at desc, id limit :most"
)
