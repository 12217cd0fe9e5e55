"""Claims: what sources say about a node or edge, and the properties that follow from them. Pure."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import cache
from typing import Any, Final
from uuid import UUID

from shared.events.envelope import in_utc
from shared.graph.grounding.words import LANGUAGES, fold, lexicon
from shared.graph.provenance import integrity
from shared.tools.readings import EXISTS

Properties = Mapping[str, Any]

UNKNOWN_DATE: Final = datetime(1, 1, 2, tzinfo=UTC)
"""Stored as `as_of` of evidence whose date is unknown. It is before every date, and in the year 1 in every time zone."""
UNKNOWN_DATE_SQL: Final = "timestamptz '0001-01-02T00:00:00Z'"
KNOWN_DATE_SQL: Final = f"cast(nullif(as_of, {UNKNOWN_DATE_SQL}) at time zone 'utc' as date)"
"""The date of a row's `as_of` (UTC); null if it is unknown."""
HOST_SQL: Final = "substring(url from '^[A-Za-z]+[:]//([^/?#]+)')"
"""The host of a row's `url`; null if it has none."""


def known_date(as_of: datetime) -> datetime | None:
    """A stored `as_of`; None if it is unknown."""
    return None if as_of == UNKNOWN_DATE else as_of


@dataclass(frozen=True)
class Claim:
    """What one quote says about an element: values by property; empty if it only supports the element itself."""

    evidence_id: UUID
    values: Properties
    as_of: datetime
    """When its page was published, or the start of its validity if that is earlier; UNKNOWN_DATE if no date is known."""
    learned_at: datetime
    is_retracted: bool = False
    url: str = ""
    """Address of its page."""
    is_dated_by_reading: bool = False
    """Its date is when the page was read, as older versions dated pages without a date."""
    valid_from: datetime | None = None
    """When its validity begins; None if the page does not say so."""
    valid_to: datetime | None = None
    """The first moment at which it is no longer true; None if the page states no end."""
    published: datetime | None = None
    """When its page was published; None if that is unknown."""
    speaker: str | None = None
    """Who says it, if the quote attributes it to someone."""
    refused: frozenset[str] = frozenset()
    """The properties whose values a model that read the quote found contradicted or not stated. EXISTS among them: that the
    element exists.
    """

    @property
    def stated(self) -> Properties:
        """The values that count: those that were not refused."""
        if not self.refused:
            return self.values
        return {name: value for name, value in self.values.items() if name not in self.refused}

    @property
    def is_active(self) -> bool:
        """Whether it supports that the element exists."""
        return not self.is_retracted and EXISTS not in self.refused

    @property
    def since(self) -> datetime:
        """From when on it replaces older claims: `as_of`, or the start of its validity if that is later."""
        return self.as_of if self.valid_from is None else max(self.as_of, self.valid_from)

    @property
    def order(self) -> tuple[datetime, datetime, datetime, str]:
        """Sort key. Ties are broken by content: ids would differ in a copy of the graph."""
        return self.since, self.as_of, self.learned_at, integrity.canonical_json(self.values)

    def is_upcoming(self, now: datetime) -> bool:
        return self.valid_from is not None and self.valid_from > now

    def has_ended(self, now: datetime) -> bool:
        return self.valid_to is not None and self.valid_to <= now

    def holds(self, now: datetime) -> bool:
        """Whether its validity, as far as the page states it, includes `now`."""
        return not self.is_upcoming(now) and not self.has_ended(now)


def current_claims(claims: Iterable[Claim], now: datetime) -> dict[str, Claim]:
    """The winning claim by property at the moment `now`.

    A value that was refused does not count. Of the others, a claim that is not retracted and whose validity includes `now`
    wins. Of several, the one with the latest `since` wins, then the latest `as_of`, then the latest `learned_at`. A claim
    without a date never replaces one that has a date, and of claims without one, the first stays until its own page says
    otherwise, also if an older version has dated it by the reading. If none holds, the one that ended last wins; if all
    begin later, the one that begins first. The others are superseded or upcoming; they win again if the winning one is
    retracted.
    """
    active = [claim for claim in claims if not claim.is_retracted]
    holding = [claim for claim in active if claim.holds(now)]
    winners = _latest(holding)
    if len(holding) == len(active):
        return winners
    first = {name: begins[0] for name, begins in upcoming_claims(active, now).items()}
    ended = [(claim.valid_to, claim) for claim in active if claim.valid_to and claim.has_ended(now)]
    ended.sort(key=lambda each: (each[0], each[1].order))
    last = {name: claim for _, claim in ended for name in claim.stated}
    return first | last | winners


