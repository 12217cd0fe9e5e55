"""Projection: computes the properties of nodes and edges from their claims, and seals them.

Any number of elements takes the same statements: lock them, load their claims, write what changed.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final, Literal
from uuid import UUID

from shared.database.statements import (
    CompiledStatement,
    Executor,
    expand_values,
    json_text,
    uuid_array,
)
from shared.database.transaction import Transaction
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import (
    UNKNOWN_DATE,
    Claim,
    is_dated_by_reading,
    project_properties,
)
from shared.graph.provenance.verdicts import REFUSED_SQL
from shared.graph.scope import IS_OWNED_SQL, GraphScope
from shared.tools import Json
from shared.workflow.agent_clock import NOW_OF_AGENTS_SQL


@dataclass(frozen=True, eq=False)
class ElementKind:
    name: Literal["node", "edge"]
    table: Literal["graph_nodes", "graph_edges"]
    evidence_column: Literal["node_id", "edge_id"]
    """The column of `evidence` that refers to the element."""
    identity: Sequence[str]
    """Identifying columns besides the id."""


NODES: Final = ElementKind("node", "graph_nodes", "node_id", ("type", "name"))
EDGES: Final = ElementKind("edge", "graph_edges", "edge_id", ("type", "source_id", "target_id"))


_UPDATE: Final = {
    kind: CompiledStatement(f"""
        update {kind.table} as element
        set properties = row.properties, seal = row.seal, updated_at = clock_timestamp(),
          unsupported_since = case when row.is_unsupported
            then coalesce(element.unsupported_since, clock_timestamp()) end
        from jsonb_to_recordset(cast(:rows as jsonb))
          as row (id uuid, properties jsonb, seal bytea, is_unsupported boolean)
        where element.id = row.id
        """)
    for kind in (NODES, EDGES)
}


@dataclass(frozen=True)
class ElementClaims:
    """All claims about one element, retracted or not."""

    claims: list[Claim] = field(default_factory=list)
    source_of: dict[UUID, UUID] = field(default_factory=dict)
    """Source id by evidence id."""
    retracted_at: dict[UUID, datetime] = field(default_factory=dict)
    """Retraction time by source id; active sources are absent."""
    now: datetime = UNKNOWN_DATE
    """Now of the agent when they were loaded; without claims, any time."""

    @property
    def evidence(self) -> list[UUID]:
        return [claim.evidence_id for claim in self.claims]

    @property
    def is_unsupported(self) -> bool:
        """Whether the element has evidence, and all of it is retracted."""
        return bool(self.claims) and all(claim.is_retracted for claim in self.claims)


async def lock_elements(
    transaction: Transaction, kind: ElementKind, element_ids: Collection[UUID]
) -> Sequence[UUID]:
    """Lock the rows in id order, which prevents deadlocks; a caller that locks both kinds locks nodes first.

    Returns the ids that exist. The others were merged into another element.
    """
    rows = await _LOCK[kind].rows(transaction, {"ids": uuid_array(element_ids)})
    return [row.id for row in rows]


# "No key update": concurrent writers of evidence share-lock the key, and must not wait for each other.
_LOCK: Final = {
    kind: CompiledStatement(
        f"select id from {kind.table} where id = any(cast(:ids as uuid[])) order by id for no key update"
    )
    for kind in (NODES, EDGES)
}
_LOCK_OWNED: Final = {
    kind: CompiledStatement(
        f"select id, properties, seal, unsupported_since, {', '.join(kind.identity)} from {kind.table}"
        f" where id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL} order by id for no key update of {kind.table}"
    )
    for kind in (NODES, EDGES)
}
_CLAIMS_SQL: Final = {
    kind: (
        f"select {kind.name}_id, evidence.id, source_id, claims, as_of, learned_at, retracted_at, url, published,"
        f" valid_from, valid_to, speaker, {REFUSED_SQL} as refused, {NOW_OF_AGENTS_SQL} as now"
        " from evidence join sources on sources.id = source_id join agents on agents.id = evidence.agent_id"
        f" where {kind.name}_id in ({{values}})"
    )
    for kind in (NODES, EDGES)
}


async def load_claims(
    transaction: Executor, kind: ElementKind, element_ids: Collection[UUID]
) -> dict[UUID, ElementClaims]:
    """Claims by element id, including elements without claims. Lock the elements first if the result decides a write."""
    by_element: dict[UUID, ElementClaims] = {}
    statement, params = expand_values(_CLAIMS_SQL[kind], "id", list(element_ids))
    for element_id, evidence, source, values, *rest in await statement.rows(transaction, params):
        as_of, learned_at, retracted_at, url, published, *rest = rest
        valid_from, valid_to, speaker, refused, now = rest
        if element_id not in by_element:
            by_element[element_id] = ElementClaims(now=now)
        claims = by_element[element_id]
        is_retracted = retracted_at is not None
        by_reading = is_dated_by_reading(as_of, valid_from, published)
        claims.claims.append(
            Claim(
                *(evidence, values, as_of, learned_at, is_retracted, url, by_reading),
                valid_from=valid_from,
                valid_to=valid_to,
                published=published,
                speaker=speaker,
                refused=frozenset(refused),
            )
        )
        claims.source_of[evidence] = source
        if is_retracted:
            claims.retracted_at[source] = retracted_at
    return {element_id: by_element.get(element_id, ElementClaims()) for element_id in element_ids}


@dataclass(frozen=True)
class Projection:
    """The properties of a node or edge as its evidence determines them."""

    properties: Json
    claims: ElementClaims


async def reproject(
    transaction: Transaction, scope: GraphScope, kind: ElementKind, element_id: UUID
) -> Json:
    """Recompute an element's properties and seal after its evidence changed; returns the properties.

    Locks the element. Raises KeyError if the agent has no such element.
    """
    projections = await reproject_all(transaction, scope, kind, [element_id], is_changed=True)
    return projections[element_id].properties


async def reproject_all(
    transaction: Transaction,
    scope: GraphScope,
    kind: ElementKind,
    element_ids: Collection[UUID],
    *,
    is_changed: bool = False,
) -> dict[UUID, Projection]:
    """Recompute elements after sources were retracted or restored, values refused, or a validity has begun or ended; returns
    the agent's elements by id.

    Locks them in id order and writes only those that change; a caller that does both kinds starts with the nodes. A seal
    that does not match is kept unless the evidence `is_changed`: a new seal would hide that a row was changed outside Vigil.
    """
    params = {**scope.sql_params, "ids": uuid_array(element_ids)}
    rows = await _LOCK_OWNED[kind].rows(transaction, params)
    rows_by_id = {row[0]: row[1:] for row in rows}
    # A separate statement, so that it sees what others committed before the locks were granted.
    claims_by_id = await load_claims(transaction, kind, rows_by_id)
    projections: dict[UUID, Projection] = {}
    changes: list[Json] = []
    for element_id, (properties, seal, unsupported_since, *identity) in rows_by_id.items():
        claims = claims_by_id[element_id]
        projected = project_properties(properties, claims.claims, claims.now)
        seal_of = partial(
            integrity.element_seal,
            kind.name,
            element_id=element_id,
            agent_id=scope.agent_id,
            identity=identity,
            evidence=claims.evidence,
        )
        new_seal, expected_seal = seal_of(properties=projected), seal_of(properties=properties)
        if seal is not None and seal != expected_seal and not is_changed:
            new_seal = seal
        projections[element_id] = Projection(projected, claims)
        is_unsupported = claims.is_unsupported
        # The seal alone would not reveal edited properties.
        if (
            seal != new_seal
            or (unsupported_since is not None) != is_unsupported
            or not integrity.is_equal(properties, projected)
        ):
            changes.append(
                {
                    "id": element_id,
                    "properties": projected,
                    "seal": new_seal,
                    "is_unsupported": is_unsupported,
                }
            )
    if changes:
        await _UPDATE[kind].run(transaction, {"rows": json_text(changes)})
    return projections
