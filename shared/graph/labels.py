"""Labels: type and name of nodes and edges by id."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from shared.database.statements import CompiledStatement, uuid_array
from shared.database.transaction import Transaction
from shared.graph.entity_resolution.redirects import current_ids
from shared.graph.scope import IS_OWNED_SQL, GraphScope

_NODE_LABELS: Final = CompiledStatement(
    f"select id, type, name from graph_nodes where {IS_OWNED_SQL} and id = any(cast(:ids as uuid[]))"
)
_EDGE_LABELS: Final = CompiledStatement(f"""
    select edge.id, edge.type, source.name || ' → ' || target.name as name
    from (
        select * from graph_edges where {IS_OWNED_SQL} and id = any(cast(:ids as uuid[]))
    ) as edge
    join graph_nodes as source on source.id = source_id
    join graph_nodes as target on target.id = target_id
    """)


@dataclass(frozen=True)
class Label:
    """A node or edge by type and name; an edge's name consists of the names of both ends."""

    type: str
    name: str


async def load_labels(
    transaction: Transaction, scope: GraphScope, ids: Iterable[UUID]
) -> dict[UUID, Label]:
    """Load the labels of the agent's nodes and edges by id; unknown ids are left out."""
    id_set = set(ids)
    nodes = await load_node_labels(transaction, scope, id_set)
    return nodes | await load_edge_labels(transaction, scope, id_set - nodes.keys())


async def load_node_labels(
    transaction: Transaction, scope: GraphScope, ids: Iterable[UUID]
) -> dict[UUID, Label]:
    """Load the labels of nodes by id. The id of a merged node gives the label of the node it was merged into."""
    return await _load_with_redirects(transaction, scope, _NODE_LABELS, set(ids))


async def load_edge_labels(
    transaction: Transaction, scope: GraphScope, ids: Iterable[UUID]
) -> dict[UUID, Label]:
    """Like `load_node_labels`, for edges."""
    return await _load_with_redirects(transaction, scope, _EDGE_LABELS, set(ids))


async def _load_with_redirects(
    transaction: Transaction, scope: GraphScope, statement: CompiledStatement, ids: set[UUID]
) -> dict[UUID, Label]:
    labels = await _load(transaction, scope, statement, ids)
    if len(labels) == len(ids):
        return labels
    new_ids = await current_ids(transaction, scope, ids - labels.keys())
    new_labels = await _load(transaction, scope, statement, new_ids.values()) if new_ids else {}
    return labels | {
        old_id: new_labels[new_id] for old_id, new_id in new_ids.items() if new_id in new_labels
    }


async def _load(
    transaction: Transaction, scope: GraphScope, statement: CompiledStatement, ids: Iterable[UUID]
) -> dict[UUID, Label]:
    rows = await statement.rows(transaction, {**scope.sql_params, "ids": uuid_array(ids)})
    return {row.id: Label(row.type, row.name) for row in rows}
