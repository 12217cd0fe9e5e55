"""Aliases: names are reserved together with their node, so that one entity becomes one node.

Nodes that were written before names were stored are found by their exact name, which is reserved then.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from shared.database import ids
from shared.database.statements import (
    BoundQuery,
    CompiledStatement,
    Executor,
    json_text,
    uuid_array,
)
from shared.database.transaction import Transaction
from shared.graph import types, upsert
from shared.graph.entity_resolution import candidates, normalization, redirects
from shared.graph.entity_resolution.candidates import (
    DuplicateCandidate,
    KnownName,
    key_columns,
    neighbour_names_sql,
)
from shared.graph.entity_resolution.comparison import Described, Verdict, judge
from shared.graph.entity_resolution.facts import SUMMARY, identifying_facts
from shared.graph.entity_resolution.relations import Relation
from shared.graph.grounding.names import find_mentions
from shared.graph.grounding.passages import WrittenNode
from shared.graph.grounding.values import PUBLISHER_PROPERTIES
from shared.graph.prompt_format import quote_name
from shared.graph.provenance.claims import Claim
from shared.graph.provenance.evidence import (
    GroundedQuotes,
    UngroundedError,
    VerifiedQuote,
    ground_quotes,
)
from shared.graph.provenance.publishers import with_publishers
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.validation import normalize_name
from shared.tools import Json, ToolRefusalError

Key = tuple[str, str]
"""A node type and a normalized name."""
MAX_NAMESAKES: Final = 12
"""Nodes of one name that are compared with a new one."""
_MAX_OWN_QUALIFIER_CHARS: Final = 40


@dataclass(frozen=True)
class ResolvedNode:
    """The node of an entity, and the name and type it has."""

    node_id: UUID
    name: str
    type_name: str
    """Another than that of the request, if a node of that type was merged into it."""
    is_there: bool = True
    """False if it has yet to be written."""


class _Holder(NamedTuple):
    """The node that a key belongs to, and how the name was written."""

    node: ResolvedNode
    written: str


@dataclass
class NameLookup:
    """What the database knows about the names of some requests."""

    looked_up: Set[tuple[Any, ...]]
    """The `lookup_key` of each request."""
    holders: dict[Key, _Holder] = field(default_factory=dict)
    exact_matches: dict[Key, UUID] = field(default_factory=dict)
    """By type and name, the node of exactly this name."""
    namesakes: dict[Key, list[KnownName]] = field(default_factory=dict)
    """For each base, the names that differ from it by a qualifier."""
    neighbours: dict[Key, list[KnownName]] = field(default_factory=dict)
    """For each name that is not reserved, similar names."""


# A name can belong to a node that this transaction has yet to write. The conditions on key and name are equalities, written
# as ranges with an order, so that PostgreSQL uses the index of the key or name. With equalities it reads all rows of the
# type while its statistics count few. For the same reason each join has a limit.
_LOOK_UP: Final = CompiledStatement(f"""
    with request as materialized (
        select * from jsonb_to_recordset(cast(:requests as jsonb)) as request (
            type text, name text, key text, base text, letters jsonb, reversed_key text, sorted_words_key text,
            is_compared boolean
        )
    ), held as materialized (
        select found.*
        from jsonb_to_recordset(cast(:keys as jsonb)) as wanted (type text, key text)
        cross join lateral (
            select type, key, node_id, name from graph_names
            where agent_id = {OWNED_AGENT_ID_SQL} and type = wanted.type
              and key >= wanted.key and key <= wanted.key
            order by key limit 1
        ) as found
    )
    select 'held' as how, held.type, held.key, held.node_id,
           coalesce(node.name, held.name) as name, node.id is not null as is_there,
           coalesce(node.type, held.type) as node_type, held.name as written
    from held left join lateral (
        select id, name, type from graph_nodes where id = held.node_id limit 1
    ) as node on true
    union all
    select 'written', request.type, request.name, node.id, null, true, null, null
    from request cross join lateral (
        select id from graph_nodes
        where agent_id = {OWNED_AGENT_ID_SQL} and type = request.type
          and name >= request.name and name <= request.name
        order by name limit 1
    ) as node
    union all
    select 'namesakes', request.type, request.base, null, cast(same.names as text), true, null, null
    from request cross join lateral (
        select json_agg(json_build_array(node_id, name)) as names from (
            select node_id, name from graph_names
            where agent_id = {OWNED_AGENT_ID_SQL} and type = request.type
              and key > request.base || ' (' and key < request.base || ' )' order by key limit {MAX_NAMESAKES}
        ) as qualified
    ) as same
    where request.is_compared and same.names is not null
    union all
    select 'neighbours', request.type, request.key, null,
           (select cast(json_agg(json_build_array(node_id, name)) as text)
            from ({neighbour_names_sql("request.{}")}) as neighbour), true, null, null
    from request
    where request.is_compared
      and not exists (select from held where held.type = request.type and held.key = request.key)
    """)


def names_query(scope: GraphScope, requests: Iterable["RequestKeys"]) -> BoundQuery[NameLookup]:
    """Looks up the names of the requests; similar names only of those with a threshold."""
    by_lookup_key = {keys.lookup_key: keys for keys in requests}
    all_keys = {key for keys in by_lookup_key.values() for key in keys.looked_up}
    params = {
        **scope.sql_params,
        "requests": json_text([keys.columns for keys in by_lookup_key.values()]),
        "keys": json_text([{"type": type_name, "key": key} for type_name, key in all_keys]),
    }

    def read(rows: Sequence[Any]) -> NameLookup:
        lookup = NameLookup(by_lookup_key.keys())
        for row_kind, type_name, key, node_id, name, is_there, node_type, written in rows:
            if row_kind == "held":
                node = ResolvedNode(node_id, name, node_type, is_there)
                lookup.holders[type_name, key] = _Holder(node, written)
            elif row_kind == "written":
                lookup.exact_matches[type_name, key] = node_id
            else:
                names = lookup.namesakes if row_kind == "namesakes" else lookup.neighbours
                names[type_name, key] = candidates.read_names(orjson.loads(name or "[]"))
        return lookup

    return BoundQuery(_LOOK_UP, params, read)


MAX_ALIASES: Final = 10

Row = dict[str, object]


@dataclass(frozen=True)
class NameRequest:
    """An entity by its normalized name and its aliases."""

    type_name: str
    name: str
    aliases: Sequence[str] = ()
    distinct_from: Collection[UUID] = ()
    """Nodes that it is not, however similar their names."""
    duplicate_threshold: float | None = None
    """Similarity from which a similar name is reported before a new node is created; None skips all questions."""
    same_as: UUID | None = None
    """The node that it is, whatever its name."""
    qualifier: str = ""
    """What tells it apart from others of its name, if there are others."""
    properties: Json = field(default_factory=dict, compare=False)
    schema: Json = field(default_factory=dict, compare=False)
    """Of the type."""

    @property
    def full_name(self) -> str:
        return f"{self.name} ({self.qualifier})" if self.qualifier else self.name

    @property
    def described(self) -> Described:
        facts = identifying_facts(self.type_name, self.properties, self.schema)
        return Described(self.type_name, self.full_name, facts)


@dataclass(frozen=True)
class RequestKeys:
    """The keys of one request, each with the name as written."""

    request: NameRequest
    main: Key
    derived: Mapping[Key, str]
    """Derived from the name itself: a ticker, initials. Skipped if they belong to another node."""
    aliases: Mapping[Key, str]

    @property
    def all(self) -> dict[Key, str]:
        return {**self.derived, **self.aliases, self.main: self.request.full_name}

    @property
    def base(self) -> Key:
        type_name, key = self.main
        return type_name, normalization.split_qualifier(key)[0]

    @property
    def hints(self) -> set[Key]:
        """Keys whose nodes may be the same, as far as the index does not find them as neighbours."""
        type_name, key = self.main
        hints = {normalization.fold_key(key), *candidates.hint_keys(*reversed(self.base))}
        return {(type_name, each) for each in hints}

    @property
    def looked_up(self) -> set[Key]:
        return {*self.all, self.base, *self.hints}

    @property
    def lookup_key(self) -> tuple[Any, ...]:
        """Equal for requests that look up the same."""
        is_compared = self.request.duplicate_threshold is not None
        return (*self.main, self.request.full_name, frozenset(self.all), is_compared)

    @property
    def columns(self) -> Json:
        """What `names_query` looks up, besides `looked_up`."""
        type_name, key = self.main
        return {
            "type": type_name,
            "name": self.request.full_name,
            "base": self.base[1],
            "letters": candidates.letters_of(self.base[1]),
            **key_columns(key, type_name),
            "is_compared": self.request.duplicate_threshold is not None,
        }


@dataclass(frozen=True)
class Resolution:
    """The node of a request, and the rows of its names to reserve, in the order that all transactions use."""

    node: ResolvedNode
    missing_rows: Sequence[Row]


async def resolve_name(
    transaction: Transaction, scope: GraphScope, request: NameRequest
) -> Resolution:
    """Resolve a request to its node: the one that owns the name, else one that is yet to be written.

    Reserves nothing; the caller holds the write lock. Raises ToolRefusalError if an alias belongs to another node, or the
    entity may be the same as another, or needs a qualifier.
    """
    keys = request_keys(request)
    lookup = await _look_up(transaction, scope, keys)
    if request.same_as is not None:
        node = await _load_node(transaction, scope, request.same_as)
    else:
        node, keys = await _find_node(transaction, scope, keys, lookup)
    holders = lookup.holders
    for alias_key, alias in keys.aliases.items():
        owner = holders[alias_key].node if alias_key in holders else node
        if owner.node_id != node.node_id:
            raise ToolRefusalError(
                f"aliases: {quote_name(alias)} is a name of [node:{owner.node_id}] {quote_name(owner.name)}. If that is the "
                "same thing, add it with sameAs: its id; if not, leave the alias out."
            )
    missing_names = sorted((key, name) for key, name in keys.all.items() if key not in holders)
    return Resolution(node, [name_row(scope, *item, node.node_id) for item in missing_names])


async def _find_node(
    transaction: Transaction, scope: GraphScope, keys: RequestKeys, lookup: NameLookup
) -> tuple[ResolvedNode, RequestKeys]:
    """The node of a request, and the keys to reserve for it. Raises ToolRefusalError with a question."""
    request = keys.request
    owner = _owner(keys, lookup)
    base_holder = lookup.holders.get(keys.base)
    namesakes = lookup.namesakes.get(keys.base, [])
    if base_holder is not None and keys.base != keys.main:
        namesakes = [*namesakes, KnownName(base_holder.node.node_id, base_holder.written)]
    if request.duplicate_threshold is None:
        return owner or _new_node(scope, request), keys
    if owner is not None and owner.node_id not in request.distinct_from:
        if keys.base != keys.main or not namesakes:
            return owner, keys
        namesakes = [*namesakes, KnownName(owner.node_id, request.name)]
    hinted = [lookup.holders[hint] for hint in keys.hints if hint in lookup.holders]
    derived = [lookup.holders[key] for key in keys.derived if key in lookup.holders]
    names = {
        *namesakes,
        *lookup.neighbours.get(keys.main, ()),
        *(KnownName(each.node.node_id, each.written) for each in (*hinted, *derived)),
    }
    judged = await candidates.judge_names(
        transaction,
        scope,
        request.described,
        names,
        request.duplicate_threshold,
        request.properties,
        request.schema,
    )
    shown = judged[: candidates.MAX_CANDIDATES]
    undecided = [each for each in shown if each.node_id not in request.distinct_from]
    same = [each for each in undecided if each.comparison.verdict is Verdict.SAME]
    if len(same) == 1:
        return await _load_node(transaction, scope, same[0].node_id), keys
    candidates.refuse_undecided(request.full_name, undecided)
    return _told_apart(scope, keys, lookup, has_namesakes=bool(namesakes) or owner is not None)


def _owner(keys: RequestKeys, lookup: NameLookup) -> ResolvedNode | None:
    """The node that owns the name, also by the key that an earlier version gave it."""
    if (holder := lookup.holders.get(keys.main)) is not None:
        return holder.node
    type_name, key = keys.main
    holder = lookup.holders.get((type_name, normalization.fold_key(key)))
    if holder is not None and normalization.normalize(holder.written, type_name).key == key:
        return holder.node
    # A node from before names were stored.
    exact_match = lookup.exact_matches.get((type_name, keys.request.full_name))
    if exact_match is None:
        return None
    return ResolvedNode(exact_match, keys.request.full_name, type_name)


def _new_node(scope: GraphScope, request: NameRequest) -> ResolvedNode:
    node_id = ids.node_id(scope.agent_id, request.type_name, request.full_name)
    return ResolvedNode(node_id, request.full_name, request.type_name, is_there=False)


def _told_apart(
    scope: GraphScope, keys: RequestKeys, lookup: NameLookup, *, has_namesakes: bool
) -> tuple[ResolvedNode, RequestKeys]:
    """A new node, with a qualifier if there are others of its name, and only then."""
    request = keys.request
    if request.qualifier and not has_namesakes:
        request = replace(request, qualifier="")
        return _new_node(scope, request), request_keys(request)
    if keys.main not in lookup.holders:
        return _new_node(scope, request), keys
    qualifier = _own_qualifier(request)
    if not qualifier:
        raise ToolRefusalError(
            f"qualifier: another {request.type_name} has the name {quote_name(request.name)}. Say in a word or two what "
            'tells this one apart, such as "footballer" or "Illinois".'
        )
    request = replace(request, qualifier=qualifier)
    keys = request_keys(request)
    if keys.main in lookup.holders:
        raise ToolRefusalError(
            f"qualifier: another {request.type_name} has the name {quote_name(request.full_name)}; give another qualifier."
        )
    return _new_node(scope, request), keys


def _own_qualifier(request: NameRequest) -> str:
    """What its facts say that tells it apart: its profession, kind or place; empty if they are too long."""
    if request.qualifier:
        return ""
    values = {
        fact.kind: fact.value
        for fact in reversed(request.described.facts)
        if fact.name != SUMMARY and len(fact.value) <= _MAX_OWN_QUALIFIER_CHARS
    }
    return next((values[kind] for kind in ("role", "place", "date") if kind in values), "")


_NODE: Final = CompiledStatement(
    f"select id, name, type from graph_nodes where {IS_OWNED_SQL} and id = :node"
)


async def _load_node(transaction: Transaction, scope: GraphScope, node_id: UUID) -> ResolvedNode:
    """Load a node, also by the id of one that was merged into it. Raises ToolRefusalError."""
    [current_id] = await redirects.resolve_redirects(transaction, scope, [node_id])
    row = await _NODE.row(transaction, {**scope.sql_params, "node": current_id})
    if row is None:
        raise ToolRefusalError(
            f"sameAs: no such node: {node_id}; use an id that this tool returned."
        )
    return ResolvedNode(row.id, row.name, row.type)


_NAMES_OF_NODES: Final = CompiledStatement(f"""
select node_id, key, name from graph_names
where node_id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL} order by created_at, key
""")


async def list_names(transaction: Transaction, scope: GraphScope, node_id: UUID) -> list[str]:
    """List the names of a node as written, oldest first."""
    by_key = (await list_names_by_node(transaction, scope, [node_id])).get(node_id, {})
    return list(by_key.values())


async def list_names_by_node(
    transaction: Transaction, scope: GraphScope, node_ids: Collection[UUID]
) -> dict[UUID, dict[str, str]]:
    """The names of many nodes by key; nodes without names are left out."""
    params = {**scope.sql_params, "ids": uuid_array(node_ids)}
    rows = await _NAMES_OF_NODES.rows(transaction, params)
    names_by_node: dict[UUID, dict[str, str]] = {}
    for node_id, key, name in rows:
        names_by_node.setdefault(node_id, {})[key] = name
    return names_by_node


def name_row(scope: GraphScope, key: Key, name: str, node_id: UUID) -> Row:
    """The columns of a name that is reserved now."""
    type_name, normalized = key
    return {
        "agent_id": scope.agent_id,
        "type": type_name,
        **key_columns(normalized, type_name),
        "name": name,
        "node_id": node_id,
        "step_id": scope.step_id,
    }


def request_keys(request: NameRequest) -> RequestKeys:
    """Raises ToolRefusalError if an alias is no name, or there are too many."""
    if len(request.aliases) > MAX_ALIASES:
        raise ToolRefusalError(
            f"aliases: {len(request.aliases)} were given, but at most {MAX_ALIASES} are stored; "
            "give the most common ones."
        )
    type_name = request.type_name
    normalized = normalization.normalize(request.full_name, type_name)
    aliases: dict[Key, str] = {}
    for alias in request.aliases:
        alias_name = normalize_name(alias, "aliases")
        aliases[type_name, normalization.normalize(alias_name, type_name).key] = alias_name
    implied = {(type_name, key): key for key in normalized.also}
    return RequestKeys(request, (type_name, normalized.key), implied, aliases)


async def _look_up(transaction: Transaction, scope: GraphScope, keys: RequestKeys) -> NameLookup:
    buffer = upsert.element_buffer(transaction)
    lookup: NameLookup | None = None if buffer is None else buffer.lookups.get(NameLookup)
    if buffer is None or lookup is None or keys.lookup_key not in lookup.looked_up:
        return await names_query(scope, [keys]).execute(transaction)
    type_name, base = keys.base
    holders = dict(lookup.holders)
    neighbours = list(lookup.neighbours.get(keys.main, ()))
    namesakes = list(lookup.namesakes.get(keys.base, ()))
    for (written_type, key), (node_id, node_name, written) in buffer.written_names.items():
        node = ResolvedNode(node_id, node_name, written_type)
        holders[written_type, key] = _Holder(node, written)
        if written_type == type_name:
            known = KnownName(node_id, written)
            is_namesake = key != base and normalization.split_qualifier(key)[0] == base
            (namesakes if is_namesake else neighbours).append(known)
    return replace(
        lookup,
        holders=holders,
        neighbours={keys.main: neighbours},
        namesakes={keys.base: namesakes},
    )


_NAMES: Final = CompiledStatement(f"""
    select node_id, name from graph_names
    where agent_id = {OWNED_AGENT_ID_SQL} and node_id = any(cast(:nodes as uuid[]))
    """)


class End(NamedTuple):
    """A node that is written, or an end of an edge that is written."""

    node_id: UUID
    type_name: str
    written: WrittenNode


async def ground(
    transaction: Transaction,
    scope: GraphScope,
    quotes: Sequence[VerifiedQuote],
    ends: Sequence[End],
    schema: Json,
) -> GroundedQuotes:
    """`ground_quotes` for a node, or for the two ends of an edge.

    `schema` is that of the type that is written. Loads the publishers of the pages if it declares a property of theirs; the
    other names of stored nodes, and what the schemas of their types say of names, only if it fails without them.
    """
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    if declared := [name for name in PUBLISHER_PROPERTIES if name in properties]:
        quotes = await with_publishers(transaction, scope, quotes)
    try:
        return ground_quotes(quotes, [end.written for end in ends], required, declared)
    except UngroundedError:
        stored = [end.node_id for end in ends if end.written.is_stored]
        if not stored:
            raise
        names = await _load_names(transaction, scope, stored)
        return ground_quotes(
            quotes,
            [
                end.written._replace(
                    names=[*end.written.names, *names.get(end.node_id, ())],
                    is_label=types.has_labels(
                        end.type_name,
                        await types.get_node_schema(transaction, scope, end.type_name),
                    ),
                )
                for end in ends
            ],
            required,
            declared,
        )


def refuse_other_identity(
    request: NameRequest,
    node: ResolvedNode,
    quotes: Sequence[VerifiedQuote],
    properties: Json,
    claims: Sequence[Claim],
) -> None:
    """Raises ToolRefusalError, which is a question to the model, if what is written may be of another thing of this name.

    It may be if a fact contradicts all that is known of the node's identity, or if many things have the name and no fact
    agrees. What one page says under one name is of one thing.
    """
    active = [claim for claim in claims if not claim.is_retracted]
    known = [
        fact
        for values in (properties, *(claim.values for claim in active))
        for fact in identifying_facts(request.type_name, values, request.schema)
    ]
    is_of_page = not {quote.page.url for quote in quotes}.isdisjoint(claim.url for claim in active)
    name = request.full_name
    if normalization.split_qualifier(node.name)[0] != request.name:
        name = node.name  # the node is known by the given name too
    new = replace(request.described, name=name)
    judged = judge(
        Relation.EQUAL, new, Described(request.type_name, node.name, known), is_known=is_of_page
    )
    if judged.verdict is not Verdict.SAME:
        summary = str(properties.get(SUMMARY) or "")
        candidates.refuse_undecided(
            request.full_name, [DuplicateCandidate(node.node_id, node.name, judged, summary)]
        )


def unquoted_aliases(
    quotes: Sequence[VerifiedQuote], aliases: Iterable[str], known: Sequence[str]
) -> list[str]:
    """The aliases that neither the quotes nor their pages' titles and headings have.

    `known` are names of the node, whose initials need no quote.
    """
    texts = [
        text
        for each in quotes
        for text in (each.cited.sentence, each.cited.page.title, each.cited.heading)
    ]
    initials = {"".join(word[0] for word in name.split() if word[0].isupper()) for name in known}
    return [
        alias
        for alias in aliases
        if alias not in initials and not any(find_mentions(alias, text) for text in texts)
    ]


async def _load_names(
    transaction: Executor, scope: GraphScope, node_ids: Collection[UUID]
) -> dict[UUID, list[str]]:
    names: dict[UUID, list[str]] = {}
    params = {**scope.sql_params, "nodes": uuid_array(node_ids)}
    for node_id, name in await _NAMES.rows(transaction, params):
        names.setdefault(node_id, []).append(name)
    return names
