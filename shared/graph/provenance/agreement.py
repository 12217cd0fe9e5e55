"""What stands beside the present value of a property: values of other origins, and what begins or has ended. Pure.

A value of another origin is contested if it and the present one cannot both hold for the same time. An older value that
time has overtaken is not.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from shared.graph.provenance.claims import (
    UNKNOWN_DATE,
    Claim,
    current_claims,
    known_date,
    upcoming_claims,
)
from shared.graph.provenance.contradiction import contradict
from shared.graph.provenance.integrity import canonical_json
from shared.graph.provenance.origins import Origin, value_origins
from shared.graph.provenance.speakers import unify

_Voice = Origin | str
"""An origin that states something itself, or the name of a speaker, whatever pages quote them."""
_Saying = Sequence[tuple[Claim, Origin]]

SAME_TIME: Final = timedelta(days=1)
"""Claims whose dates are less apart than this speak of one time."""


@dataclass(frozen=True)
class OtherValue:
    """A value that is the newest of some origins, and is not the current one."""

    value: Any
    origins: Sequence[Origin]
    as_of: datetime | None
    """The newest of these claims; None if none has a date."""
    is_contested: bool = False


@dataclass(frozen=True)
class UpcomingValue:
    """A value whose validity begins later."""

    value: Any
    begins: datetime
    claim: Claim


@dataclass(frozen=True)
class Agreement:
    origins: Sequence[Origin]
    """Those whose newest claim is the current value."""
    others: Sequence[OtherValue] = ()
    """The newest first."""
    upcoming: Sequence[UpcomingValue] = ()
    """Besides the current value, the first to begin first."""
    value: Any = None
    """The current one."""
    as_of: datetime | None = None
    """Of the current value; None if no date is known."""
    begins: datetime | None = None
    """When the current value begins, if nothing holds and nothing has ended."""
    ended: datetime | None = None
    """When the validity of the current value has ended, if nothing holds."""

    @property
    def contested(self) -> Sequence[OtherValue]:
        return [other for other in self.others if other.is_contested]

    @property
    def is_plain(self) -> bool:
        """Whether the current value holds, is not contested, and no other is about to replace it."""
        return not (self.contested or self.upcoming or self.begins or self.ended)


def agreements(claims: Iterable[tuple[Claim, Origin]], now: datetime) -> Mapping[str, Agreement]:
    """By property, of all claims about one element with the origins of their pages. Retracted claims and refused values do
    not count.

    A speaker's words count once, whatever origins repeat them, and two speakers on one page are not one.
    """
    active = [(claim, origin) for claim, origin in claims if not claim.is_retracted]
    longest = unify(claim.speaker for claim, _ in active if claim.speaker)
    voices: defaultdict[_Voice, list[tuple[Claim, Origin]]] = defaultdict(list)
    for claim, origin in active:
        voices[longest[claim.speaker] if claim.speaker else origin].append((claim, origin))
    everything = [claim for claim, _ in active]
    current = current_claims(everything, now)
    newest_of = {
        voice: current_claims((one for one, _ in its), now) for voice, its in voices.items()
    }
    upcoming = upcoming_claims(everything, now)
    return {
        name: _agreement(name, winner, newest_of, voices, upcoming.get(name, ()), now)
        for name, winner in current.items()
    }


def _agreement(
    name: str,
    winner: Claim,
    newest_of: Mapping[_Voice, Mapping[str, Claim]],
    voices: Mapping[_Voice, _Saying],
    upcoming: Sequence[Claim],
    now: datetime,
) -> Agreement:
    by_value: defaultdict[str, list[tuple[Claim, Origin]]] = defaultdict(list)
    newest: defaultdict[str, list[Claim]] = defaultdict(list)
    for voice, its_newest in newest_of.items():
        claim = its_newest.get(name)
        if claim is not None and (claim is winner or not claim.is_upcoming(now)):
            key = canonical_json(claim.values[name])
            newest[key].append(claim)
            by_value[key] += [
                (one, origin)
                for one, origin in voices[voice]
                if name in one.stated
                and canonical_json(one.values[name]) == key
                and (one is claim or not one.is_upcoming(now))
            ]
    value = winner.values[name]
    supporting = by_value.pop(canonical_json(value), None) or [
        (claim, origin) for its in voices.values() for claim, origin in its if claim is winner
    ]
    others = [
        _other_value(name, winner, newest[key], saying, now) for key, saying in by_value.items()
    ]
    others.sort(key=lambda other: [*other.origins])
    others.sort(key=lambda other: other.as_of or UNKNOWN_DATE, reverse=True)
    return Agreement(
        _origins(supporting),
        tuple(others),
        tuple(
            UpcomingValue(claim.values[name], claim.since, claim)
            for claim in upcoming
            if canonical_json(claim.values[name]) != canonical_json(value)
        ),
        value,
        known_date(winner.as_of),
        winner.since if winner.is_upcoming(now) else None,
        winner.valid_to if winner.has_ended(now) else None,
    )


def _origins(saying: _Saying) -> Sequence[Origin]:
    return tuple(value_origins((claim.url, origin, claim.speaker) for claim, origin in saying))


def _other_value(
    name: str, winner: Claim, claims: Sequence[Claim], saying: _Saying, now: datetime
) -> OtherValue:
    """The value that all of `claims`, the newest of their voices, state."""
    value = claims[0].values[name]
    is_contested = (
        winner.holds(now)
        and contradict(name, value, winner.values[name])
        and any(claim.holds(now) and is_of_one_time(claim, winner) for claim in claims)
    )
    newest = max(claim.as_of for claim in claims)
    return OtherValue(value, _origins(saying), known_date(newest), is_contested)


def is_of_one_time(claim: Claim, other: Claim) -> bool:
    """Whether two claims that hold now speak of the same time, so that none has overtaken the other.

    They do if one of them has no date; if each is the word of another speaker; if the earlier one states an end, which is
    after the start of the later one; if one states a start, the other none, and both were published on one day; and
    otherwise if they start on one day.
    """
    earlier, later = sorted([claim, other], key=lambda each: each.since)
    if earlier.since == UNKNOWN_DATE:
        return True
    if (
        claim.speaker
        and other.speaker
        and len({*unify([claim.speaker, other.speaker]).values()}) > 1
    ):
        return True
    if earlier.valid_to is not None and earlier.valid_to > later.since:
        return True
    if (claim.valid_from is None) != (other.valid_from is None):
        published = [each.published or each.since for each in (claim, other)]
        if max(published) - min(published) < SAME_TIME:
            return True
    return later.since - earlier.since < SAME_TIME
