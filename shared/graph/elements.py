"""Nodes and edges: resolve their names, verify their evidence, and upsert them."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from shared.database import ids
from shared.database.statements import BoundQuery, CompiledStatement, json_text, uuid_array
from shared.database.transaction import Transaction
from shared.enums import ANALYSIS_TYPE
from shared.graph import types, upsert
from shared.graph.entity_resolution import normalization, redirects
from shared.graph.entity_resolution.aliases import (
    End,
    NameRequest,
    ground,
    refuse_other_identity,
    resolve_name,
    unquoted_aliases,
)
from shared.graph.entity_resolution.relations import DUPLICATE_THRESHOLD, similarity
from shared.graph.grounding.passages import WrittenNode
from shared.graph.projection import EDGES, NODES
from shared.graph.provenance import evidence as evidence_rules
from shared.graph.provenance.claims import PropertyChange
from shared.graph.provenance.evidence import EvidenceInput, GroundedQuotes, VerifiedQuote
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.types import RESERVED_TYPES, EdgeRules
from shared.graph.upsert import EdgeKey, Element, UpsertResult, upsert_element
from shared.graph.validation import (
    InvalidPropertiesError,
    Validators,
    normalize_name,
    refuse_unstorable,
)
from shared.tools import Json, LeftOutError, ToolRefusalError

_NOT_QUOTED: Final = "it is not in the cited sentences"
_EXISTING: Final = CompiledStatement(
    f"select id from graph_nodes where {IS_OWNED_SQL} and id = any(cast(:ids as uuid[]))"
)


def existing_ids(scope: GraphScope, node_ids: Iterable[UUID]) -> BoundQuery[set[UUID]]:
    """Those of the ids that belong to a node of the agent."""
    params = {**scope.sql_params, "ids": uuid_array(node_ids)}
    return BoundQuery(_EXISTING, params, lambda rows: {row.id for row in rows})


async def add_node(
    transaction: Transaction,
    scope: GraphScope,
    validators: Validators,
    *,
    type_name: str,
    name: str,
    properties: Json,
    evidence: Sequence[EvidenceInput],
    aliases: Sequence[str] = (),
    distinct_from: Collection[UUID] = (),
    duplicate_threshold: float | None = None,
    same_as: UUID | None = None,
    qualifier: str = "",
) -> UpsertResult:
    """Create or update the node, and write the evidence that supports it.

    What is new is inserted later; see `upsert.Element.insert`. A node of this type that is known by this
    name, in whatever spelling, is updated and keeps its name. For each property the value with the latest `as_of` wins,
    whatever the order of writing. Raises ToolRefusalError, and writes nothing, if a quote cannot be verified, the
    resulting properties violate the type's schema, or it is uncertain which node this is: if a name is similar, or a fact
    contradicts what identifies the node. For `aliases` and what follows, see `entity_resolution.aliases.NameRequest`.
    """
    if type_name in RESERVED_TYPES:
        raise ToolRefusalError(
            f"{type_name} nodes are conclusions and cannot be added here; choose a type for facts."
        )
    name = normalize_name(name)
    refuse_unstorable(properties, "properties")
    quotes, schema = await _verify_evidence(transaction, scope, type_name, properties, evidence)
    request = NameRequest(
        type_name,
        name,
        aliases,
        distinct_from,
        duplicate_threshold,
        same_as,
        normalize_name(qualifier, "qualifier") if qualifier else "",
        properties,
        schema,
    )
    resolution = await resolve_name(transaction, scope, request)
    resolved = resolution.node
    if resolved.type_name != type_name:
        schema = await types.get_node_schema(transaction, scope, resolved.type_name)
    spellings = _spellings(aliases, resolved.name, type_name)
    names = [name, *with_base(resolved.name)]
    grounded = await ground(
        transaction,
        scope,
        quotes,
        [
            End(
                resolved.node_id,
                resolved.type_name,
                WrittenNode(
                    [*names, *spellings],
                    types.has_labels(resolved.type_name, schema),
                    resolved.is_there,
                ),
            )
        ],
        schema,
    )
    quotes = grounded.quotes
    new_names = {row["name"] for row in resolution.missing_rows}
    new_aliases = [alias for alias in aliases if alias in new_names and alias not in spellings]
    unquoted = unquoted_aliases(quotes, new_aliases, names)
    new_rows = [row for row in resolution.missing_rows if row["name"] not in unquoted]
    identity = {"type": resolved.type_name, "name": resolved.name}
    node = Element(NODES, scope, resolved.node_id, identity, new_rows)
    check = partial(_check, validators, schema, resolved.type_name, grounded)
    is_asked = duplicate_threshold is not None and same_as is None
    result = await upsert_element(
        transaction,
        node,
        quotes,
        check,
        is_there=resolved.is_there,
        review=partial(refuse_other_identity, request, resolved, quotes) if is_asked else None,
    )
    left_out = {**grounded.left_out, **{f"alias {each}": _NOT_QUOTED for each in unquoted}}
    return replace(result, left_out=left_out, completed=grounded.completed)


def _check(
    validators: Validators, schema: Json, type_name: str, grounded: GroundedQuotes, properties: Json
) -> None:
    """Raises ToolRefusalError if the properties violate the schema: with the reason if one is missing that was left out."""
    try:
        validators.check(schema, properties, type_name)
    except InvalidPropertiesError as error:
        missing = [
            f"properties.{name} is required: {reason}"
            for name, reason in grounded.left_out.items()
            if name in schema.get("required", ()) and name not in properties
        ]
        if missing:
            raise ToolRefusalError("\n".join(missing)) from error
        raise


def with_base(name: str) -> list[str]:
    """A node's name, and the name without what tells it apart from others, which pages do not have."""
    base, qualifier = normalization.split_qualifier(name)
    return [name, base] if qualifier else [name]


