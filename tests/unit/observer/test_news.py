"""What the checks of pages and feeds find, what is remembered of them, and how each item is decided once."""

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from random import Random
from uuid import UUID

import pytest

from services.observer import news
from services.observer.news import (
    MAX_FEEDS,
    READ_AGAIN,
    Probe,
    Watched,
    groups_to_read,
    new_items,
    reading_query,
    worth_storing,
)
from services.observer.news_items import (
    EXPIRES_AFTER,
    MAX_OFFERED,
    MAX_PLANS,
    MAX_WAITING,
    MIN_OFFERS,
    Item,
    StoredItem,
    agenda,
    decide,
)
from shared.enums import NewsKind, NewsState, ProbeKind
from shared.fetch.client import UNSEEN, FetchClient, Fetched, FetchError, Seen
from shared.fetch.feeds import FeedEntry, parse_feed
from shared.fetch.pages import PageContent, page_content
from shared.runtime.foreign_text import ForeignTextReader
from tests.support.case_files import read_cases
from tests.support.marks import slow


class InlineReader(ForeignTextReader):
    async def page_content(self, page: Fetched) -> PageContent:
        return page_content(page)

    async def feed_entries(self, body: bytes, url: str) -> list[FeedEntry]:
        return parse_feed(body, url)


CASES = read_cases(__file__)

READ_AT = datetime(2026, 11, 27, 9, tzinfo=UTC)
FEED = "https://example.org/feed"


async def check(
    client: FetchClient,
    watched: Sequence[Watched],
    new_since: datetime | None = None,
    archive_date: date | None = None,
) -> list[Probe]:
    return await news.check(client, InlineReader(), watched, new_since, archive_date)


class Site(FetchClient):
    """Pages and feeds by address, with an ETag each; an error for those that are not there."""

    def __init__(self, pages: Mapping[str, str] = {}, feed: list[str] | None = None) -> None:
        self.pages = dict(pages or {})
        self.entries = feed
        self.fetched: list[str] = []
        self.last_modified: str | None = None

    async def fetch(self, url: str, seen: Seen = UNSEEN) -> Fetched:
        self.fetched.append(url)
        if url == FEED and self.entries is not None:
            items = "".join(
                f"<item><link>{each}</link><title>{each[-1]}</title></item>"
                for each in self.entries
            )
            return self._answer(url, f"<rss><channel>{items}</channel></rss>", "text/xml", seen)
        if url not in self.pages:
            raise FetchError("the server answered 404")
        link = f"<link rel=alternate type=application/rss+xml href={FEED}>"
        head = link if self.entries is not None else ""
        return self._answer(url, f"{head}<p>{self.pages[url]}</p>", "text/html", seen)

    def _answer(self, url: str, body: str, media_type: str, seen: Seen) -> Fetched:
        etag = str(hash(body))
        current = Seen(etag, self.last_modified)
        if seen.etag == etag:
            return Fetched(url, None, seen=current)
        return Fetched(url, body.encode(), media_type, seen=current)


def page(name: str, **values: object) -> Watched:
    watched = Watched(f"https://example.org/{name}", ProbeKind.PAGE, READ_AT, name.title())
    return replace(watched, **values)  # type: ignore[arg-type]


def changed(name: str) -> Item:
    return Item(UUID(int=0), NewsKind.PAGE, f"https://example.org/{name}", name.title(), READ_AT)


def found(probes: Sequence[Probe], read: Set[str] = frozenset()) -> list[Item]:
    return new_items(probes, read, UUID(int=1), READ_AT)


def after(probe: Probe) -> Watched:
    """What is watched at the next check."""
    stored = probe.as_json()
    return replace(
        probe.watched,
        seen=probe.seen,
        digest=probe.digest,
        entries=probe.entries,
        changes=stored["changes"],
        failures=stored["failures"],
        is_known=True,
    )


async def test_a_page_that_was_changed_after_it_was_read_is_found_at_the_first_check() -> None:
    site = Site({"https://example.org/a": "One"})
    site.last_modified = "Fri, 27 Nov 2026 09:10:00 GMT"
    (probe,) = await check(site, [page("a")])
    assert probe.is_changed
    site.last_modified = "Fri, 27 Nov 2026 08:59:00 GMT"
    (probe,) = await check(site, [page("a")])
    assert not probe.is_changed


