"""Claims: what sources say about a node or edge, and the properties that follow from them. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final
from uuid import UUID

from shared.events.envelope import in_utc
from shared.graph.provenance import integrity

Properties = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """What one quote says about an element: values by property; empty if it only supports the element itself."""

    evidence_id: UUID
    values: Properties
    as_of: datetime
    """When it was true: the start of its validity if known, else when the page was published or fetched."""
    learned_at: datetime
    is_retracted: bool = False

    @property
    def order(self) -> tuple[datetime, datetime, str]:
        """Sort key. Ties are broken by content: ids would differ in a copy of the graph."""
        return self.as_of, self.learned_at, integrity.canonical_json(self.values)


def current_claims(claims: Iterable[Claim]) -> dict[str, Claim]:
    """The winning claim by property.

    Of the claims not retracted, the one with the latest `as_of` wins, then the latest `learned_at`. The others are
    superseded; they win again if this one is retracted.
    """
    winners: dict[str, Claim] = {}
    active = [claim for claim in claims if not claim.is_retracted]
    if len(active) > 1:  # most elements have one quote, and sorting is slow
        active.sort(key=lambda claim: claim.order)
    for claim in active:
        winners |= dict.fromkeys(claim.values, claim)
    return winners


def project_properties(properties: Properties, claims: Iterable[Claim]) -> dict[str, Any]:
    """The properties that follow from `claims`.

    Present properties without any claim stay as they are: they were written before evidence was stored.
    """
    claim_list = list(claims)
    claimed_names = {name for claim in claim_list for name in claim.values}
    unclaimed = {name: value for name, value in properties.items() if name not in claimed_names}
    winners = current_claims(claim_list)
    return unclaimed | {name: claim.values[name] for name, claim in winners.items()}


@dataclass(frozen=True)
class PreviousValue:
    """A value and when it was true; None if no claim supports it."""

    value: Any
    as_of: datetime | None


@dataclass(frozen=True)
class PropertyChange:
    """New properties: `superseded` values were replaced, `retained` values are newer than the given ones."""

    properties: dict[str, Any]
    evidence: tuple[UUID, ...] = ()
    """Ids of all evidence after the change."""
    superseded: Mapping[str, PreviousValue] = field(default_factory=dict)
    retained: Mapping[str, PreviousValue] = field(default_factory=dict)


def apply_claims(
    properties: Properties, claims: Sequence[Claim], new_claims: Sequence[Claim]
) -> PropertyChange:
    """Apply `new_claims` to `properties`, which follow from `claims`; both may contain the same claims."""
    all_claims = {claim.evidence_id: claim for claim in (*new_claims, *claims)}
    projection = project_properties(properties, all_claims.values())
    winners_before, winners = current_claims(claims), current_claims(all_claims.values())
    values = {name: value for claim in new_claims for name, value in claim.values.items()}
    superseded = {
        name: PreviousValue(
            properties[name], winners_before[name].as_of if name in winners_before else None
        )
        for name in values
        if name in properties and not integrity.is_equal(properties[name], projection[name])
    }
    retained = {
        name: PreviousValue(projection[name], winners[name].as_of)
        for name, value in values.items()
        if not integrity.is_equal(value, projection[name])
    }
    return PropertyChange(projection, tuple(all_claims), superseded, retained)


_DATE_FORMATS: Final = ("%Y/%m/%d", "%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%B %Y")
_PARTIAL_DATE: Final = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d{2})(?:-(?P<day>\d{2}))?)?")
_MONTHS: Final = 12


def parse_published(text: str | None) -> datetime | None:
    """Parse a publication date: ISO 8601, RFC 2822 or a written-out date; None if it is none of them.

    A day means its start; without a time zone it is UTC.
    """
    stripped = (text or "").strip()
    for parser in (
        _parse_iso,
        parsedate_to_datetime,
        *(_format_parser(date_format) for date_format in _DATE_FORMATS),
    ):
        try:
            return _to_utc(parser(stripped))
        except (ValueError, OverflowError):
            continue
    return None


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


def _format_parser(date_format: str) -> Callable[[str], datetime]:
    return lambda text: datetime.strptime(text, date_format).replace(tzinfo=UTC)


def _to_utc(moment: datetime) -> datetime:
    return in_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
