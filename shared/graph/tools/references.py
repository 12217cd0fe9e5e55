"""References to nodes in tool arguments: by id, or by name."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Annotated, Final, TypeVar
from uuid import UUID
from weakref import WeakKeyDictionary

from pydantic import BeforeValidator

from shared.database.statements import (
    Batch,
    BoundQuery,
    CompiledStatement,
    PendingResult,
    Row,
    json_text,
)
from shared.database.transaction import Transaction
from shared.graph.entity_resolution import normalization
from shared.graph.entity_resolution.candidates import key_columns
from shared.graph.prompt_format import quote_name, truncate_text
from shared.graph.retrieval import query
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.short_ids import elements_query, number_in
from shared.graph.upsert import element_buffer
from shared.graph.validation import normalize_name
from shared.tools import AWAITS_KEY, INTERPRETATIONS_KEY, Json, LeftOutError, ToolRefusalError

T = TypeVar("T")

NodeReference = Annotated[
    str, BeforeValidator(lambda value: str(value) if isinstance(value, UUID) else value)
]
"""A tool argument that names a node: its id, or its name."""

_ID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)
_MAX_CANDIDATES: Final = 3
_ADD_FIRST: Final = (
    "If it is none of the graph's nodes, add it first if you have addGraphNode, or leave this out."
)
_MAX_REFERENCE_CHARS: Final = 300
_MAX_SUMMARY_CHARS: Final = 80
_KINDS: Final = ("Topic", "Person")
"""Types of which names are found in different ways."""
# Joined by type, the first column of the index: an agent has a few dozen types, but may have a million names.
_NODES_BY_NAME: Final = CompiledStatement(
    f"""
    with called as (
        select name, keys, bases, sorted_words
        from jsonb_to_recordset(cast(:called as jsonb)) as given (name text, keys text[], bases text[], sorted_words text[])
    ), of_type as (
        select called.name as called, called.keys, called.bases, called.sorted_words, kind.agent_id, kind.name as type
        from called join graph_node_types as kind on kind.agent_id = {OWNED_AGENT_ID_SQL}
    ), known as (
        select called, node_id, key from of_type
        join graph_names on graph_names.agent_id = of_type.agent_id and graph_names.type = of_type.type
          and key = any(keys)
        union
        select called, node_id, key from of_type
        join graph_names on graph_names.agent_id = of_type.agent_id and graph_names.type = of_type.type
          and sorted_words_key = any(sorted_words)
        union
        select called, node_id, key from of_type cross join unnest(bases) as base
        join graph_names on graph_names.agent_id = of_type.agent_id and graph_names.type = of_type.type
          and key > base || ' (' and key < base || ' )'
    )
    select known.called, node.id, node.type, node.name, known.key, node.properties ->> 'summary' as summary
    from known join graph_nodes as node on node.agent_id = {OWNED_AGENT_ID_SQL} and node.id = known.node_id
    union
    select called.name, node.id, type, node.name, null, node.properties ->> 'summary'
    from called
    join graph_nodes as node
      on node.agent_id = {OWNED_AGENT_ID_SQL} and lower(node.name) = lower(called.name)
    """
)


class NamedNodes(dict[str, list[Row]]):
    """Nodes by the names with which the calls of an answer refer to them, looked up before the calls run."""

    elements: Mapping[int, UUID] = MappingProxyType({})
    """By the numbers of short ids."""

    def find(self, reference: str) -> UUID | None:
        """The node that it means: its id, or the only one of that name; None if there is none, or several."""
        if (node_id := referenced_id(reference)) is not None:
            return node_id
        if (node_id := self.elements.get(number_in(reference) or 0)) is not None:
            return node_id
        with suppress(ToolRefusalError):
            name = _name_in(reference, "")
            ids = {match.id for match in _pick(name, map(_match, self.get(name, [])))}
            return ids.pop() if len(ids) == 1 else None
        return None


def prepare_named(
    batch: Batch, scope: GraphScope, references: Iterable[str]
) -> PendingResult[NamedNodes]:
    """Looks up the references that are short ids or names, as a part of `batch`."""
    names: dict[str, None] = {}
    numbers: set[int] = set()
    for reference in references:
        if referenced_id(reference) is not None:
            continue
        if (number := number_in(reference)) is not None:
            numbers.add(number)
        with suppress(ToolRefusalError):
            names[_name_in(reference, "")] = None
    if not names:
        return batch.then(NamedNodes)
    named = batch.add(_named_query(scope, list(names)))
    elements = batch.add(elements_query(scope, numbers)) if numbers else None

    def combine() -> NamedNodes:
        if elements is not None:
            named.value.elements = elements.value
        return named.value

    return batch.then(combine)


def _named_query(scope: GraphScope, names: Sequence[str]) -> BoundQuery[NamedNodes]:
    called = []
    for name in names:
        keys = sorted(_keys(name, ("", "Topic")))
        called.append(
            {
                "name": name,
                "keys": sorted({*keys, *map(normalization.fold_key, keys)}),
                "bases": [key for key in keys if not normalization.split_qualifier(key)[1]],
                "sorted_words": sorted(
                    {key_columns(key, each)["sorted_words_key"] for key in keys for each in _KINDS}
                ),
            }
        )

    def read(rows: Sequence[Row]) -> NamedNodes:
        found = NamedNodes({name: [] for name in names})
        for row in rows:
            found[row.called].append(row)
        return found

    return BoundQuery(_NODES_BY_NAME, {**scope.sql_params, "called": json_text(called)}, read)


def _keys(name: str, types: Iterable[str]) -> set[str]:
    return {normalization.normalize(name, type_name).key for type_name in types}


def _name_in(reference: str, argument: str) -> str:
    """Raises ToolRefusalError if nothing is left of it."""
    return normalize_name(reference.strip("\"'`[] ")[:_MAX_REFERENCE_CHARS], argument)


def referenced_id(reference: str) -> UUID | None:
    """The id that a reference contains; None if it contains none or several."""
    ids = set(_ID.findall(reference.lower()))
    return UUID(ids.pop()) if len(ids) == 1 else None


_written_names: Final = WeakKeyDictionary[Transaction, dict[str, UUID | None]]()


def written_names(transaction: Transaction) -> dict[str, UUID | None]:
    """Returns the nodes that calls of the transaction have written, by their names in the calls; None if refused."""
    return _written_names.setdefault(transaction, {})


async def resolve_node_id(
    transaction: Transaction,
    scope: GraphScope,
    reference: str,
    argument: str,
    interpretations: list[str],
) -> UUID:
    """Resolve a reference to a node id. A match by another spelling is described in a sentence added to `interpretations`.

    An id is returned as it is. Raises ToolRefusalError, which lists candidates, if a name matches no node or several.
    """
    if (node_id := referenced_id(reference)) is not None:
        return node_id
    if (number := number_in(reference)) is not None:
        elements = await _elements(transaction, scope, number)
        if (node_id := elements.get(number)) is not None:
            return node_id
    name = _name_in(reference, argument)
    matches = await _find_by_name(transaction, scope, name)
    if len(matches) == 1:
        [node] = matches
        if node.name != name:
            interpretations.append(
                f"{argument}: {quote_name(name)} was read as [node:{node.id}], the {node.type} {quote_name(node.name)}."
            )
        return UUID(str(node.id))
    written = written_names(transaction)
    # A node that this answer has called so has the name by now, which the others have in another spelling.
    spelled = [node.id for node in matches if node.id == written.get(name) or node.name == name]
    if len(spelled) == 1 and spelled == [written.get(name)]:
        return UUID(str(spelled[0]))
    if not matches and name in written:
        if (node_id := written[name]) is not None:
            return node_id
        raise LeftOutError(
            f"{argument}: its node was refused in this answer.", details={AWAITS_KEY: name}
        )
    raise LeftOutError(
        f"{argument}: {quote_name(name)} is not an id, and {await _describe_candidates(transaction, scope, name, matches)}"
    )


async def resolve_node_ids(
    transaction: Transaction,
    scope: GraphScope,
    references: Sequence[str],
    argument: str,
    interpretations: list[str],
) -> list[UUID]:
    """Like `resolve_node_id`, for many references."""
    return [
        await resolve_node_id(transaction, scope, reference, argument, interpretations)
        for reference in references
    ]


def with_interpretations(result: Json, interpretations: Sequence[str]) -> Json:
    """Add `interpretations` to the result, for the model and the record of the run."""
    return {**result, INTERPRETATIONS_KEY: list(interpretations)} if interpretations else result


async def _elements(transaction: Transaction, scope: GraphScope, number: int) -> Mapping[int, UUID]:
    buffer = element_buffer(transaction)
    named = buffer.lookups.get(NamedNodes) if buffer is not None else None
    if isinstance(named, NamedNodes) and number in named.elements:
        return named.elements
    return await elements_query(scope, [number]).execute(transaction)


@dataclass(frozen=True)
class _Match:
    id: UUID
    type: str
    name: str
    summary: str = ""
    key: str | None = field(default=None, compare=False)
    """Under which it was found; None for the name of the node."""


def _match(row: Row) -> _Match:
    return _Match(row.id, row.type, row.name, row.summary or "", row.key)


def _pick(name: str, matches: Iterable[_Match]) -> list[_Match]:
    """The nodes that the name means: those of the name with and without qualifiers; else those of other spellings of it.

    If none has a qualifier, a node of exactly this name comes before one that has it as another name.
    """
    of_name: dict[UUID, _Match] = {}
    spelled: dict[UUID, _Match] = {}
    is_told_apart = False
    for match in matches:
        called = normalization.normalize(name, match.type).key
        key = match.key or normalization.normalize(match.name, match.type).key
        if key == called or match.name == name:
            of_name[match.id] = match
        elif normalization.split_qualifier(key)[0] == called:
            of_name[match.id], is_told_apart = match, True
        elif normalization.fold_key(key) == normalization.fold_key(called):
            spelled[match.id] = match
    exact = [match for match in of_name.values() if match.name == name]
    if exact and not is_told_apart:
        return exact
    return list((of_name or spelled).values())


async def _find_by_name(transaction: Transaction, scope: GraphScope, name: str) -> list[_Match]:
    """The nodes that the name means; see `_pick`."""
    looked_up, written = _known_before(transaction, name)
    if looked_up is None and not any(match.name == name for match in written):
        looked_up = (await _named_query(scope, [name]).execute(transaction))[name]
    return _pick(name, [*map(_match, looked_up or ()), *written])


def _known_before(
    transaction: Transaction, name: str
) -> tuple[Sequence[Row] | None, Sequence[_Match]]:
    """The nodes of that name that were looked up, None if none was looked for, and those that the same answer has added."""
    buffer = element_buffer(transaction)
    if buffer is None:
        return None, ()
    written = [
        _Match(node["id"], node["type"], node["name"], str(node["properties"].get("summary", "")))
        for node in buffer.written_nodes.values()
    ]
    named = buffer.lookups.get(NamedNodes)
    return (None if named is None else named.get(name)), _pick(name, written)


async def _describe_candidates(
    transaction: Transaction, scope: GraphScope, name: str, matches: Sequence[_Match]
) -> str:
    if matches:
        listing = [
            f"[node:{node.id}] {node.type} {quote_name(node.name)}"
            + (f" ({truncate_text(node.summary, _MAX_SUMMARY_CHARS)})" if node.summary else "")
            for node in matches
        ]
        joined = ", ".join(sorted(listing)[:_MAX_CANDIDATES])
        return (
            f"{len(matches)} nodes have this name: {joined}. Give the id of the one that you mean."
        )
    similar = await query.query_graph(transaction, scope, text=name, limit=_MAX_CANDIDATES)
    listing = [
        f"[node:{node['id']}] {node['type']} {quote_name(node['name'])}"
        for node in similar["nodes"]
    ]
    if not listing:
        return f"no node has this name. {_ADD_FIRST}"
    return f"no node has this name. Similar: {', '.join(listing)}. {_ADD_FIRST}"


_FORMS: Final = "YYYY, YYYY-MM, YYYY-MM-DD or a full ISO 8601 time"


def parse_moment(parse: Callable[[str], datetime], text: str | None, field: str) -> datetime | None:
    """Parses an optional date with `parse`. Raises ToolRefusalError, which names the argument `field`."""
    if text is None:
        return None
    try:
        return parse(text)
    except (ValueError, OverflowError) as error:
        raise ToolRefusalError(
            f"{field}: {text[:40]!r} is not a date; write {_FORMS}, or leave it out."
        ) from error
