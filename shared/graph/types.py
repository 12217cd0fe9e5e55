"""Node and edge types: naming rules, lookup and creation."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Final, TypeVar, cast

from sqlalchemy import Table, select
from sqlalchemy.dialects.postgresql import insert

from shared.database.locks import SHARED_WRITE_LOCK_SQL, exclusive_lock
from shared.database.statements import (
    BoundQuery,
    CompiledStatement,
    Executor,
    InTransaction,
    Row,
    transaction_cache,
)
from shared.database.tables import GraphEdgeType, GraphNodeType
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.scope import OWNED_AGENT_ID, OWNED_AGENT_ID_SQL, GraphScope
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
            f"name: {name[:MAX_TYPE_NAME_CHARS]!r} is no name of a type; it must be "
            f"{description}, at most {MAX_TYPE_NAME_CHARS} characters."
        )


SYSTEM_CREATOR = "system"

MAX_TYPES = 200
"""Per agent, for nodes and for edges."""
_MAX_DESCRIPTION_CHARS = 500
_MAX_NAMES_LISTED = 40


@dataclass(frozen=True)
class NodeType:
    name: str
    description: str
    properties_schema: Json
    example_properties: Json
    created_by: str
    justification: str | None
    created_at: datetime


@dataclass(frozen=True)
class EdgeType:
    name: str
    description: str
    properties_schema: Json
    example_properties: Json
    source_types: tuple[str, ...]
    target_types: tuple[str, ...]
    created_by: str
    justification: str | None
    created_at: datetime


_Type = TypeVar("_Type", NodeType, EdgeType)
_NODE_TYPES: Final = CompiledStatement(
    select(cast(Table, GraphNodeType.__table__))
    .where(GraphNodeType.agent_id == OWNED_AGENT_ID)
    .order_by(GraphNodeType.name)
)
_EDGE_TYPES: Final = CompiledStatement(
    select(cast(Table, GraphEdgeType.__table__))
    .where(GraphEdgeType.agent_id == OWNED_AGENT_ID)
    .order_by(GraphEdgeType.name)
)

_TYPE_COLUMNS: Final = (
    *("name", "description", "properties_schema", "example_properties"),
    *("created_by", "justification"),
)
_INSERT_NODE_TYPE: Final = CompiledStatement(
    insert(cast(Table, GraphNodeType.__table__)).values(agent_id=OWNED_AGENT_ID),
    columns=_TYPE_COLUMNS,
)
_INSERT_EDGE_TYPE: Final = CompiledStatement(
    insert(cast(Table, GraphEdgeType.__table__))
    .values(agent_id=OWNED_AGENT_ID)
    .on_conflict_do_nothing(),  # system types are created without the lock
    columns=(*_TYPE_COLUMNS, "source_types", "target_types"),
)


class UnknownTypeError(ToolRefusalError):
    """No type has this name. `suggestion` is the type whose name differs only in case, signs or plural, if any."""

    def __init__(self, message: str, suggestion: str | None) -> None:
        super().__init__(message)
        self.suggestion = suggestion


async def list_node_types(session: Executor, scope: GraphScope) -> list[NodeType]:
    """List the agent's node types by name."""
    return await node_types_query(scope).answer(session)


def node_types_query(scope: GraphScope) -> BoundQuery[list[NodeType]]:
    """The statement of `list_node_types`."""
    return BoundQuery(_NODE_TYPES, scope.sql_params, lambda rows: [_node_type(row) for row in rows])


async def list_edge_types(session: Executor, scope: GraphScope) -> list[EdgeType]:
    """List the agent's edge types by name."""
    return [_edge_type(row) for row in await _EDGE_TYPES.rows(session, scope.sql_params)]


async def get_node_type(session: InTransaction, scope: GraphScope, name: str) -> NodeType:
    """Load a node type by name. Raises UnknownTypeError, which lists the types that exist."""
    types_of_agent = await list_node_types(session, scope)
    for node_type in types_of_agent:
        if node_type.name == name:
            return node_type
    raise _unknown_type_error("node type", name, types_of_agent)


async def get_edge_type(session: InTransaction, scope: GraphScope, name: str) -> EdgeType:
    """Load an edge type by name. Raises UnknownTypeError, which lists the types that exist."""
    types_of_agent = await list_edge_types(session, scope)
    for edge_type in types_of_agent:
        if edge_type.name == name:
            return edge_type
    raise _unknown_type_error("edge type", name, types_of_agent)


