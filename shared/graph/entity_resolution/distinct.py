"""Pairs of nodes that are not the same, though their names are similar: declared by a person, and remembered."""

from collections import defaultdict
from collections.abc import Collection
from typing import Final
from uuid import UUID, uuid4

from shared.database.statements import CompiledStatement, uuid_array
from shared.database.transaction import Transaction
from shared.errors import VigilError
from shared.graph.scope import IS_OWNED_SQL, OWNED_AGENT_ID_SQL, GraphScope


class NotComparableError(VigilError):
    """The two are one node, or of different types, and so no duplicate candidates anyway."""


async def declare_distinct(
    transaction: Transaction, scope: GraphScope, node_ids: tuple[UUID, UUID], made_by: UUID
) -> UUID | None:
    """Remembers that the two nodes are distinct; returns the id of the pair, or None if the agent does not have both.

    A pair that was declared before gets the nodes' present names. Raises NotComparableError.
    """
    one_id, other_id = sorted(node_ids)
    ends = {**scope.sql_params, "ids": uuid_array((one_id, other_id))}
    rows = await _NODES.rows(transaction, ends)
    nodes = {row.id: row for row in rows}
    if one_id not in nodes or other_id not in nodes:
        return None
    one, other = nodes[one_id], nodes[other_id]
    if one_id == other_id or one.type != other.type:
        raise NotComparableError("only nodes of the same type can be duplicates")
    params = {
        "id": uuid4(),
        "agent": scope.agent_id,
        "one": one_id,
        "other": other_id,
        "type": one.type,
        "one_name": one.name,
        "other_name": other.name,
        "made_by": made_by,
    }
    pair_id: UUID | None = await _DECLARE.value(transaction, params)
    return pair_id


async def forget_distinct(transaction: Transaction, scope: GraphScope, pair_id: UUID) -> bool:
    """Forgets a pair, so that its nodes can be candidates again. Returns whether there was one."""
    return bool(await _FORGET.run(transaction, {**scope.sql_params, "id": pair_id}))


async def distinct_nodes(
    transaction: Transaction, scope: GraphScope, node_ids: Collection[UUID]
) -> defaultdict[UUID, set[UUID]]:
    """By node, the nodes that it is distinct from. Pairs of which a node has another name by now do not count."""
    by_node: defaultdict[UUID, set[UUID]] = defaultdict(set)
    for one_id, other_id in await _DISTINCT.rows(
        transaction, {**scope.sql_params, "ids": uuid_array(node_ids)}
    ):
        by_node[one_id].add(other_id)
        by_node[other_id].add(one_id)
    return by_node


def _pairs_sql(end: str) -> str:
    return (
        "select one_id, other_id from graph_distinct_pairs pair"
        f" where pair.agent_id = {OWNED_AGENT_ID_SQL} and {end} = any(cast(:ids as uuid[]))"
        " and exists (select from graph_nodes where id = one_id and name = one_name)"
        " and exists (select from graph_nodes where id = other_id and name = other_name)"
    )


_DISTINCT: Final = CompiledStatement(f"{_pairs_sql('one_id')} union {_pairs_sql('other_id')}")
_NODES: Final = CompiledStatement(
    f"select id, type, name from graph_nodes where id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL}"
)
_DECLARE: Final = CompiledStatement("""
insert into graph_distinct_pairs (id, agent_id, one_id, other_id, type, one_name, other_name, made_by)
values (:id, :agent, :one, :other, :type, :one_name, :other_name, :made_by)
on conflict (agent_id, one_id, other_id) do update
set one_name = excluded.one_name, other_name = excluded.other_name, made_by = excluded.made_by,
  made_at = clock_timestamp()
returning id
""")
_FORGET: Final = CompiledStatement(
    f"delete from graph_distinct_pairs where id = :id and {IS_OWNED_SQL}"
)
