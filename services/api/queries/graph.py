"""The graph page by page: nodes, edges, types, neighbourhoods, counts."""

from collections import defaultdict
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
from shared.database.pagination import Keyset, paginate
from shared.database.statements import CompiledStatement, uuid_array
from shared.database.tables import GraphEdge, GraphEdgeType, GraphNode, GraphNodeType
from shared.database.tables.graph import NAME_WORDS
from shared.domains import site_of
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph import types as graph_types
from shared.graph.conclusions import citation_index
from shared.graph.context import survey
from shared.graph.entity_resolution import aliases
from shared.graph.projection import EDGES, NODES
from shared.graph.retrieval import node_search, traversal
from shared.graph.retrieval.node_search import SearchCriteria, all_words_query
from shared.graph.retrieval.traversal import edges_between, incident_edges
from shared.graph.scope import (
    IS_SUPPORTED_SQL,
    JOINS_TWO_NODES,
    JOINS_TWO_NODES_SQL,
    OWNED_AGENT_ID_SQL,
    GraphScope,
)
from shared.graph.types import EdgeType, NodeType
from shared.schemas.base import EdgeResponse, NodeResponse, Page, PageRequest
from shared.schemas.graph import (
    DrawnEdge,
    DrawnNode,
    EdgeDetails,
    EdgeTypeDetails,
    GraphLayout,
    NeighbourhoodResponse,
    NodeDetails,
    NodeTypeDetails,
)

_NODES = Keyset("nodes", (GraphNode.updated_at, GraphNode.id))
_EDGES = Keyset("edges", (GraphEdge.updated_at, GraphEdge.id))
# Built once: building takes milliseconds, as much as a whole page may take.
_SOURCE, _TARGET = aliased(GraphNode), aliased(GraphNode)
_NODE_TYPES = Keyset("node types", (GraphNodeType.name,), descending=False)
_EDGE_TYPES = Keyset("edge types", (GraphEdgeType.name,), descending=False)


@dataclass(frozen=True)
class NodeFilter:
    type_name: str | None = None
    updated_since: datetime | None = None
    search: str | None = None
    """Words, each of which must be the prefix of a word of the name."""
    id_prefix: str | None = None
    """Hexadecimal digits with which the id begins."""


@dataclass(frozen=True)
class EdgeFilter:
    type_name: str | None = None
    updated_since: datetime | None = None
    source_id: UUID | None = None
    target_id: UUID | None = None
    node_id: UUID | None = None
    """At either end."""
    id_prefix: str | None = None


async def list_nodes(
    session: AsyncSession, scope: GraphScope, page_request: PageRequest, node_filter: NodeFilter
) -> Page[NodeResponse]:
    """Lists nodes, most recently updated first."""
    statement = select(GraphNode).where(GraphNode.agent_id == scope.owned_agent_id())
    if node_filter.type_name is not None:
        statement = statement.where(GraphNode.type == node_filter.type_name)
    if node_filter.updated_since is not None:
        statement = statement.where(GraphNode.updated_at >= node_filter.updated_since)
    if node_filter.search is not None:
        statement = statement.where(_name_matches(node_filter.search))
    if node_filter.id_prefix is not None:
        statement = statement.where(GraphNode.id.between(*_ids_from(node_filter.id_prefix)))
    return (await paginate(session, statement, _NODES, page_request)).page(
        NodeResponse.model_validate
    )


async def list_edges(
    session: AsyncSession, scope: GraphScope, page_request: PageRequest, edge_filter: EdgeFilter
) -> Page[EdgeResponse]:
    """Lists edges, most recently updated first."""
    conditions = list(_conditions(edge_filter))
    statement = select_edges(scope).where(*conditions)
    if edge_filter.node_id is not None:
        statement = statement.where(
            GraphEdge.id.in_(_incident_edges(scope, edge_filter.node_id, conditions, page_request))
        )
    return (await paginate(session, statement, _EDGES, page_request)).page(edge_view)


def _conditions(edge_filter: EdgeFilter) -> Iterator[ColumnElement[bool]]:
    """Returns all conditions except the one for `node_id`."""
    yield JOINS_TWO_NODES
    if edge_filter.type_name is not None:
        yield GraphEdge.type == edge_filter.type_name
    if edge_filter.updated_since is not None:
        yield GraphEdge.updated_at >= edge_filter.updated_since
    if edge_filter.source_id is not None:
        yield GraphEdge.source_id == edge_filter.source_id
    if edge_filter.target_id is not None:
        yield GraphEdge.target_id == edge_filter.target_id
    if edge_filter.id_prefix is not None:
        yield GraphEdge.id.between(*_ids_from(edge_filter.id_prefix))


