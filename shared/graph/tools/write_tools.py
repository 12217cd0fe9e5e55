"""Tools that write facts: types, nodes and edges."""

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final, NamedTuple
from uuid import UUID

from pydantic import BeforeValidator, Field, model_validator
from pydantic.json_schema import SkipJsonSchema

from shared.database.transaction import Transaction
from shared.enums import Phase
from shared.graph import elements, types
from shared.graph.entity_resolution.relations import DUPLICATE_THRESHOLD
from shared.graph.prompt_format import quote_name
from shared.graph.provenance import claims
from shared.graph.provenance.evidence import (
    MAX_EVIDENCE,
    EvidenceInput,
)
from shared.graph.provenance.numbered_pages import NumberedPage
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.tools.references import (
    NodeReference,
    parse_moment,
    referenced_id,
    resolve_node_id,
    with_interpretations,
    written_names,
)
from shared.graph.types import UnknownTypeError
from shared.graph.upsert import UpsertResult
from shared.graph.validation import InvalidPropertiesError, Validators, one_line
from shared.tools import Arguments, Json, StateTool, ToolRefusalError


def _as_text(value: Any) -> Any:
    """Converts what is no text, so that it counts as no name and does not refuse the call."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    return value if value is None or isinstance(value, str) else str(value)


Speaker = Annotated[str | None, BeforeValidator(_as_text)]


class EvidenceArgument(Arguments):
    page: int | None = Field(None, description="2 of a sentence [2.3].")
    sentences: list[int] | None = Field(
        None, max_length=MAX_EVIDENCE, description="[3] of a sentence [2.3]."
    )
    source_url: SkipJsonSchema[str | None] = None
    """With `quote`, in place of page and sentences, for models that do not cite by number."""
    quote: SkipJsonSchema[str | None] = None
    properties: list[str] | None = Field(
        None, description="Properties that it supports. Default: those that no other entry names."
    )
    valid_from: str | None = Field(
        None,
        description="Since when it holds, if the page says so: YYYY, YYYY-MM or YYYY-MM-DD.",
    )
    valid_to: str | None = Field(None, description="Last day, month or year for which it holds.")
    speaker: Speaker = Field(None, description="Who says so, if its sentences name someone.")

    @model_validator(mode="before")
    @classmethod
    def _read_sentences(cls, entry: Any) -> Any:
        """Reads sentences that are written as in the document, such as "2.3" of page 2."""
        if not isinstance(entry, dict) or not isinstance(entry.get("sentences"), list):
            return entry
        page, numbers = entry.get("page"), list[Any]()
        for each in entry["sentences"]:
            if not isinstance(each, str) or each.strip().isdecimal():
                numbers.append(each)
                continue
            cited = _read_citation(each)
            page = cited.page if page is None else page
            if str(page) != str(cited.page):
                raise ValueError(f"sentences: {each[:40]!r} is not a sentence of page {page}")
            numbers += cited.numbers
        return {**entry, "page": page, "sentences": numbers}

    def url_of(self, pages: Sequence[NumberedPage]) -> str | None:
        """The address of the page; None if it is not known."""
        if self.page is not None and 1 <= self.page <= len(pages):
            return pages[self.page - 1].url
        return self.source_url


SENTENCES_FIELD: Final[Any] = Field(
    default_factory=list,
    max_length=MAX_EVIDENCE,
    description='Sentences that state all of it: "2.3", or "2.3-5" for several.',
)
EVIDENCE_FIELD: Final[Any] = Field(
    default_factory=list,
    max_length=MAX_EVIDENCE,
    description="In place of `sentences`, if properties rest on different ones, hold for a certain time or are someone's "
    "words.",
)
_CITED: Final = re.compile(r"\[?\s*(\d{1,4})\.(\d{1,4})(?:\s*[-–]\s*(?:\1\.)?(\d{1,4}))?\s*\]?")


class _Citation(NamedTuple):
    page: int
    numbers: list[int]


def _read_citation(text: str) -> _Citation:
    """Reads "2.3" or "2.3-5". Raises ValueError if `text` is not of that form, or too long a range."""
    if (match := _CITED.fullmatch(text.strip())) is None:
        raise ValueError(
            f'sentences: {text[:40]!r} is not a sentence. Write "2.3", as text, for sentence 3 of page 2.'
        )
    first, last = int(match[2]), int(match[3] or match[2])
    if not first <= last < first + MAX_EVIDENCE:
        raise ValueError(
            f"sentences: {text[:40]!r} is not a range of 1 to {MAX_EVIDENCE} sentences. Cite those that state it."
        )
    return _Citation(int(match[1]), list(range(first, last + 1)))


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
            parse_moment(
                claims.parse_period_start, entry.valid_from, f"evidence[{index}].validFrom"
            ),
            parse_moment(claims.parse_period_end, entry.valid_to, f"evidence[{index}].validTo"),
            start_byte,
            f"evidence[{index}]",
            entry.speaker or "",
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
                f"{where}: give the page and the numbers of its sentences: page 2 and sentences [3] for sentence [2.3]"
            )
        yield entry.source_url, entry.quote, None
        return
    if not 1 <= entry.page <= len(pages):
        known = f"they are 1 to {len(pages)}" if pages else "none was read"
        raise ToolRefusalError(f"{where}.page: there is no page {entry.page}; {known}")
    page = pages[entry.page - 1]
    for number in dict.fromkeys(entry.sentences):
        if (sentence := page.find(number)) is None:
            raise ToolRefusalError(
                f"{where}.sentences: page {entry.page} has no sentence {number}; they are 1 to {len(page.shown)}"
            )
        yield page.url, sentence.text, sentence.start_byte


Add = Callable[[str, Json, Sequence[EvidenceInput]], Awaitable[UpsertResult]]
"""Adds an element of a type, with its properties and evidence."""


async def _add_repaired(
    add: Add,
    arguments: "AddGraphNode | AddGraphEdge",
    id_key: str,
    interpretations: list[str],
    pages: Sequence[NumberedPage],
) -> Json:
    """The tool's answer, when `add` has succeeded with the arguments, or with what they can be interpreted as.

    If the type does not exist, a similarly spelled one is used. If values of properties violate its schema, a value that is
    wrapped in an object, as {"value": 3}, is unwrapped, and then what still violates it is left out. Every change is
    described in a sentence added to `interpretations`. Raises the first ToolRefusalError if that is refused too, or if no
    property of a node remains.
    """
    type_name, properties = arguments.type, arguments.properties
    evidence = _evidence_inputs(arguments.all_evidence, pages)
    named = dict.fromkeys(name for entry in evidence for name in entry.properties or ())
    interpretations += [
        f"evidence: {name[:80]} is not in properties." for name in named if name not in properties
    ]
    repairs = iter((_unwrap_values, _leave_out))
    refusal: InvalidPropertiesError | None = None
    result: UpsertResult | None = None
    while result is None:
        try:
            result = await add(type_name, properties, evidence)
        except UnknownTypeError as error:
            if error.suggestion is None or type_name != arguments.type:
                raise
            type_name = error.suggestion
        except InvalidPropertiesError as error:
            refusal = refusal or error
            if not error.by_name or (repair := next(repairs, None)) is None:
                raise refusal from None
            properties = repair(properties, error.by_name, interpretations)
            # An edge says something by itself.
            if not properties and isinstance(arguments, AddGraphNode):
                raise refusal from None
    if type_name != arguments.type:
        given = quote_name(arguments.type[:80])
        interpretations.append(f"type: {given} was read as {type_name}.")
    answer = {id_key: str(result.id), **result.tool_answer}
    return with_interpretations(answer, interpretations)


def _unwrap_values(properties: Json, invalid: Mapping[str, str], notes: list[str]) -> Json:
    unwrapped = {
        name: value["value"]
        for name in invalid
        if isinstance(value := properties.get(name), dict) and "value" in value
    }
    notes += [f"properties.{name}: its inner value was taken." for name in unwrapped]
    return properties | unwrapped


def _leave_out(properties: Json, invalid: Mapping[str, str], notes: list[str]) -> Json:
    notes += [
        f"properties.{fault}; it was left out. To add it, call again with a value that fits."
        for fault in invalid.values()
    ]
    return {name: value for name, value in properties.items() if name not in invalid}


def _all_evidence(
    sentences: Sequence[str], evidence: Sequence[EvidenceArgument], speaker: str | None
) -> list[EvidenceArgument]:
    """`evidence`, and an entry for each of "2.3" or "2.3-5". The `speaker` is that of all that name none.

    Raises ToolRefusalError if one is not of that form or too long, or if there is none.
    """
    try:
        cited = [_read_citation(text) for text in dict.fromkeys(sentences)]
    except ValueError as error:
        raise ToolRefusalError(str(error)) from error
    entries = [EvidenceArgument(page=each.page, sentences=each.numbers) for each in cited]
    if not entries and not evidence:
        raise ToolRefusalError('sentences: cite those that state it, such as ["2.3"]')
    return [
        each if each.speaker else each.model_copy(update={"speaker": speaker})
        for each in (*entries, *evidence)
    ]


_TYPE_CREATOR = Phase.GRAPH_CONSTRUCTION
"""The only phase that may create types."""
_JUSTIFICATION = "Why no existing type fits."


class CreateNodeType(Arguments):
    name: str = Field(description='Singular noun in PascalCase: "TradeDeal".')
    description: str = Field(description="What its nodes are, in one sentence.")
    properties_schema: dict[str, Any] = Field(
        description="JSON Schema of the properties, an object with `summary`. Units in the names of figures. No sources "
        "and dates of publication. No $ref, no pattern."
    )
    example_properties: dict[str, Any] = Field(
        description="Properties of one node. They satisfy propertiesSchema."
    )
    justification: str = Field(description=_JUSTIFICATION)


class CreateEdgeType(Arguments):
    name: str = Field(description='Verb in snake_case, read from source to target: "borders".')
    description: str = Field(description="What it says of its two nodes, in one sentence.")
    source_types: list[str] = Field(
        default_factory=list, description="Node types it may start from. Default: any."
    )
    target_types: list[str] = Field(
        default_factory=list, description="Node types it may lead to. Default: any."
    )
    justification: str = Field(description=_JUSTIFICATION)
    properties_schema: dict[str, Any] | None = Field(
        None, description="JSON Schema of its properties. Default: any."
    )
    example_properties: dict[str, Any] | None = Field(
        None, description="Properties of one edge, with propertiesSchema."
    )


class AddGraphNode(Arguments):
    type: str = Field(description="Existing node type.")
    name: str = Field(description="Full name, or a label. The same type and name is the same node.")
    properties: dict[str, Any] = Field(
        description="`summary`, one sentence, and what the type's schema has. Others may be added."
    )
    sentences: list[str] = SENTENCES_FIELD
    evidence: list[EvidenceArgument] = EVIDENCE_FIELD
    speaker: SkipJsonSchema[Speaker] = None
    """The speaker of all evidence, for models that do not give it there."""
    aliases: list[str] = Field(
        default_factory=list, description="Other names of it: ticker, initials, former name."
    )
    distinct_from: list[str] = Field(
        default_factory=list,
        description="Ids of other things with similar names. Like sameAs and qualifier, only after this tool has asked.",
    )
    same_as: str | None = Field(None, description="Id of the node that it is.")
    qualifier: str | None = Field(
        None,
        description='What tells it apart from another of its name: "footballer", "Illinois".',
    )

    def distinct_ids(self, short_ids: ShortIds | None) -> list[UUID]:
        """The ids in `distinct_from`. Raises ToolRefusalError if one is none."""
        return [_find_id(each, "distinctFrom", short_ids) for each in self.distinct_from]

    def same_id(self, short_ids: ShortIds | None) -> UUID | None:
        """The id in `same_as`. Raises ToolRefusalError if it is none."""
        return _find_id(self.same_as, "sameAs", short_ids) if self.same_as else None

    @property
    def all_evidence(self) -> list[EvidenceArgument]:
        """What `sentences` and `evidence` cite. Raises ToolRefusalError if that is nothing."""
        return _all_evidence(self.sentences, self.evidence, self.speaker)


def _find_id(reference: str, argument: str, short_ids: ShortIds | None) -> UUID:
    found = referenced_id(reference) or (short_ids and short_ids.find(reference))
    if not found:
        raise ToolRefusalError(
            f"{argument}: {reference[:40]!r} is not an id that this tool returned"
        )
    return found


class _EdgeArguments(Arguments):
    type: str = Field(description="Existing edge type.")
    source_id: NodeReference = Field(description="Node it starts from: id or name.")
    target_id: NodeReference = Field(description="Node it leads to: id or name.")

    async def resolve_ends(
        self, transaction: Transaction, scope: GraphScope, interpretations: list[str]
    ) -> list[UUID]:
        """The ids of source and target; see `resolve_node_id`."""
        ends = (("sourceId", self.source_id), ("targetId", self.target_id))
        return [
            await resolve_node_id(transaction, scope, reference, argument, interpretations)
            for argument, reference in ends
        ]


class AddGraphEdge(_EdgeArguments):
    properties: dict[str, Any] = Field(
        default_factory=dict, description="Facts about the relation itself."
    )
    sentences: list[str] = SENTENCES_FIELD
    evidence: list[EvidenceArgument] = EVIDENCE_FIELD
    speaker: SkipJsonSchema[Speaker] = None
    """See `AddGraphNode`."""

    @property
    def all_evidence(self) -> list[EvidenceArgument]:
        """See `AddGraphNode.all_evidence`."""
        return _all_evidence(self.sentences, self.evidence, self.speaker)


class LinkAnalysis(_EdgeArguments):
    type: str = Field(description='Existing edge type, mostly "about".')
    properties: SkipJsonSchema[dict[str, Any]] = Field(default_factory=dict)
    """Left out: no page would support them."""


def create_node_type(scope: GraphScope, validators: Validators) -> StateTool[CreateNodeType]:
    async def run(transaction: Transaction, arguments: CreateNodeType) -> Json:
        node_type, created = await types.create_node_type(
            transaction,
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
        "Creates a node type, or returns the one of that name unchanged.",
        CreateNodeType,
        run,
    )


def create_edge_type(scope: GraphScope, validators: Validators) -> StateTool[CreateEdgeType]:
    async def run(transaction: Transaction, arguments: CreateEdgeType) -> Json:
        types.refuse_bad_edge_properties(
            validators, arguments.name, arguments.properties_schema, arguments.example_properties
        )
        edge_type, created = await types.create_edge_type(
            transaction,
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
        "Creates an edge type, or returns the one of that name unchanged.",
        CreateEdgeType,
        run,
    )


def add_graph_node(
    scope: GraphScope,
    validators: Validators,
    duplicate_threshold: float = DUPLICATE_THRESHOLD,
    pages: Sequence[NumberedPage] = (),
    short_ids: ShortIds | None = None,
) -> StateTool[AddGraphNode]:
    """A node that is at least `duplicate_threshold` similar to another, 0 to 1, must be decided about by the model first.

    Evidence can cite sentences of `pages` by number.
    """

    async def run(transaction: Transaction, arguments: AddGraphNode) -> Json:
        async def add(
            type_name: str, properties: Json, evidence: Sequence[EvidenceInput]
        ) -> UpsertResult:
            return await elements.add_node(
                transaction,
                scope,
                validators,
                type_name=type_name,
                name=arguments.name,
                properties=properties,
                evidence=evidence,
                aliases=arguments.aliases,
                distinct_from=arguments.distinct_ids(short_ids),
                duplicate_threshold=duplicate_threshold,
                same_as=arguments.same_id(short_ids),
                qualifier=arguments.qualifier or "",
            )

        written, name = written_names(transaction), one_line(arguments.name)
        written.setdefault(name, None)
        answer = await _add_repaired(add, arguments, "nodeId", [], pages)
        written[name] = UUID(answer["nodeId"])
        return answer

    return StateTool(
        "addGraphNode",
        "Adds a node, or adds properties to the node of this type and name. The result says which values were `leftOut`, "
        "`superseded`, or `kept` because they are newer.",
        AddGraphNode,
        run,
    )


def add_graph_edge(
    scope: GraphScope, validators: Validators, pages: Sequence[NumberedPage] = ()
) -> StateTool[AddGraphEdge]:
    """See `add_graph_node`."""

    async def run(transaction: Transaction, arguments: AddGraphEdge) -> Json:
        interpretations: list[str] = []
        source_id, target_id = await arguments.resolve_ends(transaction, scope, interpretations)

        async def add(
            type_name: str, properties: Json, evidence: Sequence[EvidenceInput]
        ) -> UpsertResult:
            return await elements.add_edge(
                transaction,
                scope,
                validators,
                type_name=type_name,
                source_id=source_id,
                target_id=target_id,
                properties=properties,
                evidence=evidence,
            )

        return await _add_repaired(add, arguments, "edgeId", interpretations, pages)

    return StateTool(
        "addGraphEdge",
        "Connects two nodes. Refused unless the cited sentences name both.",
        AddGraphEdge,
        run,
    )


def link_analysis(scope: GraphScope, validators: Validators) -> StateTool[LinkAnalysis]:
    async def run(transaction: Transaction, arguments: LinkAnalysis) -> Json:
        interpretations: list[str] = []
        source_id, target_id = await arguments.resolve_ends(transaction, scope, interpretations)
        edge_id, created = await elements.link_analysis(
            transaction,
            scope,
            validators,
            type_name=arguments.type,
            source_id=source_id,
            target_id=target_id,
        )
        answer: Json = {"edgeId": str(edge_id), "created": created}
        if arguments.properties:
            answer["leftOut"] = dict.fromkeys(
                arguments.properties, "an edge of an analysis has none"
            )
        return with_interpretations(answer, interpretations)

    return StateTool(
        "addGraphEdge",
        "Connects an analysis with a node that it is about.",
        LinkAnalysis,
        run,
    )
