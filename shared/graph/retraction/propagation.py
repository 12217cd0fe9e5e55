"""Propagation of retractions, restorations and refused values to nodes, edges and conclusions, in batches, with notices.

A batch is one transaction: it reprojects elements, re-evaluates the doubts about them and records its progress.
Before the first batch it waits for all writers of evidence: what they wrote is found here, or they have seen the
retraction.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from shared.database import ids
from shared.database.engine import Database
from shared.database.locks import exclusive_write_lock, shared_write_lock
from shared.database.statements import CompiledStatement, Row, uuid_array
from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE, InboxKind
from shared.graph.conclusions import citation_index
from shared.graph.projection import (
    EDGES,
    NODES,
    ElementClaims,
    load_claims,
    lock_elements,
    reproject_all,
)
from shared.graph.prompt_format import quote_name, truncate_text
from shared.graph.provenance.verdicts import IS_DUE_SQL
from shared.graph.retraction import doubts
from shared.graph.retraction.retractions import FIRST_CURSOR, RETRACTION_COLUMNS, Retraction
from shared.graph.scope import GraphScope, take_exclusive_retraction_lock

MAX_NAMED: Final = 5
MAX_URL_CHARS: Final = 200


Conclusions = Sequence[Row]
"""Id, type and name of each."""


async def notify_new_doubts(
    transaction: Transaction, scope: GraphScope, retraction: Retraction, sources: Collection[UUID]
) -> None:
    """Add one notice per retraction, if it puts any conclusion in doubt."""
    conclusions = await _load_conclusions(transaction, _DOUBTED_BECAUSE, sources)
    if not conclusions:
        return
    name = await _agent_name(transaction, scope)
    counts, page = _count_by_kind(conclusions), truncate_text(retraction.url, MAX_URL_CHARS)
    await _add_notice(
        transaction,
        scope,
        _cause(retraction),
        retraction.created_at,
        title=f"In doubt: {counts} of {name}",
        summary=f"{page} was retracted ({retraction.reason}). These conclusions are based on it: "
        f"{_list_names(conclusions)}. To trust it again, run "
        f"`vigil source restore {quote_name(retraction.url)} --agent {quote_name(name)}`.",
    )


async def notify_refusals(
    transaction: Transaction, scope: GraphScope, doubt_ids: Collection[UUID]
) -> None:
    """Add a notice about the conclusions that these new doubts put in doubt, if any."""
    if not doubt_ids:
        return
    conclusions = await _load_conclusions(transaction, _OF_DOUBTS, doubt_ids)
    name = await _agent_name(transaction, scope)
    opened_at = await _OPENED_AT.value(transaction, {"ids": uuid_array(doubt_ids)})
    counts = _count_by_kind(conclusions)
    await _add_notice(
        transaction,
        scope,
        f"refused {opened_at.isoformat()} {min(doubt_ids)}",
        opened_at,
        title=f"In doubt: {counts} of {name}",
        summary=f"A reading found that a quote does not say what these conclusions are based on:"
        f" {_list_names(conclusions)}. Run `vigil verify` with the id of one to see the quote and the result of the check.",
    )


async def notify_resolved_doubts(
    transaction: Transaction, scope: GraphScope, doubt_ids: Collection[UUID]
) -> None:
    """Add a notice about the conclusions of these doubts that have no open doubt left, if any."""
    params = {"ids": uuid_array(doubt_ids)}
    conclusions = await _load_conclusions(transaction, _OF_DOUBTS, doubt_ids)
    # Not an anti join: PostgreSQL expects few open doubts, and for each conclusion looks through all just resolved ones.
    of_conclusions = {"ids": uuid_array(row.id for row in conclusions)}
    doubted = {row.id for row in await _STILL_DOUBTED.rows(transaction, of_conclusions)}
    cleared = [row for row in conclusions if row.id not in doubted]
    retractions = [
        Retraction(*row) for row in await _RETRACTIONS_OF_DOUBTS.rows(transaction, params)
    ]
    await resolve_notices(transaction, scope, retractions)
    if not cleared:
        return
    name = await _agent_name(transaction, scope)
    closed_at = await _CLOSED_AT.value(transaction, params)
    await _add_notice(
        transaction,
        scope,
        f"lifted {closed_at.isoformat()} {min(row.id for row in cleared)}",
        closed_at,
        title=f"No longer in doubt: {_count_by_kind(cleared)} of {name}",
        summary=f"Other pages now confirm what was retracted or refused: {_list_names(cleared)}.",
    )


async def resolve_notices(
    transaction: Transaction, scope: GraphScope, retractions: Sequence[Retraction]
) -> None:
    """Mark the notices of these retractions as no longer so, and as read, where no doubt of theirs is open."""
    for retraction in retractions:
        notice = ids.notice_id(scope.agent_id, _cause(retraction), retraction.created_at.date())
        params = {"of_notice": notice, "of_retraction": retraction.id}
        await _RESOLVE_NOTICE.run(transaction, params)


def _cause(retraction: Retraction) -> str:
    return f"retraction {retraction.id}"


async def _add_notice(
    transaction: Transaction,
    scope: GraphScope,
    cause: str,
    caused_at: datetime,
    *,
    title: str,
    summary: str,
) -> None:
    params = {
        # Derived from the cause, so a repeated notice is the same row.
        "id": ids.notice_id(scope.agent_id, cause, caused_at.date()),
        "owner_id": scope.owner_id,
        "agent_id": scope.agent_id,
        "title": title,
        "summary": summary,
    }
    await _INSERT_NOTICE.run(transaction, params)


async def _agent_name(transaction: Transaction, scope: GraphScope) -> str:
    return str(await _AGENT_NAME.value(transaction, {"of_agent": scope.agent_id}))


async def _load_conclusions(
    transaction: Transaction, statement: CompiledStatement, ids_of_cause: Collection[UUID]
) -> Conclusions:
    """Advice first, then by name."""
    rows = await statement.rows(transaction, {"ids": uuid_array(ids_of_cause)})
    return sorted(rows, key=lambda row: (row.type != ADVICE_TYPE, row.name, row.id))


_CONCLUSIONS_SQL: Final = """
select distinct graph_nodes.id, type, name from graph_nodes join doubts on conclusion_id = graph_nodes.id
"""
_DOUBTED_BECAUSE: Final = CompiledStatement(
    f"{_CONCLUSIONS_SQL} where doubts.source_id = any(cast(:ids as uuid[])) and resolved_at is null"
)
_OF_DOUBTS: Final = CompiledStatement(
    f"{_CONCLUSIONS_SQL} where doubts.id = any(cast(:ids as uuid[]))"
)
_STILL_DOUBTED: Final = CompiledStatement("""
select conclusion_id as id from doubts
where conclusion_id = any(cast(:ids as uuid[])) and resolved_at is null
""")
_OPENED_AT: Final = CompiledStatement(
    "select max(since) from doubts where id = any(cast(:ids as uuid[]))"
)
_CLOSED_AT: Final = CompiledStatement(
    "select max(resolved_at) from doubts where id = any(cast(:ids as uuid[]))"
)
_RETRACTIONS_OF_DOUBTS: Final = CompiledStatement(f"""
select distinct {RETRACTION_COLUMNS} from retractions
join retracted_sources on retraction_id = retractions.id
join doubts on doubts.source_id = retracted_sources.source_id
where doubts.id = any(cast(:ids as uuid[]))
""")
_AGENT_NAME: Final = CompiledStatement("select name from agents where id = :of_agent")
_INSERT_NOTICE: Final = CompiledStatement(f"""
insert into inbox_items (id, owner_id, agent_id, kind, title, summary)
values (:id, :owner_id, :agent_id, '{InboxKind.NOTICE}', :title, :summary) on conflict do nothing
""")
_RESOLVE_NOTICE: Final = CompiledStatement("""
update inbox_items
set resolved_at = clock_timestamp(), read_at = coalesce(read_at, clock_timestamp())
where id = :of_notice and resolved_at is null and not exists (
  select from retracted_sources join doubts on doubts.source_id = retracted_sources.source_id
  where retraction_id = :of_retraction and doubts.resolved_at is null)