async def test_another_text_is_a_change_and_another_etag_is_none() -> None:
    site = Site({"https://example.org/a": "One"})
    (first,) = await check(site, [page("a")])
    site.pages["https://example.org/a"] = "<!-- another --> One"
    (second,) = await check(site, [after(first)])
    assert (second.is_changed, second.is_worth_storing) == (False, True)
    site.pages["https://example.org/a"] = "Two"
    (third,) = await check(site, [after(second)])
    assert third.is_changed
    (fourth,) = await check(site, [after(third)])
    assert (fourth.is_changed, fourth.is_worth_storing) == (False, True), "the count ends"
    (fifth,) = await check(site, [after(fourth)])
    assert (fifth.is_changed, fifth.is_worth_storing) == (False, False)


async def test_new_entries_of_a_feed_are_found_from_its_second_check_on() -> None:
    entries = ["https://example.org/a"]
    site = Site({"https://example.org/a": "One"}, entries)
    first, feed = await check(site, [page("a")])
    assert (feed.watched.kind, feed.new_entries) == (ProbeKind.FEED, ())
    entries.insert(0, "https://example.org/b")
    _, feed = await check(site, [after(first), after(feed)])
    assert [entry.url for entry in feed.new_entries] == ["https://example.org/b"]
    _, feed = await check(site, [after(first), after(feed)])
    assert feed.new_entries == ()


async def test_a_failure_is_counted_and_forgotten_with_the_next_success() -> None:
    site = Site()
    (probe,) = await check(site, [page("a", digest=b"x", is_known=True)])
    assert (probe.error, probe.digest) == ("not reached: the server answered 404", b"x")
    (probe,) = await check(site, [after(probe)])
    assert probe.as_json()["failures"] == 2
    site.pages["https://example.org/a"] = "One"
    (probe,) = await check(site, [after(probe)])
    assert probe.as_json()["failures"] == 0
    assert probe.is_worth_storing


async def test_no_more_than_so_many_feeds_are_followed() -> None:
    feeds = [
        Watched(f"https://example.org/feed{number}", ProbeKind.FEED) for number in range(MAX_FEEDS)
    ]
    site = Site({"https://example.org/a": "One"}, ["https://example.org/a"])
    await check(site, [page("a"), *feeds])
    assert FEED not in site.fetched


async def test_what_is_not_reached_in_time_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(news, "SECONDS", 0.05)

    class Slow(Site):
        async def fetch(self, url: str, seen: Seen = UNSEEN) -> Fetched:
            if url.endswith("slow"):
                await asyncio.Event().wait()
            return await super().fetch(url, seen)

    site = Slow({"https://example.org/a": "One", "https://example.org/slow": "Two"})
    probes = await check(site, [page("slow"), page("a")])
    assert [probe.watched.url for probe in probes] == ["https://example.org/a"]


async def test_entries_that_were_read_are_no_news() -> None:
    entries = ["https://example.org/a", "https://example.org/b"]
    feed = Watched(FEED, ProbeKind.FEED, entries=("x",), is_known=True)
    probes = await check(Site(feed=entries), [feed])
    (item,) = found(probes, {"https://example.org/a"})
    assert item.line == "- new document: b: https://example.org/b"


async def test_unchanged_pages_are_stored_only_if_some_were_not_reached() -> None:
    site = Site({"https://example.org/a": "One"})
    (first,) = await check(site, [page("a")])
    probes = await check(site, [after(first)])
    assert worth_storing(probes, 1) == []
    assert len(worth_storing(probes, 2)) == 1


async def test_a_feed_that_could_not_be_read_at_first_has_no_new_entries() -> None:
    site = Site()
    (failed,) = await check(site, [Watched(FEED, ProbeKind.FEED)])
    site.entries = ["https://example.org/a"]
    (first,) = await check(site, [after(failed)])
    assert first.new_entries == ()
    site.entries.append("https://example.org/b")
    (second,) = await check(site, [after(first)])
    assert [entry.url for entry in second.new_entries] == ["https://example.org/b"]


async def test_the_first_entry_of_an_empty_feed_is_new() -> None:
    site = Site(feed=[])
    (empty,) = await check(site, [Watched(FEED, ProbeKind.FEED)])
    site.entries = ["https://example.org/a"]
    (probe,) = await check(site, [after(empty)])
    assert len(probe.new_entries) == 1


