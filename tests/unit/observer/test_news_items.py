"""Each item of news is decided exactly once: read, skipped with a reason, or expired."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from uuid import UUID

import pytest

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
from shared.enums import NewsKind, NewsState
from tests.support.marks import slow

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