def _ids_from(prefix: str) -> tuple[UUID, UUID]:
    """The first and the last id that begin with these hexadecimal digits."""
    digits = prefix.replace("-", "")[:32]
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


def _incident_edges(
    scope: GraphScope,
    node_id: UUID,
    conditions: Sequence[ColumnElement[bool]],
    page_request: PageRequest,
) -> Select[UUID]:
    """Selects the edges of a node: a full page of each direction, each from its own index.

    An `or` of both directions would read all edges of a hub.
    """
    if page_request.cursor is not None:
        conditions = [*conditions, _EDGES.after(page_request.cursor)]
    ids = (
        select(
            _EDGES.ordered(
                select(GraphEdge.id).where(
                    GraphEdge.agent_id == scope.owned_agent_id(), at_it, *conditions
                )
            )
            .limit(page_request.limit + 1)
            .subquery()
            .c.id
        )
        for at_it in (GraphEdge.source_id == node_id, GraphEdge.target_id == node_id)
    )
    return select(union_all(*ids).subquery().c.id)


async def has_node(session: AsyncSession, scope: GraphScope, node_id: UUID) -> bool:
    statement = exists().where(
        GraphNode.agent_id == scope.owned_agent_id(), GraphNode.id == node_id
    )
    return bool(await session.scalar(select(statement)))


async def has_edge(session: AsyncSession, scope: GraphScope, edge_id: UUID) -> bool:
    statement = exists().where(
        GraphEdge.agent_id == scope.owned_agent_id(), GraphEdge.id == edge_id
    )
    return bool(await session.scalar(select(statement)))


async def find_node(session: AsyncSession, scope: GraphScope, node_id: UUID) -> NodeDetails | None:
    """Returns the node with its first edges and evidence, or None."""
    row = await session.scalar(
        select(GraphNode).where(
            GraphNode.agent_id == scope.owned_agent_id(), GraphNode.id == node_id
        )
    )
    if row is None:
        return None
    edges_page = await list_edges(session, scope, PageRequest(), EdgeFilter(node_id=node_id))
    return NodeDetails(
        **dict(NodeResponse.model_validate(row)),
        iteration_id=row.iteration_id,
        step_id=row.step_id,
        names=[
            item for item in await aliases.list_names(session, scope, node_id) if item != row.name
        ],
        cited_by=await citation_index.list_citing_conclusions(session, scope, node_id),
        edges=edges_page,
        evidence=await provenance.list_evidence_of_node(session, scope, node_id, PageRequest()),
        agreement=await provenance.load_agreement(session, scope, NODES, node_id),
    )


async def find_edge(session: AsyncSession, scope: GraphScope, edge_id: UUID) -> EdgeDetails | None:
    """Returns the edge with its first evidence, or None."""
    row = (await session.execute(select_edges(scope).where(GraphEdge.id == edge_id))).one_or_none()
    if row is None:
        return None
    return EdgeDetails(
        **dict(edge_view(*row)),
        iteration_id=row[0].iteration_id,
        step_id=row[0].step_id,
        cited_by=await citation_index.list_citing_conclusions(session, scope, edge_id),
        evidence=await provenance.list_evidence_of_edge(session, scope, edge_id, PageRequest()),
        agreement=await provenance.load_agreement(session, scope, EDGES, edge_id),
    )


async def list_node_types(
    session: AsyncSession, scope: GraphScope, page_request: PageRequest, name: str | None = None
) -> Page[NodeTypeDetails]:
    """Lists node types by name; with `name`, only that one."""
    statement = select(GraphNodeType).where(GraphNodeType.agent_id == scope.owned_agent_id())
    if name is not None:
        statement = statement.where(GraphNodeType.name == name)
    page_slice = await paginate(session, statement, _NODE_TYPES, page_request)
    return page_slice.page(NodeTypeDetails.model_validate)


