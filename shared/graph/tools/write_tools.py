"""Tools that write facts: types, nodes and edges."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from pydantic import Field
from sqlalchemy.ext.asyncio import AsyncSession

from shared.enums import Phase
from shared.graph import edges, nodes, types
from shared.graph.entity_resolution.candidates import LIKENESS
from shared.graph.provenance import claims
from shared.graph.provenance.evidence import LONGEST_QUOTE, MOST, SHORTEST_QUOTE, Ground
from shared.graph.scope import Scope
from shared.graph.tools.references import NodeReference, node_id, with_known_type, with_understood
from shared.graph.upsert import Added
from shared.graph.validation import Validators
from shared.tools import Arguments, Json, StateTool, ToolRefusalError

_DATE: Final = "YYYY, YYYY-MM, YYYY-MM-DD or a full ISO 8601 time"


class EvidenceGiven(Arguments):
    source_url: str = Field(description="Exact address of the page that the quote stands in.")
    quote: str = Field(
        description="What the page says, word for word as it stands there, best one sentence; "
        f"{SHORTEST_QUOTE} to {LONGEST_QUOTE} characters."
    )
    properties: list[str] | None = Field(
        None,
        description="Names of the properties that this quote bears out; without it, all that no other entry names.",
    )
    valid_from: str | None = Field(
        None,
        description=f"From when on that is true, where the page says: {_DATE}. A newer value supersedes an older one.",
    )
    valid_to: str | None = Field(
        None, description="Until when, that year, month or day included, where the page says."
    )


OF_ALL: Final[Any] = Field(
    min_length=1,
    max_length=MOST,
    description="What it rests on. Every property must be borne out by an entry.",
)


def grounds_of(evidence: Sequence[EvidenceGiven]) -> list[Ground]:
    """Raises ToolRefusalError where a date is none."""
    return [
        Ground(
            each.source_url,
            each.quote,
            None if each.properties is None else tuple(dict.fromkeys(each.properties)),
            _moment(claims.beginning, each.valid_from, f"evidence[{index}].validFrom"),
            _moment(claims.end, each.valid_to, f"evidence[{index}].validTo"),
        )
        for index, each in enumerate(evidence)
    ]


def _moment(read: Callable[[str], datetime], text: str | None, where: str) -> datetime | None:
    if text is None:
        return None
    try:
        return read(text)
    except (ValueError, OverflowError) as error:
        raise ToolRefusalError(
            f"{where}: {text[:40]!r} is no date; write {_DATE}, or leave it out."
        ) from error


_MAKER = Phase.GRAPH_CONSTRUCTION
"""The one phase that may make types."""
_JUSTIFICATION = "Why none of the types that there are fits, in one sentence."


class CreateNodeType(Arguments):
    name: str = Field(
        description='A capitalised singular noun without blanks: "Country", "TradeDeal".'
    )
    description: str = Field(description="What the nodes of this type are, in one sentence.")
    properties_schema: dict[str, Any] = Field(
        description='JSON Schema (Draft 2020-12) of the properties: "type": "object", with "properties" and, for '
        'what every node must have, "required". Say units in the names or descriptions of figures. By convention '
        "there is a summary. No properties for sources, quotes and dates of publication: evidence has those. No $ref "
        "and no pattern."
    )
    example_properties: dict[str, Any] = Field(
        description="Properties of one such node; they must satisfy propertiesSchema."
    )
    justification: str = Field(description=_JUSTIFICATION)


class CreateEdgeType(Arguments):
    name: str = Field(description='A verb in snake_case, read from source to target: "borders".')
    description: str = Field(
        description="What such an edge says of its two nodes, in one sentence."
    )
    source_types: list[str] = Field(
        default_factory=list, description="Node types it may start from; empty means any."
    )
    target_types: list[str] = Field(
        default_factory=list, description="Node types it may lead to; empty means any."
    )
    justification: str = Field(description=_JUSTIFICATION)
    properties_schema: dict[str, Any] | None = Field(
        None,
        description="JSON Schema of what such an edge may say of itself, as for createNodeType; without it, anything.",
    )
    example_properties: dict[str, Any] | None = Field(
        None,
        description="Properties of one such edge; needed with propertiesSchema, and must satisfy it.",
    )


class AddGraphNode(Arguments):
    type: str = Field(description="The name of an existing node type.")
    name: str = Field(
        description="What the thing is called, as the graph should know it everywhere: the same type and name, in "
        "whatever spelling, is the same node."
    )
    properties: dict[str, Any] = Field(
        description="Facts that satisfy the type's schema. By convention summary (one sentence); figures as further "
        "properties."
    )
    evidence: list[EvidenceGiven] = OF_ALL
    aliases: list[str] = Field(
        default_factory=list,
        description="What else the thing itself is called: its ticker, its initials, an earlier name. Nothing that "
        "another thing is called too.",
    )
    distinct_from: list[UUID] = Field(
        default_factory=list,
        description="Only after this tool has asked: ids of nodes that are called alike and are another thing.",
    )


class AddGraphEdge(Arguments):
    type: str = Field(description="The name of an existing edge type.")
    source_id: NodeReference = Field(
        description="Id of the node that the edge starts from, or its name."
    )
    target_id: NodeReference = Field(
        description="Id of the node that the edge leads to, or its name."
    )
    properties: dict[str, Any] = Field(
        default_factory=dict, description="Facts about the connection itself."
    )
    evidence: list[EvidenceGiven] = OF_ALL


def create_node_type(scope: Scope, validators: Validators) -> StateTool[CreateNodeType]:
    async def run(session: AsyncSession, given: CreateNodeType) -> Json:
        made, created = await types.create_node_type(
            session,
            scope,
            validators,
            name=given.name,
            description=given.description,
            properties_schema=given.properties_schema,
            example_properties=given.example_properties,
            created_by=_MAKER,
            justification=given.justification,
        )
        if created:
            return {"name": made.name, "created": True}
        return {"name": made.name, "created": False, "propertiesSchema": made.properties_schema}

    return StateTool(
        "createNodeType",
        "Makes a type of node, when no existing one fits. A type that exists already, in capitals or small letters, "
        "singular or plural, stays as it is: you are given its name and schema, and use it.",
        CreateNodeType,
        run,
    )


def create_edge_type(scope: Scope, validators: Validators) -> StateTool[CreateEdgeType]:
    async def run(session: AsyncSession, given: CreateEdgeType) -> Json:
        types.refuse_bad_edge_properties(
            validators, given.name, given.properties_schema, given.example_properties
        )
        made, created = await types.create_edge_type(
            session,
            scope,
            name=given.name,
            description=given.description,
            source_types=given.source_types,
            target_types=given.target_types,
            created_by=_MAKER,
            properties_schema=given.properties_schema,
            example_properties=given.example_properties,
            justification=given.justification,
        )
        if created:
            return {"name": made.name, "created": True}
        return {
            "name": made.name,
            "created": False,
            "sourceTypes": list(made.source_types),
            "targetTypes": list(made.target_types),
            "propertiesSchema": made.properties_schema,
        }

    return StateTool(
        "createEdgeType",
        "Makes a type of edge, when no existing one fits. A type that exists already stays as it is, also where its "
        "name differs in underscores or a plural only: you are given its name and the node types it joins, and use it.",
        CreateEdgeType,
        run,
    )


def add_graph_node(
    scope: Scope, validators: Validators, likeness: float = LIKENESS
) -> StateTool[AddGraphNode]:
    """`likeness` is from which on a name like another is put to the model before it becomes a node, 0 to 1."""

    async def run(session: AsyncSession, given: AddGraphNode) -> Json:
        understood: list[str] = []
        grounds = grounds_of(given.evidence)

        async def write(type_name: str) -> Added:
            return await nodes.add(
                session,
                scope,
                validators,
                type_name=type_name,
                name=given.name,
                properties=given.properties,
                grounds=grounds,
                aliases=given.aliases,
                distinct_from=given.distinct_from,
                likeness=likeness,
            )

        added = await with_known_type(write, given.type, understood)
        return with_understood({"nodeId": str(added.id), **added.told}, understood)

    return StateTool(
        "addGraphNode",
        "Adds a node, or to the one of this type that is known by this name. Refused unless every property rests on a "
        "quote that stands in a page. Of a property that several pages tell differently, the value that is true latest "
        "holds: the answer says what was `superseded` by yours, and where a newer one is `kept` instead of it. Where one "
        "of this type is called alike, you are asked whether it is the same thing before another is made.",
        AddGraphNode,
        run,
    )


def add_graph_edge(scope: Scope, validators: Validators) -> StateTool[AddGraphEdge]:
    async def run(session: AsyncSession, given: AddGraphEdge) -> Json:
        understood: list[str] = []
        source_id = await node_id(session, scope, given.source_id, "sourceId", understood)
        target_id = await node_id(session, scope, given.target_id, "targetId", understood)
        grounds = grounds_of(given.evidence)

        async def write(type_name: str) -> Added:
            return await edges.add(
                session,
                scope,
                validators,
                type_name=type_name,
                source_id=source_id,
                target_id=target_id,
                properties=given.properties,
                grounds=grounds,
            )

        added = await with_known_type(write, given.type, understood)
        return with_understood({"edgeId": str(added.id), **added.told}, understood)

    return StateTool(
        "addGraphEdge",
        "Connects two existing nodes by an existing edge type, or adds to the edge that does. Refused unless the edge "
        "itself and every property rests on a quote that stands in a page; values that differ are as in addGraphNode.",
        AddGraphEdge,
        run,
    )


class TieAnalysis(Arguments):
    type: str = Field(description='The name of an existing edge type, mostly "about".')
    source_id: NodeReference = Field(
        description="Id of the node that the edge starts from, or its name."
    )
    target_id: NodeReference = Field(
        description="Id of the node that the edge leads to, or its name."
    )
    properties: dict[str, Any] = Field(
        default_factory=dict, description="What the connection itself is like."
    )


def tie_analysis(scope: Scope, validators: Validators) -> StateTool[TieAnalysis]:
    async def run(session: AsyncSession, given: TieAnalysis) -> Json:
        understood: list[str] = []
        source_id = await node_id(session, scope, given.source_id, "sourceId", understood)
        target_id = await node_id(session, scope, given.target_id, "targetId", understood)
        edge_id, created = await edges.tie_analysis(
            session,
            scope,
            validators,
            type_name=given.type,
            source_id=source_id,
            target_id=target_id,
            properties=given.properties,
        )
        return with_understood({"edgeId": str(edge_id), "created": created}, understood)

    return StateTool(
        "addGraphEdge",
        "Connects an AgentAnalysis with an existing node by an existing edge type. Refused where neither end is an "
        "AgentAnalysis.",
        TieAnalysis,
        run,
    )
