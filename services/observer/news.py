"""Free checks of the pages that the graph rests on, and of their feeds: what has changed since the last check?"""

import asyncio
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any, Final, NamedTuple

from services.observer.prompts import MAX_TEXT_CHARS, PlannedQuery
from shared.database.statements import BoundQuery, CompiledStatement, Row
from shared.enums import ProbeKind
from shared.fetch.client import CONCURRENCY, FetchClient, FetchError, Seen
from shared.fetch.feeds import FeedEntry
from shared.graph.prompt_format import truncate_text
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.validation import one_line
from shared.llm.repair import cut_text
from shared.runtime.foreign_text import ForeignTextReader

SECONDS: Final = 15.0
"""How long the checks of an iteration may take. What was not reached is checked first the next time."""
MAX_CHANGED: Final = 10
"""Changed pages that a plan is given. The others are found again at the next check."""
MAX_DOCUMENTS: Final = 20
"""New documents that a plan is given. A feed that has more is one of a busy site, most of which is not of interest."""
PAGES_PER_QUERY: Final = 5
MAX_FACTS: Final = 30
"""Nodes and edges that a query for changed pages names."""
MAX_URLS_CHARS: Final = 1_000
"""Of the addresses in one query, which must not be cut."""
_URL: Final = re.compile(r"https?://[^\s<>\"]+")
_PUNCTUATION: Final = ".,;:!?)"
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
"""Fetched pages that are in memory at a time, with those that wait for a process that reads them."""

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
)
select watched.url, watched.kind, watched.fetched_at, watched.title, probe.etag, probe.last_modified, probe.digest,
  probe.entries, coalesce(probe.changes, 0) as changes, coalesce(probe.failures, 0) as failures, probe.changed_at,
  probe.checked_at, count(*) over () as total,
  (select corpus from agents where id = {OWNED_AGENT_ID_SQL}) as corpus
from watched left join page_probes as probe on probe.agent_id = {OWNED_AGENT_ID_SQL} and probe.url = watched.url
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
    """What a check found."""

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


@dataclass(frozen=True)
class News:
    """What the checks of an iteration found."""

    changed: Sequence[Watched] = ()
    """Pages that have changed since they were read."""
    documents: Sequence[FeedEntry] = ()
    """New entries of feeds, of pages that were not read yet."""
    probes: Sequence[Probe] = ()
    checked: int = 0
    failed: int = 0

    def __len__(self) -> int:
        return len(self.changed) + len(self.documents)

    @property
    def lines(self) -> list[str]:
        """For the prompt of the Observer."""
        return [
            *(f"- changed page: {_titled(page.title, page.url)}" for page in self.changed),
            *(f"- new document: {_titled(entry.title, entry.url)}" for entry in self.documents),
        ]

    @property
    def counts(self) -> dict[str, int]:
        return {
            "pages_checked": self.checked,
            "pages_failed": self.failed,
            "pages_changed": len(self.changed),
            "documents_new": len(self.documents),
        }


def _titled(title: str | None, url: str) -> str:
    return f"{truncate_text(one_line(title))}: {url}" if title else url


class Watching(NamedTuple):
    """What is to be checked now."""

    pages: Sequence[Watched]
    total: int
    """All that is to be checked, also what is not among `pages`."""
    corpus: str | None = None
    """The agent's corpus of the sandbox."""


def watched_query(scope: GraphScope, most: int) -> BoundQuery[Watching]:
    """At most `most` pages and feeds that are to be checked, those first whose last check is longest ago."""

    def read(rows: Sequence[Row]) -> Watching:
        if not rows:
            return Watching([], 0)
        return Watching([_watched(row) for row in rows], rows[0].total, rows[0].corpus)

    return BoundQuery(_WATCHED, {**scope.sql_params, "most": most}, read)


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
    """Which of these pages were read."""
    return BoundQuery(
        _READ_PAGES,
        {**scope.sql_params, "urls": list(urls)},
        lambda rows: {row.url for row in rows},
    )


def store_query(scope: GraphScope, probes: Sequence[Probe]) -> BoundQuery[None]:
    content = json.dumps([probe.as_json() for probe in probes])
    return BoundQuery(_STORE, {**scope.sql_params, "probes": content}, lambda _: None)


async def check(
    client: FetchClient, reader: ForeignTextReader, watched: Sequence[Watched]
) -> list[Probe]:
    """Checks pages and feeds, within SECONDS. Those that were not reached in time are left out.

    Feeds that a page declares for the first time are checked too, so that their next entries are new.
    """
    known = {each.url for each in watched}
    check_one = partial(_check, client, reader, asyncio.Semaphore(MAX_BODIES))
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
                    pending.add(asyncio.create_task(check_one(Watched(url, ProbeKind.FEED))))
    finally:
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    return sorted(probes, key=lambda probe: probe.watched.url)


