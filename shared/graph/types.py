"""Node and edge types: names, rules, lookup, creation."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Final, TypeVar

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.locks import BESIDE_OTHERS_SQL, write_one_by_one
from shared.database.statements import Direct, within
from shared.database.tables import GraphEdgeType, GraphNodeType
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.validation import Validators, one_line, refuse_bad_schema, refuse_unstorable
from shared.tools import Json, ToolRefusalError

RESERVED_TYPES: Final = frozenset({ANALYSIS_TYPE, ADVICE_TYPE})
"""What the agent concludes; the types are the system's."""
MAX_CHARACTERS: Final = 64
_NODE_TYPE_NAME: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_EDGE_TYPE_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")
_ENDINGS: Final = (
    (re.compile(r"(?<=\w\w)ies$"), "y"),
    (re.compile(r"(?<=ch|sh|ss|\wx|zz)es$"), ""),
    (re.compile(r"(?<=\w\w[^sui])s$"), ""),
)
"""What makes a plural, or the third person, and what stands there without; -ss, -us and -is are neither."""


def folded(name: str) -> str:
    """The same for two names that differ in case, in underscores, or in a plural only: TradeDeal, Trade_deals."""
    plain = name.replace("_", "").lower()
    for plural, singular in _ENDINGS:
        if plural.search(plain):
            return plural.sub(singular, plain)
    return plain


def refuse_node_type_name(name: str) -> None:
    """Raises ToolRefusalError unless `name` may name a type of nodes that is not the system's."""
    _refuse(name, _NODE_TYPE_NAME, 'a capital letter, then letters and digits ("Country")')
    if name.lower() in {reserved.lower() for reserved in RESERVED_TYPES}:
        raise ToolRefusalError(
            f"{name} is reserved for what the agent concludes; take another name."
        )


def refuse_edge_type_name(name: str) -> None:
    """Raises ToolRefusalError unless `name` may name a type of edges."""
    _refuse(
        name, _EDGE_TYPE_NAME, 'a small letter, then small letters, digits and _ ("is_part_of")'
    )


def _refuse(name: str, form: re.Pattern[str], in_words: str) -> None:
    if not form.fullmatch(name) or len(name) > MAX_CHARACTERS:
        raise ToolRefusalError(
            f"name: {name[:MAX_CHARACTERS]!r} is no name of a type; it must be "
            f"{in_words}, at most {MAX_CHARACTERS} characters."
        )


SYSTEM = "system"

MAX_TYPES = 200
"""Of nodes, and of edges, that an agent may have: beyond it a graph has words rather than types."""
_MAX_DESCRIPTION_CHARACTERS = 500
_MAX_NAMES_TOLD = 40


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


class UnknownTypeError(ToolRefusalError):
    """There is no type of that name. `meant` is the one whose name differs in case, signs or a plural only, if any."""

    def __init__(self, message: str, meant: str | None) -> None:
        super().__init__(message)
        self.meant = meant


async def node_types(session: AsyncSession, scope: Scope) -> list[NodeType]:
    """Every node type of the agent, by name."""
    rows = await session.scalars(
        select(GraphNodeType)
        .where(GraphNodeType.agent_id == scope.agent())
        .order_by(GraphNodeType.name)
    )
    return [_node_type(row) for row in rows]


async def edge_types(session: AsyncSession, scope: Scope) -> list[EdgeType]:
    """Every edge type of the agent, by name."""
    rows = await session.scalars(
        select(GraphEdgeType)
        .where(GraphEdgeType.agent_id == scope.agent())
        .order_by(GraphEdgeType.name)
    )
    return [_edge_type(row) for row in rows]


async def node_type(session: AsyncSession, scope: Scope, name: str) -> NodeType:
    """The node type of that name; refuses, naming those that there are."""
    row = await session.scalar(
        select(GraphNodeType).where(
            GraphNodeType.agent_id == scope.agent(), GraphNodeType.name == name
        )
    )
    if row is None:
        raise _unknown_type("node type", name, await node_types(session, scope))
    return _node_type(row)


