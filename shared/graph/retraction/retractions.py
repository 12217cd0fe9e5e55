"""Retraction of pages and sites: takes effect at once, is undone at once, and is propagated in batches.

A retraction covers all stored versions of a page, or of all pages of a site, and those that are stored while it is active:
`shared.graph.provenance.sources` stores them as retracted. The lock of retractions decides which of the two is first.

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
from shared.domains import MAX_DOMAINS, DomainPreferences
from shared.errors import VigilError
from shared.graph.provenance import coverage
from shared.graph.scope import (
    IS_OWNED_SQL,
    OWNED_AGENT_ID_SQL,
    GraphScope,
    take_exclusive_retraction_lock,
)
from shared.urls import page_key

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


class SiteNotBarredError(VigilError):
    """The site cannot be added to the domains that the agent's owner bars."""


class Covered(NamedTuple):
    """What a retraction covers, with what is stored of it."""

    covers: str
    """See `shared.graph.provenance.coverage`."""
    name: str
    """The address of the page, or the domain of the site."""
    sources: Collection[UUID]
    pages: int
    """Addresses, each in one spelling."""


async def find_page(transaction: Transaction, scope: GraphScope, reference: str) -> Covered:
    """All stored versions of a page, in all spellings of its address. `reference` is its URL or the id of one version.

    Raises NoSuchSourceError.
    """
    url = reference
    if (source_id := _parse_id(reference)) is not None:
        params = {**scope.sql_params, "of_source": source_id}
        url = await _URL_OF.value(transaction, params) or reference
    covered = await _find_covered(transaction, scope, page_key(url), url)
    if not covered.sources:
        raise NoSuchSourceError(f"no page was read at {reference!r}")
    return covered


async def find_site(transaction: Transaction, scope: GraphScope, domain: str) -> Covered:
    """All stored pages of a domain and its subdomains; there may be none. `domain` is normalized."""
    return await _find_covered(transaction, scope, coverage.of_site(domain), domain)


async def retract_source(
    transaction: Transaction, scope: GraphScope, reference: str, reason: str
) -> UUID:
    """Retract a page and return the id of the retraction. Its active one is returned if there is one.

    Raises NoSuchSourceError.
    """
    # Two retractions can concern the same source: each must see the other.
    await take_exclusive_retraction_lock(transaction, scope.agent_id)
    covered = await find_page(transaction, scope, reference)
    return await _retract(transaction, scope, covered, reason)


async def bar_site(transaction: Transaction, scope: GraphScope, domain: str, reason: str) -> UUID:
    """Add a domain to those that the agent's owner bars, and retract what was read there; return the id of the retraction.

    Its active one is returned if there is one. `domain` is normalized. Raises SiteNotBarredError.
    """
    await take_exclusive_retraction_lock(transaction, scope.agent_id)
    listed = await _LOCK_DOMAINS.row(transaction, scope.sql_params)
    if listed is None:
        raise SiteNotBarredError("there is no such agent")
    if domain not in listed.barred_domains:
        domains = DomainPreferences(listed.preferred_domains, [*listed.barred_domains, domain])
        if (contradiction := domains.contradiction()) is not None:
            raise SiteNotBarredError(contradiction)
        if len(domains.barred) > MAX_DOMAINS:
            raise SiteNotBarredError(
                f"an agent bars {MAX_DOMAINS} domains at most: remove one of them first."
            )
        await _BAR.run(transaction, {**scope.sql_params, "domain": domain})
    covered = await find_site(transaction, scope, domain)
    return await _retract(transaction, scope, covered, reason)


