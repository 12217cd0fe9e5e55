"""Node and edge types: naming rules, lookup and creation."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Final, TypeVar

from shared.database.locks import SHARED_WRITE_LOCK_SQL, exclusive_lock
from shared.database.statements import (
    BoundQuery,
    CompiledStatement,
    Executor,
    expand_values,
    json_text,
)
from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.grounding.words import word_set
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.validation import Validators, one_line, refuse_bad_schema, refuse_unstorable
from shared.tools import Json, ToolRefusalError

RESERVED_TYPES: Final = frozenset({ANALYSIS_TYPE, ADVICE_TYPE})
"""Types of conclusions. Only the system creates them."""
MAX_TYPE_NAME_CHARS: Final = 64
_NODE_TYPE_NAME: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_EDGE_TYPE_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_SUFFIX_RULES: Final = (
    (re.compile(r"(?<=\w\w)ies$"), "y"),
    (re.compile(r"(?<=ch|sh|ss|\wx|zz)es$"), ""),
    (re.compile(r"(?<=\w\w[^sui])s$"), ""),
)
"""Plural and third-person suffixes with their replacements; -ss, -us and -is stay."""


def fold_type_name(name: str) -> str:
    """Normalize a type name: names that differ only in case, underscores or plural give the same result (TradeDeal,
    Trade_deals).
    """
    normalized = name.replace("_", "").lower()
    for plural, singular in _SUFFIX_RULES:
        if plural.search(normalized):
            return plural.sub(singular, normalized)
    return normalized


def refuse_node_type_name(name: str) -> None:
    """Raises ToolRefusalError unless `name` is valid for a node type that the system does not reserve."""
    _refuse_type_name(
        name, _NODE_TYPE_NAME, 'a capital letter, then letters and digits ("Country")'
    )
    if name.lower() in {reserved.lower() for reserved in RESERVED_TYPES}:
        raise ToolRefusalError(f"{name} is reserved for conclusions; choose another name.")


def refuse_edge_type_name(name: str) -> None:
    """Raises ToolRefusalError unless `name` is valid for an edge type."""
    _refuse_type_name(
        name, _EDGE_TYPE_NAME, 'a small letter, then small letters, digits and _ ("is_part_of")'
    )


def _refuse_type_name(name: str, pattern: re.Pattern[str], description: str) -> None:
    if not pattern.fullmatch(name) or len(name) > MAX_TYPE_NAME_CHARS:
        raise ToolRefusalError(
            f"name: {name[:MAX_TYPE_NAME_CHARS]!r} is not a valid name for a type; it must be "
            f"{description}, at most {MAX_TYPE_NAME_CHARS} characters."
        )


_NAMES_KEY: Final = "x-names"
"""In the schema of a node type: `label` if the names of its nodes are free text, `proper` if they are proper names."""
_TYPE_WORD: Final = re.compile(r"[A-Z][a-z0-9]*")


def has_labels(type_name: str, schema: Json | None = None) -> bool:
    """Whether the names of the type's nodes are labels, which no page needs to have: what its schema says, else its name."""
    stated = (schema or {}).get(_NAMES_KEY)
    if stated in ("label", "proper"):
        return bool(stated == "label")
    words = _TYPE_WORD.findall(type_name)
    return bool(words) and words[-1].lower() in word_set("label_types")


SYSTEM_CREATOR = "system"

MAX_TYPES = 200
"""Per agent, for nodes and for edges."""
_MAX_DESCRIPTION_CHARS = 500
_MAX_NAMES_LISTED = 40


@dataclass(frozen=True)
class _GraphType:
    name: str
    description: str
    properties_schema: Json
    example_properties: Json
    created_by: str
    justification: str | None
    created_at: datetime


@dataclass(frozen=True)
class NodeType(_GraphType):
    pass


@dataclass(frozen=True)
class EdgeType(_GraphType):
    source_types: tuple[str, ...]
    target_types: tuple[str, ...]


_Type = TypeVar("_Type", NodeType, EdgeType)
_T = TypeVar("_T")

