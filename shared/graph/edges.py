"""Edges: typed, directed, one of a type between two nodes; what pages say of them is gathered, as of nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Final, cast
from uuid import UUID

from sqlalchemy import Table, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import grounds as grounding
from shared.graph import moves
from shared.graph.grounds import Ground
from shared.graph.proof import seals
from shared.graph.proof.change import Change
from shared.graph.scope import OWNED, Scope
from shared.graph.type_names import RESERVED_TYPES
from shared.graph.types import EdgeType, edge_type
from shared.graph.validation import Validators
from shared.graph.values import refuse_unstorable
from shared.graph.writing import Added, add_evidence, made_or_locked
from shared.store import ids
from shared.store.tables import GraphEdge, GraphNode
from shared.store.words import ANALYSIS_TYPE
from shared.tools import Json, ToolRefusalError

_EDGES: Final = cast(Table, GraphEdge.__table__)
_LOCK: Final = (
    select(_EDGES.c.id, _EDGES.c.properties)
    .where(
        _EDGES.c.agent_id == OWNED,
        _EDGES.c.type == bindparam("of_type"),
        _EDGES.c.source_id == bindparam("from_id"),
        _EDGES.c.target_id == bindparam("to_id"),
    )
    # Its key stays: who writes an edge or evidence of it holds that, and need not be waited for.
    .with_for_update(of=_EDGES, key_share=True)
)
# "Do nothing", not "do update": the same reason as for nodes.
_INSERT: Final = (
    insert(_EDGES).values(agent_id=OWNED).on_conflict_do_nothing().returning(_EDGES.c.id)
)
_UPDATE: Final = (
    update(_EDGES)
    .where(_EDGES.c.agent_id == OWNED, _EDGES.c.id == bindparam("of_id"))
    # What is added is of a page that is not retracted.
    .values(unsupported_since=None, updated_at=func.clock_timestamp())
)
_ENDS: Final = select(GraphNode.id, GraphNode.type).where(
    GraphNode.agent_id == OWNED, GraphNode.id.in_(bindparam("ends", expanding=True))
)


async def add(
    session: AsyncSession,
    scope: Scope,
    validators: Validators,
    *,
    type_name: str,
    source_id: UUID,
    target_id: UUID,
    properties: Json,
    grounds: Sequence[Ground],
) -> Added:
    """Writes what `grounds` bear out of the edge, which is made where there is none; see `nodes.add`.

    Both ends must be nodes of this agent, of types that the edge type allows, and not the same node. Neither may be a
    conclusion: no page speaks of those.
    """
    kind = await edge_type(session, scope, type_name)
    source_id, target_id = await moves.ends(session, scope, source_id, target_id)
    types = await _ends(session, scope, kind, source_id, target_id)
    if conclusions := RESERVED_TYPES & set(types):
        raise ToolRefusalError(
            f"One end is an {' and an '.join(sorted(conclusions))}: pages say nothing of what is concluded from them; "
            "connect facts."
        )
    refuse_unstorable(properties, "properties")
    found = await grounding.found(session, scope, properties, grounds)
    edge = _Edge.between(scope, type_name, source_id, target_id)
    check = partial(validators.check, kind.properties_schema, type_name=type_name)
    return await add_evidence(session, scope, edge, found, check)


async def tie_analysis(
    session: AsyncSession,
    scope: Scope,
    validators: Validators,
    *,
    type_name: str,
    source_id: UUID,
    target_id: UUID,
    properties: Json,
) -> tuple[UUID, bool]:
    """The id of an edge that begins or ends at an AgentAnalysis, and whether it is new; it rests on no page.

    One that exists takes the given properties on top of its own.
    """
    kind = await edge_type(session, scope, type_name)
    source_id, target_id = await moves.ends(session, scope, source_id, target_id)
    if ANALYSIS_TYPE not in await _ends(session, scope, kind, source_id, target_id):
        raise ToolRefusalError(
            f"Neither end is an {ANALYSIS_TYPE}: only such edges can be added here; facts are connected where pages "
            "are read. Add the analysis first and use its id."
        )
    refuse_unstorable(properties, "properties")
    edge = _Edge.between(scope, type_name, source_id, target_id)
    check = partial(validators.check, kind.properties_schema, type_name=type_name)
    held = await made_or_locked(session, edge, Change(properties), check)
    if held is None:
        return edge.id, True
    edge, known = held
    check(known | properties)
    await edge.bring_up(session, Change(known | properties))
    return edge.id, False


async def _ends(
    session: AsyncSession, scope: Scope, kind: EdgeType, source_id: UUID, target_id: UUID
) -> tuple[str, str]:
    """The types of both ends; refuses those that cannot be the ends of such an edge."""
    if source_id == target_id:
        raise ToolRefusalError(
            f"sourceId and targetId are both {source_id}; an edge joins two different nodes."
        )
    found = await session.execute(_ENDS, {**scope.bound, "ends": [source_id, target_id]})
    types = {row.id: row.type for row in found}
    for argument, node_id in (("sourceId", source_id), ("targetId", target_id)):
        if node_id not in types:
            raise ToolRefusalError(
                f"{argument}: no such node: {node_id}; use an id that queryGraph or addGraphNode gave."
            )
    _refuse_wrong_type(kind, "start from", kind.source_types, types[source_id])
    _refuse_wrong_type(kind, "lead to", kind.target_types, types[target_id])
    return types[source_id], types[target_id]


def _refuse_wrong_type(kind: EdgeType, verb: str, allowed: Sequence[str], actual: str) -> None:
    if allowed and actual not in allowed:
        raise ToolRefusalError(
            f"{kind.name} edges {verb} {' or '.join(allowed)} nodes, not {actual}; "
            "turn the edge round, or use another edge type."
        )


@dataclass(frozen=True)
class _Edge:
    column: ClassVar[str] = "edge_id"
    id: UUID
    scope: Scope
    type_name: str
    source_id: UUID
    target_id: UUID

    @classmethod
    def between(cls, scope: Scope, type_name: str, source_id: UUID, target_id: UUID) -> "_Edge":
        """With the id that it is made by."""
        edge_id = ids.edge_id(scope.agent_id, type_name, source_id, target_id)
        return cls(edge_id, scope, type_name, source_id, target_id)

    async def locked(self, session: AsyncSession) -> "tuple[_Edge, Json] | None":
        between = {"of_type": self.type_name, "from_id": self.source_id, "to_id": self.target_id}
        held = (await session.execute(_LOCK, {**self.scope.bound, **between})).one_or_none()
        return None if held is None else (replace(self, id=held.id), held.properties)

    async def make(self, session: AsyncSession, made: Change) -> bool:
        new = await session.scalar(
            _INSERT,
            {
                **self.scope.bound,
                "id": self.id,
                "type": self.type_name,
                "source_id": self.source_id,
                "target_id": self.target_id,
                "properties": made.properties,
                "seal": self.seal(made),
                "iteration_id": self.scope.iteration_id,
                "step_id": self.scope.step_id,
            },
        )
        return new is not None

    async def bring_up(self, session: AsyncSession, changed: Change) -> None:
        await session.execute(
            _UPDATE,
            {
                **self.scope.bound,
                "of_id": self.id,
                "properties": changed.properties,
                "seal": self.seal(changed),
            },
        )

    def seal(self, changed: Change) -> bytes:
        return seals.of_edge(
            edge_id=self.id,
            agent_id=self.scope.agent_id,
            type_name=self.type_name,
            source_id=self.source_id,
            target_id=self.target_id,
            properties=changed.properties,
            evidence=changed.evidence,
        )
