"""Sources: the pages that an agent has read, stored as they were fetched and found again by URL."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from shared.database import ids
from shared.database.statements import (
    Batch,
    BoundQuery,
    CompiledStatement,
    PendingResult,
    Row,
    expand_values,
    json_text,
)
from shared.database.transaction import Transaction
from shared.domains import covering_domain, host_of
from shared.graph.provenance import coverage, integrity
from shared.graph.provenance.claims import parse_published
from shared.graph.provenance.numbered_pages import NumberedPage
from shared.graph.provenance.origins import ORIGIN_KEY, read_origin
from shared.graph.provenance.page_reading import PASSAGE_BREAK, PageReading, find_quote, read_page
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope, shared_retraction_lock
from shared.graph.validation import one_line
from shared.tools import Json
from shared.urls import normalize_url, page_key
from shared.workflow.agent_clock import is_later

MAX_URL_BYTES: Final = 2_000
"""Index limit; pages with longer URLs are not stored."""
MAX_VERSIONS: Final = 50
"""Newest versions of one page in which a quote is searched."""
_MAX_RECENT_PAGES: Final = 1_000
"""Number of most recently fetched pages that a differently spelled URL can match."""
_MAX_COMPARED_VERSIONS: Final = 10
"""Newest versions of a page in which passages of it are looked for before they are stored."""
PASSAGES_KEY: Final = "passages"
"""Key in the reading of a source that has passages of a page, and is no version of it."""
_MAX_PUBLISHED_AHEAD: Final = timedelta(days=1)


_PAGE_COLUMNS: Final = (
    # A page has hundreds of sentences, which a write does not need.
    f"id, url, title, case jsonb_typeof(reading) when 'object' then reading - 'sentences' - '{ORIGIN_KEY}' end,"
    " published, fetched_at, retracted_at, retraction_reason, step_id,"
    " (select barred_domains from agents where id = :of_agent),"
    " (select archive_date from agents where id = :of_agent), statement_timestamp()"
)
_NEWEST_FIRST: Final = f"order by fetched_at desc, id limit {_MAX_RECENT_PAGES}"
_PAGES_AT_SQL: Final = (
    f"select {_PAGE_COLUMNS}, case row_number() over (partition by url order by fetched_at desc, id)"
    " when 1 then text end from sources"
    f" where agent_id = {OWNED_AGENT_ID_SQL} and url in ({{values}}) {_NEWEST_FIRST}"
)
_ALL_PAGES: Final = CompiledStatement(
    f"select {_PAGE_COLUMNS}, null from sources where agent_id = {OWNED_AGENT_ID_SQL} {_NEWEST_FIRST}"
)
# A feed's date counts less than that of any version of the page.
_KNOWN_PAGES: Final = CompiledStatement(f"""
    with retracted as (
      select distinct on (covers) covers as url, reason from retractions
      where agent_id = {OWNED_AGENT_ID_SQL} and covers = any(cast(:covering as text[])) and restored_at is null
      order by covers, created_at, id
    ), given as (
      select url, published, title, fetched_at from sources
      where agent_id = {OWNED_AGENT_ID_SQL} and url = any(cast(:urls as text[]))
        and (published is not null or title is not null)
      union all
      select url, published, null, '-infinity' from news_items
      where agent_id = {OWNED_AGENT_ID_SQL} and url = any(cast(:urls as text[]))
        and published < statement_timestamp() + make_interval(secs => {_MAX_PUBLISHED_AHEAD.total_seconds()})
    ), known as (
      select url, (array_agg(published order by fetched_at desc) filter (where published is not null))[1] as published,
        (array_agg(title order by fetched_at desc) filter (where title is not null))[1] as title,
        null as reason, max(fetched_at) as fetched_at
      from given group by url
      union all
      select url, null, null, reason, null from retracted
    )
    select clock_timestamp() as now, url, published, title, reason
    from (values (1)) once left join known on true order by fetched_at desc
""")
_TEXTS: Final = CompiledStatement(f"""
    select url, text from (
      select url, text, row_number() over (partition by url order by fetched_at desc, id) as place from sources
      where agent_id = {OWNED_AGENT_ID_SQL} and url = any(cast(:urls as text[])) and retracted_at is null
    ) as newest where place <= {_MAX_COMPARED_VERSIONS}
