"""The graph page by page: nodes, edges, types, neighbourhoods, counts, drawings."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import Query
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
from sqlalchemy.orm import aliased

from services.api.auth.dependencies import AgentAccess, OwnedAgent
from services.api.http.dependencies import Page, PageQuery
from services.api.http.problem_details import NotFoundError
from services.api.reading import columns_of, read_all, read_page
from services.api.resources.sources import model as sources
from shared.database.pagination import Keyset
from shared.database.statements import CompiledStatement, rows_together, uuid_array
from shared.database.tables import GraphEdge, GraphEdgeType, GraphNode, GraphNodeType
from shared.database.tables.graph import NAME_WORDS
from shared.domains import site_of
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.events.envelope import Utc
from shared.graph.conclusions import citation_index
from shared.graph.entity_resolution import aliases
from shared.graph.entity_resolution.redirects import resolve_redirects
from shared.graph.projection import EDGES, NODES
from shared.graph.provenance.claims import HOST_SQL
from shared.graph.retrieval import hubs, node_search, query
from shared.graph.retrieval.node_search import SearchCriteria, all_words_query
from shared.graph.scope import (
    IS_SUPPORTED_SQL,
    JOINS_TWO_NODES,
    JOINS_TWO_NODES_SQL,
    OWNED_AGENT_ID_SQL,
)
from shared.schemas.base import EdgeResponse, GraphCounts, NodeResponse, PageRequest
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

_NODES: Final = Keyset("nodes", (GraphNode.updated_at, GraphNode.id))
_EDGES: Final = Keyset("edges", (GraphEdge.updated_at, GraphEdge.id))
# Built once: building takes milliseconds, as much as a whole page may take.
_SOURCE, _TARGET = aliased(GraphNode), aliased(GraphNode)
_NODE_TYPES: Final = Keyset("node types", (GraphNodeType.name,), descending=False)
_EDGE_TYPES: Final = Keyset("edge types", (GraphEdgeType.name,), descending=False)

OfType = Annotated[str | None, Query(alias="type", description="Only nodes of this type")]
Since = Annotated[Utc | None, Query(description="Only nodes updated since then")]
IdPrefix = Annotated[
    str | None,
    Query(pattern="^[0-9a-fA-F-]{4,36}$", description="With an id that begins so"),
]


async def list_nodes(
    access: OwnedAgent,
    page_request: PageQuery,
    type_name: OfType = None,
    updated_since: Since = None,
    search: Annotated[
        str | None,
        Query(min_length=1, max_length=200, description="Words of the name, or their beginnings"),
    ] = None,
    id_prefix: IdPrefix = None,
) -> Page[NodeResponse]:
    """Lists nodes, most recently changed first."""
    statement = _select_nodes(access)
    if type_name is not None:
        statement = statement.where(GraphNode.type == type_name)
    if updated_since is not None:
        statement = statement.where(GraphNode.updated_at >= updated_since)
    if search is not None:
        # Words as PostgreSQL's text search parses them, which are indexed; no substrings of words.
        words = search.split()
        matches = NAME_WORDS.op("@@")(all_words_query(words)) if words else false()
        statement = statement.where(matches)
    if id_prefix is not None:
        statement = statement.where(GraphNode.id.between(*_ids_from(id_prefix)))
    return await read_page(access.session, NodeResponse, statement, _NODES, page_request)


async def list_edges(
    access: OwnedAgent,
    page_request: PageQuery,
    type_name: OfType = None,
    updated_since: Since = None,
    source_id: Annotated[
        UUID | None, Query(description="Only edges that start at this node")
    ] = None,
    target_id: Annotated[UUID | None, Query(description="Only edges that end at this node")] = None,
    node_id: Annotated[UUID | None, Query(description="With this node at either end")] = None,
    id_prefix: IdPrefix = None,
) -> Page[EdgeResponse]:
    """Lists edges, most recently changed first."""
    conditions: list[ColumnElement[bool]] = [JOINS_TWO_NODES]
    if type_name is not None:
        conditions.append(GraphEdge.type == type_name)
    if updated_since is not None:
        conditions.append(GraphEdge.updated_at >= updated_since)
    if source_id is not None:
        conditions.append(GraphEdge.source_id == source_id)
    if target_id is not None:
        conditions.append(GraphEdge.target_id == target_id)
    if id_prefix is not None:
        conditions.append(GraphEdge.id.between(*_ids_from(id_prefix)))
    statement = _select_edges(access).where(*conditions)
    if node_id is not None:
        incident = _incident_edges(access, node_id, conditions, page_request)
        statement = statement.where(GraphEdge.id.in_(incident))
    return await read_page(access.session, EdgeResponse, statement, _EDGES, page_request)


def _ids_from(prefix: str) -> tuple[UUID, UUID]:
    """The first and the last id that begin with these hexadecimal digits."""
    digits = prefix.replace("-", "")[:32]
    return UUID(digits.ljust(32, "0")), UUID(digits.ljust(32, "f"))


def _incident_edges(
    access: AgentAccess,
    node_id: UUID,
    conditions: Sequence[ColumnElement[bool]],
    page_request: PageRequest,
) -> Select[UUID]:
    """Selects the edges of a node: a full page of each direction, each from its own index.

    An `or` of both directions would read all edges of a hub.
    """
    if page_request.cursor is not None:
        conditions = [*conditions, _EDGES.after(page_request.cursor)]
    of_agent = select(GraphEdge.id).where(GraphEdge.agent_id == access.scope.owned_agent_id())
    ids = (
        select(
            _EDGES.ordered(of_agent.where(end == node_id, *conditions))
            .limit(page_request.limit + 1)
            .subquery()
            .c.id
        )
        for end in (GraphEdge.source_id, GraphEdge.target_id)
    )
    return select(union_all(*ids).subquery().c.id)


def _select_nodes(
    access: AgentAccess, model: type[NodeResponse] = NodeResponse
) -> Select[*tuple[Any, ...]]:
    of_agent = GraphNode.agent_id == access.scope.owned_agent_id()
    return select(*columns_of(GraphNode, model)).where(of_agent)


def _select_edges(
    access: AgentAccess, model: type[EdgeResponse] = EdgeResponse
) -> Select[*tuple[Any, ...]]:
    """Selects edges with the names of their source and target nodes."""
    names = {"source_name": _SOURCE.name, "target_name": _TARGET.name}
    return (
        select(*columns_of(GraphEdge, model, **names))
        .join(_SOURCE, _SOURCE.id == GraphEdge.source_id)
        .join(_TARGET, _TARGET.id == GraphEdge.target_id)
        .where(GraphEdge.agent_id == access.scope.owned_agent_id())
    )


async def has_element(
    access: AgentAccess, table: type[GraphNode | GraphEdge], element_id: UUID
) -> bool:
    found = exists().where(table.agent_id == access.scope.owned_agent_id(), table.id == element_id)
    return bool(await access.session.scalar(select(found)))


async def current_id(access: AgentAccess, element_id: UUID) -> UUID:
    """Follows merges: returns the id of the element that this one became part of, if any."""
    [current] = await resolve_redirects(access.session, access.scope, [element_id])
    return current


async def get_node(access: AgentAccess, node_id: UUID) -> NodeDetails:
    """Returns the node with its first edges and evidence. Raises NotFoundError."""
    session, scope, first = access.session, access.scope, PageRequest()
    statement = _select_nodes(access, NodeDetails).where(GraphNode.id == node_id)
    node = (await session.execute(statement)).mappings().one_or_none()
    if node is None:
        raise NotFoundError("node", node_id)
    names = await aliases.list_names(session, scope, node_id)
    return NodeDetails(
        **node,
        names=[name for name in names if name != node["name"]],
        cited_by=await citation_index.list_citing_conclusions(session, scope, node_id),
        edges=await list_edges(access, first, node_id=node_id),
        evidence=await sources.list_evidence(access, NODES, node_id, first),
        agreement=await sources.load_agreement(access, NODES, node_id),
    )


async def get_edge(access: AgentAccess, edge_id: UUID) -> EdgeDetails:
    """Returns the edge with its first evidence. Raises NotFoundError."""
    statement = _select_edges(access, EdgeDetails).where(GraphEdge.id == edge_id)
    edge = (await access.session.execute(statement)).mappings().one_or_none()
    if edge is None:
        raise NotFoundError("edge", edge_id)
    cited_by = await citation_index.list_citing_conclusions(access.session, access.scope, edge_id)
    return EdgeDetails(
        **edge,
        cited_by=cited_by,
        evidence=await sources.list_evidence(access, EDGES, edge_id, PageRequest()),
        agreement=await sources.load_agreement(access, EDGES, edge_id),
    )


async def list_node_types(
    access: AgentAccess, page_request: PageRequest, name: str | None = None
) -> Page[NodeTypeDetails]:
    """Lists node types by name; with `name`, only that one."""
    columns = columns_of(GraphNodeType, NodeTypeDetails)
    statement = select(*columns).where(GraphNodeType.agent_id == access.scope.owned_agent_id())
    if name is not None:
        statement = statement.where(GraphNodeType.name == name)
    return await read_page(access.session, NodeTypeDetails, statement, _NODE_TYPES, page_request)


async def list_edge_types(
    access: AgentAccess, page_request: PageRequest, name: str | None = None
) -> Page[EdgeTypeDetails]:
    """Lists edge types by name; with `name`, only that one."""
    columns = columns_of(GraphEdgeType, EdgeTypeDetails)
    statement = select(*columns).where(GraphEdgeType.agent_id == access.scope.owned_agent_id())
    if name is not None:
        statement = statement.where(GraphEdgeType.name == name)
    return await read_page(access.session, EdgeTypeDetails, statement, _EDGE_TYPES, page_request)


MAX_COUNTED: Final = 5_000
"""Of one type."""


@dataclass(frozen=True)
class TypeCounts:
    """Counts by type. A count of MAX_COUNTED means that many or more."""

    nodes: dict[str, int]
    edges: dict[str, int]

    @property
    def totals(self) -> GraphCounts:
        counts = (*self.nodes.values(), *self.edges.values())
        return GraphCounts(
            nodes=sum(self.nodes.values()),
            edges=sum(self.edges.values()),
            analyses=self.nodes.get(ANALYSIS_TYPE, 0),
            advice=self.nodes.get(ADVICE_TYPE, 0),
            has_more=any(count >= MAX_COUNTED for count in counts),
        )


async def count_by_type(access: AgentAccess) -> TypeCounts:
    params = {**access.scope.sql_params, "most": MAX_COUNTED}
    nodes, edges = await rows_together(access.session, params, _NODE_COUNTS, _EDGE_COUNTS)
    return TypeCounts(dict(map(tuple, nodes)), dict(map(tuple, edges)))


def _count_statement(types: str, elements: str, condition: str = "true") -> CompiledStatement:
    return CompiledStatement(
        f"select name, (select count(*) from (select from {elements}"
        f" where agent_id = {types}.agent_id and type = {types}.name and {condition} limit :most) counted) as count"
        f" from {types} where agent_id = {OWNED_AGENT_ID_SQL} order by name"
    )


_NODE_COUNTS: Final = _count_statement("graph_node_types", "graph_nodes")
_EDGE_COUNTS: Final = _count_statement("graph_edge_types", "graph_edges", JOINS_TWO_NODES_SQL)


MAX_LIMIT: Final = 1_000
_NEWEST_EDGE: Final = GraphEdge.updated_at.desc(), GraphEdge.id.desc()
_NEWEST_NODE: Final = GraphNode.updated_at.desc(), GraphNode.id.desc()


async def newest_nodes(
    access: AgentAccess, *, type_name: str | None = None, limit: int = 100
) -> list[NodeResponse]:
    """Returns the most recently updated nodes, at most MAX_LIMIT."""
    statement = _select_nodes(access)
    if type_name is not None:
        statement = statement.where(GraphNode.type == type_name)
    newest = statement.order_by(*_NEWEST_NODE).limit(max(0, min(limit, MAX_LIMIT)))
    return await read_all(access.session, NodeResponse, newest)


async def newest_edges(access: AgentAccess, *, limit: int = 100) -> list[EdgeResponse]:
    """Returns the most recently updated edges, at most MAX_LIMIT."""
    statement = _select_edges(access).where(JOINS_TWO_NODES).order_by(*_NEWEST_EDGE)
    newest = statement.limit(max(0, min(limit, MAX_LIMIT)))
    return await read_all(access.session, EdgeResponse, newest)


MAX_DEPTH: Final = 2
MAX_NODES: Final = 200
MAX_EDGES_PER_NODE: Final = 4
"""The limit of edges per requested node."""


async def load_neighbourhood(
    access: AgentAccess, node_id: UUID, *, depth: int, limit: int
) -> NeighbourhoodResponse:
    """Returns at most `limit` nodes around a node, nearest first, with their edges. Raises NotFoundError."""
    session, scope, max_edges = access.session, access.scope, limit * MAX_EDGES_PER_NODE
    nodes_by_id = await _nodes(access, [node_id])
    if not nodes_by_id:
        raise NotFoundError("node", node_id)
    seen_ids, cut = {node_id}, False
    for _ in range(depth):
        edges = await query.incident_edges(session, scope, seen_ids, max_edges + 1)
        ends = dict.fromkeys(end for item in edges for end in (item.source_id, item.target_id))
        new = [end for end in ends if end not in nodes_by_id]
        room = limit - len(nodes_by_id)
        cut = cut or len(new) > room or len(edges) > max_edges
        nodes_by_id |= await _nodes(access, new[:room])
        seen_ids = set(new[:room])
        if not seen_ids:
            break
    within = await query.edges_between(session, scope, nodes_by_id, nodes_by_id, max_edges + 1)
    of_within = GraphEdge.id.in_([edge.id for edge in within])
    statement = _select_edges(access).where(of_within).order_by(*_NEWEST_EDGE)
    among = await read_all(session, EdgeResponse, statement)
    return NeighbourhoodResponse(
        depth=depth,
        nodes=list(nodes_by_id.values()),
        edges=among[:max_edges],
        cut=cut or len(among) > max_edges,
    )


async def _nodes(access: AgentAccess, node_ids: Collection[UUID]) -> dict[UUID, NodeResponse]:
    """The nodes of these ids that exist, in their order."""
    statement = _select_nodes(access).where(GraphNode.id.in_(node_ids))
    by_id = {row.id: row for row in await read_all(access.session, NodeResponse, statement)}
    return {item: by_id[item] for item in node_ids if item in by_id}


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
    access: AgentAccess, drawing_filter: DrawingFilter, limit: int
) -> GraphLayout:
    """Draws the most recently updated nodes."""
    newest = _drawn_nodes(access, drawing_filter).order_by(*_NEWEST_NODE).limit(limit + 1)
    nodes = [DrawnNode(*row) for row in await access.session.execute(newest)]
    return await _with_edges(access, nodes[:limit], cut=len(nodes) > limit)


async def draw_best_connected(
    access: AgentAccess, drawing_filter: DrawingFilter, limit: int
) -> GraphLayout:
    """Draws the nodes with the most edges, among recently updated ones, and their neighbours."""
    session, scope = access.session, access.scope
    max_hubs = max(1, limit // _NODES_PER_HUB)
    centers = [hub.id for hub in await hubs.find_hubs(scope, max_hubs).execute(session)]
    edges = await query.incident_edges(session, scope, centers, limit)
    ends = (end for edge in edges for end in (edge.source_id, edge.target_id))
    ids = list(dict.fromkeys([*centers, *ends]))
    statement = _drawn_nodes(access, drawing_filter).where(_is_any_of(ids[:limit]))
    nodes = [DrawnNode(*row) for row in await session.execute(statement)]
    return await _with_edges(access, nodes, cut=True)


async def draw_search(
    access: AgentAccess, words: str, drawing_filter: DrawingFilter, limit: int = MAX_SEARCH_NODES
) -> GraphLayout:
    """Draws search results, best match first. Searches names and properties, as queryGraph does."""
    criteria = SearchCriteria(words, list(drawing_filter.types), updated_since=drawing_filter.since)
    matches = await node_search.search_nodes(access.session, access.scope, criteria, limit)
    statement = _drawn_nodes(access, drawing_filter).where(GraphNode.id.in_(matches.ids))
    by_id = {row.id: DrawnNode(*row) for row in await access.session.execute(statement)}
    nodes = [by_id[item] for item in matches.ids if item in by_id]
    return await _with_edges(access, nodes, cut=not matches.is_all)


async def draw_neighbourhood(
    access: AgentAccess, node_id: UUID, *, depth: int, limit: int
) -> GraphLayout:
    """Draws a node and its neighbourhood. Raises NotFoundError."""
    near = await load_neighbourhood(access, node_id, depth=depth, limit=limit)
    sites = await _count_sites(access, [row.id for row in near.edges])
    return GraphLayout(
        nodes=[
            DrawnNode(*(getattr(node, name) for name in DrawnNode._fields)) for node in near.nodes
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


async def draw_paths(access: AgentAccess, start: UUID, goal: UUID) -> DrawnPaths:
    """Draws the shortest paths; none where the two are not connected within some steps."""
    paths = await query.shortest_paths(access.session, access.scope, start, goal)
    ids = list(dict.fromkeys([start, goal, *(node for path in paths for node in path.nodes)]))
    statement = _drawn_nodes(access, DrawingFilter()).where(_is_any_of(ids))
    nodes = [DrawnNode(*row) for row in await access.session.execute(statement)]
    layout = await _with_edges(access, nodes, cut=False)
    return DrawnPaths(layout, [list(path.nodes) for path in paths])


async def find_edge_id(
    access: AgentAccess, type_name: str, source_id: UUID, target_id: UUID
) -> UUID | None:
    """Returns the id of the edge of this type from one node to another, or None."""
    edge_id: UUID | None = await access.session.scalar(
        select(GraphEdge.id).where(
            GraphEdge.agent_id == access.scope.owned_agent_id(),
            GraphEdge.type == type_name,
            GraphEdge.source_id == source_id,
            GraphEdge.target_id == target_id,
        )
    )
    return edge_id


def _drawn_nodes(
    access: AgentAccess, drawing_filter: DrawingFilter
) -> Select[UUID, str, str, datetime, datetime, datetime | None]:
    """Selects the fields of a DrawnNode."""
    # From the table, not the mapped class: thousands of rows come without ORM overhead.
    columns = GraphNode.__table__.columns
    statement = select(*(columns[name] for name in DrawnNode._fields)).where(
        GraphNode.agent_id == access.scope.owned_agent_id()
    )
    if drawing_filter.types:
        statement = statement.where(GraphNode.type.in_(drawing_filter.types))
    if drawing_filter.since is not None:
        statement = statement.where(GraphNode.updated_at >= drawing_filter.since)
    return statement


def _is_any_of(ids: Collection[UUID]) -> ColumnElement[bool]:
    return GraphNode.id == any_(cast(literal(uuid_array(ids)), ARRAY(Uuid)))


async def _with_edges(access: AgentAccess, nodes: list[DrawnNode], *, cut: bool) -> GraphLayout:
    values = {
        **access.scope.sql_params,
        "ids": uuid_array([node.id for node in nodes]),
        "share": _MAX_EDGES_PER_END,
        "most": _MAX_DRAWN_EDGES,
    }
    rows = await _AMONG.rows(access.session, values)
    sites = await _count_sites(access, [row[0] for row in rows])
    edges = [DrawnEdge._make((*row[1:], sites.get(row[0], 0))) for row in rows]
    return GraphLayout(nodes=nodes, edges=edges, cut=cut)


async def _count_sites(access: AgentAccess, edge_ids: Sequence[UUID]) -> dict[UUID, int]:
    """Counts the sites that support each edge. Counts nothing where there are more than MAX_EDGES_WITH_SITES edges."""
    if not edge_ids or len(edge_ids) > MAX_EDGES_WITH_SITES:
        return {}
    limits = {"ids": uuid_array(edge_ids), "most": _MAX_HOSTS_PER_EDGE}
    rows = await _HOSTS_OF_EDGES.rows(access.session, {**access.scope.sql_params, **limits})
    # Many edges share few hosts, and the site of a host takes longer to find than to look up.
    site_of_host = {host: site_of(f"https://{host}") for host in {host for _, host in rows}}
    sites: defaultdict[UUID, set[str]] = defaultdict(set)
    for edge_id, host in rows:
        sites[edge_id].add(site_of_host[host])
    return {edge_id: len(each) for edge_id, each in sites.items()}


_HOSTS_OF_EDGES: Final = CompiledStatement(
    "select given.id, page.host from (select unnest(cast(:ids as uuid[])) as id) given cross join lateral"
    f" (select distinct coalesce({HOST_SQL}, '') as host"
    " from evidence join sources on sources.id = evidence.source_id"
    f" where evidence.edge_id = given.id and evidence.agent_id = {OWNED_AGENT_ID_SQL}"
    " and sources.retracted_at is null limit :most) page"
)


def _newest_at(end: str, other_end: str) -> str:
    # A range of one, for the reason given in `shared.graph.retrieval.query`.
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