def _latest(claims: list[Claim]) -> dict[str, Claim]:
    """The winning claim by property, of claims that all hold."""
    winners: dict[str, Claim] = {}
    if len(claims) > 1:  # most elements have one quote, and sorting is slow
        claims = sorted(claims, key=lambda claim: claim.order)
    for claim in claims:  # those without a date first
        for name in claim.stated:
            if claim.since != UNKNOWN_DATE or winners.get(name, claim).url == claim.url:
                winners[name] = claim
    for claim in claims:
        if claim.since != UNKNOWN_DATE:
            break
        for name in claim.stated:
            winner = winners[name]
            if (
                (winner.is_dated_by_reading or winner.since == UNKNOWN_DATE)
                and winner.url == claim.url
                and winner.learned_at < claim.learned_at
            ):
                winners[name] = claim
    return winners


def upcoming_claims(claims: Iterable[Claim], now: datetime) -> dict[str, list[Claim]]:
    """By property, the claims whose validity begins after `now`, the first to begin first; of one start, the newest.

    Retracted claims and refused values do not count.
    """
    by_start: dict[str, dict[datetime, Claim]] = {}
    begins = [claim for claim in claims if claim.is_upcoming(now) and not claim.is_retracted]
    for claim in sorted(begins, key=lambda claim: claim.order):
        for name in claim.stated:
            by_start.setdefault(name, {})[claim.since] = claim
    return {name: [*of_name.values()] for name, of_name in by_start.items()}


def is_dated_by_reading(
    as_of: datetime, valid_from: datetime | None, published: datetime | None
) -> bool:
    """Whether evidence with these dates of its own and of its page was stored with the time of the reading as `as_of`."""
    return as_of != UNKNOWN_DATE and valid_from is None and published is None


def project_properties(
    properties: Properties, claims: Iterable[Claim], now: datetime
) -> dict[str, Any]:
    """The properties that follow from `claims` at the moment `now`.

    Present properties without any claim stay as they are: they were written before evidence was stored.
    """
    claim_list = list(claims)
    claimed_names = {name for claim in claim_list for name in claim.values}
    unclaimed = {name: value for name, value in properties.items() if name not in claimed_names}
    winners = current_claims(claim_list, now)
    return unclaimed | {name: claim.values[name] for name, claim in winners.items()}


@dataclass(frozen=True)
class PreviousValue:
    """A value and when it was true; None if that is unknown, or no claim supports it."""

    value: Any
    as_of: datetime | None


@dataclass(frozen=True)
class PropertyChange:
    """New properties: `superseded` values were replaced, `retained` values hold instead of the given ones."""

    properties: dict[str, Any]
    evidence: tuple[UUID, ...] = ()
    """Ids of all evidence after the change."""
    superseded: Mapping[str, PreviousValue] = field(default_factory=dict)
    retained: Mapping[str, PreviousValue] = field(default_factory=dict)
    upcoming: Mapping[str, datetime] = field(default_factory=dict)
    """When the given values begin that are not valid yet, and do not count until then."""
    refused: Collection[str] = ()
    """The properties whose given values a reading of the same quotes has refused."""


def apply_claims(
    properties: Properties, claims: Sequence[Claim], new_claims: Sequence[Claim], now: datetime
) -> PropertyChange:
    """Apply `new_claims` to `properties`, which follow from `claims`; both may contain the same claims."""
    all_claims = {claim.evidence_id: claim for claim in (*new_claims, *claims)}
    projection = project_properties(properties, all_claims.values(), now)
    winners_before = current_claims(claims, now)
    winners = current_claims(all_claims.values(), now)
    values = {name: value for claim in new_claims for name, value in claim.values.items()}
    superseded = {
        name: PreviousValue(
            properties[name],
            known_date(winners_before[name].as_of) if name in winners_before else None,
        )
        for name in values
        if name in properties
        and name in projection
        and not integrity.is_equal(properties[name], projection[name])
    }
    # The same evidence can be stored already, and be read.
    given = [all_claims[claim.evidence_id] for claim in new_claims]
    stated = {name for claim in given for name in claim.stated}
    refused = [name for name in values if name not in stated]
    upcoming = {
        name: claim.since
        for claim in given
        if claim.is_upcoming(now)
        for name, value in claim.stated.items()
        if not integrity.is_equal(value, projection[name])
    }
    retained = {
        name: PreviousValue(projection[name], known_date(winners[name].as_of))
        for name, value in values.items()
        if name in stated
        and name not in upcoming
        and not integrity.is_equal(value, projection[name])
    }
    return PropertyChange(projection, tuple(all_claims), superseded, retained, upcoming, refused)


_PARTIAL_DATE: Final = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d{2})(?:-(?P<day>\d{2}))?)?")
_MONTHS: Final = 12