""")
# A fixed order: two steps that store the same pages would deadlock otherwise.
_STORE: Final = CompiledStatement(f"""
    with input as (
      select * from jsonb_to_recordset(cast(:rows as jsonb)) as input (
        id uuid, url text, title text, published timestamptz, fetched_at timestamptz, sha256 text,
        text text, reading jsonb, seal text, covering text[])
    ), retracted as (
      select input.id as source_id, retractions.id, created_at, reason
      from input join retractions on covers = any(covering)
      where agent_id = {OWNED_AGENT_ID_SQL} and restored_at is null
    ), stored as (
      insert into sources (id, agent_id, url, title, published, fetched_at, sha256, text, reading, step_id, seal,
        retracted_at, retraction_reason)
      select input.id, {OWNED_AGENT_ID_SQL}, url, title, published, fetched_at, decode(sha256, 'hex'), text, reading,
        :of_step, decode(seal, 'hex'), first.created_at, first.reason
      from input left join lateral (
        select created_at, reason from retracted where source_id = input.id order by created_at, id limit 1
      ) as first on true
      order by input.id
      on conflict do nothing
      returning id
    )
    insert into retracted_sources (retraction_id, source_id, is_due)
    select retracted.id, source_id, false from retracted join stored on stored.id = source_id
""")
_PAGE_TEXT: Final = CompiledStatement("select text from sources where id = :of_source")


@dataclass(frozen=True)
class Page:
    """One version of a page."""

    id: UUID
    url: str
    title: str | None
    stored_reading: Json | None
    """See `page_reading`, without the sentences; None for a page of an earlier release."""
    published: datetime | None
    fetched_at: datetime
    retracted_at: datetime | None
    retraction_reason: str | None
    step_id: UUID | None
    barred_domains: Sequence[str]
    """Those of the agent."""
    archive_date: date | None
    """That of the agent."""
    looked_up_at: datetime
    """By the database's clock."""
    newest_text: str | None
    """The text if this is the newest version of its URL, the one mostly needed; `load_text` reads the others."""

    @property
    def barred_domain(self) -> str | None:
        """The domain that the agent's owner has barred and that the page is of; None if there is none."""
        return covering_domain(host_of(self.url), self.barred_domains)

    @property
    def is_later(self) -> bool:
        """Whether it was published after the archive date of the agent, which must not know it."""
        return is_later(self.published, self.archive_date)


@dataclass(frozen=True)
class CachedVersions:
    versions: Sequence[Page]
    at: float
    """Monotonic time of this process, in seconds."""

    def as_of_now(self) -> list[Page]:
        """The versions as if looked up now, so that a later call learns its claims later than an earlier one."""
        elapsed = timedelta(seconds=time.monotonic() - self.at)
        return [replace(page, looked_up_at=page.looked_up_at + elapsed) for page in self.versions]


