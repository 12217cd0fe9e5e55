"""Tools that read the graph."""

import json
from collections.abc import Sequence

from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing.embedding_cache import EmbeddingRequest
from shared.events.envelope import Utc
from shared.graph import types
from shared.graph.retrieval import Meaning, query
from shared.graph.scope import Scope
from shared.graph.tools.references import NodeReference, node_ids, with_understood
from shared.tools import Arguments, Json, StateTool

_MAX_SCHEMAS_BYTES = 20_000
"""Of all schemas that one answer lists."""


_BY_MEANING = (
    " Behind the nodes that hold words of the text come such as are near to it in meaning."
)


class QueryGraph(Arguments):
    text: str | None = Field(
        None,
        description="A name, or words of names and properties; the node of that name comes first, then those with more "
        "of the words in their names, then in their properties. Misspelled names are found where no name has the words.",
    )
    node_type: str | None = Field(None, description="Only nodes of this type.")
    node_types: list[str] = Field(
        default_factory=list,
        max_length=query.MAX_TYPES,
        description="Only nodes of one of these types.",
    )
    node_ids: list[NodeReference] = Field(
        default_factory=list,
        max_length=query.MAX_NODES,
        description="Only these nodes, by their ids or names.",
    )
    updated_since: Utc | None = Field(
        None, description="Only nodes that were written since then, as 2026-01-31T12:00:00Z."
    )
    as_of: Utc | None = Field(
        None,
        description="Leaves out nodes of which the evidence says that they were true at other times only.",
    )
    neighbours: int = Field(
        0,
        ge=0,
        le=query.DEEPEST,
        description="Also what lies so many edges from the nodes found (0, 1 or 2), with its edges.",
    )
    between: list[NodeReference] = Field(
        default_factory=list,
        max_length=2,
        description="Two nodes, by their ids or names: gives the shortest paths between them, up to 4 edges, instead of "
        "a search.",
    )
    limit: int = Field(20, ge=1, le=query.MAX_NODES, description="At most so many nodes.")


class NoArguments(Arguments):
    pass


def query_graph(scope: Scope, meaning: Meaning | None = None) -> StateTool[QueryGraph]:
    """With `meaning` it finds nodes near to the text in meaning, too."""

    async def run(session: AsyncSession, given: QueryGraph) -> Json:
        near = await meaning.near(session, scope, given.text) if meaning else None
        understood: list[str] = []
        ids = await node_ids(session, scope, given.node_ids, "nodeIds", understood)
        ends = await node_ids(session, scope, given.between, "between", understood)
        found = await query.query(
            session,
            scope,
            text=given.text,
            type_name=given.node_type,
            type_names=given.node_types,
            ids=ids,
            updated_since=given.updated_since,
            as_of=given.as_of,
            neighbours=given.neighbours,
            between=ends,
            limit=given.limit,
            near=near,
        )
        return with_understood(found, understood)

    def meant(given: QueryGraph) -> EmbeddingRequest | None:
        is_sought = meaning is not None and not given.between and not given.node_ids
        return meaning.request(given.text) if meaning and is_sought else None

    return StateTool(
        "queryGraph",
        "Searches the knowledge graph. Every condition narrows the search; without any, the nodes touched last are "
        "returned. Gives nodes with their properties and the edges among them; updatedAt is when Vigil wrote it last, "
        "asOf when it was true by the latest evidence, until when that ended. `cut` says what was left out. Use the ids "
        "it gives to cite ([node:id], [edge:id]) and to connect."
        + (_BY_MEANING if meaning else ""),
        QueryGraph,
        run,
        meant,
    )


def list_node_types(scope: Scope) -> StateTool[NoArguments]:
    async def run(session: AsyncSession, given: NoArguments) -> Json:
        return _bounded(await types.node_types(session, scope))

    return StateTool(
        "listNodeTypes",
        "Lists the types that nodes can have, each with the JSON Schema that its nodes' properties must satisfy. "
        "Look here before making a type.",
        NoArguments,
        run,
    )


def list_edge_types(scope: Scope) -> StateTool[NoArguments]:
    async def run(session: AsyncSession, given: NoArguments) -> Json:
        return _bounded_edges(await types.edge_types(session, scope))

    return StateTool(
        "listEdgeTypes",
        "Lists the types that edges can have, each with the node types it may start from and lead to (an empty list "
        "means any), and the JSON Schema of its edges' properties where it has one. Look here before making a type.",
        NoArguments,
        run,
    )


def _bounded(node_types: Sequence[types.NodeType]) -> Json:
    listed: list[Json] = [
        {"name": each.name, "description": each.description} for each in node_types
    ]
    return _with_schemas("nodeTypes", "createNodeType", listed, node_types)


def _bounded_edges(edge_types: Sequence[types.EdgeType]) -> Json:
    listed: list[Json] = [
        {
            "name": each.name,
            "description": each.description,
            "sourceTypes": list(each.source_types),
            "targetTypes": list(each.target_types),
        }
        for each in edge_types
    ]
    return _with_schemas("edgeTypes", "createEdgeType", listed, edge_types)


def _with_schemas(
    what: str, maker: str, listed: list[Json], kinds: Sequence[types.NodeType | types.EdgeType]
) -> Json:
    """`listed` with the schemas of those that have one, as many as fit."""
    left_bytes = _MAX_SCHEMAS_BYTES
    for entry, each in zip(listed, kinds, strict=True):
        if not each.properties_schema:
            continue
        left_bytes -= len(json.dumps(each.properties_schema, ensure_ascii=False).encode())
        if left_bytes >= 0:
            entry["propertiesSchema"] = each.properties_schema
    answer: Json = {what: listed}
    if left_bytes < 0:
        answer["cut"] = (
            f"Some schemas are left out for their length; {maker} with a name that exists gives its schema."
        )
    return answer
