"""Aliases: names are reserved together with their node, so that one entity becomes one node.

Nodes that were written before names were stored are found by their exact name, which is reserved then.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, Final
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
from shared.graph import upsert
from shared.graph.entity_resolution import candidates, normalization
from shared.graph.entity_resolution.candidates import (
    DuplicateCandidate,
    key_columns,
    neighbour_keys_sql,
)
from shared.graph.grounding.names import find_mentions
from shared.graph.prompt_format import quote_name
from shared.graph.provenance.evidence import (
    GroundedQuotes,
    UngroundedError,
    VerifiedQuote,
    ground_quotes,
)
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.validation import normalize_name
from shared.tools import Json, ToolRefusalError

Key = tuple[str, str]
"""A node type and a normalized name."""


@dataclass(frozen=True)
class ResolvedNode:
    """The node of an entity, and the name it has."""

    node_id: UUID
    name: str
    is_there: bool = True
    """False if it has yet to be written."""


@dataclass
class NameLookup:
    """What the database knows about the names of some requests."""

    looked_up: Set[tuple[Any, ...]]
    """The `lookup_key` of each request."""
    owners: dict[Key, ResolvedNode] = field(default_factory=dict)
    exact_matches: dict[Key, UUID] = field(default_factory=dict)
    """By type and name, the node of exactly this name."""
    neighbours: dict[Key, dict[str, str]] = field(default_factory=dict)
    """For each name that is not reserved, the neighbouring keys and the ids of the nodes that own them."""


# A name can belong to a node that this transaction has yet to write. The conditions on key and name are equalities, written
# as ranges with an order, so that PostgreSQL uses the index of the key or name. With equalities it reads all rows of the
# type while its statistics count few. For the same reason each join has a limit.
_LOOK_UP: Final = CompiledStatement(f"""
    with request as materialized (
        select * from jsonb_to_recordset(cast(:requests as jsonb)) as request (
            type text, name text, key text, reversed_key text, sorted_words_key text, is_compared boolean
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
           coalesce(node.name, held.name) as name, node.id is not null as is_there
    from held left join lateral (
        select id, name from graph_nodes where id = held.node_id limit 1
    ) as node on true
    union all
    select 'written', request.type, request.name, node.id, null, true
    from request cross join lateral (
        select id from graph_nodes
        where agent_id = {OWNED_AGENT_ID_SQL} and type = request.type
          and name >= request.name and name <= request.name
        order by name limit 1
    ) as node
    union all
    select 'neighbours', request.type, request.key, null,
           (select cast(json_object_agg(key, node_id) as text) from ({neighbour_keys_sql("request.{}")}) as neighbour), true
    from request
    where request.is_compared
      and not exists (select from held where held.type = request.type and held.key = request.key)
    """)


def names_query(scope: GraphScope, requests: Iterable["RequestKeys"]) -> BoundQuery[NameLookup]:
    """Looks up the names of the requests; neighbouring keys only of those with a threshold."""
    by_lookup_key = {keys.lookup_key: keys for keys in requests}
    all_keys = {key for keys in by_lookup_key.values() for key in keys.all}
    params = {
        **scope.sql_params,
        "requests": json_text([keys.columns for keys in by_lookup_key.values()]),
        "keys": json_text([{"type": type_name, "key": key} for type_name, key in all_keys]),
    }

    def read(rows: Sequence[Any]) -> NameLookup:
        lookup = NameLookup(by_lookup_key.keys())
        for row_kind, type_name, key, node_id, name, is_there in rows:
            if row_kind == "neighbours":
                lookup.neighbours[type_name, key] = orjson.loads(name or "{}")
            elif row_kind == "held":
                lookup.owners[type_name, key] = ResolvedNode(node_id, name, is_there)
            else:
                lookup.exact_matches[type_name, key] = node_id
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
    """Similarity from which a similar name is reported before a new node is created; None skips the check."""


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
        return {**self.derived, **self.aliases, self.main: self.request.name}

    @property
    def lookup_key(self) -> tuple[Any, ...]:
        """Equal for requests that look up the same."""
        is_compared = self.request.duplicate_threshold is not None
        return (*self.main, self.request.name, frozenset(self.all), is_compared)

    @property
    def columns(self) -> Json:
        """What `names_query` looks up, besides `all`."""
        type_name, key = self.main
        return {
            "type": type_name,
            "name": self.request.name,
            **key_columns(key),
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
    entity may be a duplicate.
    """
    keys = request_keys(request)
    lookup = await _look_up(transaction, scope, keys)
    owners = lookup.owners
    node = owners.get(keys.main)
    exact_match = lookup.exact_matches.get((request.type_name, request.name))
    if node is None and exact_match is not None:
        # A node from before names were stored.
        node = ResolvedNode(exact_match, request.name)
    if node is None:
        neighbours = lookup.neighbours.get(keys.main, {})
        await _refuse_duplicates(transaction, scope, keys, neighbours, owners)
        node_id = ids.node_id(scope.agent_id, request.type_name, request.name)
        node = ResolvedNode(node_id, request.name, is_there=False)
    for alias_key, alias in keys.aliases.items():
        owner = owners.get(alias_key, node)
        if owner.node_id != node.node_id:
            raise ToolRefusalError(
                f"aliases: {quote_name(alias)} is a name of [node:{owner.node_id}] {quote_name(owner.name)}. If that is the "
                "same thing, add it under that name; if not, leave the alias out."
            )
    missing_names = sorted((key, name) for key, name in keys.all.items() if key not in owners)
    return Resolution(node, [name_row(scope, *item, node.node_id) for item in missing_names])


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
        **key_columns(normalized),
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
    normalized = normalization.normalize(request.name, type_name)
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
    owners, neighbours = dict(lookup.owners), dict(lookup.neighbours.get(keys.main, {}))
    for (type_name, key), (node_id, name) in buffer.written_names.items():
        owners[type_name, key] = ResolvedNode(node_id, name)
        if type_name == keys.request.type_name:
            neighbours[key] = str(node_id)
    return replace(lookup, owners=owners, neighbours={keys.main: neighbours})


async def _refuse_duplicates(
    transaction: Transaction,
    scope: GraphScope,
    keys: RequestKeys,
    neighbours: Mapping[str, str],
    owners: Mapping[Key, ResolvedNode],
) -> None:
    request = keys.request
    if request.duplicate_threshold is None:
        return
    same_nodes = {owners[key] for key in keys.derived if key in owners}
    duplicates = [
        DuplicateCandidate(candidate.node_id, candidate.name, 1.0) for candidate in same_nodes
    ]
    _, key = keys.main
    similar = await candidates.rank_candidates(
        transaction, scope, key, neighbours, request.duplicate_threshold
    )
    duplicates += [
        candidate
        for candidate in similar
        if candidate.node_id not in {duplicate.node_id for duplicate in duplicates}
    ]
    candidates.refuse_undecided_duplicates(
        duplicates[: candidates.MAX_CANDIDATES], request.distinct_from
    )


_NAMES: Final = CompiledStatement(f"""
    select node_id, name from graph_names
    where agent_id = {OWNED_AGENT_ID_SQL} and node_id = any(cast(:nodes as uuid[]))
    """)

_MAX_SHOWN_CHARS: Final = 100

End = tuple[UUID, list[str], bool]
"""A node, names that are known of it, and whether it is stored, and may have more."""


async def ground(
    transaction: Transaction,
    scope: GraphScope,
    quotes: Sequence[VerifiedQuote],
    ends: Sequence[End],
    *,
    labels: Sequence[bool] = (False, False),
) -> GroundedQuotes:
    """`ground_quotes` for a node, or for the two ends of an edge. Looks up more names only if those given do not do."""
    try:
        return ground_quotes(quotes, [names for _, names, _ in ends], labels=labels)
    except UngroundedError:
        stored = [node_id for node_id, _, is_stored in ends if is_stored]
        if not stored:
            raise
        more = await _load_names(transaction, scope, stored)
        if not any(more.values()):
            raise
        return ground_quotes(
            quotes,
            [[*names, *more.get(node_id, ())] for node_id, names, _ in ends],
            labels=labels,
        )


def refuse_unquoted_aliases(
    quotes: Sequence[VerifiedQuote], aliases: Iterable[str], known: Sequence[str]
) -> None:
    """Raises ToolRefusalError for an alias that neither the quotes nor their pages' titles and headings have.

    `known` are names of the node, whose initials need no quote.
    """
    texts = [
        text
        for each in quotes
        for text in (each.cited.sentence, each.cited.page.title, each.cited.heading)
    ]
    initials = {"".join(word[0] for word in name.split() if word[0].isupper()) for name in known}
    for alias in aliases:
        is_quoted = any(find_mentions(alias, text) for text in texts)
        if not is_quoted and alias not in initials:
            raise ToolRefusalError(
                f"aliases: {alias[:_MAX_SHOWN_CHARS]!r} is not in the quotes; cite a sentence that has it, or leave it out."
            )


async def _load_names(
    transaction: Executor, scope: GraphScope, node_ids: Collection[UUID]
) -> dict[UUID, list[str]]:
    names: dict[UUID, list[str]] = {}
    params = {**scope.sql_params, "nodes": uuid_array(node_ids)}
    for node_id, name in await _NAMES.rows(transaction, params):
        names.setdefault(node_id, []).append(name)
    return names