class KnownPages(NamedTuple):
    """Facts known about pages before they are read, by `page_key`."""

    now: datetime
    """By the database's clock."""
    retracted: Mapping[str, str]
    """Those that a retraction covers, with its reason."""
    published: Mapping[str, datetime]
    """From the newest version that has a date, else from a feed."""
    titles: Mapping[str, str]

    def by_address(self, urls: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Why those of the pages that may not be read were retracted, and the known dates, by address."""
        keys = {url: page_key(url) for url in urls}
        return (
            {url: self.retracted[key] for url, key in keys.items() if key in self.retracted},
            {
                url: self.published[key].isoformat()
                for url, key in keys.items()
                if key in self.published
            },
        )


def page_storing(
    batch: Batch, scope: GraphScope, pages: Iterable[NumberedPage]
) -> PendingResult[Sequence[BoundQuery[None]]]:
    """Adds the look-ups of the pages of a run to `batch`; its result is the query that stores them, if any.

    Existing versions are not changed. A whole page is a version of it, stored once. Passages are stored together, as far
    as no stored text of the page has them. A page that a retraction covers by then is stored as retracted. A version without
    a publication date or title takes those that are known.
    """
    storable = [page for page in pages if 0 < len(page.url.encode()) <= MAX_URL_BYTES]
    if not storable:
        return batch.then(tuple)
    known = batch.add(known_pages(scope, [page.url for page in storable]))
    passages = [page.url for page in storable if page.passages]
    texts = batch.add(_newest_texts(scope, passages)) if passages else None
    return batch.then(
        lambda: _storing(scope, storable, known.value, {} if texts is None else texts.value)
    )


def _storing(
    scope: GraphScope,
    pages: Sequence[NumberedPage],
    known: KnownPages,
    stored: Mapping[str, Sequence[str]],
) -> Sequence[BoundQuery[None]]:
    rows = {}
    for page in pages:
        passages = _missing_passages(page, stored.get(page.url, ()))
        texts = [(text, False) for text in page.reads if text.strip()]
        texts += [(PASSAGE_BREAK.join(passages), True)] if passages else []
        for text, has_passages in texts:
            row = _source_row(scope, page, text, known, has_passages=has_passages)
            rows[row["id"]] = row
    if not rows:
        return ()
    params = {
        **scope.sql_params,
        "of_step": scope.step_id,
        "rows": json_text(list(rows.values())),
    }
    return (
        shared_retraction_lock(scope.agent_id),
        BoundQuery(_STORE, params, lambda _: None),
    )


async def store_pages(transaction: Transaction, scope: GraphScope, answer: Json) -> None:
    """Store the pages of an extract's answer at once; see `page_storing`."""
    transaction.cache.pop((_PAGES_AT_SQL, scope), None)
    pages = [
        page for result in answer.get("results", ()) if (page := _parse_result(result)) is not None
    ]
    batch = Batch()
    storing = page_storing(batch, scope, pages)
    await batch.execute(transaction)
    for query in storing.value:
        await query.execute(transaction)


def known_pages(scope: GraphScope, urls: Sequence[str]) -> BoundQuery[KnownPages]:
    """Loads what is known of the pages at `urls`, and which of them the owner has retracted."""
    by_key = {page_key(url): coverage.covering(url) for url in urls}
    params = {
        **scope.sql_params,
        "urls": list(_spellings(urls)),
        "covering": list(dict.fromkeys(each for keys in by_key.values() for each in keys)),
    }
    return BoundQuery(_KNOWN_PAGES, params, partial(_read_known_pages, by_key))


def _read_known_pages(covering: Mapping[str, Sequence[str]], rows: Sequence[Row]) -> KnownPages:
    """`covering` has what covers each page, by `page_key`."""
    reasons, published, titles = dict[str, str](), dict[str, datetime](), dict[str, str]()
    for row in rows:
        if row.url is None:
            continue
        if row.reason is not None:
            reasons[row.url] = row.reason
            continue
        key = page_key(row.url)
        if row.published is not None:
            published.setdefault(key, row.published)
        if row.title is not None:
            titles.setdefault(key, row.title)
    retracted = {
        key: reasons[each]
        for key, keys in covering.items()
        for each in reversed(keys)
        if each in reasons
    }
    return KnownPages(rows[0].now, retracted, published, titles)


def _spellings(urls: Iterable[str]) -> set[str]:
    return {
        variant for url in urls for variant in (url, normalize_url(url), f"{normalize_url(url)}/")
    }


async def find_pages(
    transaction: Transaction, scope: GraphScope, urls: Iterable[str]
) -> dict[str, list[Page]]:
    """The versions of each page, newest first, by requested URL; pages that were never read are left out.

    URLs are compared exactly first, then without fragment and trailing slash and with the host in lower case.
    """
    unique_urls = list(dict.fromkeys(urls))
    cache = _page_cache(transaction, scope)
    if missing := [url for url in unique_urls if url not in cache]:
        cache |= await pages_query(scope, missing).execute(transaction)
    if missing := [url for url in unique_urls if url not in cache]:
        cache |= _as_cached(await _load_pages(transaction, scope), missing)
    return {url: cache[url].as_of_now() for url in unique_urls if url in cache}


def remember_pages(
    transaction: Transaction, scope: GraphScope, pages: Mapping[str, CachedVersions]
) -> None:
    """Saves `find_pages` the answer of `pages_query`."""
    _page_cache(transaction, scope).update(pages)


def pages_query(scope: GraphScope, urls: Iterable[str]) -> BoundQuery[dict[str, CachedVersions]]:
    """Finds pages that are stored at the requested URLs, up to fragment, slash and case of the host."""
    requested = list(dict.fromkeys(urls))
    statement, params = expand_values(_PAGES_AT_SQL, "url", list(_spellings(requested)))
    return BoundQuery(
        statement,
        {**scope.sql_params, **params},
        lambda rows: _as_cached([Page(*row) for row in rows], requested),
    )


def _page_cache(transaction: Transaction, scope: GraphScope) -> dict[str, CachedVersions]:
    cache: dict[str, CachedVersions] = transaction.cache.setdefault((_PAGES_AT_SQL, scope), {})
    return cache


def _as_cached(pages: Sequence[Page], requested: Sequence[str]) -> dict[str, CachedVersions]:
    """The versions by requested URL, of exactly this URL if there are any."""
    now = time.monotonic()
    cached: dict[str, CachedVersions] = {}
    for url in requested:
        versions = [page for page in pages if page.url == url] or [
            page for page in pages if normalize_url(page.url) == normalize_url(url)
        ]
        if versions:
            cached[url] = CachedVersions(versions, now)
    return cached


async def list_recent_urls(transaction: Transaction, scope: GraphScope, limit: int) -> list[str]:
    """URLs of pages that can be quoted: those this step fetched first, then the most recently fetched."""
    recent = [
        page
        for page in await _load_pages(transaction, scope)
        if page.retracted_at is None and page.barred_domain is None and not page.is_later
    ]
    ours = [page.url for page in recent if page.step_id and page.step_id == scope.step_id]
    return list(dict.fromkeys([*ours, *(page.url for page in recent)]))[:limit]


async def load_text(transaction: Transaction, page: Page) -> str:
    if page.newest_text is not None:
        return page.newest_text
    cache = transaction.cache
    if (key := (_PAGE_TEXT, page.id)) not in cache:
        cache[key] = await _PAGE_TEXT.value(transaction, {"of_source": page.id})
    text: str | None = cache[key]
    return text or ""


def page_reading(page: Page, text: str) -> PageReading:
    """What code read in the page, whose text is `text`, without its sentences."""
    if page.stored_reading is None:
        return read_page(text)
    return PageReading.from_json({**page.stored_reading, "sentences": []})


async def _load_pages(transaction: Transaction, scope: GraphScope) -> list[Page]:
    """Versions of any page, the most recently fetched first."""
    return [Page(*row) for row in await _ALL_PAGES.rows(transaction, scope.sql_params)]


def _newest_texts(
    scope: GraphScope, urls: Sequence[str]
) -> BoundQuery[Mapping[str, Sequence[str]]]:
    """Loads the newest texts of the pages at exactly these addresses, where evidence finds them first; without retracted
    ones.
    """

    def read(rows: Sequence[Row]) -> Mapping[str, Sequence[str]]:
        texts = defaultdict[str, list[str]](list)
        for row in rows:
            texts[row.url].append(row.text)
        return texts

    return BoundQuery(_TEXTS, {**scope.sql_params, "urls": urls}, read)


def _missing_passages(page: NumberedPage, stored: Sequence[str]) -> list[str]:
    """The passages with a sentence that is in no other text of the page."""
    missing: list[str] = []
    for passage in sorted(page.passages, key=len, reverse=True):
        texts = [*page.reads, *stored, *missing]
        if passage.strip() and not any(_has_sentences(text, passage) for text in texts):
            missing.append(passage)
    return [passage for passage in page.passages if passage in missing]


def _has_sentences(text: str, passage: str) -> bool:
    sentences = [span.extract(passage).decode() for span in read_page(passage).sentences]
    return all(
        find_quote(text, sentence) for sentence in sentences if any(map(str.isalnum, sentence))
    )


def _parse_result(result: Json) -> NumberedPage | None:
    """None if there is no text to quote, or the URL cannot be stored."""
    url, text = result.get("url"), result.get("content")
    if not isinstance(url, str) or not isinstance(text, str):
        return None
    title, date = result.get("title") or "", result.get("published_date") or ""
    return NumberedPage(url, str(title), str(date), reads=[text])


def _source_row(
    scope: GraphScope,
    page: NumberedPage,
    text: str,
    known: KnownPages,
    *,
    has_passages: bool,
) -> dict[str, Any]:
    key = page_key(page.url)
    date = parse_published(page.published) or known.published.get(key)
    if date is not None and date > known.now + _MAX_PUBLISHED_AHEAD:
        # With such a date it would supersede everything learned until then.
        date = None
    text_sha256 = integrity.sha256(text)
    reading = {**read_page(text).as_json(), ORIGIN_KEY: read_origin(text)}
    sealed: dict[str, Any] = {
        "agent_id": scope.agent_id,
        "url": page.url,
        "title": one_line(page.title) or known.titles.get(key),
        "published": date,
        "fetched_at": known.now,
        "reading": {**reading, PASSAGES_KEY: True} if has_passages else reading,
    }
    source_id = ids.source_id(scope.agent_id, page.url, text_sha256)
    return {
        **sealed,
        "id": source_id,
        "sha256": text_sha256.hex(),
        "text": text,
        "covering": coverage.covering(page.url),
        "seal": integrity.source_seal(source_id=source_id, text_sha256=text_sha256, **sealed).hex(),
    }
