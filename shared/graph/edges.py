"""Edges: typed, directed, one of a type between two nodes; what pages say of them is gathered, as of nodes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, cast
from uuid import UUID

from sqlalchemy import Table, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.statements import Direct, Row
from shared.database.tables import GraphEdge
from shared.enums import ANALYSIS_TYPE
from shared.graph import types, upsert
from shared.graph.entity_resolution import redirects
from shared.graph.provenance import evidence as grounding
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import Change
from shared.graph.provenance.evidence import Ground
from shared.graph.scope import OWNED, OWNED_SQL, Scope
from shared.graph.types import RESERVED_TYPES, EdgeRules
from shared.graph.upsert import Added, Locked, Rows, add_evidence, made_or_locked
from shared.graph.validation import Validators, refuse_unstorable
from shared.tools import Json, ToolRefusalError

_EDGES: Final = cast(Table, GraphEdge.__table__)
_LOCK: Final = Direct(
    select(_EDGES.c.id, _EDGES.c.properties, _EDGES.c.seal)
    .where(
        _EDGES.c.agent_id == OWNED,
        _EDGES.c.type == bindparam("of_type"),
        _EDGES.c.source_id == bindparam("from_id"),
        _EDGES.c.target_id == bindparam("to_id"),
    )
    # Its key stays: who writes an edge or evidence of it holds that, and need not be waited for.
    .with_for_update(of=_EDGES, key_share=True)
)
# "Do nothing", not "do update": see `making`.
_TIE: Final = Direct(
    insert(_EDGES).values(agent_id=OWNED).on_conflict_do_nothing().returning(_EDGES.c.id),
    columns=(
        *("id", "type", "source_id", "target_id", "properties"),
        *("seal", "iteration_id", "step_id"),
    ),
)
_TIE_ANEW: Final = Direct(
    update(_EDGES)
    .where(_EDGES.c.agent_id == OWNED, _EDGES.c.id == bindparam("of_id"))
    .values(unsupported_since=None, updated_at=func.clock_timestamp()),
    columns=("properties", "seal"),
)
# What is found has not been moved by a merge.
_LOOK: Final = Direct(
    f"select id, type, exists (select from graph_edges where agent_id = {OWNED_SQL} and type = :of_type"
    " and source_id = :from_id and target_id = :to_id) as are_joined"
    f" from graph_nodes where agent_id = {OWNED_SQL} and id in (:from_id, :to_id)"
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
    refuse_unstorable(properties, "properties")
    try:
        found = await grounding.found(session, scope, properties, grounds)
    except ToolRefusalError:
        # What is wrong with its type or its ends is told first.
        await _between_facts(session, scope, type_name, source_id, target_id)
        raise
    kind, ends = await _between_facts(session, scope, type_name, source_id, target_id)
    edge = _Edge.between(scope, type_name, ends)
    check = partial(validators.check, kind.schema, type_name=type_name)
    return await add_evidence(session, scope, edge, found, check, is_there=ends.are_joined)


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
    kind = await types.of_edges(session, scope, type_name)
    ends = await _ends(session, scope, kind, source_id, target_id)
    if ANALYSIS_TYPE not in ends.types:
        raise ToolRefusalError(
            f"Neither end is an {ANALYSIS_TYPE}: only such edges can be added here; facts are connected where pages "
            "are read. Add the analysis first and use its id."
        )
    refuse_unstorable(properties, "properties")
    edge = _Edge.between(scope, type_name, ends)
    check = partial(validators.check, kind.schema, type_name=type_name)

    async def new() -> UUID | None:
        check(properties)
        return edge.id if await edge.tie(session, properties) else None

    held = await made_or_locked(session, edge, new, is_there=ends.are_joined)
    if isinstance(held, UUID):
        return held, True
    changed = held.properties | properties
    check(changed)
    await held.as_sealed(Change(held.properties)).tie_anew(session, changed)
    return held.thing.id, False


async def _between_facts(
    session: AsyncSession, scope: Scope, type_name: str, source_id: UUID, target_id: UUID
) -> "tuple[EdgeRules, _Ends]":
    """From here on it is our turn."""
    kind = await types.of_edges(session, scope, type_name)
    ends = await _ends(session, scope, kind, source_id, target_id)
    if conclusions := RESERVED_TYPES & set(ends.types):
        raise ToolRefusalError(
            f"One end is an {' and an '.join(sorted(conclusions))}: pages say nothing of what is concluded from them; "
            "connect facts."
        )
    return kind, ends


@dataclass(frozen=True)
class _Ends:
    """Two nodes, and whether there is such an edge between them."""

    source_id: UUID
    target_id: UUID
    types: tuple[str, str]
    are_joined: bool


async def _ends(
    session: AsyncSession, scope: Scope, kind: EdgeRules, source_id: UUID, target_id: UUID
) -> _Ends:
    """Where they are since the last merge; refuses those that cannot be the ends of such an edge."""
    found = await _look(session, scope, kind, source_id, target_id)
    if len(found) < 2:
        source_id, target_id = await redirects.followed(session, scope, (source_id, target_id))
        found = await _look(session, scope, kind, source_id, target_id)
    if source_id == target_id:
        raise ToolRefusalError(
            f"sourceId and targetId are both {source_id}; an edge joins two different nodes."
        )
    for argument, node_id in (("sourceId", source_id), ("targetId", target_id)):
        if node_id not in found:
            raise ToolRefusalError(
                f"{argument}: no such node: {node_id}; use an id that queryGraph or addGraphNode gave."
            )
    source, target = found[source_id], found[target_id]
    _refuse_wrong_type(kind, "start from", kind.source_types, source.type)
    _refuse_wrong_type(kind, "lead to", kind.target_types, target.type)
    return _Ends(source_id, target_id, (source.type, target.type), source.are_joined)


async def _look(
    session: AsyncSession, scope: Scope, kind: EdgeRules, source_id: UUID, target_id: UUID
) -> dict[UUID, Row]:
    asked = {"of_type": kind.type_name, "from_id": source_id, "to_id": target_id}
    return {row.id: row for row in await _LOOK.rows(session, {**scope.bound, **asked})}


def _refuse_wrong_type(kind: EdgeRules, verb: str, allowed: Sequence[str], actual: str) -> None:
    if allowed and actual not in allowed:
        raise ToolRefusalError(
            f"{kind.type_name} edges {verb} {' or '.join(allowed)} nodes, not {actual}; "
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
    broken_seal: bytes | None = None

    @classmethod
    def between(cls, scope: Scope, type_name: str, ends: _Ends) -> "_Edge":
        """With the id that it is made by."""
        edge_id = ids.edge_id(scope.agent_id, type_name, ends.source_id, ends.target_id)
        return cls(edge_id, scope, type_name, ends.source_id, ends.target_id)

    async def locked(self, session: AsyncSession) -> "Locked[_Edge] | None":
        between = {"of_type": self.type_name, "from_id": self.source_id, "to_id": self.target_id}
        held = await _LOCK.row(session, {**self.scope.bound, **between})
        if held is None:
            return None
        return Locked(replace(self, id=held.id), held.properties, held.seal)

    async def make(self, session: AsyncSession, made: Change, evidence: Rows) -> bool:
        return await upsert.write(session, upsert.NEW_EDGE, self.columns(made), evidence)

    async def bring_up(self, session: AsyncSession, changed: Change, evidence: Rows) -> None:
        await upsert.bring_up(session, upsert.EDGE, self.columns(changed), evidence)

    async def tie(self, session: AsyncSession, properties: Json) -> bool:
        """As `make`, without evidence: who concludes may write none."""
        tied = await _TIE.value(session, self.columns(Change(properties)))
        return tied is not None

    async def tie_anew(self, session: AsyncSession, properties: Json) -> None:
        """As `bring_up`, likewise."""
        changed = {"properties": properties, "seal": self.seal(Change(properties))}
        await _TIE_ANEW.run(session, {**self.scope.bound, "of_id": self.id, **changed})

    def columns(self, made: Change) -> dict[str, Any]:
        return {
            **self.scope.bound,
            "id": self.id,
            "type": self.type_name,
            "source_id": self.source_id,
            "target_id": self.target_id,
            "properties": made.properties,
            "seal": self.seal(made),
            "iteration_id": self.scope.iteration_id,
            "step_id": self.scope.step_id,
        }

    def broken(self, seal: bytes) -> "_Edge":
        return replace(self, broken_seal=seal)

    def seal(self, changed: Change) -> bytes:
        return self.broken_seal or integrity.of_edge(
            edge_id=self.id,
            agent_id=self.scope.agent_id,
            type_name=self.type_name,
            source_id=self.source_id,
            target_id=self.target_id,
            properties=changed.properties,
            evidence=changed.evidence,
        )
