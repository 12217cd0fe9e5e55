"""Nodes: created or updated from verified evidence, one node per entity."""

from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from shared.database import ids
from shared.database.statements import (
    BoundQuery,
    CompiledStatement,
    InTransaction,
    uuid_array,
)
from shared.graph import types
from shared.graph.entity_resolution import normalization
from shared.graph.entity_resolution.aliases import NameRequest, resolve_name
from shared.graph.entity_resolution.candidates import DUPLICATE_THRESHOLD, similarity
from shared.graph.entity_resolution.known_names import ground, refuse_unquoted_aliases
from shared.graph.projection import NODES
from shared.graph.provenance import evidence as evidence_rules
from shared.graph.provenance.claims import PropertyChange
from shared.graph.provenance.evidence import EvidenceInput, VerifiedQuote
from shared.graph.scope import IS_OWNED_SQL, GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.graph.upsert import Element, UpsertResult, upsert_element
from shared.graph.validation import Validators, normalize_name, refuse_unstorable
from shared.tools import Json, ToolRefusalError

_EXISTING: Final = CompiledStatement(
    f"select id from graph_nodes where {IS_OWNED_SQL} and id = any(cast(:ids as uuid[]))"
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
    `aliases`, `distinct_from` and `duplicate_threshold`, see `entity_resolution.aliases`.
    """
    _refuse_conclusions(type_name)
    name = normalize_name(name)
    refuse_unstorable(properties, "properties")
    quotes, schema = await _verify_evidence(session, scope, type_name, properties, evidence)
    request = NameRequest(type_name, name, aliases, distinct_from, duplicate_threshold)
    resolution = await resolve_name(session, scope, request)
    resolved = resolution.node
    spellings = _spellings(aliases, resolved.name, type_name)
    known = [name, resolved.name, *spellings]
    quotes = await ground(session, scope, quotes, [(resolved.node_id, known, resolved.is_there)])
    new_names = {row["name"] for row in resolution.missing_rows}
    new_aliases = [alias for alias in aliases if alias in new_names and alias not in spellings]
    refuse_unquoted_aliases(quotes, new_aliases, [name, resolved.name])
    identity = {"type": type_name, "name": resolved.name}
    node = Element(NODES, scope, resolved.node_id, identity, resolution.missing_rows)
    check = partial(validators.check, schema, type_name=type_name)
    return await upsert_element(session, node, quotes, check, is_there=resolved.is_there)


def _spellings(aliases: Sequence[str], name: str, type_name: str) -> list[str]:
    """Those of the aliases that are other spellings of the name. A page may use any other name only once it is known."""
    key = normalization.normalize(name, type_name).key
    return [
        alias
        for alias in aliases
        if similarity(normalization.normalize(normalize_name(alias, "aliases"), type_name).key, key)
        >= DUPLICATE_THRESHOLD
    ]


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


def new_columns(
    scope: GraphScope, *, type_name: str, name: str, properties: Json, rules: Json
) -> Json:
    """The columns of a new conclusion, sealed. `name` must be normalized; `rules` are those that accepted it."""
    node_id = ids.node_id(scope.agent_id, type_name, name)
    node = Element(NODES, scope, node_id, {"type": type_name, "name": name}, rules=rules)
    return node.columns(PropertyChange(properties))
