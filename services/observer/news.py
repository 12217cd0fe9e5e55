"""Free checks of the pages that the graph rests on, and of their feeds: what has changed since the last check?"""

import asyncio
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from services.observer.news_items import EXPIRES_AFTER, Item
from services.observer.prompts import MAX_TEXT_CHARS, PlannedQuery
from shared.database import ids
from shared.database.statements import BoundQuery, CompiledStatement, Row
from shared.enums import NewsKind, NewsState, ProbeKind
from shared.fetch.client import CONCURRENCY, UNSEEN, FetchClient, FetchError, Seen
from shared.fetch.feeds import FeedEntry
from shared.graph.prompt_format import truncate_text
from shared.graph.provenance.claims import parse_published
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.validation import one_line
from shared.llm.repair import cut_text
from shared.runtime.foreign_text import ForeignTextReader
from shared.urls import normalize_url
from shared.workflow.agent_clock import archive_end, is_later

SECONDS: Final = 15.0
"""How long the checks of an iteration may take. What was not reached is checked first the next time."""
PAGES_PER_QUERY: Final = 5
MAX_FACTS: Final = 30
"""Nodes and edges that a query for changed pages names."""
MAX_URLS_CHARS: Final = 1_000
"""Maximum length of the addresses in one query together, which must not be cut."""
READ_AGAIN: Final = "Read these changed pages again and find out what they say now"
MAX_FEEDS: Final = 20
"""Feeds that an agent follows."""
MAX_ENTRIES: Final = 500
"""Ids of a feed's entries that are remembered."""
REST_SECONDS: Final = 300
"""Until a page that could not be checked, or that changes at every check, is checked again. It doubles each time."""
FREE_CHANGES: Final = 2
"""Changes in a row after which a page rests: it varies from visit to visit, or is better left to searches."""
MAX_DOUBLINGS: Final = 6
MAX_ERROR_CHARS: Final = 300
MAX_BODIES: Final = CONCURRENCY
"""Maximum number of fetched pages in memory, including those that wait for a process to read them."""

# A page is watched if something in the graph rests on it.
_WATCHED: Final = CompiledStatement(f"""
with pages as (
  select url, max(fetched_at) as fetched_at, (array_agg(title order by fetched_at desc))[1] as title
  from sources where agent_id = {OWNED_AGENT_ID_SQL} and retracted_at is null
    and exists (select from evidence where source_id = sources.id)
    and url not in (
      select url from page_probes where agent_id = {OWNED_AGENT_ID_SQL} and kind = '{ProbeKind.FEED}')
  group by url
), watched as (
  select url, '{ProbeKind.PAGE}' as kind, fetched_at, title from pages
  union all
  select url, kind, null, null from page_probes
  where agent_id = {OWNED_AGENT_ID_SQL} and kind = '{ProbeKind.FEED}'
  union all
  select cast(:own_feed as text), '{ProbeKind.FEED}', null, null
  where cast(:own_feed as text) is not null
    and not exists (select from page_probes where agent_id = {OWNED_AGENT_ID_SQL} and url = cast(:own_feed as text))
)
select watched.url, watched.kind, watched.fetched_at, watched.title, probe.etag, probe.last_modified, probe.digest,
  probe.entries, coalesce(probe.changes, 0) as changes, coalesce(probe.failures, 0) as failures, probe.changed_at,
  probe.checked_at, count(*) over () as total,
  agent.corpus, agent.archive_date,
  greatest(agent.created_at, statement_timestamp() - make_interval(secs => {EXPIRES_AFTER.total_seconds()}))
    as new_since
from watched join agents as agent on agent.id = {OWNED_AGENT_ID_SQL}
left join page_probes as probe on probe.agent_id = {OWNED_AGENT_ID_SQL} and probe.url = watched.url
cross join lateral (
  select greatest(coalesce(probe.failures, 0), coalesce(probe.changes, 0) - {FREE_CHANGES}) as rests
) as backoff
where rests <= 0 or probe.checked_at
  < statement_timestamp() - make_interval(secs => {REST_SECONDS} * power(2, least(rests, {MAX_DOUBLINGS}) - 1))
order by probe.checked_at nulls first, watched.url
limit :most
""")
_READ_PAGES: Final = CompiledStatement(f"""
select distinct url from sources
where agent_id = {OWNED_AGENT_ID_SQL} and url = any(cast(:urls as text[]))
""")
# What the graph takes from the pages: elements, and the properties that the pages support.
_FACTS: Final = CompiledStatement(f"""
select coalesce(node.name, origin.name || ' → ' || target.name) as name,
  array_agg(distinct claim.key order by claim.key) filter (where claim.key is not null) as properties
from sources join evidence on evidence.source_id = sources.id
left join graph_nodes as node on node.id = evidence.node_id
left join graph_edges as edge on edge.id = evidence.edge_id
left join graph_nodes as origin on origin.id = edge.source_id
left join graph_nodes as target on target.id = edge.target_id
left join lateral jsonb_object_keys(evidence.claims) as claim (key) on true
where sources.agent_id = {OWNED_AGENT_ID_SQL} and sources.url = any(cast(:urls as text[]))
  and sources.retracted_at is null
group by 1 order by count(*) desc, 1 limit {MAX_FACTS}
""")
_STORE: Final = CompiledStatement(f"""
with news as (
  insert into news_items as known
    (id, agent_id, kind, url, title, published, found_at, state, reason, offers, plans, planned_in, decided_at)
  select id, {OWNED_AGENT_ID_SQL}, kind, url, title, published, found_at, state, reason, offers, plans, planned_in,
    case when state not in ('{NewsState.OPEN}', '{NewsState.PLANNED}') then statement_timestamp() end
  from jsonb_to_recordset(cast(:items as jsonb)) as item
    (id uuid, kind text, url text, title text, published timestamptz, found_at timestamptz, state text, reason text,
     offers integer, plans integer, planned_in uuid)
  on conflict (id) do update set
    state = excluded.state, reason = excluded.reason, offers = excluded.offers, plans = excluded.plans,
    planned_in = excluded.planned_in, decided_at = excluded.decided_at
  where known.decided_at is null
)
insert into page_probes
  (agent_id, url, kind, etag, last_modified, digest, entries, changes, failures, error, checked_at, changed_at)
select distinct on (url)
  {OWNED_AGENT_ID_SQL}, url, kind, etag, last_modified, decode(digest, 'hex'), entries, changes, failures, error,
  statement_timestamp(), case when is_changed then statement_timestamp() else changed_at end
from jsonb_to_recordset(cast(:probes as jsonb)) as probe
  (url text, kind text, etag text, last_modified text, digest text, entries jsonb, changes integer, failures integer,
   error text, is_changed boolean, changed_at timestamptz)
on conflict (agent_id, url) do update set
  etag = excluded.etag, last_modified = excluded.last_modified, digest = excluded.digest, entries = excluded.entries,
  changes = excluded.changes, failures = excluded.failures, error = excluded.error, checked_at = excluded.checked_at,
  changed_at = excluded.changed_at
""")


