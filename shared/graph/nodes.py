"""Nodes: created or updated from verified evidence, one node per entity."""

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Final, cast
from uuid import UUID

from sqlalchemy import Table, bindparam, select

from shared.database import ids
from shared.database.statements import (
    ANY_OF_IDS,
    BoundQuery,
    CompiledStatement,
    InTransaction,
    savepoint,
    uuid_array,
)
from shared.database.tables import GraphNode
from shared.errors import TransientError
from shared.graph import types, upsert
from shared.graph.entity_resolution import aliases as node_aliases
from shared.graph.entity_resolution.aliases import NameRequest, Resolution
from shared.graph.provenance import evidence as evidence_rules
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import PropertyChange
from shared.graph.provenance.evidence import EvidenceInput, VerifiedQuote
from shared.graph.scope import OWNED_AGENT_ID, GraphScope, is_owned
from shared.graph.types import RESERVED_TYPES
from shared.graph.upsert import LockedElement, Rows, UpsertResult, insert_element, upsert_element
from shared.graph.validation import Validators, normalize_name, refuse_unstorable
from shared.tools import Json, ToolRefusalError

_NODES: Final = cast(Table, GraphNode.__table__)
_LOCK_NODE: Final = CompiledStatement(
    select(_NODES.c.id, _NODES.c.properties, _NODES.c.seal)
    .where(
        _NODES.c.agent_id == OWNED_AGENT_ID,
        _NODES.c.type == bindparam("of_type"),
        _NODES.c.name == bindparam("called"),
    )
    # "No key update": writers of edges or evidence share-lock the key and need not wait.
    .with_for_update(of=_NODES, key_share=True)
)
_EXISTING: Final = CompiledStatement(
    select(_NODES.c.id).where(is_owned(_NODES.c.agent_id), _NODES.c.id == ANY_OF_IDS)
)


def existing_ids(scope: GraphScope, node_ids: Iterable[UUID]) -> BoundQuery[set[UUID]]:
    """Those of the ids that belong to a node of the agent."""
    params = {**scope.sql_params, "ids": uuid_array(node_ids)}
    return BoundQuery(_EXISTING, params, lambda rows: {row.id for row in rows})


async def add_node(
    session: InTransaction,
    scope: GraphScope,
    validators: Validators,
    *,
    type_name: str,
    name: str,
    properties: Json,
    evidence: Sequence[EvidenceInput],
    aliases: Sequence[str] = (),
    distinct_from: Collection[UUID] = (),
    duplicate_threshold: float | None = None,
) -> UpsertResult:
    """Create or update the node, and write the evidence that supports it.

    A node of this type that is known by this name, in whatever spelling, is updated and keeps its name. For each
    property the value with the latest `as_of` wins, whatever the order of writing. Raises ToolRefusalError, and
    writes nothing, if a quote cannot be verified or the resulting properties violate the type's schema. For
    `aliases`, `distinct_from` and `duplicate_threshold`, and for transactions that add several nodes, see
    `entity_resolution.aliases`.
    """
    _refuse_conclusions(type_name)
    name = normalize_name(name)
    refuse_unstorable(properties, "properties")
    quotes, schema = await _verify_evidence(session, scope, type_name, properties, evidence)
    request = NameRequest(type_name, name, aliases, distinct_from, duplicate_threshold)
    check = partial(validators.check, schema, type_name=type_name)
    for _ in range(node_aliases.MAX_ROUNDS):
        resolution = await node_aliases.resolve_names(session, scope, [request])
        if (
            result := await _write(session, scope, type_name, resolution, quotes, check)
        ) is not None:
            return result
    raise TransientError(f"{name!r} is being written by others, too often: retry the step")


def _refuse_conclusions(type_name: str) -> None:
    if type_name in RESERVED_TYPES:
        raise ToolRefusalError(
            f"{type_name} nodes are conclusions and cannot be added here; choose a type for facts."
        )