_COLUMNS_SQL: Final = "name, description, properties_schema, example_properties, created_by, justification, created_at"
_NODE_TYPES: Final = CompiledStatement(
    f"select {_COLUMNS_SQL} from graph_node_types"
    f" where agent_id = {OWNED_AGENT_ID_SQL} order by name"
)
_EDGE_TYPES: Final = CompiledStatement(
    f"select {_COLUMNS_SQL}, source_types, target_types from graph_edge_types"
    f" where agent_id = {OWNED_AGENT_ID_SQL} order by name"
)
_NEW_COLUMNS_SQL: Final = (
    "agent_id, name, description, properties_schema, example_properties, created_by, justification"
)
_NEW_VALUES_SQL: Final = (
    f"{OWNED_AGENT_ID_SQL}, :name, :description, cast(:properties_schema as jsonb),"
    " cast(:example_properties as jsonb), :created_by, :justification"
)
_INSERT_NODE_TYPE: Final = CompiledStatement(
    f"insert into graph_node_types ({_NEW_COLUMNS_SQL}) values ({_NEW_VALUES_SQL})"
)
# System types are created without the lock.
_INSERT_EDGE_TYPE: Final = CompiledStatement(
    f"insert into graph_edge_types ({_NEW_COLUMNS_SQL}, source_types, target_types)"
    f" values ({_NEW_VALUES_SQL}, cast(:source_types as jsonb), cast(:target_types as jsonb))"
    " on conflict do nothing"
)


class UnknownTypeError(ToolRefusalError):
    """No type has this name. `suggestion` is the type whose name differs only in case, signs or plural, if any."""

    def __init__(self, message: str, suggestion: str | None) -> None:
        super().__init__(message)
        self.suggestion = suggestion


async def list_node_types(transaction: Executor, scope: GraphScope) -> list[NodeType]:
    """List the agent's node types by name."""
    return await node_types_query(scope).execute(transaction)


def node_types_query(scope: GraphScope) -> BoundQuery[list[NodeType]]:
    """The statement of `list_node_types`."""
    return BoundQuery(_NODE_TYPES, scope.sql_params, lambda rows: [NodeType(*row) for row in rows])


async def list_edge_types(transaction: Executor, scope: GraphScope) -> list[EdgeType]:
    """List the agent's edge types by name."""
    rows = await _EDGE_TYPES.rows(transaction, scope.sql_params)
    ends = ("source_types", "target_types")
    return [
        EdgeType(**row._asdict() | {end: tuple(getattr(row, end)) for end in ends}) for row in rows
    ]


async def get_node_type(transaction: Transaction, scope: GraphScope, name: str) -> NodeType:
    """Load a node type by name. Raises UnknownTypeError, which lists the types that exist."""
    return _find("node type", name, await list_node_types(transaction, scope))


async def get_edge_type(transaction: Transaction, scope: GraphScope, name: str) -> EdgeType:
    """Load an edge type by name. Raises UnknownTypeError, which lists the types that exist."""
    return _find("edge type", name, await list_edge_types(transaction, scope))


def _find(kind: str, name: str, types: Sequence[_Type]) -> _Type:
    for candidate in types:
        if candidate.name == name:
            return candidate
    match = _same_type(re.sub(r"[^A-Za-z0-9]", "", name), types)
    message = _unknown_type_message(kind, name, [candidate.name for candidate in types])
    raise UnknownTypeError(message, None if match is None else match.name)


async def create_node_type(
    transaction: Transaction,
    scope: GraphScope,
    validators: Validators,
    *,
    name: str,
    description: str,
    properties_schema: Json,
    example_properties: Json,
    created_by: str,
    justification: str | None = None,
) -> tuple[NodeType, bool]:
    """Create a node type, or return the existing one whose normalized name is the same.

    Returns the type and whether it is new. An existing type is not changed.
    """
    refuse_node_type_name(name)
    refuse_bad_properties(validators, name, properties_schema, example_properties)
    return await _create(
        transaction,
        scope,
        "node type",
        list_node_types,
        _INSERT_NODE_TYPE,
        name=name,
        description=description,
        created_by=created_by,
        justification=justification,
        properties_schema=properties_schema,
        example_properties=example_properties,
    )


