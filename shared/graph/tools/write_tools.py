"""Tools that write facts: types, nodes and edges."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

from pydantic import Field

from shared.database.statements import InTransaction
from shared.enums import Phase
from shared.graph import edges, nodes, types
from shared.graph.entity_resolution.candidates import DUPLICATE_THRESHOLD
from shared.graph.provenance import claims
from shared.graph.provenance.evidence import (
    MAX_EVIDENCE,
    MAX_QUOTE_CHARS,
    MIN_QUOTE_CHARS,
    EvidenceInput,
)
from shared.graph.provenance.numbered_pages import NumberedPage
from shared.graph.scope import GraphScope
from shared.graph.tools.references import (
    NodeReference,
    resolve_node_id,
    with_interpretations,
    write_with_known_type,
)
from shared.graph.upsert import UpsertResult
from shared.graph.validation import InvalidPropertiesError, Validators
from shared.tools import Arguments, Json, StateTool, ToolRefusalError

_DATE: Final = "YYYY, YYYY-MM, YYYY-MM-DD or a full ISO 8601 time"


class EvidenceArgument(Arguments):
    page: int | None = Field(None, description="Number of the page: 2 of a sentence [2.3].")
    sentences: list[int] | None = Field(
        None,
        max_length=MAX_EVIDENCE,
        description="Numbers of the sentences of that page that say it: 3 of a sentence [2.3].",
    )
    source_url: str | None = Field(
        None, description="Only for a sentence without a number: exact address of its page."
    )
    quote: str | None = Field(
        None,
        description="Only for a sentence without a number: what the page says, word for word; "
        f"{MIN_QUOTE_CHARS} to {MAX_QUOTE_CHARS} characters.",
    )
    properties: list[str] | None = Field(
        None,
        description="Names of the properties that this quote supports; without it, all that no other entry names.",
    )
    valid_from: str | None = Field(
        None,
        description=f"From when on that is true, where the page says: {_DATE}. A newer value supersedes an older one.",
    )
    valid_to: str | None = Field(
        None, description="Until when, that year, month or day included, where the page says."
    )

    def url_of(self, pages: Sequence[NumberedPage]) -> str | None:
        """The address of the page; None if it is not known."""
        if self.page is not None and 1 <= self.page <= len(pages):
            return pages[self.page - 1].url
        return self.source_url


EVIDENCE_FIELD: Final[Any] = Field(
    min_length=1,
    max_length=MAX_EVIDENCE,
    description="The sentences that say it. Every property must be supported by an entry.",
)


def _evidence_inputs(
    evidence: Sequence[EvidenceArgument], pages: Sequence[NumberedPage]
) -> list[EvidenceInput]:
    """Convert the arguments. Raises ToolRefusalError if a date cannot be parsed, or there is no such sentence."""
    return [
        EvidenceInput(
            url,
            quote,
            # Small models write an empty list where they mean all properties.
            tuple(dict.fromkeys(entry.properties)) if entry.properties else None,
            _parse_moment(
                claims.parse_period_start, entry.valid_from, f"evidence[{index}].validFrom"
            ),
            _parse_moment(claims.parse_period_end, entry.valid_to, f"evidence[{index}].validTo"),
            start_byte,
            f"evidence[{index}]",
        )
        for index, entry in enumerate(evidence)
        for url, quote, start_byte in _quotes(entry, pages, f"evidence[{index}]")
    ]


def _quotes(
    entry: EvidenceArgument, pages: Sequence[NumberedPage], where: str
) -> Iterator[tuple[str, str, int | None]]:
    """Address, words and position of what an entry quotes."""
    if entry.page is None or not entry.sentences:
        if entry.source_url is None or entry.quote is None:
            raise ToolRefusalError(
                f"{where}: give the page and the numbers of its sentences: page 2 and sentences [3] of a sentence [2.3]"
            )
        yield entry.source_url, entry.quote, None
        return
    if not 1 <= entry.page <= len(pages):
        known = f"they are 1 to {len(pages)}" if pages else "none was read"
        raise ToolRefusalError(f"{where}.page: there is no page {entry.page}; {known}")
    page = pages[entry.page - 1]
    for number in dict.fromkeys(entry.sentences):
        if (sentence := page.sentence(number)) is None:
            raise ToolRefusalError(
                f"{where}.sentences: page {entry.page} has no sentence {number}; they are 1 to {len(page.sentences)}"
            )
        yield page.url, sentence, page.spans[number - 1].start_byte


def _parse_moment(
    parse: Callable[[str], datetime], text: str | None, field: str
) -> datetime | None:
    if text is None:
        return None
    try:
        return parse(text)
    except (ValueError, OverflowError) as error:
        raise ToolRefusalError(
            f"{field}: {text[:40]!r} is no date; write {_DATE}, or leave it out."
        ) from error


Write = Callable[[str, Json, Sequence[EvidenceInput]], Awaitable[UpsertResult]]
"""Writes an element of a type, with its properties and evidence."""


async def _write_repaired(
    write: Write,
    arguments: "AddGraphNode | AddGraphEdge",
    id_key: str,
    interpretations: list[str],
    pages: Sequence[NumberedPage],
) -> Json:
    """The tool's answer, when `write` has succeeded with the arguments, or with what they can be interpreted as."""
    evidence = _evidence_inputs(arguments.evidence, pages)

    async def write_valid(type_name: str) -> UpsertResult:
        return await _write_valid_properties(
            partial(write, type_name), arguments.properties, evidence, interpretations
        )

    result = await write_with_known_type(write_valid, arguments.type, interpretations)
    answer = {id_key: str(result.id), **result.tool_answer}
    return with_interpretations(answer, interpretations)