@dataclass(frozen=True)
class Watched:
    """A page or feed, and what the last check found."""

    url: str
    kind: str
    fetched_at: datetime | None = None
    """When the newest version of the page was read; None for a feed."""
    title: str | None = None
    seen: Seen = field(default_factory=Seen)
    digest: bytes | None = None
    entries: tuple[str, ...] | None = None
    """None for a feed that was never read."""
    changes: int = 0
    failures: int = 0
    changed_at: datetime | None = None
    is_known: bool = False
    """It was checked before."""


@dataclass(frozen=True)
class Probe:
    """The result of the check of a page or feed."""

    watched: Watched
    seen: Seen
    digest: bytes | None = None
    entries: tuple[str, ...] | None = None
    error: str | None = None
    is_changed: bool = False
    feeds: tuple[str, ...] = ()
    new_entries: tuple[FeedEntry, ...] = ()

    @property
    def is_worth_storing(self) -> bool:
        before = self.watched
        was = (before.seen, before.digest, before.entries, before.failures, before.is_known)
        is_same = was == (self.seen, self.digest, self.entries, 0, True)
        return not is_same or self.error is not None or before.changes != self.changes

    @property
    def changes(self) -> int:
        if self.error is not None:
            return self.watched.changes
        return self.watched.changes + 1 if self.is_changed else 0

    def as_json(self) -> dict[str, Any]:
        before = self.watched
        return {
            "url": before.url,
            "kind": before.kind,
            "etag": self.seen.etag,
            "last_modified": self.seen.last_modified,
            "digest": None if self.digest is None else self.digest.hex(),
            "entries": None if self.entries is None else list(self.entries),
            "changes": self.changes,
            "failures": before.failures + 1 if self.error else 0,
            "error": self.error,
            "is_changed": self.is_changed,
            "changed_at": before.changed_at.isoformat() if before.changed_at else None,
        }


class Watching(NamedTuple):
    """The pages and feeds whose check is due."""

    pages: Sequence[Watched]
    total: int
    """All that is to be checked, also what is not among `pages`."""
    corpus: str | None = None
    """The agent's corpus of the sandbox."""
    new_since: datetime | None = None
    """Entries of a feed that is checked for the first time are new if they were published after this."""
    archive_date: date | None = None
    """The archive date of the agent: changes and publications after it are not news."""