async def test_changes_in_a_row_are_counted() -> None:
    site = Site({"https://example.org/a": "0"})
    (probe,) = await check(site, [page("a")])
    counts = []
    for text in ("1", "2", "3", "3"):
        site.pages["https://example.org/a"] = text
        (probe,) = await check(site, [after(probe)])
        counts.append(probe.changes)
    assert counts == [1, 2, 3, 0]
    assert probe.is_worth_storing


def test_pages_are_read_in_groups_whose_addresses_are_not_cut() -> None:
    def groups(names: Sequence[str]) -> list[int]:
        return [len(each) for each in groups_to_read([changed(name) for name in names])]

    assert groups([letter + "x" * 600 for letter in "abc"]) == [1, 1, 1]
    assert groups(list("abcdefg")) == [5, 2]


def test_a_query_for_changed_pages_names_them_and_what_rests_on_them() -> None:
    query = reading_query([changed("a"), changed("b")], ["Chile (area)"])
    assert query.objective == (
        f"{READ_AGAIN}: https://example.org/a, https://example.org/b. The graph takes from them: Chile (area)"
    )
    assert query.search_hints == ["A", "B"]


@pytest.mark.parametrize("seed", range(10))
async def test_a_walk_of_changes_reports_each_once(seed: int) -> None:
    """Pages change, vanish, return and are announced at random: each change is reported at the next check, once."""
    random = Random(seed)
    urls = [f"https://example.org/{letter}" for letter in "abcdef"]
    site = Site(dict.fromkeys(urls, "0"), list(urls))
    watched: dict[str, Watched] = {url: Watched(url, ProbeKind.PAGE, READ_AT) for url in urls}
    read = set(urls)
    texts: dict[str, str] = {}
    """The last text of each page that was reached."""
    version = 0
    for _ in range(100):
        for url in urls:
            version += 1
            if random.random() < 0.1:
                site.pages[url] = str(version)
            elif random.random() < 0.05:
                site.pages.pop(url, None)
        assert site.entries is not None
        announced = set()
        if random.random() < 0.1:
            site.entries.insert(0, f"https://example.org/new{version}")
            announced = {site.entries[0]} if FEED in watched else set()
        probes = await check(site, list(watched.values()))
        items = found(probes, read)
        differing = {
            url for url in urls if site.pages.get(url, texts.get(url)) != texts.get(url)
        } & texts.keys()
        assert {each.url for each in items if each.kind == NewsKind.PAGE} == differing
        assert {each.url for each in items if each.kind == NewsKind.DOCUMENT} == announced
        texts |= {url: site.pages[url] for url in urls if url in site.pages}
        for probe in worth_storing(probes, len(watched)):
            watched[probe.watched.url] = after(probe)


@pytest.mark.parametrize(
    ("element", "is_new"),
    CASES["the_first_check_of_a_feed_finds_what_was_published_since_creation"],
)
async def test_the_first_check_of_a_feed_finds_what_was_published_since_creation(
    element: str, *, is_new: bool
) -> None:
    class Dated(Site):
        async def fetch(self, url: str, seen: Seen = UNSEEN) -> Fetched:
            item = f"<item><link>https://example.org/a</link>{element}</item>"
            return self._answer(url, f"<rss><channel>{item}</channel></rss>", "text/xml", seen)

    (probe,) = await check(Dated(), [Watched(FEED, ProbeKind.FEED)], READ_AT)
    assert bool(found([probe])) == is_new
    (probe,) = await check(Dated(), [replace(after(probe), seen=UNSEEN)], READ_AT)
    assert not found([probe]), "once"


async def test_a_page_that_changes_now_is_no_news_on_an_archive_date() -> None:
    site = Site({"https://example.org/a": "One"})
    (first,) = await check(site, [page("a")], archive_date=date(2024, 3, 1))
    site.pages["https://example.org/a"] = "Two"
    (second,) = await check(site, [after(first)], archive_date=date(2024, 3, 1))
    assert (second.error, second.is_changed) == (None, False)