async def _verify_evidence(
    session: InTransaction,
    scope: GraphScope,
    type_name: str,
    properties: Json,
    evidence: Sequence[EvidenceInput],
) -> tuple[list[VerifiedQuote], Json]:
    """The verified quotes and the type's schema. Also takes the shared write lock."""
    try:
        quotes = await evidence_rules.verify_quotes(session, scope, properties, evidence)
    except ToolRefusalError:
        # An unknown type is reported before bad evidence.
        await types.get_node_schema(session, scope, type_name)
        raise
    return quotes, await types.get_node_schema(session, scope, type_name)


async def _write(
    session: InTransaction,
    scope: GraphScope,
    type_name: str,
    resolution: Resolution,
    quotes: Sequence[VerifiedQuote],
    check: Callable[[Json], None],
) -> UpsertResult | None:
    """Returns None, and writes nothing, if another transaction has reserved one of the names meanwhile."""
    [resolved] = resolution.nodes
    node = _NodeElement(resolved.node_id, scope, type_name, resolved.name, resolution.missing_rows)
    if resolved.is_there and not resolution.missing_rows:
        return await upsert_element(session, scope, node, quotes, check, is_there=True)
    buffer = upsert.element_buffer(session)
    if not resolved.is_there and (buffer is not None or len(resolution.missing_rows) <= 1):
        return await insert_element(session, scope, node, quotes, check)
    result = None
    with suppress(_NameTakenError):
        async with savepoint(session):
            if not resolved.is_there:
                result = await insert_element(session, scope, node, quotes, check)
            elif await node_aliases.reserve_names(session, resolution.missing_rows):
                result = await upsert_element(session, scope, node, quotes, check, is_there=True)
            if result is None:
                raise _NameTakenError
    if result is not None and buffer is not None:
        buffer.note_names(resolution.missing_rows, resolved.name)
    return result


class _NameTakenError(Exception):
    """Another transaction has reserved one of the names meanwhile."""


def new_columns(scope: GraphScope, *, type_name: str, name: str, properties: Json) -> Json:
    """The columns of a new node without evidence, sealed. `name` must be normalized."""
    node = _NodeElement(ids.node_id(scope.agent_id, type_name, name), scope, type_name, name)
    return node.columns(PropertyChange(properties))


@dataclass(frozen=True)
class _NodeElement:
    column: ClassVar[str] = "node_id"
    id: UUID
    scope: GraphScope
    type_name: str
    name: str
    names: Rows = ()
    """Rows of the names to reserve together with the node."""
    broken_seal: bytes | None = None

    async def lock_row(self, session: InTransaction) -> "LockedElement[_NodeElement] | None":
        params = {"of_type": self.type_name, "called": self.name}
        row = await _LOCK_NODE.row(session, {**self.scope.sql_params, **params})
        if row is None:
            return None
        return LockedElement(replace(self, id=row.id), row.properties, row.seal)

    async def insert(self, session: InTransaction, change: PropertyChange, evidence: Rows) -> bool:
        if (buffer := upsert.element_buffer(session)) is not None:
            buffer.add_node(self.columns(change), evidence, self.names)
            return True
        return await upsert.write_element(
            session, upsert.INSERT_NODE_SQL, self.columns(change), evidence, self.names
        )

    def columns(self, change: PropertyChange) -> dict[str, Any]:
        return {
            **self.scope.sql_params,
            "id": self.id,
            "type": self.type_name,
            "name": self.name,
            "properties": change.properties,
            "seal": self.compute_seal(change),
            "iteration_id": self.scope.iteration_id,
            "step_id": self.scope.step_id,
        }

    async def update(self, session: InTransaction, change: PropertyChange, evidence: Rows) -> None:
        await upsert.update_element(session, upsert.UPDATE_NODE_SQL, self.columns(change), evidence)

    def with_broken_seal(self, seal: bytes) -> "_NodeElement":
        return replace(self, broken_seal=seal)

    def compute_seal(self, change: PropertyChange) -> bytes:
        return self.broken_seal or integrity.node_seal(
            node_id=self.id,
            agent_id=self.scope.agent_id,
            type_name=self.type_name,
            name=self.name,
            properties=change.properties,
            evidence=change.evidence,
        )