_MAX_DATE_CHARS: Final = 100
_ZONED_TIME: Final = re.compile(r"\d:\d\d(?::\d\d)?\s*(?P<zone>[a-z.]+)", re.IGNORECASE)
_ZONES: Final = frozenset(
    ["UT", "UTC", "GMT", "Z", "EST", "EDT", "CST", "CDT", "MST", "MDT", "PST", "PDT"]
)
"""Names of zones with one offset. ET and CET have two, and others are of several countries."""
_EPOCH: Final = re.compile(r"(?P<seconds>\d{9,10})(?:\.\d+|(?P<milliseconds>\d{3}))?")
_YEAR: Final = r"(?P<year>\d{4})"
_DAY: Final = r"(?P<day>\d{1,2})"
_MONTH: Final = r"(?P<month>[^\W\d]{3,12})\.?"
_WRITTEN_DATES: Final = tuple(
    # Words such as "Updated" and the day of the week stand before some dates, a time after some.
    re.compile(rf"(?:[^\W\d]+[.:,]*\s+){{0,4}}{form}(?:[\s,T]+\D{{0,5}}\d{{1,2}}[:h.]\d\d.*)?")
    for form in (
        rf"{_DAY}(?:\.|er|st|nd|rd|th|º)?[\s-]+(?:de |of )?{_MONTH},?[\s-]+(?:de |del )?{_YEAR}",
        rf"{_MONTH}\s+{_DAY}(?:st|nd|rd|th)?,?\s+{_YEAR}",
        rf"{_MONTH},?\s+(?:de |del )?{_YEAR}",
        rf"{_DAY}\.\s?(?P<number>\d{{1,2}})\.\s?{_YEAR}",
        rf"{_YEAR}\s?[年/.-]\s?(?P<number>\d{{1,2}})\s?[月/.-]\s?{_DAY}(?:日|\b)",
        rf"(?P<first>\d{{1,2}})(?P<sign>[/-])(?P<second>\d{{1,2}})(?P=sign){_YEAR}",
    )
)


def parse_published(text: str | None) -> datetime | None:
    """Parse a publication date: ISO 8601, RFC 2822, seconds since 1970 or a written date; None if it is none of them.

    A day means its start; without a time zone it is UTC. Of a time in a zone that can mean several, only the day counts. A
    date such as 5/3/2026, which can be read in two ways, is none.
    """
    stripped = " ".join((text or "").split())
    if len(stripped) > _MAX_DATE_CHARS:
        return None
    for parser in (_parse_iso, _parse_epoch, _parse_mail_date, _parse_written):
        with suppress(ValueError, OverflowError):
            moment = parser(stripped)
            break
    else:
        return None
    try:
        return _to_utc(moment)
    except (ValueError, OverflowError):  # after the year 9999 or before the year 1
        return None


def _parse_epoch(text: str) -> datetime:
    if (match := _EPOCH.fullmatch(text)) is None:
        raise ValueError("no seconds since 1970")
    return datetime.fromtimestamp(int(match["seconds"]), UTC)


def _parse_mail_date(text: str) -> datetime:
    zoned = _ZONED_TIME.search(text)
    if zoned and zoned["zone"].upper() not in _ZONES:
        raise ValueError("a time in a zone that is not known")
    return parsedate_to_datetime(text)


def _parse_written(text: str) -> datetime:
    for pattern in _WRITTEN_DATES:
        if match := pattern.fullmatch(text):
            parts = match.groupdict()
            if parts.get("first"):
                day, month = _day_and_month(int(parts["first"]), int(parts["second"]))
            else:
                month = int(parts.get("number") or 0) or _month_names().get(fold(parts["month"]), 0)
                day = int(parts.get("day") or 1)
            return datetime(int(parts["year"]), month, day, tzinfo=UTC)
    raise ValueError("no date")


def _day_and_month(first: int, second: int) -> tuple[int, int]:
    """Raises ValueError if either number can be the month."""
    if first != second and max(first, second) <= _MONTHS:
        raise ValueError("the day or the month may come first")
    return (second, first) if second > _MONTHS else (first, second)


@cache
def _month_names() -> Mapping[str, int]:
    """The months by their names and abbreviations, folded, in all languages that are known."""
    return {
        name.rstrip("."): month
        for each in LANGUAGES
        for name, month in lexicon(each).months.items()
    }


def parse_period_start(text: str) -> datetime:
    """The first moment of a year, month, day or time. Raises ValueError if `text` is none of them."""
    return _to_utc(_parse_iso(text.strip()))


def parse_period_end(text: str) -> datetime:
    """The first moment after a year, month or day; a full time is that moment. Raises ValueError."""
    stripped = text.strip()
    start = parse_period_start(stripped)
    match = _PARTIAL_DATE.fullmatch(stripped)
    if match is None:
        return start
    if match["day"]:
        try:
            return start + timedelta(days=1)
        except OverflowError as error:
            raise ValueError(f"{stripped} is too late a date; use an earlier one") from error
    year, month = int(match["year"]), int(match["month"] or _MONTHS)
    return datetime(year + month // _MONTHS, month % _MONTHS + 1, 1, tzinfo=UTC)


def _parse_iso(text: str) -> datetime:
    match = _PARTIAL_DATE.fullmatch(text)
    if match is None:
        return datetime.fromisoformat(text)
    return datetime(
        int(match["year"]), int(match["month"] or 1), int(match["day"] or 1), tzinfo=UTC
    )


def _to_utc(moment: datetime) -> datetime:
    return in_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