async def _write_valid_properties(
    write: Callable[[Json, Sequence[EvidenceInput]], Awaitable[UpsertResult]],
    properties: Json,
    evidence: Sequence[EvidenceInput],
    interpretations: list[str],
) -> UpsertResult:
    """Calls `write`, and again without the properties whose values violate the type's schema.

    A value that is wrapped in an object, as {"value": 3}, is unwrapped first. Every change is described in a sentence
    added to `interpretations`. Raises the first ToolRefusalError if nothing remains, or if that is refused too.
    """
    refusal: InvalidPropertiesError | None = None
    notes: list[str] = []
    for repair in (_unwrap_values, _leave_out, None):
        try:
            result = await write(properties, evidence)
        except InvalidPropertiesError as error:
            refusal = refusal or error
            if repair is None or not error.by_name:
                raise refusal from None
            properties, evidence = repair(properties, evidence, error.by_name, notes)
            if not properties:
                raise refusal from None
            continue
        interpretations += notes
        return result
    raise AssertionError("the last round returns or raises")


def _unwrap_values(
    properties: Json,
    evidence: Sequence[EvidenceInput],
    invalid: Mapping[str, str],
    notes: list[str],
) -> tuple[Json, Sequence[EvidenceInput]]:
    unwrapped = {
        name: value["value"]
        for name in invalid
        if isinstance(value := properties.get(name), dict) and "value" in value
    }
    notes += [f"properties.{name}: its inner value was taken." for name in unwrapped]
    return properties | unwrapped, evidence


def _leave_out(
    properties: Json,
    evidence: Sequence[EvidenceInput],
    invalid: Mapping[str, str],
    notes: list[str],
) -> tuple[Json, Sequence[EvidenceInput]]:
    notes += [
        f"properties.{fault}; it was left out. To add it, call again with a value that fits."
        for fault in invalid.values()
    ]
    remaining = {name: value for name, value in properties.items() if name not in invalid}
    return remaining, [entry.without(invalid) for entry in evidence]


_TYPE_CREATOR = Phase.GRAPH_CONSTRUCTION
"""The only phase that may create types."""
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
    evidence: list[EvidenceArgument] = EVIDENCE_FIELD
    aliases: list[str] = Field(
        default_factory=list,
        description="What else the thing itself is called: its ticker, its initials, an earlier name. Nothing that "
        "another thing is called too.",
    )
    distinct_from: list[UUID] = Field(
        default_factory=list,
        description="Only after this tool has asked: ids of nodes that are called alike and are another thing.",
    )


class _EdgeArguments(Arguments):
    type: str = Field(description="The name of an existing edge type.")
    source_id: NodeReference = Field(
        description="Id of the node that the edge starts from, or its name."
    )
    target_id: NodeReference = Field(
        description="Id of the node that the edge leads to, or its name."
    )

    async def resolve_ends(
        self, session: InTransaction, scope: GraphScope, interpretations: list[str]
    ) -> list[UUID]:
        """The ids of source and target; see `resolve_node_id`."""
        ends = (("sourceId", self.source_id), ("targetId", self.target_id))
        return [
            await resolve_node_id(session, scope, reference, argument, interpretations)
            for argument, reference in ends
        ]


class AddGraphEdge(_EdgeArguments):
    properties: dict[str, Any] = Field(
        default_factory=dict, description="Facts about the connection itself."
    )
    evidence: list[EvidenceArgument] = EVIDENCE_FIELD


class LinkAnalysis(_EdgeArguments):
    type: str = Field(description='The name of an existing edge type, mostly "about".')
    properties: dict[str, Any] = Field(
        default_factory=dict, description="What the connection itself is like."
    )


def create_node_type(scope: GraphScope, validators: Validators) -> StateTool[CreateNodeType]:
    async def run(session: InTransaction, arguments: CreateNodeType) -> Json:
        node_type, created = await types.create_node_type(
            session,
            scope,
            validators,
            name=arguments.name,
            description=arguments.description,
            properties_schema=arguments.properties_schema,
            example_properties=arguments.example_properties,
            created_by=_TYPE_CREATOR,
            justification=arguments.justification,
        )
        answer: Json = {"name": node_type.name, "created": created}
        return answer if created else answer | {"propertiesSchema": node_type.properties_schema}

    return StateTool(
        "createNodeType",
        "Makes a type of node, when no existing one fits. A type that exists already, in capitals or small letters, "
        "singular or plural, stays as it is: you are given its name and schema, and use it.",
        CreateNodeType,
        run,
        needs_savepoint=False,
    )