async def edge_type(session: AsyncSession, scope: Scope, name: str) -> EdgeType:
    """The edge type of that name; refuses, naming those that there are."""
    row = await session.scalar(
        select(GraphEdgeType).where(
            GraphEdgeType.agent_id == scope.agent(), GraphEdgeType.name == name
        )
    )
    if row is None:
        raise _unknown_type("edge type", name, await edge_types(session, scope))
    return _edge_type(row)


async def create_node_type(
    session: AsyncSession,
    scope: Scope,
    validators: Validators,
    *,
    name: str,
    description: str,
    properties_schema: Json,
    example_properties: Json,
    created_by: str,
    justification: str | None = None,
) -> tuple[NodeType, bool]:
    """The type and whether it is new; one whose name folds to the same is the same type, and stays as it is."""
    refuse_node_type_name(name)
    refuse_bad_properties(validators, name, properties_schema, example_properties)
    # Two may not each find nothing and make Country and COUNTRY.
    await write_one_by_one(session, scope.agent_id, "node types")
    known = await node_types(session, scope)
    if existing := _same(name, known):
        return existing, False
    _refuse_too_many("node types", len(known))
    await session.execute(
        insert(GraphNodeType).values(
            agent_id=scope.agent(),
            name=name,
            description=folded_description(description),
            properties_schema=properties_schema,
            example_properties=example_properties,
            created_by=created_by,
            justification=_justified(justification),
        )
    )
    return await node_type(session, scope, name), True