async def list_edge_types(
    session: AsyncSession, scope: GraphScope, page_request: PageRequest, name: str | None = None
) -> Page[EdgeTypeDetails]:
    """Lists edge types by name; with `name`, only that one."""
    statement = select(GraphEdgeType).where(GraphEdgeType.agent_id == scope.owned_agent_id())
    if name is not None:
        statement = statement.where(GraphEdgeType.name == name)
    page_slice = await paginate(session, statement, _EDGE_TYPES, page_request)
    return page_slice.page(EdgeTypeDetails.model_validate)


def select_edges(scope: GraphScope) -> Select[GraphEdge, str, str]:
    """Selects edges with the names of their source and target nodes."""
    return (
        select(GraphEdge, _SOURCE.name, _TARGET.name)
        .join(_SOURCE, _SOURCE.id == GraphEdge.source_id)
        .join(_TARGET, _TARGET.id == GraphEdge.target_id)
        .where(GraphEdge.agent_id == scope.owned_agent_id())
    )


def edge_view(edge: GraphEdge, source_name: str, target_name: str) -> EdgeResponse:
    return EdgeResponse(
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


def _name_matches(search: str) -> ColumnElement[bool]:
    """Matches words as PostgreSQL's text search parses them, which are indexed; no substrings of words."""
    words = search.split()
    if not words:
        return false()
    return NAME_WORDS.op("@@")(all_words_query(words))


MAX_COUNTED: Final = 5_000
"""Of one type."""


@dataclass(frozen=True)
class TypeCounts:
    """Counts by type. A count of MAX_COUNTED means that many or more."""

    nodes: dict[str, int]
    edges: dict[str, int]

    @property
    def has_more(self) -> bool:
        return any(count >= MAX_COUNTED for count in (*self.nodes.values(), *self.edges.values()))


async def count_by_type(session: AsyncSession, scope: GraphScope) -> TypeCounts:
    return TypeCounts(
        await _count_by_type(session, scope, _NODE_COUNTS),
        await _count_by_type(session, scope, _EDGE_COUNTS),
    )


async def _count_by_type(
    session: AsyncSession, scope: GraphScope, statement: CompiledStatement
) -> dict[str, int]:
    rows = await statement.rows(session, {**scope.sql_params, "most": MAX_COUNTED})
    return {row[0]: row[1] for row in rows}


def _count_statement(types: str, elements: str, condition: str = "true") -> CompiledStatement:
    return CompiledStatement(
        f"select name, (select count(*) from (select from {elements}"
        f" where agent_id = {types}.agent_id and type = {types}.name and {condition} limit :most) counted) as count"
        f" from {types} where agent_id = {OWNED_AGENT_ID_SQL} order by name"
    )


_NODE_COUNTS: Final = _count_statement("graph_node_types", "graph_nodes")
_EDGE_COUNTS: Final = _count_statement("graph_edge_types", "graph_edges", JOINS_TWO_NODES_SQL)


MAX_LIMIT = 1_000


@dataclass(frozen=True)
class Counts:
    """`nodes` counts all nodes, including analyses and advice."""

    nodes: int
    edges: int
    analyses: int
    advice: int
    has_more: bool = False
    """Whether some type has more elements than were counted."""


@dataclass(frozen=True)
class Types:
    nodes: list[NodeType]
    edges: list[EdgeType]


async def counts(session: AsyncSession, scope: GraphScope) -> Counts:
    return total_counts(await count_by_type(session, scope))


def total_counts(type_counts: TypeCounts) -> Counts:
    return Counts(
        nodes=sum(type_counts.nodes.values()),
        edges=sum(type_counts.edges.values()),
        analyses=type_counts.nodes.get(ANALYSIS_TYPE, 0),
        advice=type_counts.nodes.get(ADVICE_TYPE, 0),
        has_more=type_counts.has_more,
    )


async def types(session: AsyncSession, scope: GraphScope) -> Types:
    return Types(
        await graph_types.list_node_types(session, scope),
        await graph_types.list_edge_types(session, scope),
    )


async def newest_nodes(
    session: AsyncSession, scope: GraphScope, *, type_name: str | None = None, limit: int = 100
) -> list[NodeResponse]:
    """Returns the most recently updated nodes, at most MAX_LIMIT."""
    statement = select(GraphNode).where(GraphNode.agent_id == scope.owned_agent_id())
    if type_name is not None:
        statement = statement.where(GraphNode.type == type_name)
    rows = await session.scalars(
        statement.order_by(GraphNode.updated_at.desc(), GraphNode.id.desc())
        .limit(_bounded_limit(limit))
        .execution_options(populate_existing=True)
    )
    return [NodeResponse.model_validate(row) for row in rows]


async def newest_edges(
    session: AsyncSession, scope: GraphScope, *, limit: int = 100
) -> list[EdgeResponse]:
    """Returns the most recently updated edges, at most MAX_LIMIT."""
    rows = await session.execute(
        select_edges(scope)
        .where(JOINS_TWO_NODES)
        .order_by(GraphEdge.updated_at.desc(), GraphEdge.id.desc())
        .limit(_bounded_limit(limit))
        .execution_options(populate_existing=True)
    )
    return [edge_view(*row) for row in rows]


def _bounded_limit(limit: int) -> int:
    return max(0, min(limit, MAX_LIMIT))


MAX_DEPTH: Final = 2
MAX_NODES: Final = 200
MAX_EDGES_PER_NODE: Final = 4
"""The limit of edges per requested node."""


async def neighbourhood(
    session: AsyncSession, scope: GraphScope, node_id: UUID, *, depth: int, limit: int
) -> NeighbourhoodResponse | None:
    """Returns at most `limit` nodes around a node, nearest first, with their edges; None where
    there is no such node.
    """
    nodes = await _nodes(session, scope, [node_id])
    if not nodes:
        return None
    nodes_by_id, seen_ids, cut = {node_id: nodes[0]}, {node_id}, False
    for _ in range(depth):
        edges = await incident_edges(session, scope, seen_ids, limit * MAX_EDGES_PER_NODE + 1)
        ends = dict.fromkeys(end for item in edges for end in (item.source_id, item.target_id))
        new = [end for end in ends if end not in nodes_by_id]
        room = limit - len(nodes_by_id)
        cut = cut or len(new) > room or len(edges) > limit * MAX_EDGES_PER_NODE
        nodes_by_id |= {node.id: node for node in await _nodes(session, scope, new[:room])}
        seen_ids = set(new[:room])
        if not seen_ids:
            break
    among = await _edges_between(session, scope, nodes_by_id, limit * MAX_EDGES_PER_NODE + 1)
    return NeighbourhoodResponse(
        depth=depth,
        nodes=list(nodes_by_id.values()),
        edges=among[: limit * MAX_EDGES_PER_NODE],
        cut=cut or len(among) > limit * MAX_EDGES_PER_NODE,
    )


async def _nodes(
    session: AsyncSession, scope: GraphScope, node_ids: Collection[UUID]
) -> list[NodeResponse]:
    rows = await session.scalars(
        select(GraphNode).where(
            GraphNode.agent_id == scope.owned_agent_id(), GraphNode.id.in_(node_ids)
        )
    )
    by_id = {row.id: NodeResponse.model_validate(row) for row in rows}
    return [by_id[item] for item in node_ids if item in by_id]


async def _edges_between(
    session: AsyncSession, scope: GraphScope, ids: Collection[UUID], limit: int
) -> list[EdgeResponse]:
    within = await edges_between(session, scope, ids, ids, limit)
    newest = GraphEdge.updated_at.desc(), GraphEdge.id.desc()
    statement = select_edges(scope).where(GraphEdge.id.in_([edge.id for edge in within]))
    return [edge_view(*row) for row in await session.execute(statement.order_by(*newest))]


MAX_DRAWN_NODES: Final = 5_000
MAX_FOCUS_DEPTH: Final = 3
"""Steps from the node that a drawing is focused on."""
MAX_SEARCH_NODES: Final = 50
"""The most nodes of a search."""
_MAX_EDGES_PER_END: Final = 60
"""The most recent edges of a node in each direction.

An edge is left out only where it is old at both of its ends.
"""
_MAX_DRAWN_EDGES: Final = 3 * MAX_DRAWN_NODES
MAX_EDGES_WITH_SITES: Final = 600
"""Pages draw more edges than these all alike, and counting would take as long as the rest."""
_MAX_HOSTS_PER_EDGE: Final = 8
"""Of which the sites are counted: pages draw edges with more sites all alike."""
_NODES_PER_HUB: Final = 4
"""The share of best-connected nodes in the drawing, so that there is room for their neighbours."""


@dataclass(frozen=True)
class DrawingFilter:
    """Filters the nodes of a drawing by type (empty: all) and by the time of their last update."""

    types: Sequence[str] = ()
    since: datetime | None = None


async def draw_newest(
    session: AsyncSession, scope: GraphScope, drawing_filter: DrawingFilter, limit: int
) -> GraphLayout:
    """Draws the most recently updated nodes."""
    order = GraphNode.updated_at.desc(), GraphNode.id.desc()
    rows = await session.execute(
        _drawn_nodes(scope, drawing_filter).order_by(*order).limit(limit + 1)
    )
    nodes = [DrawnNode(*row) for row in rows]
    return await _with_edges(session, scope, nodes[:limit], cut=len(nodes) > limit)


async def draw_best_connected(
    session: AsyncSession, scope: GraphScope, drawing_filter: DrawingFilter, limit: int
) -> GraphLayout:
    """Draws the nodes with the most edges, among recently updated ones, and their neighbours."""
    max_hubs = max(1, limit // _NODES_PER_HUB)
    hubs = [item.id for item in await survey.best_connected(scope, max_hubs).answer(session)]
    edges = await traversal.incident_edges(session, scope, hubs, limit)
    ends = (end for edge in edges for end in (edge.source_id, edge.target_id))
    ids = list(dict.fromkeys([*hubs, *ends]))
    rows = await session.execute(_drawn_nodes(scope, drawing_filter).where(_is_any_of(ids[:limit])))
    nodes = [DrawnNode(*row) for row in rows]
    return await _with_edges(session, scope, nodes, cut=True)


async def draw_search(
    session: AsyncSession,
    scope: GraphScope,
    words: str,
    drawing_filter: DrawingFilter,
    limit: int = MAX_SEARCH_NODES,
) -> GraphLayout:
    """Draws search results, best match first. Searches names and properties, as queryGraph does."""
    criteria = SearchCriteria(words, list(drawing_filter.types), updated_since=drawing_filter.since)
    matches = await node_search.search_nodes(session, scope, criteria, limit)
    rows = await session.execute(
        _drawn_nodes(scope, drawing_filter).where(GraphNode.id.in_(matches.ids))
    )
    by_id = {row.id: DrawnNode(*row) for row in rows}
    nodes = [by_id[item] for item in matches.ids if item in by_id]
    return await _with_edges(session, scope, nodes, cut=not matches.is_all)


async def draw_neighbourhood(
    session: AsyncSession, scope: GraphScope, node_id: UUID, *, depth: int, limit: int
) -> GraphLayout | None:
    """Draws a node and its neighbourhood; None where the agent has no such node."""
    near = await neighbourhood(session, scope, node_id, depth=depth, limit=limit)
    if near is None:
        return None
    sites = await _count_sites(session, scope, [row.id for row in near.edges])
    return GraphLayout(
        nodes=[
            DrawnNode(
                item.id,
                item.type,
                item.name,
                item.created_at,
                item.updated_at,
                item.unsupported_since,
            )
            for item in near.nodes
        ],
        edges=[
            DrawnEdge(row.type, row.source_id, row.target_id, row.created_at, sites.get(row.id, 0))
            for row in near.edges
        ],
        cut=near.cut,
    )


@dataclass(frozen=True)
class DrawnPaths:
    """The shortest paths between two nodes, each as the ids of its nodes in order."""

    layout: GraphLayout
    paths: list[list[UUID]]


async def draw_paths(
    session: AsyncSession, scope: GraphScope, start: UUID, goal: UUID
) -> DrawnPaths:
    """Draws the shortest paths; none where the two are not connected within some steps."""
    paths = await traversal.shortest_paths(session, scope, start, goal)
    ids = list(dict.fromkeys([start, goal, *(node for path in paths for node in path.nodes)]))
    rows = await session.execute(_drawn_nodes(scope, DrawingFilter()).where(_is_any_of(ids)))
    nodes = [DrawnNode(*row) for row in rows]
    layout = await _with_edges(session, scope, nodes, cut=False)
    return DrawnPaths(layout, [list(path.nodes) for path in paths])


async def find_edge_id(
    session: AsyncSession, scope: GraphScope, type_name: str, source_id: UUID, target_id: UUID
) -> UUID | None:
    """Returns the id of the edge of this type from one node to another, or None."""
    edge_id: UUID | None = await session.scalar(
        select(GraphEdge.id).where(
            GraphEdge.agent_id == scope.owned_agent_id(),
            GraphEdge.type == type_name,
            GraphEdge.source_id == source_id,
            GraphEdge.target_id == target_id,
        )
    )
    return edge_id


def _drawn_nodes(
    scope: GraphScope, drawing_filter: DrawingFilter
) -> Select[UUID, str, str, datetime, datetime, datetime | None]:
    """Selects the fields of a DrawnNode."""
    # From the table, not the mapped class: thousands of rows come without ORM overhead.
    columns = GraphNode.__table__.columns
    statement = select(*(columns[name] for name in DrawnNode._fields)).where(
        GraphNode.agent_id == scope.owned_agent_id()
    )
    if drawing_filter.types:
        statement = statement.where(GraphNode.type.in_(drawing_filter.types))
    if drawing_filter.since is not None:
        statement = statement.where(GraphNode.updated_at >= drawing_filter.since)
    return statement


def _is_any_of(ids: Collection[UUID]) -> ColumnElement[bool]:
    return GraphNode.id == any_(cast(literal(uuid_array(ids)), ARRAY(Uuid)))


async def _with_edges(
    session: AsyncSession, scope: GraphScope, nodes: list[DrawnNode], *, cut: bool
) -> GraphLayout:
    edges = await _drawn_edges_between(session, scope, [node.id for node in nodes])
    return GraphLayout(nodes=nodes, edges=edges, cut=cut)


async def _drawn_edges_between(
    session: AsyncSession, scope: GraphScope, ids: Collection[UUID]
) -> list[DrawnEdge]:
    values = {
        **scope.sql_params,
        "ids": uuid_array(ids),
        "share": _MAX_EDGES_PER_END,
        "most": _MAX_DRAWN_EDGES,
    }
    rows = await _AMONG.rows(session, values)
    sites = await _count_sites(session, scope, [row[0] for row in rows])
    return [DrawnEdge._make((*row[1:], sites.get(row[0], 0))) for row in rows]


async def _count_sites(
    session: AsyncSession, scope: GraphScope, edge_ids: Sequence[UUID]
) -> dict[UUID, int]:
    """Counts the sites that support each edge. Counts nothing where there are more than MAX_EDGES_WITH_SITES edges."""
    if not edge_ids or len(edge_ids) > MAX_EDGES_WITH_SITES:
        return {}
    values = {**scope.sql_params, "ids": uuid_array(edge_ids), "most": _MAX_HOSTS_PER_EDGE}
    rows = await _HOSTS_OF_EDGES.rows(session, values)
    # Many edges share few hosts, and the site of a host takes longer to find than to look up.
    site_of_host = {host: site_of(f"https://{host}") for host in {host for _, host in rows}}
    sites: defaultdict[UUID, set[str]] = defaultdict(set)
    for edge_id, host in rows:
        sites[edge_id].add(site_of_host[host])
    return {edge_id: len(each) for edge_id, each in sites.items()}


_HOSTS_OF_EDGES: Final = CompiledStatement(
    "select given.id, page.host from (select unnest(cast(:ids as uuid[])) as id) given cross join lateral"
    " (select distinct coalesce(substring(url from '^[A-Za-z]+[:]//([^/?#]+)'), '') as host"
    " from evidence join sources on sources.id = evidence.source_id"
    f" where evidence.edge_id = given.id and evidence.agent_id = {OWNED_AGENT_ID_SQL}"
    " and sources.retracted_at is null limit :most) page"
)


def _newest_at(end: str, other_end: str) -> str:
    # A range of one, for the reason given in `shared.graph.retrieval.traversal`.
    newest = (
        "select id, type, source_id, target_id, created_at, updated_at, agent_id, unsupported_since"
        f" from graph_edges where {end}_id >= given.id and {end}_id <= given.id and {JOINS_TWO_NODES_SQL}"
        f" order by {end}_id desc, updated_at desc limit :share"
    )
    return (
        f"select newest.* from given cross join lateral ({newest}) newest"
        f" where ({other_end}_id in (select id from given)) is true and agent_id = {OWNED_AGENT_ID_SQL}"
        f" and {IS_SUPPORTED_SQL}"
    )


# `is true` makes PostgreSQL hash the ids and probe each end. Otherwise it would join by scanning
# all ids for each edge, which is quadratic.
_AMONG: Final = CompiledStatement(
    "with given as materialized (select unnest(cast(:ids as uuid[])) as id)"
    " select id, type, source_id, target_id, created_at"
    f" from ({_newest_at('source', 'target')} union {_newest_at('target', 'source')}) among_them"
    " order by updated_at desc, id limit :most"
)
