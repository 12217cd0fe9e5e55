"""The journal of a graph, compared with the rows that it is about."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import select, text

from shared.database.tables import GraphHead, GraphJournal
from shared.database.transaction import Transaction
from shared.graph.scope import GraphScope
from shared.graph.verification.journal import load_entries

_ROWS: Final = text("""
select id::text as key, to_jsonb(nodes) as content from graph_nodes as nodes where agent_id = :agent
union all select id::text, to_jsonb(edges) from graph_edges as edges where agent_id = :agent
union all select name, jsonb_agg(to_jsonb(types)) from (
  select name, to_jsonb(graph_node_types) as content from graph_node_types where agent_id = :agent
  union all select name, to_jsonb(graph_edge_types) from graph_edge_types where agent_id = :agent
) as types group by name
""")


@dataclass(frozen=True)
class Snapshot:
    """A graph at one position of its history."""

    seq: int
    rows: Mapping[str, Any]
    """Contents of nodes and edges by id, and of types by name."""


async def take_snapshot(session: Transaction, agent_id: UUID) -> Snapshot:
    """Take a snapshot in a transaction with REPEATABLE READ."""
    head = await session.get(GraphHead, agent_id)
    rows = await session.execute(_ROWS, {"agent": agent_id})
    return Snapshot(0 if head is None else head.seq, {row.key: row.content for row in rows})


async def read_journal(session: Transaction, agent_id: UUID) -> Sequence[GraphJournal]:
    """Read the journal. Raises AssertionError if it has a gap or a wrong hash, or does not end with the head."""
    entries = list(
        await session.scalars(
            select(GraphJournal).where(GraphJournal.agent_id == agent_id).order_by(GraphJournal.seq)
        )
    )
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
    scope = GraphScope(agent_id, agent_id)
    checked = await load_entries(session, scope, 0, len(entries) + 1)
    assert [fault for entry in checked for fault in entry.faults()] == []
    head = await session.get(GraphHead, agent_id)
    if entries:
        assert head is not None
        assert (head.seq, head.hash) == (entries[-1].seq, entries[-1].hash)
    return entries


def replay(journal: Sequence[GraphJournal], before: Snapshot, after: Snapshot) -> None:
    """Replay the entries between two snapshots. Raises AssertionError unless they lead from the one to the other.

    If there is a single entry, it must name no other row.
    """
    entries = journal[before.seq : after.seq]
    rows = dict(before.rows)
    for entry in entries:
        for key in (*map(str, entry.deleted), *entry.types, *map(str, entry.changed)):
            rows.pop(key, None)
            if key in after.rows:
                rows[key] = after.rows[key]
    keys = before.rows.keys() | after.rows.keys()
    different = {key for key in keys if rows.get(key) != after.rows.get(key)}
    assert not different, f"the journal names no change of {sorted(different)}"
    if len(entries) == 1:
        [entry] = entries
        named = (
            {str(element_id) for element_id in entry.deleted},
            {*map(str, entry.changed), *entry.types},
        )
        assert named == (
            before.rows.keys() - after.rows.keys(),
            {key for key, row in after.rows.items() if before.rows.get(key) != row},
        ), "the journal names other rows"