async def create_edge_type(
    session: AsyncSession,
    scope: Scope,
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
    """The type and whether it is new; one whose name folds to the same stays as it is. No source or target types mean any.

    Whoever gives a schema has checked it and the example. Without one, edges may have any properties.
    """
    refuse_edge_type_name(name)
    known_node_types = [each.name for each in await node_types(session, scope)]
    for wanted in (*source_types, *target_types):
        if wanted not in known_node_types:
            raise ToolRefusalError(_unknown("node type", wanted, known_node_types))
    await write_one_by_one(session, scope.agent_id, "edge types")
    known = await edge_types(session, scope)
    if existing := _same(name, known):
        return existing, False
    _refuse_too_many("edge types", len(known))
    await session.execute(
        insert(GraphEdgeType)
        .values(
            agent_id=scope.agent(),
            name=name,
            description=folded_description(description),
            properties_schema=properties_schema or {},
            example_properties=example_properties or {},
            source_types=list(dict.fromkeys(source_types)),
            target_types=list(dict.fromkeys(target_types)),
            created_by=created_by,
            justification=_justified(justification),
        )
        .on_conflict_do_nothing()  # with the system's own, which nobody locks for
    )
    return await edge_type(session, scope, name), True


def refuse_bad_properties(validators: Validators, name: str, schema: Json, example: Json) -> None:
    """Raises ToolRefusalError unless `schema` may describe a type's properties, and `example` satisfies it."""
    refuse_bad_schema(schema)
    validators.check(schema, example, f"{name} (exampleProperties)")


def refuse_bad_edge_properties(
    validators: Validators, name: str, schema: Json | None, example: Json | None
) -> None:
    """As `refuse_bad_properties`, of what edges need not have; raises too where there is only one of the two."""
    if schema is None and example is None:
        return
    if schema is None or example is None:
        missing = "propertiesSchema" if schema is None else "exampleProperties"
        raise ToolRefusalError(f"{name}: {missing} is missing; give both, or neither.")
    refuse_bad_properties(validators, name, schema, example)


def _same(name: str, known: Iterable[_Type]) -> _Type | None:
    """The one of exactly this name, else the first whose name folds to the same."""
    alike = [each for each in known if folded(each.name) == folded(name)]
    return min(alike, key=lambda each: each.name != name, default=None)


def refuse_bad_justification(text: str | None) -> None:
    """Raises ToolRefusalError where it can be none."""
    _justified(text)


def _justified(text: str | None) -> str | None:
    return None if text is None else _sentence(text, "justification")


def _refuse_too_many(what: str, count: int) -> None:
    if count >= MAX_TYPES:
        raise ToolRefusalError(f"There are {count} {what} already; use the one that fits best.")


def folded_description(text: str) -> str:
    """`text` on one line. Raises ToolRefusalError where it cannot describe a type."""
    return _sentence(text, "description")


def _sentence(text: str, what: str) -> str:
    refuse_unstorable(text, what)
    line = one_line(text)
    if not 1 <= len(line) <= _MAX_DESCRIPTION_CHARACTERS:
        raise ToolRefusalError(
            f"{what}: {len(line)} characters; give 1 to {_MAX_DESCRIPTION_CHARACTERS}."
        )
    return line


def _unknown_type(what: str, name: str, known: Sequence[_Type]) -> UnknownTypeError:
    same = _same(re.sub(r"[^A-Za-z0-9]", "", name), known)
    told = _unknown(what, name, [each.name for each in known])
    return UnknownTypeError(told, None if same is None else same.name)


def _unknown(what: str, name: str, known: Sequence[str]) -> str:
    by_small = {each.lower(): each for each in known}
    close = [by_small[each] for each in get_close_matches(name.lower(), by_small, n=3)]
    meant = f" Did you mean {' or '.join(close)}?" if close else ""
    listed = ", ".join(known[:_MAX_NAMES_TOLD]) or "none yet"
    maker = "createNodeType" if what == "node type" else "createEdgeType"
    return (
        f"There is no {what} {name[:MAX_CHARACTERS]!r}.{meant} There are: {listed}. "
        f"Use one of these, or, where {maker} is offered, make it first."
    )


def _node_type(row: GraphNodeType) -> NodeType:
    return NodeType(
        name=row.name,
        description=row.description,
        properties_schema=row.properties_schema,
        example_properties=row.example_properties,
        created_by=row.created_by,
        justification=row.justification,
        created_at=row.created_at,
    )


def _edge_type(row: GraphEdgeType) -> EdgeType:
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


_NODES: Final = Direct(
    f"select properties_schema, {BESIDE_OTHERS_SQL} from graph_node_types"
    f" where agent_id = {OWNED_SQL} and name = :called"
)
_EDGES: Final = Direct(
    f"select properties_schema, source_types, target_types, {BESIDE_OTHERS_SQL}"
    f" from graph_edge_types where agent_id = {OWNED_SQL} and name = :called"
)


@dataclass(frozen=True)
class EdgeRules:
    type_name: str
    schema: Json
    source_types: Sequence[str]
    target_types: Sequence[str]


async def of_nodes(session: AsyncSession, scope: Scope, type_name: str) -> Json:
    """The schema of their properties; refuses as `types.node_type` does. See `turns.write_beside_others`.

    Looked up once for all that a transaction writes: a type stays as it is.
    """
    known = within(session)
    if (key := (_NODES, scope.agent_id, type_name)) not in known:
        asked = {**scope.bound, "called": type_name}
        while (found := await _NODES.row(session, asked)) is None:
            # Refuses, but where it was made just now.
            await node_type(session, scope, type_name)
        known[key] = found.properties_schema
    schema: Json = known[key]
    return schema


async def of_edges(session: AsyncSession, scope: Scope, type_name: str) -> EdgeRules:
    """As `of_nodes`."""
    known = within(session)
    if (key := (_EDGES, scope.agent_id, type_name)) not in known:
        asked = {**scope.bound, "called": type_name}
        while (found := await _EDGES.row(session, asked)) is None:
            await edge_type(session, scope, type_name)
        known[key] = EdgeRules(type_name, *found[:3])
    rules: EdgeRules = known[key]
    return rules