async def test_a_feed_has_the_entries_that_it_had_on_the_archive_date() -> None:
    """Also at a later archive date, if the feed itself has not changed."""
    dates = {"old": "2024-02-01", "new": "2024-02-28", "next": "2024-03-05", "undated": ""}

    class DatedFeed(Site):
        async def fetch(self, url: str, seen: Seen = UNSEEN) -> Fetched:
            items = "".join(
                f"<item><link>https://example.org/{name}</link><title>{name}</title>"
                f"<pubDate>{day}</pubDate></item>"
                for name, day in dates.items()
            )
            return self._answer(url, f"<rss><channel>{items}</channel></rss>", "text/xml", seen)

    watched = Watched(FEED, ProbeKind.FEED)
    found_on: dict[date, list[str]] = {}
    for today in (date(2024, 3, 1), date(2024, 3, 1), date(2024, 3, 8)):
        since = datetime(today.year, today.month, today.day, tzinfo=UTC) - timedelta(days=7)
        (probe,) = await check(DatedFeed(), [watched], since, today)
        names = [entry.title for entry in probe.new_entries]
        found_on.setdefault(today, names)
        watched = after(probe)
    assert found_on == {date(2024, 3, 1): ["new"], date(2024, 3, 8): ["next"]}


NOW = datetime(2026, 11, 28, 9, tzinfo=UTC)
ITERATION = UUID(int=77)
DAY = timedelta(days=1)


def item(number: int, kind: NewsKind = NewsKind.DOCUMENT, at: datetime = NOW) -> Item:
    return Item(UUID(int=number), kind, f"https://example.org/{number}", f"Item {number}", at)


def stored(items: Sequence[Item], *, was_read: bool = False) -> list[StoredItem]:
    return [StoredItem(each, was_read) for each in items if not each.is_decided]


def test_what_a_plan_is_silent_about_is_offered_again_and_wakes_nobody() -> None:
    first = agenda([], [item(1)], NOW)
    assert (len(first.offered), first.wakes) == (1, 1)
    left = decide(first.offered, [], {}, ITERATION)
    second = agenda(stored(left), [], NOW + DAY)
    assert [each.url for each in second.offered] == [item(1).url]
    assert (second.offered[0].offers, second.wakes) == (1, 0)


def test_the_newest_documents_are_offered_first_and_the_others_next_time() -> None:
    most = MAX_OFFERED[NewsKind.DOCUMENT]
    published = [NOW - DAY * (number * 7 % 25) for number in range(25)]
    items = [
        replace(item(number), published=None if date == NOW else date)
        for number, date in enumerate(published)
    ]
    first = agenda([], items, NOW)
    newest = sorted(range(25), key=lambda number: published[number], reverse=True)
    assert [each.id.int for each in first.offered] == newest[:most]
    assert first.waiting == 25 - most
    left = {each.id: each for each in first.items}
    left |= {each.id: each for each in decide(first.offered, [], {}, ITERATION)}
    assert {each.state for each in left.values()} == {NewsState.OPEN}
    second = agenda(stored(list(left.values())), [], NOW + DAY)
    assert [each.id.int for each in second.offered][: 25 - most] == newest[most:]
    assert second.wakes == 25 - most


@pytest.mark.parametrize("reason", ["", "  "])
def test_a_skip_without_a_reason_leaves_the_item_open(reason: str) -> None:
    (left,) = decide([item(1)], [], {item(1).url: reason}, ITERATION)
    assert left.state == NewsState.OPEN


SPELLINGS = ["https://example.org/1", "https://example.org/1/", "HTTPS://EXAMPLE.ORG/1#part"]


@pytest.mark.parametrize("url", SPELLINGS)
def test_a_waiting_item_is_not_added_again(url: str) -> None:
    again = replace(item(2), url=url)
    news = agenda(stored([item(1)]), [again], NOW)
    assert ([each.id for each in news.offered], news.new) == ([item(1).id], [])
    (read,) = agenda(stored([item(1)], was_read=True), [again], NOW).offered
    assert read.id == again.id


@pytest.mark.parametrize("url", SPELLINGS)
def test_an_item_is_skipped_by_its_address(url: str) -> None:
    (left,) = decide([item(1)], [], {url: "It is about\ncopper."}, ITERATION)
    assert (left.state, left.reason) == (NewsState.SKIPPED, "It is about copper.")
    assert agenda(stored([left]), [], NOW).offered == []