async def restore_source(transaction: Transaction, scope: GraphScope, retraction_id: UUID) -> bool:
    """Undo a retraction; a site is no longer barred then. Repeating it has no effect.

    Returns False if the agent has none of that id.
    """
    params = {**scope.sql_params, "of_retraction": retraction_id}
    # The row first, as its propagation does.
    retraction = await _LOCK_RETRACTION.row(transaction, params)
    if retraction is None:
        return False
    await take_exclusive_retraction_lock(transaction, scope.agent_id)
    if retraction.restored_at is None:
        await _RESTORE.run(transaction, params)
        rows = await _RESTORE_SOURCES.rows(transaction, params)
        restored = uuid_array(row.source_id for row in rows)
        await _UPDATE_SOURCES.run(transaction, {"sources": restored})
        if (domain := coverage.site_covered(retraction.covers or "")) is not None:
            await _UNBAR.run(transaction, {**scope.sql_params, "domain": domain})
    return True


async def _find_covered(
    transaction: Transaction, scope: GraphScope, covers: str, name: str
) -> Covered:
    rows = await _ADDRESSES.rows(transaction, scope.sql_params)
    urls = [row.url for row in rows if covers in coverage.covering(row.url)]
    params = {**scope.sql_params, "urls": urls}
    sources = [row.id for row in await _SOURCES_AT.rows(transaction, params)] if urls else []
    return Covered(covers, name, sources, len({page_key(url) for url in urls}))


async def _retract(
    transaction: Transaction, scope: GraphScope, covered: Covered, reason: str
) -> UUID:
    params = {**scope.sql_params, "covers": covered.covers, "sources": uuid_array(covered.sources)}
    active = await _ACTIVE.row(transaction, params)
    remaining = [row.id for row in await _REMAINING.rows(transaction, params)]
    if active is not None and not remaining:
        existing: UUID = active.id
        return existing
    # A release without this rule can have stored pages since, which get a retraction of their own.
    retraction_id, pages = uuid4(), uuid_array(remaining)
    values = {"agent": scope.agent_id, "url": covered.name, "covers": covered.covers}
    await _RETRACT.run(transaction, {**values, "id": retraction_id, "reason": reason})
    await _RETRACT_SOURCES.run(transaction, {"of_retraction": retraction_id, "sources": pages})
    await _UPDATE_SOURCES.run(transaction, {"sources": pages})
    return retraction_id


_URL_OF: Final = CompiledStatement(
    f"select url from sources where id = :of_source and {IS_OWNED_SQL}"
)
_ADDRESSES: Final = CompiledStatement(
    f"select distinct url from sources where agent_id = {OWNED_AGENT_ID_SQL}"
)
_SOURCES_AT: Final = CompiledStatement(f"""
select id from sources where agent_id = {OWNED_AGENT_ID_SQL} and url = any(cast(:urls as text[])) order by id
""")
_ACTIVE: Final = CompiledStatement(f"""
select id from retractions
where agent_id = {OWNED_AGENT_ID_SQL} and covers = :covers and restored_at is null order by created_at, id limit 1
""")
_REMAINING: Final = CompiledStatement(f"""
select id from unnest(cast(:sources as uuid[])) as given (id) where id not in (
  select retracted_sources.source_id from retracted_sources join retractions on retractions.id = retraction_id
  where agent_id = {OWNED_AGENT_ID_SQL} and covers = :covers and restored_at is null)
""")
_LOCK_DOMAINS: Final = CompiledStatement(f"""
select preferred_domains, barred_domains from agents where id = {OWNED_AGENT_ID_SQL} for no key update
""")
_BAR: Final = CompiledStatement(f"""
update agents set barred_domains = array_append(barred_domains, cast(:domain as text)), updated_at = clock_timestamp()
where id = {OWNED_AGENT_ID_SQL}
""")
_UNBAR: Final = CompiledStatement(f"""
update agents set barred_domains = array_remove(barred_domains, cast(:domain as text)), updated_at = clock_timestamp()
where id = {OWNED_AGENT_ID_SQL} and cast(:domain as text) = any(barred_domains)
""")
_RETRACT: Final = CompiledStatement("""
insert into retractions (id, agent_id, url, covers, reason, created_at, due_at)
select :id, :agent, :url, :covers, :reason, now.at, now.at
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
select restored_at, covers from retractions where id = :of_retraction and {IS_OWNED_SQL}
for no key update of retractions
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
