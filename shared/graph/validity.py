"""Applies validities that begin or end: projects the nodes and edges again whose evidence they are of.

A boundary is a row of `validity_boundaries`. Without one that is due, a look is one statement that reads an index.
"""

from collections.abc import Iterable
from typing import Final
from uuid import UUID

from shared.database.engine import Database
from shared.database.locks import shared_write_lock
from shared.database.statements import CompiledStatement, Row, json_text
from shared.database.transaction import Transaction
from shared.graph.projection import EDGES, NODES, reproject_all
from shared.graph.scope import GraphScope
from shared.workflow.agent_clock import NOW_OF_AGENTS_SQL, NOW_SQL

BATCH_SIZE: Final = 500
"""Boundaries per transaction, which locks their elements."""

_DUE_AGENT: Final = CompiledStatement(f"""
select agents.id, owner_id from validity_boundaries join agents on agents.id = agent_id
where due_at <= statement_timestamp() and due_at <= {NOW_OF_AGENTS_SQL} order by due_at limit 1
""")
_DUE: Final = CompiledStatement(f"""
select boundary.evidence_id, boundary.moment, node_id, edge_id, {NOW_SQL} as now
from (
  select evidence_id, moment from validity_boundaries
  where agent_id = :of_agent and due_at <= {NOW_SQL} order by due_at, evidence_id, moment limit :at_once
  for update skip locked
) as boundary
join evidence on evidence.id = boundary.evidence_id
""")
_APPLIED: Final = CompiledStatement("""
update validity_boundaries as boundary set due_at = case when boundary.moment > :now then boundary.moment end
from jsonb_to_recordset(cast(:boundaries as jsonb)) as given (evidence_id uuid, moment timestamptz)
where boundary.evidence_id = given.evidence_id and boundary.moment = given.moment
""")


_MAKE_DUE: Final = CompiledStatement(
    "update validity_boundaries set due_at = '-infinity' where agent_id = :of_agent"
)


async def make_all_due(transaction: Transaction, agent_id: UUID) -> None:
    """Make all boundaries of an agent due: its properties may follow from another now."""
    await _MAKE_DUE.run(transaction, {"of_agent": agent_id})


async def apply_boundaries(database: Database, *, at_once: int = BATCH_SIZE) -> None:
    """Apply all boundaries that are due. Raises TransientError: retry it then."""
    while await _apply_batch(database, at_once):
        pass


async def _apply_batch(database: Database, at_once: int) -> bool:
    """Run one transaction; returns False if nothing is due."""
    async with database.transaction() as transaction:
        agent = await _DUE_AGENT.row(transaction)
        if agent is None:
            return False
        # Nothing is merged or split meanwhile.
        await shared_write_lock(transaction, agent.id)
        params = {"of_agent": agent.id, "at_once": at_once}
        due = await _DUE.rows(transaction, params)
        if not due:  # another process has them
            return False
        scope = GraphScope(agent.owner_id, agent.id)
        for kind, column in ((NODES, "node_id"), (EDGES, "edge_id")):
            await reproject_all(transaction, scope, kind, _ids(due, column))
        boundaries = [{"evidence_id": row.evidence_id, "moment": row.moment} for row in due]
        applied = {"boundaries": json_text(boundaries), "now": due[0].now}
        await _APPLIED.run(transaction, applied)
        return True


def _ids(rows: Iterable[Row], column: str) -> set[UUID]:
    return {getattr(row, column) for row in rows} - {None}