def _spellings(aliases: Sequence[str], name: str, type_name: str) -> list[str]:
    """Those of the aliases that are other spellings of the name. A page may use any other name only once it is known."""
    key = normalization.normalize(name, type_name).key
    return [
        alias
        for alias in aliases
        if similarity(
            *(
                normalization.fold_key(each)
                for each in (
                    normalization.normalize(normalize_name(alias, "aliases"), type_name).key,
                    key,
                )
            )
        )
        >= DUPLICATE_THRESHOLD
    ]


async def _verify_evidence(
    transaction: Transaction,
    scope: GraphScope,
    type_name: str,
    properties: Json,
    evidence: Sequence[EvidenceInput],
) -> tuple[list[VerifiedQuote], Json]:
    """The verified quotes and the type's schema. Takes the shared write lock, unless the calls' batch has taken it."""
    try:
        quotes = await evidence_rules.verify_quotes(transaction, scope, properties, evidence)
    except ToolRefusalError:
        # An unknown type is reported before bad evidence.
        await types.get_node_schema(transaction, scope, type_name)
        raise
    return quotes, await types.get_node_schema(transaction, scope, type_name)


def new_columns(
    scope: GraphScope, *, type_name: str, name: str, properties: Json, rules: Json
) -> Json:
    """The columns of a new conclusion, sealed. `name` must be normalized; `rules` are those that accepted it."""
    node_id = ids.node_id(scope.agent_id, type_name, name)
    node = Element(NODES, scope, node_id, {"type": type_name, "name": name}, rules=rules)
    return node.columns(PropertyChange(properties))


_RELINK: Final = CompiledStatement(
    "update graph_edges set seal = :seal, unsupported_since = null,"
    f" updated_at = clock_timestamp() where {IS_OWNED_SQL} and id = :id"
)
# A node that is found was not merged into another one. The edge is read in the order of the unique index: a search for equal
# columns could use several indexes, and PostgreSQL may choose one that lists all edges of a node. The limit keeps it from
# reading all nodes of the agent.
_LOOK_UP_ENDS: Final = CompiledStatement(f"""
    select given.place, node.id, node.type, node.name, edge.id is not null as are_joined
    from jsonb_to_recordset(cast(:edges as jsonb))
      as given (place int, type text, source_id uuid, target_id uuid)
    left join lateral (
        select id, agent_id, type, source_id, target_id from graph_edges
        where (agent_id, type, source_id, target_id)
          >= ({OWNED_AGENT_ID_SQL}, given.type, given.source_id, given.target_id)
        order by agent_id, type, source_id, target_id limit 1
    ) as edge on (edge.agent_id, edge.type, edge.source_id, edge.target_id)
      = ({OWNED_AGENT_ID_SQL}, given.type, given.source_id, given.target_id)
    cross join lateral (
        select id, type, name from graph_nodes
        where {IS_OWNED_SQL} and id = any(array[given.source_id, given.target_id]) limit 2
    ) as node
    """)


