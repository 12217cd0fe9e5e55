"""Tools that read the graph."""

import json
from collections.abc import Sequence
from datetime import datetime

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from shared.billing.embedding_cache import EmbeddingRequest
from shared.database.transaction import Transaction
from shared.graph import types
from shared.graph.provenance.claims import parse_period_start
from shared.graph.provenance.validity import last_moment
from shared.graph.retrieval import EmbeddingSearch, query
from shared.graph.scope import GraphScope
from shared.graph.tools.references import (
    NodeReference,
    parse_moment,
    resolve_node_ids,
    with_interpretations,
)
from shared.tools import Arguments, Json, NoArguments, StateTool

_MAX_SCHEMAS_BYTES = 20_000
"""Of all schemas in one answer."""


_BY_MEANING = " Nodes of similar meaning come last."


class QueryGraph(Arguments):
    text: str | None = Field(None, description="A name, or words of names and properties.")
    node_type: SkipJsonSchema[str | None] = None
    """One of `node_types`, for models that give a single one."""
    node_types: list[str] = Field(
        default_factory=list, max_length=query.MAX_TYPES, description="Only nodes of these types."
    )
    node_ids: list[NodeReference] = Field(
        default_factory=list,
        max_length=query.MAX_NODES,
        description="Only these nodes: ids or names.",
    )
    updated_since: str | None = Field(
        None, description="Only nodes written since then: YYYY-MM-DD or a full ISO 8601 time."
    )
    neighbours: int = Field(
        0, ge=0, le=query.MAX_DEPTH, description="Also nodes this many edges away."
    )
    between: list[NodeReference] = Field(
        default_factory=list,
        max_length=2,
        description="Two nodes: gives the shortest paths between them.",
    )
    limit: int = Field(20, ge=1, le=query.MAX_NODES, description="Maximum number of nodes.")


def query_graph(
    scope: GraphScope, embedding_search: EmbeddingSearch | None = None
) -> StateTool[QueryGraph]:
    """With `embedding_search`, the tool also finds nodes similar in meaning."""

    async def run(transaction: Transaction, arguments: QueryGraph) -> Json:
        near = (
            await embedding_search.near(transaction, scope, arguments.text)
            if embedding_search
            else None
        )
        interpretations: list[str] = []
        ids = await resolve_node_ids(
            transaction, scope, arguments.node_ids, "nodeIds", interpretations
        )
        ends = await resolve_node_ids(
            transaction, scope, arguments.between, "between", interpretations
        )
        since = parse_moment(parse_period_start, arguments.updated_since, "updatedSince")
        result = await query.query_graph(
            transaction,
            scope,
            text=arguments.text,
            type_name=arguments.node_type,
            type_names=arguments.node_types,
            ids=ids,
            updated_since=since,
            neighbours=arguments.neighbours,
            between=ends,
            limit=arguments.limit,
            near=near,
        )
        return with_interpretations(_without_forms(result), interpretations)

    def embedding_request(arguments: QueryGraph) -> EmbeddingRequest | None:
        if embedding_search is None or arguments.between or arguments.node_ids:
            return None
        return embedding_search.request(arguments.text)

    return StateTool(
        "queryGraph",
        "Searches the graph. Conditions are combined. Without any it returns the newest nodes. `cut` says what is left out."
        + (_BY_MEANING if embedding_search else ""),
        QueryGraph,
        run,
        embedding_request,
        only_reads=True,
    )


def _without_forms(result: Json) -> Json:
    """The result with dates in place of times at midnight, and without empty properties and times of writing."""
    return {
        key: [_brief(each) for each in value] if key in ("nodes", "edges") else value
        for key, value in result.items()
    }


def _brief(element: Json) -> Json:
    brief = {key: value for key, value in element.items() if key != "updatedAt" and value != {}}
    if until := brief.get("until"):
        # The first moment at which it no longer holds.
        brief["until"] = f"{last_moment(datetime.fromisoformat(until)):%Y-%m-%d}"
    if "asOf" in brief:
        brief["asOf"] = brief["asOf"].removesuffix("T00:00:00Z")
    return brief


def list_node_types(scope: GraphScope) -> StateTool[NoArguments]:
    async def run(transaction: Transaction, arguments: NoArguments) -> Json:
        return _describe(
            "nodeTypes", "createNodeType", await types.list_node_types(transaction, scope)
        )

    return StateTool(
        "listNodeTypes",
        "Lists the node types with the JSON Schemas of their properties.",
        NoArguments,
        run,
        only_reads=True,
    )


def list_edge_types(scope: GraphScope) -> StateTool[NoArguments]:
    async def run(transaction: Transaction, arguments: NoArguments) -> Json:
        return _describe(
            "edgeTypes", "createEdgeType", await types.list_edge_types(transaction, scope)
        )

    return StateTool(
        "listEdgeTypes",
        "Lists the edge types with their allowed ends and the JSON Schemas of their properties.",
        NoArguments,
        run,
        only_reads=True,
    )


def _describe(
    result_key: str, creation_tool: str, graph_types: Sequence[types.NodeType | types.EdgeType]
) -> Json:
    """The types, with as many of their schemas as fit."""
    entries: list[Json] = []
    left_bytes = _MAX_SCHEMAS_BYTES
    for graph_type in graph_types:
        entry: Json = {"name": graph_type.name, "description": graph_type.description}
        if isinstance(graph_type, types.EdgeType):
            entry["sourceTypes"] = list(graph_type.source_types)
            entry["targetTypes"] = list(graph_type.target_types)
        if schema := graph_type.properties_schema:
            left_bytes -= len(json.dumps(schema, ensure_ascii=False).encode())
            if left_bytes >= 0:
                entry["propertiesSchema"] = schema
        entries.append(entry)
    answer: Json = {result_key: entries}
    if left_bytes < 0:
        answer["cut"] = (
            f"Some schemas are left out for their length; {creation_tool} with a name that exists gives its schema."
        )
    return answer