def watched_query(
    scope: GraphScope, most: int, own_feed: str | None = None
) -> BoundQuery[Watching]:
    """At most `most` pages and feeds that are to be checked, those first whose last check is longest ago. `own_feed` is
    that of the corpus, which no page needs to declare.
    """

    def read(rows: Sequence[Row]) -> Watching:
        if not rows:
            return Watching([], 0)
        pages = [_watched(row) for row in rows]
        first = rows[0]
        since, archive_date = first.new_since, first.archive_date
        if archive_date is not None:
            since = archive_end(archive_date) - EXPIRES_AFTER
        return Watching(pages, first.total, first.corpus, since, archive_date)

    params = {**scope.sql_params, "most": most, "own_feed": own_feed}
    return BoundQuery(_WATCHED, params, read)


def _watched(row: Row) -> Watched:
    return Watched(
        row.url,
        row.kind,
        row.fetched_at,
        row.title,
        Seen(row.etag, row.last_modified),
        row.digest,
        None if row.entries is None else tuple(row.entries),
        row.changes,
        row.failures,
        row.changed_at,
        is_known=row.checked_at is not None,
    )


def read_pages_query(scope: GraphScope, urls: Sequence[str]) -> BoundQuery[set[str]]:
    """The addresses among `urls` whose pages the agent has read."""
    return BoundQuery(
        _READ_PAGES,
        {**scope.sql_params, "urls": [*urls, *map(normalize_url, urls)]},
        lambda rows: {row.url for row in rows},
    )


def store_query(
    scope: GraphScope, probes: Sequence[Probe], items: Sequence[Item]
) -> BoundQuery[None]:
    params = {
        **scope.sql_params,
        "probes": json.dumps([probe.as_json() for probe in probes]),
        "items": json.dumps([item.as_json for item in items]),
    }
    return BoundQuery(_STORE, params, lambda _: None)


async def check(
    client: FetchClient,
    reader: ForeignTextReader,
    watched: Sequence[Watched],
    new_since: datetime | None = None,
    archive_date: date | None = None,
) -> list[Probe]:
    """Checks pages and feeds, within SECONDS. Those that were not reached in time are left out. `Watching` has the dates.

    Feeds that a page declares for the first time are checked too, so that their next entries are new.
    """
    known = {each.url for each in watched}
    bodies = asyncio.Semaphore(MAX_BODIES)

    async def check_one(watched: Watched) -> Probe:
        async with bodies:
            return await _fetch_and_compare(client, reader, new_since, archive_date, watched)

    room = MAX_FEEDS - sum(each.kind == ProbeKind.FEED for each in watched)
    probes: list[Probe] = []
    pending = {asyncio.create_task(check_one(each)) for each in watched}
    deadline = asyncio.get_running_loop().time() + SECONDS
    try:
        while pending:
            left = deadline - asyncio.get_running_loop().time()
            done, pending = await asyncio.wait(
                pending, timeout=left, return_when=asyncio.FIRST_COMPLETED
            )
            if not done:
                break
            for task in done:
                probe = task.result()
                probes.append(probe)
                for url in [url for url in probe.feeds if url not in known][: max(room, 0)]:
                    known.add(url)
                    room -= 1
                    feed = Watched(url, ProbeKind.FEED)
                    pending.add(asyncio.create_task(check_one(feed)))
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    return sorted(probes, key=lambda probe: probe.watched.url)


async def _fetch_and_compare(
    client: FetchClient,
    reader: ForeignTextReader,
    new_since: datetime | None,
    archive_date: date | None,
    watched: Watched,
) -> Probe:
    # An unchanged feed has other new entries once the archive date has moved.
    seen = watched.seen if archive_date is None else UNSEEN
    try:
        fetched = await client.fetch(watched.url, seen)
        if fetched.body is None:
            seen = Seen(
                fetched.seen.etag or watched.seen.etag,
                fetched.seen.last_modified or watched.seen.last_modified,
            )
            return Probe(watched, seen, watched.digest, watched.entries)
        if watched.kind == ProbeKind.FEED:
            entries = await reader.feed_entries(fetched.body, fetched.url)
            known = [each for each in entries if _is_known_at(each, archive_date)]
            return _feed_probe(watched, fetched.seen, known, new_since)
        content = await reader.page_content(fetched)
    except FetchError as error:
        reason = " ".join(f"{error.failure}: {error}".split())[:MAX_ERROR_CHARS]
        return Probe(watched, watched.seen, watched.digest, watched.entries, error=reason)
    is_changed = (
        _is_newer(fetched.seen.last_modified, watched.fetched_at)
        if watched.digest is None
        else content.digest != watched.digest
    )
    is_changed = is_changed and archive_date is None  # What changes now has changed later.
    return Probe(watched, fetched.seen, content.digest, is_changed=is_changed, feeds=content.feeds)


