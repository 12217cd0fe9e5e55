"""The pages that an agent has read: kept as they came, found again by their address."""

import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

from sqlalchemy import bindparam, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.statements import Direct, spelled, within
from shared.database.tables import Source
from shared.graph.provenance import integrity
from shared.graph.provenance.claims import published
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.validation import one_line
from shared.tools import Json

LONGEST_URL_BYTES: Final = 2_000
"""What an index holds of an address; pages of longer ones are not kept."""
MOST_VERSIONS: Final = 50
"""Of one page, the newest, in which a quote is looked for."""
_RECENT: Final = 1_000
"""So many pages, those fetched last, can be named by an address that is spelt another way."""
_LATEST_PUBLISHED: Final = timedelta(days=1)


_PAGE: Final = "id, url, published, fetched_at, retracted_at, retracted_because, step_id, statement_timestamp()"
_NEWEST_FIRST: Final = f"order by fetched_at desc, id limit {_RECENT}"
_AT: Final = (
    f"select {_PAGE}, case row_number() over (partition by url order by fetched_at desc, id)"
    " when 1 then text end from sources"
    f" where agent_id = {OWNED_SQL} and url in ({{values}}) {_NEWEST_FIRST}"
)
_ALL: Final = Direct(
    f"select {_PAGE}, null from sources where agent_id = {OWNED_SQL} {_NEWEST_FIRST}"
)
_DATES: Final = Direct(f"""
    select clock_timestamp() as now, url, published
    from (values (1)) once left join lateral (
      select distinct on (url) url, published from sources
      where agent_id = {OWNED_SQL} and url = any(cast(:urls as text[])) and published is not null
      order by url, fetched_at desc
    ) dated on true
""")
# In one order everywhere: two steps that bring the same pages would wait for each other for ever.
_KEEP: Final = Direct(f"""
    insert into sources (id, agent_id, url, title, published, fetched_at, sha256, text, step_id, seal)
    select told.id, {OWNED_SQL}, url, title, published, fetched_at, decode(sha256, 'hex'), text, :of_step,
      decode(seal, 'hex')
    from jsonb_to_recordset(cast(:rows as jsonb)) as told (
      id uuid, url text, title text, published timestamptz, fetched_at timestamptz, sha256 text,
      text text, seal text)
    order by told.id
    on conflict do nothing
""")
_TEXT: Final = Direct(select(Source.text).where(Source.id == bindparam("of_source")))


@dataclass(frozen=True)
class Page:
    """One version of a page."""

    id: UUID
    url: str
    published: datetime | None
    fetched_at: datetime
    retracted_at: datetime | None
    retracted_because: str | None
    step_id: UUID | None
    looked_up_at: datetime
    """By the database's clock."""
    newest_text: str | None
    """Where it is the newest of its address: that one is mostly what is wanted. Others' are read by `text_of`."""


@dataclass(frozen=True)
class _LookedUp:
    versions: Sequence[Page]
    at: float
    """By this process's clock, in seconds."""

    def as_of_now(self) -> list[Page]:
        """As if looked up now: of what is told of one thing by two calls, one after the other is learned later."""
        since = timedelta(seconds=time.monotonic() - self.at)
        return [replace(each, looked_up_at=each.looked_up_at + since) for each in self.versions]


@dataclass(frozen=True)
class _Fetched:
    url: str
    title: str | None
    published: datetime | None
    text: str


async def keep_pages(session: AsyncSession, scope: Scope, answer: Json) -> None:
    """Keeps the pages that a search or an extract brought, each once; one that is kept already stays as it is.

    An extract names no dates: a page without one takes that of its last version that has one.
    """
    within(session).pop((_AT, scope), None)
    fetched = [page for each in answer.get("results", ()) if (page := _fetched(each)) is not None]
    if not fetched:
        return
    now, dates = await _dates(session, scope, [page.url for page in fetched if not page.published])
    rows = {row["id"]: row for row in (_row(scope, page, dates, now) for page in fetched)}
    told = json.dumps(list(rows.values()), default=str)
    await _KEEP.run(session, {**scope.bound, "of_step": scope.step_id, "rows": told})