async def add_edge(
    transaction: Transaction,
    scope: GraphScope,
    validators: Validators,
    *,
    type_name: str,
    source_id: UUID,
    target_id: UUID,
    properties: Json,
    evidence: Sequence[EvidenceInput],
) -> UpsertResult:
    """Create or update the edge, and write the evidence that supports it; see `add_node`.

    Raises ToolRefusalError unless both ends are different nodes of this agent, of types that the edge type allows,
    and neither is a conclusion.
    """
    refuse_unstorable(properties, "properties")
    try:
        quotes = await evidence_rules.verify_quotes(transaction, scope, properties, evidence)
    except ToolRefusalError:
        # A wrong type or wrong ends are reported before bad evidence.
        await _resolve_fact_ends(transaction, scope, type_name, source_id, target_id)
        raise
    rules, ends = await _resolve_fact_ends(transaction, scope, type_name, source_id, target_id)
    nodes = zip((ends.source_id, ends.target_id), ends.types, ends.names, strict=True)
    grounded = await ground(
        transaction,
        scope,
        quotes,
        [
            End(node_id, each, WrittenNode(with_base(name), types.has_labels(each)))
            for node_id, each, name in nodes
        ],
        rules.schema,
    )
    edge = _element(scope, type_name, ends)
    check = partial(_check, validators, rules.schema, type_name, grounded)
    result = await upsert_element(
        transaction, edge, grounded.quotes, check, is_there=ends.are_joined
    )
    return replace(result, left_out=grounded.left_out, completed=grounded.completed)


async def link_analysis(
    transaction: Transaction,
    scope: GraphScope,
    validators: Validators,
    *,
    type_name: str,
    source_id: UUID,
    target_id: UUID,
) -> tuple[UUID, bool]:
    """Create an edge that starts or ends at an AgentAnalysis, if there is none; returns its id and whether it is new.

    Such an edge has no evidence, so it has no properties: nothing would support them.
    """
    rules = await types.get_edge_rules(transaction, scope, type_name)
    ends = await _resolve_ends(transaction, scope, rules, source_id, target_id)
    if ANALYSIS_TYPE not in ends.types:
        raise ToolRefusalError(
            f"Neither end is an {ANALYSIS_TYPE}: only edges of analyses can be added here; facts are connected where "
            "pages are read. Add the analysis first and use its id."
        )
    edge = _element(scope, type_name, ends)
    locked = await edge.lock_row(transaction) if ends.are_joined else None
    if locked is None:
        validators.check(rules.schema, {}, type_name)
        await edge.insert(transaction, PropertyChange({}), ())
        return edge.id, True
    # What rested on a retracted page is linked again.
    change = PropertyChange(locked.properties)
    sealed = locked.as_sealed(change)
    await _RELINK.run(transaction, sealed.columns(change))
    return sealed.id, False


async def _resolve_fact_ends(
    transaction: Transaction, scope: GraphScope, type_name: str, source_id: UUID, target_id: UUID
) -> "tuple[EdgeRules, _Ends]":
    """The type's rules and both ends, which must be facts. Also takes the shared write lock."""
    rules = await types.get_edge_rules(transaction, scope, type_name)
    ends = await _resolve_ends(transaction, scope, rules, source_id, target_id)
    if conclusions := RESERVED_TYPES & set(ends.types):
        raise LeftOutError(
            f"An end is an {' or an '.join(sorted(conclusions))}: pages do not support edges of conclusions; "
            "connect facts."
        )
    return rules, ends


@dataclass(frozen=True)
class _Ends:
    """Two nodes, and whether an edge of the type exists between them."""

    source_id: UUID
    target_id: UUID
    types: tuple[str, str]
    names: tuple[str, str]
    are_joined: bool