def create_edge_type(scope: GraphScope, validators: Validators) -> StateTool[CreateEdgeType]:
    async def run(session: InTransaction, arguments: CreateEdgeType) -> Json:
        types.refuse_bad_edge_properties(
            validators, arguments.name, arguments.properties_schema, arguments.example_properties
        )
        edge_type, created = await types.create_edge_type(
            session,
            scope,
            name=arguments.name,
            description=arguments.description,
            source_types=arguments.source_types,
            target_types=arguments.target_types,
            created_by=_TYPE_CREATOR,
            properties_schema=arguments.properties_schema,
            example_properties=arguments.example_properties,
            justification=arguments.justification,
        )
        answer: Json = {"name": edge_type.name, "created": created}
        if created:
            return answer
        return answer | {
            "sourceTypes": list(edge_type.source_types),
            "targetTypes": list(edge_type.target_types),
            "propertiesSchema": edge_type.properties_schema,
        }

    return StateTool(
        "createEdgeType",
        "Makes a type of edge, when no existing one fits. A type that exists already stays as it is, also where its "
        "name differs in underscores or a plural only: you are given its name and the node types it joins, and use it.",
        CreateEdgeType,
        run,
        needs_savepoint=False,
    )


def add_graph_node(
    scope: GraphScope,
    validators: Validators,
    duplicate_threshold: float = DUPLICATE_THRESHOLD,
    pages: Sequence[NumberedPage] = (),
) -> StateTool[AddGraphNode]:
    """A node that is at least `duplicate_threshold` similar to another, 0 to 1, must be decided about by the model first.

    Evidence can cite sentences of `pages` by number.
    """

    async def run(session: InTransaction, arguments: AddGraphNode) -> Json:
        async def add(
            type_name: str, properties: Json, evidence: Sequence[EvidenceInput]
        ) -> UpsertResult:
            return await nodes.add_node(
                session,
                scope,
                validators,
                type_name=type_name,
                name=arguments.name,
                properties=properties,
                evidence=evidence,
                aliases=arguments.aliases,
                distinct_from=arguments.distinct_from,
                duplicate_threshold=duplicate_threshold,
            )

        return await _write_repaired(add, arguments, "nodeId", [], pages)

    return StateTool(
        "addGraphNode",
        "Adds a node, or adds to the one of this type with this name. Refused unless the cited sentences support each "
        "property. If pages give different values for a property, the one that is true latest holds: the answer says what "
        "was `superseded` by yours, and where a newer one is `kept` instead. If another node of this type has a similar "
        "name, you are asked whether it is the same thing.",
        AddGraphNode,
        run,
        needs_savepoint=False,
    )


def add_graph_edge(
    scope: GraphScope, validators: Validators, pages: Sequence[NumberedPage] = ()
) -> StateTool[AddGraphEdge]:
    """See `add_graph_node`."""

    async def run(session: InTransaction, arguments: AddGraphEdge) -> Json:
        interpretations: list[str] = []
        source_id, target_id = await arguments.resolve_ends(session, scope, interpretations)

        async def add(
            type_name: str, properties: Json, evidence: Sequence[EvidenceInput]
        ) -> UpsertResult:
            return await edges.add_edge(
                session,
                scope,
                validators,
                type_name=type_name,
                source_id=source_id,
                target_id=target_id,
                properties=properties,
                evidence=evidence,
            )

        return await _write_repaired(add, arguments, "edgeId", interpretations, pages)

    return StateTool(
        "addGraphEdge",
        "Connects two existing nodes by an existing edge type, or adds to the edge that does. Refused unless the cited "
        "sentences support the edge and each property; for different values see addGraphNode.",
        AddGraphEdge,
        run,
        needs_savepoint=False,
    )


def link_analysis(scope: GraphScope, validators: Validators) -> StateTool[LinkAnalysis]:
    async def run(session: InTransaction, arguments: LinkAnalysis) -> Json:
        interpretations: list[str] = []
        source_id, target_id = await arguments.resolve_ends(session, scope, interpretations)
        edge_id, created = await edges.link_analysis(
            session,
            scope,
            validators,
            type_name=arguments.type,
            source_id=source_id,
            target_id=target_id,
            properties=arguments.properties,
        )
        return with_interpretations({"edgeId": str(edge_id), "created": created}, interpretations)

    return StateTool(
        "addGraphEdge",
        "Connects an AgentAnalysis with an existing node by an existing edge type. Refused where neither end is an "
        "AgentAnalysis.",
        LinkAnalysis,
        run,
        needs_savepoint=False,
    )