async def pages_at(
    session: AsyncSession, scope: Scope, urls: Iterable[str]
) -> dict[str, list[Page]]:
    """The versions of each page, the newest first, by the address it was asked for; those that are not there left out.

    An address is first compared as it stands, then without what often differs in it: fragment, slash at the end, case
    of the host.
    """
    wanted = list(dict.fromkeys(urls))
    looked_up: dict[str, _LookedUp] = within(session).setdefault((_AT, scope), {})
    if new := [url for url in wanted if url not in looked_up]:
        found = await _versions_at(session, scope, new)
        now = time.monotonic()
        looked_up |= {url: _LookedUp(versions, now) for url, versions in found.items()}
    return {url: looked_up[url].as_of_now() for url in wanted if url in looked_up}


async def _versions_at(
    session: AsyncSession, scope: Scope, wanted: Sequence[str]
) -> dict[str, list[Page]]:
    spelt = {spelling for url in wanted for spelling in (url, plain(url), f"{plain(url)}/")}
    found = _by_url(await _pages(session, scope, spelt), wanted)
    if len(found) < len(wanted):
        recent = await _pages(session, scope)
        found |= _by_url(recent, [url for url in wanted if url not in found])
    return found


async def recent_urls(session: AsyncSession, scope: Scope, limit: int) -> list[str]:
    """Addresses that can be named: those that this step fetched first, then those that were fetched last."""
    recent = [page for page in await _pages(session, scope) if page.retracted_at is None]
    ours = [page.url for page in recent if page.step_id and page.step_id == scope.step_id]
    return list(dict.fromkeys([*ours, *(page.url for page in recent)]))[:limit]


async def text_of(session: AsyncSession, page: Page) -> str:
    if page.newest_text is not None:
        return page.newest_text
    found: str | None = await _TEXT.value(session, {"of_source": page.id})
    return found or ""


def plain(url: str) -> str:
    """`url` without fragment and slash at the end, its host in lower case; as it is where it is none."""
    try:
        scheme, host, path, query, _ = urlsplit(url.strip())
    except ValueError:
        return url
    return urlunsplit((scheme.lower(), host.lower(), path.rstrip("/"), query, ""))


def _by_url(pages: Sequence[Page], wanted: Sequence[str]) -> dict[str, list[Page]]:
    found = {
        url: [page for page in pages if page.url == url]
        or [page for page in pages if plain(page.url) == plain(url)]
        for url in wanted
    }
    return {url: versions for url, versions in found.items() if versions}


async def _pages(
    session: AsyncSession, scope: Scope, urls: Collection[str] | None = None
) -> list[Page]:
    """Versions of the pages at `urls`, without them of any; those fetched last first."""
    asked, given = (_ALL, {}) if urls is None else spelled(_AT, "url", list(urls))
    return [Page(*row) for row in await asked.rows(session, {**scope.bound, **given})]


async def _dates(
    session: AsyncSession, scope: Scope, urls: Sequence[str]
) -> tuple[datetime, Mapping[str, datetime]]:
    """What time it is, and when the pages at `urls` were published, as far as an earlier version says."""
    rows = await _DATES.rows(session, {**scope.bound, "urls": urls})
    return rows[0].now, {row.url: row.published for row in rows if row.url is not None}


def _fetched(told: Json) -> _Fetched | None:
    """None where there is nothing to quote, or the address is one that cannot be kept."""
    url, text = told.get("url"), told.get("content")
    if not isinstance(url, str) or not isinstance(text, str) or not text.strip():
        return None
    if not url or len(url.encode()) > LONGEST_URL_BYTES:
        return None
    title, date = told.get("title"), told.get("published_date")
    return _Fetched(
        url,
        one_line(title) or None if isinstance(title, str) else None,
        published(date) if isinstance(date, str) else None,
        text,
    )


def _row(
    scope: Scope, page: _Fetched, dates: Mapping[str, datetime], now: datetime
) -> dict[str, Any]:
    date = page.published or dates.get(page.url)
    if date is not None and date > now + _LATEST_PUBLISHED:
        # By such a date it would be held to be newer than whatever is learned until then.
        date = None
    text_sha256 = integrity.sha256(page.text)
    sealed: dict[str, Any] = {
        "agent_id": scope.agent_id,
        "url": page.url,
        "title": page.title,
        "published": date,
        "fetched_at": now,
    }
    source_id = ids.source_id(scope.agent_id, page.url, text_sha256)
    return {
        **sealed,
        "id": source_id,
        "sha256": text_sha256.hex(),
        "text": page.text,
        "seal": integrity.of_source(source_id=source_id, text_sha256=text_sha256, **sealed).hex(),
    }