def _is_known_at(entry: FeedEntry, archive_date: date | None) -> bool:
    """Whether a feed had the entry on the archive date. One without a date may be later."""
    if archive_date is None:
        return True
    published = parse_published(entry.published)
    return published is not None and not is_later(published, archive_date)


def _feed_probe(
    watched: Watched, seen: Seen, entries: Sequence[FeedEntry], new_since: datetime | None
) -> Probe:
    """The result of a check of a feed. At the first check, only entries published after `new_since` are new."""
    ids_now = [entry.id for entry in entries]
    before = watched.entries
    fresh = tuple(
        entry
        for entry in entries
        if (
            _is_since(parse_published(entry.published), new_since)
            if before is None
            else entry.id not in before
        )
    )
    kept = tuple(dict.fromkeys([*ids_now, *(before or ())]))[:MAX_ENTRIES]
    return Probe(watched, seen, entries=kept, is_changed=bool(fresh), new_entries=fresh)


def _is_since(published: datetime | None, since: datetime | None) -> bool:
    if published is None or since is None:
        return False
    is_day = published.timetz().replace(tzinfo=None) == time()
    return published + timedelta(days=1 if is_day else 0) > since


def _is_newer(last_modified: str | None, fetched_at: datetime | None) -> bool:
    """Whether the page says that it was changed after it was read."""
    if last_modified is None or fetched_at is None:
        return False
    try:
        changed_at = parsedate_to_datetime(last_modified)
    except (TypeError, ValueError):
        return False
    if changed_at.tzinfo is None:
        changed_at = changed_at.replace(tzinfo=UTC)
    # The date has whole seconds, and clocks differ.
    return changed_at > fetched_at + timedelta(seconds=5)


def worth_storing(probes: Sequence[Probe], total: int) -> list[Probe]:
    """The probes to store. `total` is the number of pages and feeds that were to be checked."""
    # If all were reached, their order at the next time does not matter.
    is_complete = len(probes) >= total
    return [probe for probe in probes if probe.is_worth_storing or not is_complete]


def new_items(
    probes: Sequence[Probe], read: Collection[str], iteration_id: UUID, now: datetime
) -> list[Item]:
    """News items of changed pages, and of new feed entries whose pages are not among those that were `read`."""

    def item(kind: NewsKind, url: str, title: str | None) -> Item:
        return Item(ids.news_item_id(iteration_id, kind, url), kind, url, title or None, now)

    items = [
        item(NewsKind.PAGE, probe.watched.url, probe.watched.title)
        for probe in probes
        if probe.watched.kind == ProbeKind.PAGE and probe.is_changed
    ]
    known = {normalize_url(url) for url in (*read, *(each.url for each in items))}
    for entry in (entry for probe in probes for entry in probe.new_entries):
        if normalize_url(entry.url) not in known:
            known.add(normalize_url(entry.url))
            document = item(NewsKind.DOCUMENT, entry.url, entry.title)
            items.append(replace(document, published=parse_published(entry.published)))
    return items


def groups_to_read(pages: Sequence[Item]) -> list[list[Item]]:
    """The pages in groups for one query each."""
    groups: list[list[Item]] = []
    room = 0
    for page in pages:
        room -= len(page.url) + 2
        if not groups or len(groups[-1]) == PAGES_PER_QUERY or room < 0:
            groups.append([])
            room = MAX_URLS_CHARS - len(page.url)
        groups[-1].append(page)
    return groups


def facts_query(scope: GraphScope, urls: Sequence[str]) -> BoundQuery[list[str]]:
    """The elements and properties that rest on these pages: "Chile (area, population)"."""

    def read(rows: Sequence[Row]) -> list[str]:
        return [
            f"{row.name} ({', '.join(row.properties)})" if row.properties else row.name
            for row in rows
        ]

    return BoundQuery(_FACTS, {**scope.sql_params, "urls": list(urls)}, read)


def reading_query(pages: Sequence[Item], facts: Sequence[str]) -> PlannedQuery:
    """A query that reads changed pages again. `facts` are those that the graph takes from them."""
    urls = ", ".join(page.url for page in pages)
    titles = dict.fromkeys(one_line(page.title or page.url) for page in pages)
    taken = f". The graph takes from them: {'; '.join(facts)}" if facts else ""
    return PlannedQuery(
        objective=cut_text(f"{READ_AGAIN}: {urls}{taken}", max(MAX_TEXT_CHARS, len(urls) + 100)),
        reasoning="They have changed since they were read, and facts in the graph rest on them.",
        search_hints=[truncate_text(title) for title in titles],
        answers=[],
    )
