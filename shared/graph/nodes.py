"""Nodes: what pages say of one thing, under its type and name; the same thing found twice is one node that knows more."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, cast
from uuid import UUID

from sqlalchemy import Table, bindparam, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.statements import Direct
from shared.database.tables import GraphNode
from shared.errors import TransientError
from shared.graph import types, upsert
from shared.graph.entity_resolution import aliases as node_aliases
from shared.graph.entity_resolution.aliases import Called, Settled
from shared.graph.provenance import evidence as grounding
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import Change
from shared.graph.provenance.evidence import Found, Ground
from shared.graph.scope import OWNED, Scope
from shared.graph.types import RESERVED_TYPES
from shared.graph.upsert import Added, Locked, Rows, add_evidence, make
from shared.graph.validation import Validators, normal_name, refuse_unstorable
from shared.tools import Json, ToolRefusalError

_NODES: Final = cast(Table, GraphNode.__table__)
_LOCK: Final = Direct(
    select(_NODES.c.id, _NODES.c.properties, _NODES.c.seal)
    .where(
        _NODES.c.agent_id == OWNED,
        _NODES.c.type == bindparam("of_type"),
        _NODES.c.name == bindparam("called"),
    )
    # Its key stays: who writes an edge or evidence of it holds that, and need not be waited for.
    .with_for_update(of=_NODES, key_share=True)
)
# "Do nothing", not "do update": see `making`.
_INSERT: Final = Direct(
    insert(_NODES).values(agent_id=OWNED).on_conflict_do_nothing().returning(_NODES.c.id),
    columns=("id", "type", "name", "properties", "seal", "iteration_id", "step_id"),
)


async def add(
    session: AsyncSession,
    scope: Scope,
    validators: Validators,
    *,
    type_name: str,
    name: str,
    properties: Json,
    grounds: Sequence[Ground],
    aliases: Sequence[str] = (),
    distinct_from: Collection[UUID] = (),
    likeness: float | None = None,
) -> Added:
    """Writes what `grounds` bear out of the node, which is made where none of this type is known by this name.

    One that is known by it, or by another spelling of it, is that node, and keeps its own name. Of each property the
    value that is true latest holds, whichever came first. What results must satisfy the type's schema, or nothing is
    written. For `aliases`, `distinct_from` and `likeness`, and for what a transaction that adds several must do before,
    see `names`.
    """
    _refuse_conclusions(type_name)
    name = normal_name(name)
    refuse_unstorable(properties, "properties")
    found, schema = await _borne_out(session, scope, type_name, properties, grounds)
    called = Called(type_name, name, aliases, distinct_from, likeness)
    check = partial(validators.check, schema, type_name=type_name)
    for _ in range(node_aliases.MAX_ROUNDS):
        settled = await node_aliases.find(session, scope, [called])
        if (added := await _write(session, scope, type_name, settled, found, check)) is not None:
            return added
    raise TransientError(f"{name!r} is being written by others, again and again")


def _refuse_conclusions(type_name: str) -> None:
    if type_name in RESERVED_TYPES:
        raise ToolRefusalError(
            f"{type_name} nodes are conclusions and cannot be added here; choose a type for facts."
        )


async def _borne_out(
    session: AsyncSession,
    scope: Scope,
    type_name: str,
    properties: Json,
    grounds: Sequence[Ground],
) -> tuple[list[Found], Json]:
    """What the pages bear out, and the type's schema. From here on it is our turn."""
    try:
        found = await grounding.found(session, scope, properties, grounds)
    except ToolRefusalError:
        # That there is no such type is told first.
        await types.of_nodes(session, scope, type_name)
        raise
    return found, await types.of_nodes(session, scope, type_name)


async def _write(
    session: AsyncSession,
    scope: Scope,
    type_name: str,
    settled: Settled,
    found: Sequence[Found],
    check: Callable[[Json], None],
) -> Added | None:
    """None, and nothing is written, where others have taken its name meanwhile."""
    [known] = settled.known
    node = _Node(known.node_id, scope, type_name, known.name, settled.missing)
    if known.is_there and not settled.missing:
        return await add_evidence(session, scope, node, found, check, is_there=True)
    if not known.is_there and len(settled.missing) <= 1:
        return await make(session, scope, node, found, check)
    async with session.begin_nested() as attempt:
        if not known.is_there:
            added = await make(session, scope, node, found, check)
        elif await node_aliases.take(session, settled.missing):
            added = await add_evidence(session, scope, node, found, check, is_there=True)
        else:
            added = None
        if added is None:
            await attempt.rollback()
    return added


async def insert_new(
    session: AsyncSession,
    scope: Scope,
    *,
    type_name: str,
    name: str,
    properties: Json,
    evidence: Sequence[UUID] = (),
) -> bool:
    """Writes the node, sealed, unless there is one of this type and name; `name` is normal already. False if there is.

    `evidence` are the ids of all that it rests on; who inserts writes it in the same transaction.
    """
    node = _Node(ids.node_id(scope.agent_id, type_name, name), scope, type_name, name)
    new = await _INSERT.value(session, node.columns(Change(properties, tuple(evidence))))
    return new is not None


@dataclass(frozen=True)
class _Node:
    column: ClassVar[str] = "node_id"
    id: UUID
    scope: Scope
    type_name: str
    name: str
    names: Rows = ()
    """That are taken with it."""
    broken_seal: bytes | None = None

    async def locked(self, session: AsyncSession) -> "Locked[_Node] | None":
        called = {"of_type": self.type_name, "called": self.name}
        held = await _LOCK.row(session, {**self.scope.bound, **called})
        if held is None:
            return None
        return Locked(replace(self, id=held.id), held.properties, held.seal)

    async def make(self, session: AsyncSession, made: Change, evidence: Rows) -> bool:
        return await upsert.write(
            session, upsert.NEW_NODE, self.columns(made), evidence, self.names
        )

    def columns(self, made: Change) -> dict[str, Any]:
        return {
            **self.scope.bound,
            "id": self.id,
            "type": self.type_name,
            "name": self.name,
            "properties": made.properties,
            "seal": self.seal(made),
            "iteration_id": self.scope.iteration_id,
            "step_id": self.scope.step_id,
        }

    async def bring_up(self, session: AsyncSession, changed: Change, evidence: Rows) -> None:
        await upsert.bring_up(session, upsert.NODE, self.columns(changed), evidence)

    def broken(self, seal: bytes) -> "_Node":
        return replace(self, broken_seal=seal)

    def seal(self, changed: Change) -> bytes:
        return self.broken_seal or integrity.of_node(
            node_id=self.id,
            agent_id=self.scope.agent_id,
            type_name=self.type_name,
            name=self.name,
            properties=changed.properties,
            evidence=changed.evidence,
        )
