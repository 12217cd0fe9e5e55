"""What nodes and edges of a type must satisfy: asked for by whoever is about to write one, who takes its turn with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.turns import BESIDE_OTHERS_SQL
from shared.graph.types import edge_type, node_type
from shared.store.direct import Direct
from shared.store.within import within
from shared.tools import Json


class Of(StrEnum):
    NODES = "node"
    EDGES = "edge"


_EVERY: Final = "cast(array[] as text[])"


def _sql(of: Of, source_types: str, target_types: str) -> str:
    return (
        f"select properties_schema, {source_types} as source_types, {target_types} as target_types,"
        f" {BESIDE_OTHERS_SQL} as turn from graph_{of}_types where agent_id = {OWNED_SQL} and name = :called"
    )


SQL: Final = {
    Of.NODES: _sql(Of.NODES, _EVERY, _EVERY),
    Of.EDGES: _sql(Of.EDGES, "source_types", "target_types"),
}
"""At most one row, of COLUMNS; given `Scope.bound`, and what the type is `called`."""
COLUMNS: Final = ("properties_schema", "source_types", "target_types", "turn")
_STATEMENTS: Final = {of: Direct(sql) for of, sql in SQL.items()}
_REFUSES: Final = {Of.NODES: node_type, Of.EDGES: edge_type}


@dataclass(frozen=True)
class Rules:
    """`source_types` and `target_types` are of edges; none of them are any."""

    type_name: str
    schema: Json
    source_types: Sequence[str]
    target_types: Sequence[str]


async def of_nodes(session: AsyncSession, scope: Scope, type_name: str) -> Rules:
    """Refuses as `types.node_type` does. See `turns.write_beside_others`.

    Looked up once for all that a transaction writes: a type stays as it is.
    """
    return await _of(session, scope, Of.NODES, type_name)


async def of_edges(session: AsyncSession, scope: Scope, type_name: str) -> Rules:
    """As `of_nodes`, and `types.edge_type`."""
    return await _of(session, scope, Of.EDGES, type_name)


def are_known(session: AsyncSession, scope: Scope, of: Of, type_name: str) -> bool:
    """To this transaction, which had its turn then."""
    return _key(scope, of, type_name) in within(session)


def keep(session: AsyncSession, scope: Scope, of: Of, type_name: str, row: Sequence[Any]) -> None:
    """What one row of SQL says."""
    within(session)[_key(scope, of, type_name)] = Rules(type_name, *row[:3])


async def _of(session: AsyncSession, scope: Scope, of: Of, type_name: str) -> Rules:
    asked = {**scope.bound, "called": type_name}
    while not are_known(session, scope, of, type_name):
        if (found := await _STATEMENTS[of].row(session, asked)) is not None:
            keep(session, scope, of, type_name, found)
        else:
            # Refuses, but where it was made just now.
            await _REFUSES[of](session, scope, type_name)
    rules: Rules = within(session)[_key(scope, of, type_name)]
    return rules


def _key(scope: Scope, of: Of, type_name: str) -> tuple[Of, UUID, str]:
    return of, scope.agent_id, type_name