async def create_node_type(
    session: InTransaction,
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
    # Serialized, so that two transactions cannot create Country and COUNTRY.
    await exclusive_lock(session, scope.agent_id, "node types")
    types_of_agent = await list_node_types(session, scope)
    if existing := _same_type(name, types_of_agent):
        return existing, False
    _refuse_too_many("node types", len(types_of_agent))
    values = {
        **scope.sql_params,
        "name": name,
        "description": normalize_description(description),
        "properties_schema": properties_schema,
        "example_properties": example_properties,
        "created_by": created_by,
        "justification": _normalize_justification(justification),
    }
    await _INSERT_NODE_TYPE.run(session, values)
    return await get_node_type(session, scope, name), True


async def create_edge_type(
    session: InTransaction,
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
    node_types = [node_type.name for node_type in await list_node_types(session, scope)]
    for type_name in (*source_types, *target_types):
        if type_name not in node_types:
            raise ToolRefusalError(_unknown_type_message("node type", type_name, node_types))
    await exclusive_lock(session, scope.agent_id, "edge types")
    types_of_agent = await list_edge_types(session, scope)
    if existing := _same_type(name, types_of_agent):
        return existing, False
    _refuse_too_many("edge types", len(types_of_agent))
    values = {
        **scope.sql_params,
        "name": name,
        "description": normalize_description(description),
        "properties_schema": properties_schema or {},
        "example_properties": example_properties or {},
        "source_types": list(dict.fromkeys(source_types)),
        "target_types": list(dict.fromkeys(target_types)),
        "created_by": created_by,
        "justification": _normalize_justification(justification),
    }
    await _INSERT_EDGE_TYPE.run(session, values)
    return await get_edge_type(session, scope, name), True


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


def refuse_bad_justification(text: str | None) -> None:
    """Raises ToolRefusalError if the text is empty or too long."""
    _normalize_justification(text)


def _normalize_justification(text: str | None) -> str | None:
    return None if text is None else _normalize_sentence(text, "justification")


def _refuse_too_many(types_label: str, count: int) -> None:
    if count >= MAX_TYPES:
        raise ToolRefusalError(
            f"There are {count} {types_label} already; use the one that fits best."
        )


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


def _unknown_type_error(type_kind: str, name: str, types: Sequence[_Type]) -> UnknownTypeError:
    match = _same_type(re.sub(r"[^A-Za-z0-9]", "", name), types)
    message = _unknown_type_message(type_kind, name, [candidate.name for candidate in types])
    return UnknownTypeError(message, None if match is None else match.name)


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


def _node_type(row: Row) -> NodeType:
    return NodeType(
        name=row.name,
        description=row.description,
        properties_schema=row.properties_schema,
        example_properties=row.example_properties,
        created_by=row.created_by,
        justification=row.justification,
        created_at=row.created_at,
    )


def _edge_type(row: Row) -> EdgeType:
    return EdgeType(
        name=row.name,
        description=row.description,
        properties_schema=row.properties_schema,
        example_properties=row.example_properties,
        source_types=tuple(row.source_types),
        target_types=tuple(row.target_types),
        created_by=row.created_by,
        justification=row.justification,
        created_at=row.created_at,
    )


_NODE_SCHEMA: Final = CompiledStatement(
    f"select properties_schema, {SHARED_WRITE_LOCK_SQL} from graph_node_types"
    f" where agent_id = {OWNED_AGENT_ID_SQL} and name = :called"
)
_EDGE_RULES: Final = CompiledStatement(
    f"select properties_schema, source_types, target_types, {SHARED_WRITE_LOCK_SQL}"
    f" from graph_edge_types where agent_id = {OWNED_AGENT_ID_SQL} and name = :called"
)
_NODE_SCHEMAS: Final = CompiledStatement(
    f"select name, properties_schema from graph_node_types"
    f" where agent_id = {OWNED_AGENT_ID_SQL} and name = any(cast(:names as text[]))"
)
_RULES_OF_EDGES: Final = CompiledStatement(
    f"select name, properties_schema, source_types, target_types"
    f" from graph_edge_types where agent_id = {OWNED_AGENT_ID_SQL} and name = any(cast(:names as text[]))"
)


@dataclass(frozen=True)
class EdgeRules:
    type_name: str
    schema: Json
    source_types: Sequence[str]
    target_types: Sequence[str]


def node_schemas_query(scope: GraphScope, names: Iterable[str]) -> BoundQuery[dict[str, Json]]:
    """The schemas of the types that exist, by name. The caller holds the write lock."""
    params = {**scope.sql_params, "names": list(names)}
    return BoundQuery(_NODE_SCHEMAS, params, lambda rows: {row[0]: row[1] for row in rows})


def edge_rules_query(scope: GraphScope, names: Iterable[str]) -> BoundQuery[dict[str, EdgeRules]]:
    """The rules of the types that exist, by name. The caller holds the write lock."""
    params = {**scope.sql_params, "names": list(names)}
    return BoundQuery(
        _RULES_OF_EDGES, params, lambda rows: {row[0]: EdgeRules(*row) for row in rows}
    )


def remember_types(
    session: InTransaction,
    scope: GraphScope,
    schemas: Mapping[str, Json],
    rules: Mapping[str, EdgeRules],
) -> None:
    """Saves `get_node_schema` and `get_edge_rules` the answers of the queries above."""
    cache = transaction_cache(session)
    cache |= {(_NODE_SCHEMA, scope.agent_id, name): schema for name, schema in schemas.items()}
    cache |= {(_EDGE_RULES, scope.agent_id, name): rule for name, rule in rules.items()}


async def get_node_schema(session: InTransaction, scope: GraphScope, type_name: str) -> Json:
    """JSON Schema of the type's node properties. Raises UnknownTypeError.

    Also takes the shared write lock of the agent (see `shared.database.locks`). Cached for the transaction, since
    types never change.
    """
    cache = transaction_cache(session)
    if (key := (_NODE_SCHEMA, scope.agent_id, type_name)) not in cache:
        params = {**scope.sql_params, "called": type_name}
        while (row := await _NODE_SCHEMA.row(session, params)) is None:
            # Raises, unless the type was created just now.
            await get_node_type(session, scope, type_name)
        cache[key] = row.properties_schema
    schema: Json = cache[key]
    return schema


async def get_edge_rules(session: InTransaction, scope: GraphScope, type_name: str) -> EdgeRules:
    """Properties schema and allowed end types of an edge type; see `get_node_schema`."""
    cache = transaction_cache(session)
    if (key := (_EDGE_RULES, scope.agent_id, type_name)) not in cache:
        params = {**scope.sql_params, "called": type_name}
        while (row := await _EDGE_RULES.row(session, params)) is None:
            await get_edge_type(session, scope, type_name)
        cache[key] = EdgeRules(type_name, *row[:3])
    rules: EdgeRules = cache[key]
    return rules
