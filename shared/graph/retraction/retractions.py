"""Retraction of sources: takes effect at once, is undone at once, and is propagated in batches.

`sources.retracted_at` is authoritative for every projection. `retractions.due_at` says that a propagation is pending,
and `retracted_sources` stores its progress, so that it continues after a crash. `shared.graph.retraction.propagation`
does that work.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from shared.database.statements import CompiledStatement, uuid_array
from shared.database.transaction import Transaction
from shared.errors import VigilError
from shared.graph.scope import (
    IS_OWNED_SQL,
    OWNED_AGENT_ID_SQL,
    GraphScope,
    take_exclusive_retraction_lock,
)

FIRST_CURSOR: Final = UUID(int=0)
"""Less than any id in use."""


RETRACTION_COLUMNS: Final = (
    "retractions.id, retractions.agent_id, url, reason, retractions.created_at, restored_at"
)


class Retraction(NamedTuple):
    """A row of `retractions`: RETRACTION_COLUMNS."""

    id: UUID
    agent_id: UUID
    url: str
    reason: str
    created_at: datetime
    restored_at: datetime | None


class NoSuchSourceError(VigilError):
    """The agent has not read any such page."""


async def retract_source(
    transaction: Transaction, scope: GraphScope, reference: str, reason: str
) -> UUID:
    """Retract a source and return the id of the retraction.

    `reference` is a URL, meaning all its stored versions, or a source id. If all of them are retracted this way
    already, the existing retraction is returned; versions read since then get a retraction of their own. Raises
    NoSuchSourceError.
    """
    # Two retractions can concern the same source: each must see the other.
    await take_exclusive_retraction_lock(transaction, scope.agent_id)
    source_id = _parse_id(reference)
    sources = await _find_sources(transaction, scope, reference, source_id)
    if not sources:
        raise NoSuchSourceError(f"no page was read at {reference!r}")
    active = await _active_retractions(transaction, sources, source_id)
    remaining = [version_id for version_id in sources if version_id not in active]
    if not remaining:
        return active[next(iter(sources))]
    retraction_id = uuid4()
    params = {
        "id": retraction_id,
        "agent": scope.agent_id,
        "url": sources[remaining[0]],
        "source": source_id,
        "reason": reason,
    }
    await _RETRACT.run(transaction, params)
    pages = {"of_retraction": retraction_id, "sources": uuid_array(remaining)}
    await _RETRACT_SOURCES.run(transaction, pages)
    await _UPDATE_SOURCES.run(transaction, {"sources": pages["sources"]})
    return retraction_id


async def restore_source(transaction: Transaction, scope: GraphScope, retraction_id: UUID) -> bool:
    """Undo a retraction; repeating it has no effect. Returns False if the agent has none of that id."""
    await take_exclusive_retraction_lock(transaction, scope.agent_id)
    params = {**scope.sql_params, "of_retraction": retraction_id}
    retraction = await _LOCK_RETRACTION.row(transaction, params)
    if retraction is None:
        return False
    if retraction.restored_at is None:
        await _RESTORE.run(transaction, params)
        rows = await _RESTORE_SOURCES.rows(transaction, params)
        restored = uuid_array(row.source_id for row in rows)
        await _UPDATE_SOURCES.run(transaction, {"sources": restored})
    return True


async def _find_sources(
    transaction: Transaction, scope: GraphScope, reference: str, source_id: UUID | None
) -> dict[UUID, str]:
    """URL by id of the referenced sources, the most recently fetched first."""
    statement = _SOURCES_AT_URL if source_id is None else _SOURCE
    params = {**scope.sql_params, "reference": reference if source_id is None else source_id}
    return {row.id: row.url for row in await statement.rows(transaction, params)}


async def _active_retractions(
    transaction: Transaction, sources: Collection[UUID], source_id: UUID | None
) -> dict[UUID, UUID]:
    """By source its active retraction of the same kind: of a URL or of one version."""
    params = {"sources": uuid_array(sources), "source": source_id}
    rows = await _ACTIVE.rows(transaction, params)
    return {row.source_id: row.id for row in rows}


_SOURCES_AT_URL: Final = CompiledStatement(f"""
select id, url from sources where agent_id = {OWNED_AGENT_ID_SQL} and url = :reference order by fetched_at desc, id
""")
_SOURCE: Final = CompiledStatement(
    f"select id, url from sources where id = :reference and {IS_OWNED_SQL}"
)
_ACTIVE: Final = CompiledStatement("""
select retracted_sources.source_id, retractions.id
from retracted_sources join retractions on retractions.id = retraction_id
where retracted_sources.source_id = any(cast(:sources as uuid[]))
  and retractions.source_id is not distinct from cast(:source as uuid) and restored_at is null
""")
_RETRACT: Final = CompiledStatement("""
insert into retractions (id, agent_id, url, source_id, reason, created_at, due_at)
select :id, :agent, :url, cast(:source as uuid), :reason, now.at, now.at
from (select clock_timestamp() as at) as now
""")
_RETRACT_SOURCES: Final = CompiledStatement("""
insert into retracted_sources (retraction_id, source_id, is_due)
select :of_retraction, unnest(cast(:sources as uuid[])), true
""")
# The oldest active retraction gives the reason.
_UPDATE_SOURCES: Final = CompiledStatement("""
update sources set retracted_at = active.created_at, retraction_reason = active.reason
from (
  select id from sources where id = any(cast(:sources as uuid[])) order by id for no key update
) as locked
left join lateral (
  select created_at, reason
  from retractions join retracted_sources on retraction_id = retractions.id
  where retracted_sources.source_id = locked.id and restored_at is null
  order by created_at, retractions.id limit 1
) as active on true
where sources.id = locked.id
""")
_LOCK_RETRACTION: Final = CompiledStatement(f"""
select restored_at from retractions where id = :of_retraction and {IS_OWNED_SQL} for update of retractions
""")
_RESTORE: Final = CompiledStatement("""
update retractions set restored_at = now.at, due_at = now.at
from (select clock_timestamp() as at) as now
where id = :of_retraction
""")
_RESTORE_SOURCES: Final = CompiledStatement("""
update retracted_sources set is_due = true, through = null
where retraction_id = :of_retraction returning source_id
""")


def _parse_id(reference: str) -> UUID | None:
    try:
        return UUID(reference)
    except ValueError:
        return None