def test_what_is_planned_and_not_read_is_offered_again_and_expires_in_the_end() -> None:
    items = [item(1)]
    for _ in range(MAX_PLANS):
        news = agenda(stored(items), [], NOW)
        assert news.wakes == 1
        items = decide(news.offered, [item(1).url], {}, ITERATION)
        assert items[0].state == NewsState.PLANNED
    (expired,) = agenda(stored(items), [], NOW).items
    assert (expired.state, str(MAX_PLANS) in str(expired.reason)) == (NewsState.EXPIRED, True)


def test_an_item_expires_after_its_time_and_not_before_plans_have_seen_it() -> None:
    old = item(1, at=NOW - EXPIRES_AFTER - DAY)
    assert agenda(stored([old]), [], NOW).offered == [old]
    seen = replace(old, offers=MIN_OFFERS)
    news = agenda(stored([seen]), [], NOW)
    assert (news.offered, news.items[0].state) == ([], NewsState.EXPIRED)


def test_of_many_items_all_are_offered_in_turn_and_the_oldest_expire() -> None:
    most = MAX_OFFERED[NewsKind.DOCUMENT]
    items = [item(number) for number in range(3 * most)]
    seen: set[str] = set()
    for _ in range(3):
        news = agenda(stored(items), [], NOW)
        left = {each.id: each for each in decide(news.offered, [], {}, ITERATION)}
        seen |= {each.url for each in news.offered}
        items = [left.get(each.id, each) for each in items]
    assert len(seen) == 3 * most
    many = [item(number, at=NOW + timedelta(seconds=number)) for number in range(MAX_WAITING + 7)]
    expired = [each for each in agenda([], many, NOW).items if each.state == NewsState.EXPIRED]
    assert {each.url for each in expired} == {each.url for each in many[:7]}


def test_a_page_that_changes_again_while_it_waits_is_one_item() -> None:
    waiting = item(1, NewsKind.PAGE)
    again = replace(waiting, id=UUID(int=2))
    assert agenda(stored([waiting]), [again], NOW).offered == [waiting]


@pytest.mark.parametrize("seed", [*range(10), *slow(*range(10, 40))])
def test_each_item_of_a_walk_is_decided_exactly_once(seed: int) -> None:
    """Items appear at random, plans read, skip or ignore them, queries fail, iterations fail before they store anything
    or after: no item is lost, repeated, or offered after it was decided.
    """
    random = Random(seed)
    kept: dict[UUID, Item] = {}
    decisions: dict[UUID, int] = {}
    read: set[UUID] = set()
    unstored: list[Item] = []
    now, number = NOW, 0

    def iterate(*, fails: bool) -> None:
        nonlocal unstored
        news = agenda(
            [StoredItem(each, each.id in read) for each in kept.values() if not each.is_decided],
            unstored,
            now,
        )
        assert not [each for each in news.offered if decisions.get(each.id)], "offered again"
        if fails and random.random() < 0.2:
            return  # It failed before its transaction: what was found is found again.
        changed = {each.id: each for each in news.items}
        if news.wakes or random.random() < 0.3:
            choices = {each: random.choice(("read", "skip", "ignore")) for each in news.offered}
            planned = [each.url for each, choice in choices.items() if choice == "read"]
            skipped = {each.url: "No." for each, choice in choices.items() if choice == "skip"}
            changed |= {each.id: each for each in decide(news.offered, planned, skipped, ITERATION)}
            # Some queries fail, and their pages are not read.
            read.update(
                each.id for each in news.offered if each.url in planned and random.random() < 0.7
            )
        unstored = []
        for each in changed.values():
            before = kept.get(each.id)
            assert before is None or not before.is_decided, "decided twice"
            kept[each.id] = each
            decisions[each.id] = decisions.get(each.id, 0) + each.is_decided

    for _ in range(60):
        now += timedelta(hours=random.choice((1, 6, 24)))
        for _ in range(random.choice((0, 0, 1, 5, 40))):
            number += 1
            unstored.append(item(number, random.choice(list(NewsKind)), now))
        iterate(fails=True)
    for _ in range(2 * MAX_WAITING):
        now += EXPIRES_AFTER
        iterate(fails=False)
    assert len(kept) == number
    assert set(decisions.values()) <= {1}, decisions
    assert {each.state for each in kept.values()} >= {NewsState.READ, NewsState.SKIPPED}
    assert all(each.reason for each in kept.values() if each.state != NewsState.READ)