""")


def _list_names(conclusions: Conclusions) -> str:
    listing = "; ".join(
        f"{'advice' if row.type == ADVICE_TYPE else 'analysis'} {quote_name(row.name)} [node:{row.id}]"
        for row in conclusions[:MAX_NAMED]
    )
    more_count = len(conclusions) - MAX_NAMED
    return f"{listing}; and {more_count} more" if more_count > 0 else listing


def _count_by_kind(conclusions: Conclusions) -> str:
    advice = sum(row.type == ADVICE_TYPE for row in conclusions)
    analyses = len(conclusions) - advice
    parts = [f"{analyses} {'analysis' if analyses == 1 else 'analyses'}"] if analyses else []
    return " and ".join(
        parts + ([f"{advice} {'piece' if advice == 1 else 'pieces'} of advice"] if advice else [])
    )


BATCH_SIZE: Final = 500
"""Rows of evidence per batch. Their elements are locked for the duration of a batch."""


async def propagate_retractions(database: Database, *, at_once: int = BATCH_SIZE) -> None:
    """Propagate all due retractions, except those another process works on. Raises TransientError: retry it then."""
    while await _run_step(database, at_once):
        pass


async def _run_step(database: Database, at_once: int) -> bool:
    """Run one transaction; returns False if nothing is left to do."""
    async with database.transaction() as transaction:
        row = await _DUE.row(transaction)
        if row is None:
            return False
        *values, owner_id = row
        retraction = Retraction(*values)
        scope = GraphScope(owner_id, retraction.agent_id)
        source = await _DUE_SOURCE.row(transaction, {"of_retraction": retraction.id})
        if source is None:
            await _finish(transaction, scope, retraction)
            return True
        if source.through is None:
            through, is_due = await _wait_for_writers(transaction, scope, source.source_id), True
        else:
            through, is_due = await _propagate_batch(
                transaction, scope, source.source_id, source.through, at_once
            )
        progress = {
            "of_retraction": retraction.id,
            "of_source": source.source_id,
            "through": through,
            "is_due": is_due,
        }
        await _RECORD_PROGRESS.run(transaction, progress)
        return True


async def _wait_for_writers(transaction: Transaction, scope: GraphScope, source_id: UUID) -> UUID:
    """Wait for transactions that write evidence of the source; returns where the propagation begins.

    Locks nothing else at the same time, so that no deadlock is possible.
    """
    await exclusive_write_lock(transaction, scope.agent_id)
    await _LOCK_SOURCE.run(transaction, {"of_source": source_id})
    await citation_index.store_missing_citations(transaction, scope.agent_id)
    return FIRST_CURSOR


async def _propagate_batch(
    transaction: Transaction, scope: GraphScope, source_id: UUID, cursor: UUID, at_once: int
) -> tuple[UUID, bool]:
    """Propagate to the elements of the next evidence; returns how far that is, and whether there may be more."""
    params = {"of_source": source_id, "cursor": cursor, "at_once": at_once}
    evidence_ids = [row.id for row in await _NEXT_EVIDENCE.rows(transaction, params)]
    if not evidence_ids:
        return cursor, False
    await shared_write_lock(transaction, scope.agent_id)
    await take_exclusive_retraction_lock(transaction, scope.agent_id)
    element_ids = await _lock_elements(transaction, evidence_ids)
    claims = await _reproject(transaction, scope, element_ids)
    await doubts.reevaluate_doubts(transaction, claims, because_of=source_id)
    return evidence_ids[-1], len(evidence_ids) == at_once


async def _reproject(
    transaction: Transaction, scope: GraphScope, element_ids: Collection[UUID]
) -> dict[UUID, ElementClaims]:
    """Recompute nodes and edges; returns their claims."""
    projections = await reproject_all(transaction, scope, NODES, element_ids)
    projections |= await reproject_all(transaction, scope, EDGES, element_ids)
    return {element_id: projection.claims for element_id, projection in projections.items()}


async def _lock_elements(transaction: Transaction, evidence_ids: Collection[UUID]) -> set[UUID]:
    """Lock the elements of the evidence, nodes before edges and each in id order, which prevents deadlocks.

    Checks again after locking: an element can have been merged into another one meanwhile. Returns their ids.
    """
    locked = set[UUID]()
    while True:
        rows = await _ELEMENTS.rows(transaction, {"ids": uuid_array(evidence_ids)})
        element_ids = {row.id for row in rows}
        if element_ids <= locked:
            return element_ids
        for kind in (NODES, EDGES):
            await lock_elements(transaction, kind, element_ids - locked)
        locked |= element_ids


async def _finish(transaction: Transaction, scope: GraphScope, retraction: Retraction) -> None:
    params = {"of_retraction": retraction.id}
    sources = await _SOURCES_OF.rows(transaction, params)
    if retraction.restored_at is None:
        ids = [row.id for row in sources]
        await notify_new_doubts(transaction, scope, retraction, ids)
    else:
        # Doubts about elements that were merged since are not re-evaluated under their old ids.
        restored = [row.id for row in sources if row.retracted_at is None]
        await doubts.close_doubts(transaction, restored)
        await resolve_notices(transaction, scope, [retraction])
    await _END.run(transaction, params)


async def propagate_refusals(database: Database, *, at_once: int = BATCH_SIZE) -> None:
    """Take back the values that readings have refused, open doubts about conclusions that rest on them, and notify the
    owners. Raises TransientError: retry it then.
    """
    while await _propagate_refusals(database, at_once):
        pass


async def _propagate_refusals(database: Database, at_once: int) -> bool:
    """Run one transaction; returns False if nothing is left to do."""
    async with database.transaction() as transaction:
        agent = await _DUE_AGENT.row(transaction)
        if agent is None:
            return False
        # Without a lock on its verdicts until then: a merge, which changes them, holds this lock.
        await shared_write_lock(transaction, agent.id)
        await take_exclusive_retraction_lock(transaction, agent.id)
        verdicts = await _DUE_VERDICTS.rows(transaction, {"of_agent": agent.id, "at_once": at_once})
        await citation_index.store_missing_citations(transaction, agent.id)
        evidence_ids = {row.evidence_id for row in verdicts}
        element_ids = await _lock_elements(transaction, evidence_ids)
        scope = GraphScope(agent.owner_id, agent.id)
        opened = await doubts.reevaluate_doubts(
            transaction, await _reproject(transaction, scope, element_ids)
        )
        await notify_refusals(transaction, scope, opened)
        await _END_VERDICTS.run(transaction, {"ids": uuid_array(evidence_ids)})
        return True


async def resolve_doubts(database: Database, *, at_once: int = BATCH_SIZE) -> None:
    """Resolve doubts that new evidence makes unfounded, and notify the owners. Raises TransientError: retry it then."""
    while await _resolve_batch(database, at_once):
        pass


async def _resolve_batch(database: Database, at_once: int) -> bool:
    """Returns False if no element in doubt was written to."""
    async with database.transaction() as transaction:
        updated = [
            row
            for kind in (NODES, EDGES)
            for row in await _UPDATED_SINCE_DOUBT[kind].rows(transaction, {"at_once": at_once})
        ]
        if not updated:
            return False
        owner_id, agent_id, _ = updated[0]  # those of other agents in another transaction
        element_ids = [element_id for _, agent, element_id in updated if agent == agent_id]
        await shared_write_lock(transaction, agent_id)
        claims: dict[UUID, ElementClaims] = {}
        for kind in (NODES, EDGES):
            locked_ids = await lock_elements(transaction, kind, element_ids)
            claims |= await load_claims(transaction, kind, locked_ids)
        closed_ids = await doubts.resolve_doubts(transaction, claims)
        await notify_resolved_doubts(transaction, GraphScope(owner_id, agent_id), closed_ids)
        return True


# Pages that are stored meanwhile refer to the row.
_DUE: Final = CompiledStatement(f"""
select {RETRACTION_COLUMNS}, owner_id from retractions join agents on agents.id = agent_id
where due_at is not null order by due_at, retractions.id limit 1 for no key update of retractions skip locked
""")
_DUE_SOURCE: Final = CompiledStatement("""
select source_id, through from retracted_sources
where retraction_id = :of_retraction and is_due order by source_id limit 1
""")
_LOCK_SOURCE: Final = CompiledStatement("select from sources where id = :of_source for update")
_NEXT_EVIDENCE: Final = CompiledStatement("""
select id from evidence where source_id = :of_source and id > :cursor order by id limit :at_once
""")
_RECORD_PROGRESS: Final = CompiledStatement("""
update retracted_sources set through = :through, is_due = :is_due
where retraction_id = :of_retraction and source_id = :of_source
""")
_ELEMENTS: Final = CompiledStatement(
    "select coalesce(node_id, edge_id) as id from evidence where id = any(cast(:ids as uuid[]))"
)
_SOURCES_OF: Final = CompiledStatement("""
select id, retracted_at from sources
where id in (select source_id from retracted_sources where retraction_id = :of_retraction)
""")
_END: Final = CompiledStatement("update retractions set due_at = null where id = :of_retraction")
_DUE_AGENT: Final = CompiledStatement(f"""
select agents.id, owner_id from entailment_verdicts join agents on agents.id = agent_id
where {IS_DUE_SQL} order by entailment_verdicts.created_at, evidence_id limit 1
""")
_DUE_VERDICTS: Final = CompiledStatement(f"""
select evidence_id from entailment_verdicts
where {IS_DUE_SQL} and agent_id = :of_agent order by created_at, evidence_id limit :at_once
""")
_END_VERDICTS: Final = CompiledStatement(f"""
update entailment_verdicts set due_at = null, applied_at = clock_timestamp()
where evidence_id = any(cast(:ids as uuid[])) and {IS_DUE_SQL}
""")
# Owner, agent and id of elements that were written to after their doubt was last evaluated.
_UPDATED_SINCE_DOUBT: Final = {
    kind: CompiledStatement(f"""
select distinct owner_id, element.agent_id, element.id
from {kind.table} as element join doubts on element_id = element.id join agents on agents.id = element.agent_id
where resolved_at is null and element.updated_at > coalesce(evaluated_at, since) and not exists (
  select from retracted_sources join retractions on retractions.id = retraction_id
  where retracted_sources.source_id = doubts.source_id and due_at is not null)
order by element.agent_id, element.id limit :at_once
""")
    for kind in (NODES, EDGES)
}
