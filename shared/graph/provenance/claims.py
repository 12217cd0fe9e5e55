"""Claims: what sources say of a node or edge, folded into its properties. Pure."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Final
from uuid import UUID

from shared.events.envelope import in_utc
from shared.graph.provenance import integrity
from shared.graph.provenance.integrity import canonical

Properties = Mapping[str, Any]


@dataclass(frozen=True)
class Claim:
    """What one span of one page says of a thing: values by property, none where only that the thing is."""

    evidence_id: UUID
    values: Properties
    as_of: datetime
    """When it was true, as far as is known: from when on it was valid, else when the page was published or fetched."""
    learned_at: datetime
    is_retracted: bool = False

    @property
    def order(self) -> tuple[datetime, datetime, str]:
        """Claims of the same moment are ordered by what they say: by ids, they would not be in a copy of the graph."""
        return self.as_of, self.learned_at, integrity.canonical(self.values)


def standing(claims: Iterable[Claim]) -> dict[str, Claim]:
    """By property the claim whose value holds: of those not retracted the one that is true latest, then learned last.

    All others of that property are superseded; they stay, and hold again where this one is retracted.
    """
    held: dict[str, Claim] = {}
    believed = [claim for claim in claims if not claim.is_retracted]
    if len(believed) > 1:  # most things rest on one quote, and an order takes its time
        believed.sort(key=lambda claim: claim.order)
    for claim in believed:
        held |= dict.fromkeys(claim.values, claim)
    return held


def folded(properties: Properties, claims: Iterable[Claim]) -> dict[str, Any]:
    """The properties that follow from `claims`. Those of the present ones that no claim speaks of stay as they are:

    they were written before evidence was kept.
    """
    known = list(claims)
    spoken_of = {name for claim in known for name in claim.values}
    unproven = {name: value for name, value in properties.items() if name not in spoken_of}
    held = standing(known)
    return unproven | {name: claim.values[name] for name, claim in held.items()}


@dataclass(frozen=True)
class Held:
    """A value that stood, or stands, and when it was true; None where no page speaks of it."""

    value: Any
    as_of: datetime | None


@dataclass(frozen=True)
class Change:
    """`superseded`: values that stood and gave way; `kept`: newer ones that stand against those given now."""

    properties: dict[str, Any]
    evidence: tuple[UUID, ...] = ()
    """All that there is of the thing then."""
    superseded: Mapping[str, Held] = field(default_factory=dict)
    kept: Mapping[str, Held] = field(default_factory=dict)


def change(properties: Properties, claims: Sequence[Claim], given: Sequence[Claim]) -> Change:
    """`properties` as `claims` left them, and what they are with those `given` now; any of these may be known already."""
    every = {claim.evidence_id: claim for claim in (*given, *claims)}
    after = folded(properties, every.values())
    before, now = standing(claims), standing(every.values())
    values = {name: value for claim in given for name, value in claim.values.items()}
    superseded = {
        name: Held(properties[name], before[name].as_of if name in before else None)
        for name in values
        if name in properties and not _same(properties[name], after[name])
    }
    kept = {
        name: Held(after[name], now[name].as_of)
        for name, value in values.items()
        if not _same(value, after[name])
    }
    return Change(after, tuple(every), superseded, kept)


def _same(one: Any, other: Any) -> bool:
    return canonical(one) == canonical(other)


_WRITTEN_OUT: Final = ("%Y/%m/%d", "%B %d, %Y", "%b %d, %Y", "%d %B %Y", "%d %b %Y", "%B %Y")
_PART_OF_A_DATE: Final = re.compile(r"(?P<year>\d{4})(?:-(?P<month>\d{2})(?:-(?P<day>\d{2}))?)?")
_MONTHS: Final = 12


def published(text: str | None) -> datetime | None:
    """When a page says it was published: ISO 8601, RFC 2822 or a date written out; None where it is none of them.

    A day is its beginning, and what names no zone is UTC.
    """
    told = (text or "").strip()
    for read in (_iso, parsedate_to_datetime, *(_form(each) for each in _WRITTEN_OUT)):
        try:
            return _utc(read(told))
        except (ValueError, OverflowError):
            continue
    return None


def beginning(text: str) -> datetime:
    """The moment when the year, month, day or time begins that `text` names. Raises ValueError where it names none."""
    return _utc(_iso(text.strip()))


def end(text: str) -> datetime:
    """The first moment after the year, month or day that `text` names; a time is itself. Raises ValueError."""
    told = text.strip()
    named = _PART_OF_A_DATE.fullmatch(told)
    if named is None:
        return _utc(_iso(told))
    first = _utc(_iso(told))
    if named["day"]:
        try:
            return first + timedelta(days=1)
        except OverflowError as error:
            raise ValueError(f"{told} is the last day that there is") from error
    year, month = int(named["year"]), int(named["month"] or _MONTHS)
    return datetime(year + month // _MONTHS, month % _MONTHS + 1, 1, tzinfo=UTC)


def _iso(text: str) -> datetime:
    named = _PART_OF_A_DATE.fullmatch(text)
    if named is None:
        return datetime.fromisoformat(text)
    return datetime(
        int(named["year"]), int(named["month"] or 1), int(named["day"] or 1), tzinfo=UTC
    )


def _form(form: str) -> Callable[[str], datetime]:
    return lambda text: datetime.strptime(text, form).replace(tzinfo=UTC)


def _utc(moment: datetime) -> datetime:
    return in_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