async def _check(
    client: FetchClient, reader: ForeignTextReader, bodies: asyncio.Semaphore, watched: Watched
) -> Probe:
    async with bodies:
        return await _fetch_and_compare(client, reader, watched)


async def _fetch_and_compare(
    client: FetchClient, reader: ForeignTextReader, watched: Watched
) -> Probe:
    try:
        fetched = await client.fetch(watched.url, watched.seen)
        if fetched.body is None:
            seen = Seen(
                fetched.seen.etag or watched.seen.etag,
                fetched.seen.last_modified or watched.seen.last_modified,
            )
            return Probe(watched, seen, watched.digest, watched.entries)
        if watched.kind == ProbeKind.FEED:
            entries = await reader.feed_entries(fetched.body, fetched.url)
            return _feed_probe(watched, fetched.seen, entries)
        content = await reader.page_content(fetched)
    except FetchError as error:
        reason = " ".join(str(error).split())[:MAX_ERROR_CHARS]
        return Probe(watched, watched.seen, watched.digest, watched.entries, error=reason)
    is_changed = (
        _is_newer(fetched.seen.last_modified, watched.fetched_at)
        if watched.digest is None
        else content.digest != watched.digest
    )
    return Probe(watched, fetched.seen, content.digest, is_changed=is_changed, feeds=content.feeds)


def _feed_probe(watched: Watched, seen: Seen, entries: Sequence[FeedEntry]) -> Probe:
    """At the first check, all entries are known already."""
    ids = [entry.id for entry in entries]
    before = watched.entries
    fresh = () if before is None else tuple(entry for entry in entries if entry.id not in before)
    kept = tuple(dict.fromkeys([*ids, *(before or ())]))[:MAX_ENTRIES]
    return Probe(watched, seen, entries=kept, is_changed=bool(fresh), new_entries=fresh)


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


def news_of(
    probes: Sequence[Probe], total: int, read: set[str], unread_since: datetime | None = None
) -> News:
    """`total` is the number of pages and feeds that were to be checked, `read` are known pages among the new entries.

    What was found to have changed from `unread_since` on was not read, because the iteration failed in part.
    """
    changed = [
        probe.watched
        for probe in probes
        if probe.watched.kind == ProbeKind.PAGE
        and (probe.is_changed or _is_unread(probe.watched, unread_since))
    ]
    entries = {
        entry.url: entry for probe in probes for entry in probe.new_entries if entry.url not in read
    }
    left_out = {page.url for page in changed[MAX_CHANGED:]}
    # If all were reached, their order at the next time does not matter.
    is_complete = len(probes) >= total
    stored = [
        probe
        for probe in probes
        if probe.watched.url not in left_out and (probe.is_worth_storing or not is_complete)
    ]
    return News(
        changed[:MAX_CHANGED],
        list(entries.values())[:MAX_DOCUMENTS],
        stored,
        len(probes),
        sum(probe.error is not None for probe in probes),
    )


def _is_unread(page: Watched, since: datetime | None) -> bool:
    return since is not None and page.changed_at is not None and page.changed_at >= since


def pages_not_named(pages: Sequence[Watched], objectives: Sequence[str]) -> list[list[Watched]]:
    """The pages whose addresses none of the `objectives` has, in groups for one query each."""
    named = {
        url.rstrip(_PUNCTUATION) for objective in objectives for url in _URL.findall(objective)
    }
    groups: list[list[Watched]] = []
    room = 0
    for page in pages:
        if page.url.rstrip(_PUNCTUATION) in named:
            continue
        room -= len(page.url) + 2
        if not groups or len(groups[-1]) == PAGES_PER_QUERY or room < 0:
            groups.append([])
            room = MAX_URLS_CHARS - len(page.url)
        groups[-1].append(page)
    return groups


def facts_query(scope: GraphScope, urls: Sequence[str]) -> BoundQuery[list[str]]:
    """What the graph takes from these pages: "Chile (area, population)"."""

    def read(rows: Sequence[Row]) -> list[str]:
        return [
            f"{row.name} ({', '.join(row.properties)})" if row.properties else row.name
            for row in rows
        ]

    return BoundQuery(_FACTS, {**scope.sql_params, "urls": list(urls)}, read)


def reading_query(pages: Sequence[Watched], facts: Sequence[str]) -> PlannedQuery:
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