async def _resolve_ends(
    transaction: Transaction, scope: GraphScope, rules: EdgeRules, source_id: UUID, target_id: UUID
) -> _Ends:
    """Look up both ends, following merges. Ends that only fit the other way round are exchanged.

    Raises ToolRefusalError if they cannot be ends of such an edge.
    """
    nodes = await _look_up_ends(transaction, scope, rules, source_id, target_id)
    if len(nodes) < 2:
        source_id, target_id = await redirects.resolve_redirects(
            transaction, scope, (source_id, target_id)
        )
        nodes = await _look_up_ends(transaction, scope, rules, source_id, target_id)
    if source_id == target_id:
        raise LeftOutError(
            f"sourceId and targetId are both {source_id}; an edge joins two different nodes."
        )
    for argument, node_id in (("sourceId", source_id), ("targetId", target_id)):
        if node_id not in nodes:
            raise LeftOutError(
                f"{argument}: no such node: {node_id}; use an id that queryGraph or addGraphNode returned."
            )
    source, target = nodes[source_id], nodes[target_id]
    if not _fit(rules, source.type, target.type) and _fit(rules, target.type, source.type):
        return await _resolve_ends(transaction, scope, rules, target_id, source_id)
    _refuse_wrong_type(rules, "start from", rules.source_types, source.type)
    _refuse_wrong_type(rules, "lead to", rules.target_types, target.type)
    return _Ends(
        source_id,
        target_id,
        (source.type, target.type),
        (source.name, target.name),
        source.are_joined,
    )


class _End(NamedTuple):
    id: UUID
    type: str
    name: str
    are_joined: bool


def ends_query(
    scope: GraphScope, edges: Sequence[EdgeKey]
) -> BoundQuery[dict[EdgeKey, list[_End]]]:
    """For each edge, the ends that exist, and whether an edge of the type joins them."""
    given = [
        {"place": place, "type": type_name, "source_id": source_id, "target_id": target_id}
        for place, (type_name, source_id, target_id) in enumerate(edges)
    ]

    def read(rows: Sequence[Any]) -> dict[EdgeKey, list[_End]]:
        ends: list[list[_End]] = [[] for _ in edges]
        for place, *end in rows:
            ends[place].append(_End(*end))
        return dict(zip(edges, ends, strict=True))

    return BoundQuery(_LOOK_UP_ENDS, {**scope.sql_params, "edges": json_text(given)}, read)


async def _look_up_ends(
    transaction: Transaction, scope: GraphScope, rules: EdgeRules, source_id: UUID, target_id: UUID
) -> dict[UUID, _End]:
    edge = (rules.type_name, source_id, target_id)
    buffer = upsert.element_buffer(transaction)
    node_ids = {source_id, target_id}
    if buffer is not None and edge not in buffer.lookups:
        # A new node has no edges yet.
        is_new = not node_ids.isdisjoint(buffer.written_nodes)
        if is_new and node_ids <= buffer.written_nodes.keys() | buffer.known_nodes.keys():
            buffer.lookups[edge] = [
                _End(node_id, *buffer.known_nodes[node_id], are_joined=False)
                for node_id in node_ids - buffer.written_nodes.keys()
            ]
    if buffer is None or edge not in buffer.lookups:
        answer = await ends_query(scope, [edge]).execute(transaction)
        return {end.id: end for end in answer[edge]}
    ends: dict[UUID, _End] = {end.id: end for end in buffer.lookups[edge]}
    for node_id in node_ids & buffer.written_nodes.keys():
        node = buffer.written_nodes[node_id]
        ends[node_id] = _End(node_id, node["type"], node["name"], are_joined=False)
    if edge in buffer.written_edges:
        return {end.id: end._replace(are_joined=True) for end in ends.values()}
    return ends


def _fit(rules: EdgeRules, source_type: str, target_type: str) -> bool:
    return (not rules.source_types or source_type in rules.source_types) and (
        not rules.target_types or target_type in rules.target_types
    )


def _refuse_wrong_type(
    rules: EdgeRules, verb: str, allowed_types: Sequence[str], actual: str
) -> None:
    if allowed_types and actual not in allowed_types:
        raise LeftOutError(
            f"{rules.type_name} edges {verb} {' or '.join(allowed_types)} nodes, not {actual}; "
            "use another edge type."
        )


def _element(scope: GraphScope, type_name: str, ends: _Ends) -> Element:
    """The edge, with its derived id."""
    edge_id = ids.edge_id(scope.agent_id, type_name, ends.source_id, ends.target_id)
    identity = {"type": type_name, "source_id": ends.source_id, "target_id": ends.target_id}
    return Element(EDGES, scope, edge_id, identity)