async def create_edge_type(
    transaction: Transaction,
    scope: GraphScope,
    *,
    name: str,
    description: str,
    source_types: Sequence[str],
    target_types: Sequence[str],
    created_by: str,
    properties_schema: Json | None = None,
    example_properties: Json | None = None,
    justification: str | None = None,
) -> tuple[EdgeType, bool]:
    """Create an edge type, or return the existing one whose normalized name is the same.

    Returns the type and whether it is new. An existing type is not changed. Empty `source_types` or `target_types`
    allow any node type. The caller has checked the schema against the example; without a schema, edges may have any
    properties.
    """
    refuse_edge_type_name(name)
    node_types = [node_type.name for node_type in await list_node_types(transaction, scope)]
    for type_name in (*source_types, *target_types):
        if type_name not in node_types:
            raise ToolRefusalError(_unknown_type_message("node type", type_name, node_types))
    return await _create(
        transaction,
        scope,
        "edge type",
        list_edge_types,
        _INSERT_EDGE_TYPE,
        name=name,
        description=description,
        created_by=created_by,
        justification=justification,
        properties_schema=properties_schema or {},
        example_properties=example_properties or {},
        source_types=list(dict.fromkeys(source_types)),
        target_types=list(dict.fromkeys(target_types)),
    )


async def _create(
    transaction: Transaction,
    scope: GraphScope,
    kind: str,
    list_types: Callable[[Transaction, GraphScope], Awaitable[list[_Type]]],
    insert_statement: CompiledStatement,
    *,
    name: str,
    description: str,
    created_by: str,
    justification: str | None,
    **columns: Json | Sequence[str],
) -> tuple[_Type, bool]:
    # Serialized, so that two transactions cannot create Country and COUNTRY.
    await exclusive_lock(transaction, scope.agent_id, f"{kind}s")
    types_of_agent = await list_types(transaction, scope)
    if existing := _same_type(name, types_of_agent):
        return existing, False
    if len(types_of_agent) >= MAX_TYPES:
        raise ToolRefusalError(
            f"There are {len(types_of_agent)} {kind}s already; use the one that fits best."
        )
    values = {
        **{column: json_text(value) for column, value in columns.items()},
        "name": name,
        "description": normalize_description(description),
        "created_by": created_by,
        "justification": normalize_justification(justification),
    }
    await insert_statement.run(transaction, {**scope.sql_params, **values})
    return _find(kind, name, await list_types(transaction, scope)), True


def refuse_bad_properties(validators: Validators, name: str, schema: Json, example: Json) -> None:
    """Raises ToolRefusalError unless `schema` can describe a type's properties and `example` satisfies it."""
    refuse_bad_schema(schema)
    validators.check(schema, example, f"{name} (exampleProperties)")


def refuse_bad_edge_properties(
    validators: Validators, name: str, schema: Json | None, example: Json | None
) -> None:
    """Like `refuse_bad_properties` for an edge type, which may omit both schema and example, but not only one of them."""
    if schema is None and example is None:
        return
    if schema is None or example is None:
        missing = "propertiesSchema" if schema is None else "exampleProperties"
        raise ToolRefusalError(f"{name}: {missing} is missing; give both, or neither.")
    refuse_bad_properties(validators, name, schema, example)


def _same_type(name: str, types: Iterable[_Type]) -> _Type | None:
    """The type of exactly this name, else the first whose normalized name is the same."""
    matches = [
        candidate for candidate in types if fold_type_name(candidate.name) == fold_type_name(name)
    ]
    return min(matches, key=lambda candidate: candidate.name != name, default=None)


def normalize_justification(text: str | None) -> str | None:
    """Like `normalize_description`, for why a type is needed."""
    return None if text is None else _normalize_sentence(text, "justification")


def normalize_description(text: str) -> str:
    """Normalize a type's description to one line. Raises ToolRefusalError if it is empty or too long."""
    return _normalize_sentence(text, "description")


def _normalize_sentence(text: str, field_name: str) -> str:
    refuse_unstorable(text, field_name)
    line = one_line(text)
    if not 1 <= len(line) <= _MAX_DESCRIPTION_CHARS:
        raise ToolRefusalError(
            f"{field_name}: {len(line)} characters; give 1 to {_MAX_DESCRIPTION_CHARS}."
        )
    return line


