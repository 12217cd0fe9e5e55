"""News items (changed pages and new documents) and their states. Pure.

An item is offered to each plan until a query has read it, a plan has skipped it with a reason, or it has expired.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from shared.enums import NewsKind, NewsState
from shared.graph.prompt_format import truncate_text
from shared.graph.validation import one_line
from shared.urls import normalize_url

MAX_OFFERED: Final[Mapping[NewsKind, int]] = {NewsKind.PAGE: 10, NewsKind.DOCUMENT: 20}
"""Maximum number of items of a kind in one plan. The others are offered to later plans."""
EXPIRES_AFTER: Final = timedelta(days=7)
MIN_OFFERS: Final = 3
"""Minimum number of plans that an item is offered to before it expires, unless more than MAX_WAITING newer ones wait."""
MAX_PLANS: Final = 3
"""Number of plans with a query for an item after which it expires if no query has read it."""
MAX_WAITING: Final = 200
MAX_REASON_CHARS: Final = 200
_WORDS: Final = {NewsKind.PAGE: "changed page", NewsKind.DOCUMENT: "new document"}


@dataclass(frozen=True)
class Item:
    id: UUID
    kind: NewsKind
    url: str
    title: str | None
    found_at: datetime
    state: NewsState = NewsState.OPEN
    reason: str | None = None
    offers: int = 0
    """Plans that it was offered to."""
    plans: int = 0
    """Plans that had a query to read it."""
    planned_in: UUID | None = None
    """The iteration of the last such plan."""
    published: datetime | None = None
    """The time of publication that the feed states."""

    @property
    def is_decided(self) -> bool:
        return self.state not in (NewsState.OPEN, NewsState.PLANNED)

    @property
    def date(self) -> datetime:
        """When it was published, as far as known; a feed's date in the future does not count."""
        return min(self.published or self.found_at, self.found_at)

    @property
    def line(self) -> str:
        """The line in the prompt of the Observer."""
        title = f"{truncate_text(one_line(self.title))}: " if self.title else ""
        published = f" (published {self.published:%Y-%m-%d})" if self.published else ""
        return f"- {_WORDS[self.kind]}: {title}{self.url}{published}"

    @property
    def as_json(self) -> dict[str, Any]:
        return {
            "id": str(self.id),
            "kind": self.kind,
            "url": self.url,
            "title": self.title,
            "published": None if self.published is None else self.published.isoformat(),
            "found_at": self.found_at.isoformat(),
            "state": self.state,
            "reason": self.reason,
            "offers": self.offers,
            "plans": self.plans,
            "planned_in": None if self.planned_in is None else str(self.planned_in),
        }


@dataclass(frozen=True)
class StoredItem:
    """A stored item that is not decided; `was_read` if its page has been read since."""

    item: Item
    was_read: bool


@dataclass(frozen=True)
class Agenda:
    """The news items before a plan."""

    items: Sequence[Item]
    """New items and items whose state has changed, to be stored."""
    offered: Sequence[Item]
    new: Sequence[Item] = ()
    """The new items among `items`."""
    wakes: int = 0
    """Number of offered items that require a plan: those not offered before, or planned and not read."""
    waiting: int = 0
    """Number of open items that are left for later plans."""


def agenda(stored: Sequence[StoredItem], new: Sequence[Item], now: datetime) -> Agenda:
    """Updates the states of items of earlier plans, adds the new items, and selects those to offer.

    Items that were planned and not read come first, then those offered least, then the newest.
    """
    settled = [(each.item, _settled(each, now)) for each in stored]
    waiting = {normalize_url(item.url) for _, item in settled if not item.is_decided}
    added = [item for item in new if normalize_url(item.url) not in waiting]
    expired = _too_many([item for _, item in settled] + added)
    final = [(before, expired.get(item.id, item)) for before, item in settled]
    added = [expired.get(item.id, item) for item in added]
    back = {item.id for before, item in final if before.state == NewsState.PLANNED}
    opened = [item for item in (*(item for _, item in final), *added) if not item.is_decided]
    opened.sort(key=lambda item: item.url)
    opened.sort(key=lambda item: item.date, reverse=True)
    opened.sort(key=lambda item: (item.id not in back, item.offers))
    offered = [
        item
        for kind, most in MAX_OFFERED.items()
        for item in [each for each in opened if each.kind == kind][:most]
    ]
    changed = [item for before, item in final if item != before]
    wakes = sum(item.offers == 0 or item.id in back for item in offered)
    return Agenda([*changed, *added], offered, added, wakes, len(opened) - len(offered))


def _settled(stored: StoredItem, now: datetime) -> Item:
    item = stored.item
    if stored.was_read:
        return replace(item, state=NewsState.READ)
    if item.state == NewsState.PLANNED and item.plans >= MAX_PLANS:
        reason = f"It was planned {item.plans} times, and no query has read it."
        return replace(item, state=NewsState.EXPIRED, reason=reason)
    if item.offers >= MIN_OFFERS and now - item.found_at > EXPIRES_AFTER:
        reason = f"It was offered to {item.offers} plans in {(now - item.found_at).days} days."
        return replace(item, state=NewsState.EXPIRED, reason=reason)
    return replace(item, state=NewsState.OPEN)


def _too_many(items: Iterable[Item]) -> dict[UUID, Item]:
    """The oldest items beyond MAX_WAITING, expired."""
    waiting = sorted(
        (item for item in items if not item.is_decided),
        key=lambda item: item.found_at,
        reverse=True,
    )
    reason = f"More than {MAX_WAITING} newer items were waiting."
    return {
        item.id: replace(item, state=NewsState.EXPIRED, reason=reason)
        for item in waiting[MAX_WAITING:]
    }


def decide(
    offered: Sequence[Item],
    planned: Collection[str],
    skipped: Mapping[str, str],
    iteration_id: UUID,
) -> list[Item]:
    """The offered items after a plan, whose queries name the addresses `planned`. `skipped` has reasons by address.

    An item that the plan does not mention stays open. One that it both plans and skips is planned.
    """
    named = {normalize_url(url) for url in planned}
    reasons = {
        normalize_url(url): one_line(reason)[:MAX_REASON_CHARS]
        for url, reason in skipped.items()
        if reason.strip()
    }
    decided = []
    for item in offered:
        url = normalize_url(item.url)
        item = replace(item, offers=item.offers + 1)
        if url in named:
            item = replace(
                item, state=NewsState.PLANNED, plans=item.plans + 1, planned_in=iteration_id
            )
        elif url in reasons:
            item = replace(item, state=NewsState.SKIPPED, reason=reasons[url])
        decided.append(item)
    return decided
