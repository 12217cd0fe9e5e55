"""Nodes: what pages say of one thing, under its type and name; the same thing found twice is one node that knows more."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final, cast
from uuid import UUID

from sqlalchemy import Table, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import grounds as grounding
from shared.graph import names
from shared.graph.grounds import Ground
from shared.graph.proof import seals
from shared.graph.proof.change import Change
from shared.graph.scope import OWNED, Scope
from shared.graph.type_names import RESERVED_TYPES
from shared.graph.types import node_schema
from shared.graph.validation import Validators
from shared.graph.values import normal_name, refuse_unstorable
from shared.graph.writing import Added, add_evidence
from shared.store import ids
from shared.store.tables import GraphNode
from shared.tools import Json, ToolRefusalError

_NODES: Final = cast(Table, GraphNode.__table__)
_LOCK: Final = (
    select(_NODES.c.id, _NODES.c.properties)
    .where(
        _NODES.c.agent_id == OWNED,
        _NODES.c.type == bindparam("of_type"),
        _NODES.c.name == bindparam("called"),
    )
    # Its key stays: who writes an edge or evidence of it holds that, and need not be waited for.
    .with_for_update(of=_NODES, key_share=True)
)
# The id follows from the name, so two unique keys clash at once; "on conflict do update" watches only one of them and
# fails on the other when two workers insert at the same moment. "Do nothing" watches both.
_INSERT: Final = (
    insert(_NODES).values(agent_id=OWNED).on_conflict_do_nothing().returning(_NODES.c.id)
)
_UPDATE: Final = (
    update(_NODES)
    .where(_NODES.c.agent_id == OWNED, _NODES.c.id == bindparam("of_id"))
    # What is added is of a page that is not retracted.
    .values(unsupported_since=None, updated_at=func.clock_timestamp())
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
    if type_name in RESERVED_TYPES:
        raise ToolRefusalError(
            f"{type_name} nodes are conclusions and cannot be added here; choose a type for facts."
        )
    schema = await node_schema(session, scope, type_name)
    name = normal_name(name)
    refuse_unstorable(properties, "properties")
    found = await grounding.found(session, scope, properties, grounds)
    called = names.Called(type_name, name, aliases, distinct_from, likeness)
    check = partial(validators.check, schema, type_name=type_name)
    async with session.begin_nested():
        [known] = await names.settle(session, scope, [called])
        node = _Node(known.node_id, scope, type_name, known.name)
        return await add_evidence(session, scope, node, found, check)


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
    node = _Node.called(scope, type_name, name)
    new = await session.scalar(
        _INSERT,
        {
            **scope.bound,
            "id": node.id,
            "type": type_name,
            "name": name,
            "properties": properties,
            "seal": node.seal(properties, evidence),
            "iteration_id": scope.iteration_id,
            "step_id": scope.step_id,
        },
    )
    return new is not None


@dataclass(frozen=True)
class _Node:
    column: ClassVar[str] = "node_id"
    id: UUID
    scope: Scope
    type_name: str
    name: str

    @classmethod
    def called(cls, scope: Scope, type_name: str, name: str) -> "_Node":
        """With the id that it is made by."""
        return cls(ids.node_id(scope.agent_id, type_name, name), scope, type_name, name)

    async def locked(self, session: AsyncSession) -> "tuple[_Node, Json] | None":
        called = {"of_type": self.type_name, "called": self.name}
        held = (await session.execute(_LOCK, {**self.scope.bound, **called})).one_or_none()
        return None if held is None else (replace(self, id=held.id), held.properties)

    async def make(self, session: AsyncSession, made: Change) -> bool:
        return await insert_new(
            session,
            self.scope,
            type_name=self.type_name,
            name=self.name,
            properties=made.properties,
            evidence=made.evidence,
        )

    async def bring_up(self, session: AsyncSession, changed: Change) -> None:
        seal = self.seal(changed.properties, changed.evidence)
        await session.execute(
            _UPDATE,
            {
                **self.scope.bound,
                "of_id": self.id,
                "properties": changed.properties,
                "seal": seal,
            },
        )

    def seal(self, properties: Json, evidence: Sequence[UUID]) -> bytes:
        return seals.of_node(
            node_id=self.id,
            agent_id=self.scope.agent_id,
            type_name=self.type_name,
            name=self.name,
            properties=properties,
            evidence=evidence,
        )
