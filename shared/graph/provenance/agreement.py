"""How many origins support a value, and what others say. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.graph.provenance.claims import UNKNOWN_DATE, Claim, current_claims, known_date
from shared.graph.provenance.integrity import canonical_json
from shared.graph.provenance.origins import Origin


@dataclass(frozen=True)
class OtherValue:
    """A value that is the newest of some origins, and is not the current one."""

    value: Any
    origins: Sequence[Origin]
    as_of: datetime | None
    """The newest of these claims; None if none has a date."""


@dataclass(frozen=True)
class Agreement:
    origins: Sequence[Origin]
    """Those whose newest claim is the current value."""
    others: Sequence[OtherValue] = ()
    """The newest first."""


def agreements(claims: Iterable[tuple[Claim, Origin]]) -> Mapping[str, Agreement]:
    """By property, of all claims about one element with their origins. Retracted claims do not count."""
    by_origin: defaultdict[Origin, list[Claim]] = defaultdict(list)
    for claim, origin in claims:
        if not claim.is_retracted:
            by_origin[origin].append(claim)
    newest_of = {origin: current_claims(its_claims) for origin, its_claims in by_origin.items()}
    current = current_claims(claim for its_claims in by_origin.values() for claim in its_claims)
    return {name: _agreement(name, winner, newest_of) for name, winner in current.items()}


def _agreement(
    name: str, winner: Claim, newest_of: Mapping[Origin, Mapping[str, Claim]]
) -> Agreement:
    by_value: defaultdict[str, dict[Origin, Claim]] = defaultdict(dict)
    for origin, newest in sorted(newest_of.items()):
        if name in newest:
            by_value[canonical_json(newest[name].values[name])][origin] = newest[name]
    supporting = by_value.pop(canonical_json(winner.values[name]))
    others = [
        OtherValue(
            next(iter(claims.values())).values[name],
            tuple(claims),
            known_date(max(claim.as_of for claim in claims.values())),
        )
        for claims in by_value.values()
    ]
    others.sort(key=lambda other: other.as_of or UNKNOWN_DATE, reverse=True)
    return Agreement(tuple(supporting), tuple(others))