def _unknown_type_message(type_kind: str, name: str, names: Sequence[str]) -> str:
    names_by_lower_case = {existing_name.lower(): existing_name for existing_name in names}
    suggestions = [
        names_by_lower_case[match]
        for match in get_close_matches(name.lower(), names_by_lower_case, n=3)
    ]
    hint = f" Did you mean {' or '.join(suggestions)}?" if suggestions else ""
    listed_names = ", ".join(names[:_MAX_NAMES_LISTED]) or "none yet"
    creation_tool = "createNodeType" if type_kind == "node type" else "createEdgeType"
    return (
        f"There is no {type_kind} {name[:MAX_TYPE_NAME_CHARS]!r}.{hint} There are: {listed_names}. "
        f"Use one of these, or, where {creation_tool} is offered, create it first."
    )


# Each also takes the shared write lock.
_NODE_SCHEMAS_SQL: Final = (
    f"select name, properties_schema, {SHARED_WRITE_LOCK_SQL} from graph_node_types"
    f" where agent_id = {OWNED_AGENT_ID_SQL} and name in ({{values}})"
)
_EDGE_RULES_SQL: Final = (
    f"select name, properties_schema, source_types, target_types, {SHARED_WRITE_LOCK_SQL}"
    f" from graph_edge_types where agent_id = {OWNED_AGENT_ID_SQL} and name in ({{values}})"
)


@dataclass(frozen=True)
class EdgeRules:
    type_name: str
    schema: Json
    source_types: Sequence[str]
    target_types: Sequence[str]


def node_schemas_query(scope: GraphScope, names: Iterable[str]) -> BoundQuery[dict[str, Json]]:
    """The schemas of the types that exist, by name."""
    statement, params = expand_values(_NODE_SCHEMAS_SQL, "name", list(names))
    return BoundQuery(
        statement, {**scope.sql_params, **params}, lambda rows: {row[0]: row[1] for row in rows}
    )


def edge_rules_query(scope: GraphScope, names: Iterable[str]) -> BoundQuery[dict[str, EdgeRules]]:
    """The rules of the types that exist, by name."""
    statement, params = expand_values(_EDGE_RULES_SQL, "name", list(names))
    return BoundQuery(
        statement,
        {**scope.sql_params, **params},
        lambda rows: {row[0]: EdgeRules(*row[:4]) for row in rows},
    )


def remember_types(
    transaction: Transaction,
    scope: GraphScope,
    schemas: Mapping[str, Json],
    rules: Mapping[str, EdgeRules],
) -> None:
    """Saves `get_node_schema` and `get_edge_rules` the answers of the queries above."""
    cache = transaction.cache
    for query, found in ((node_schemas_query, schemas), (edge_rules_query, rules)):
        cache |= {(query, scope.agent_id, name): value for name, value in found.items()}


async def get_node_schema(transaction: Transaction, scope: GraphScope, type_name: str) -> Json:
    """JSON Schema of the type's node properties. Raises UnknownTypeError.

    Also takes the shared write lock of the agent (see `shared.database.locks`). Cached for the transaction, since
    types never change.
    """
    return await _cached(transaction, scope, type_name, node_schemas_query, get_node_type)


async def get_edge_rules(transaction: Transaction, scope: GraphScope, type_name: str) -> EdgeRules:
    """Properties schema and allowed end types of an edge type; see `get_node_schema`."""
    return await _cached(transaction, scope, type_name, edge_rules_query, get_edge_type)


async def _cached(
    transaction: Transaction,
    scope: GraphScope,
    type_name: str,
    query: Callable[[GraphScope, Iterable[str]], BoundQuery[dict[str, _T]]],
    get_type: Callable[[Transaction, GraphScope, str], Awaitable[object]],
) -> _T:
    cache = transaction.cache
    while (key := (query, scope.agent_id, type_name)) not in cache:
        found = await query(scope, [type_name]).execute(transaction)
        if type_name in found:
            cache[key] = found[type_name]
        else:
            # Raises, unless the type was created just now.
            await get_type(transaction, scope, type_name)
    value: _T = cache[key]
    return value
