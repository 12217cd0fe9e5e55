"""How many sites support a value, and what others say. Pure. See `shared.domains.site_of`."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.graph.provenance.claims import UNKNOWN_DATE, Claim, current_claims, known_date
from shared.graph.provenance.integrity import canonical_json


@dataclass(frozen=True)
class OtherValue:
    """A value that is the newest of some sites, and is not the current one."""

    value: Any
    sites: Sequence[str]
    as_of: datetime | None
    """The newest of these claims; None if none has a date."""


@dataclass(frozen=True)
class Agreement:
    sites: Sequence[str]
    """Those whose newest claim is the current value."""
    others: Sequence[OtherValue] = ()
    """The newest first."""


def agreements(claims: Iterable[tuple[Claim, str]]) -> Mapping[str, Agreement]:
    """By property, of all claims about one element with their sites. Retracted claims do not count."""
    by_site: defaultdict[str, list[Claim]] = defaultdict(list)
    for claim, site in claims:
        if not claim.is_retracted:
            by_site[site].append(claim)
    newest_of = {site: current_claims(its_claims) for site, its_claims in by_site.items()}
    current = current_claims(claim for its_claims in by_site.values() for claim in its_claims)
    return {name: _agreement(name, winner, newest_of) for name, winner in current.items()}


def _agreement(name: str, winner: Claim, newest_of: Mapping[str, Mapping[str, Claim]]) -> Agreement:
    by_value: defaultdict[str, dict[str, Claim]] = defaultdict(dict)
    for site, newest in sorted(newest_of.items()):
        if name in newest:
            by_value[canonical_json(newest[name].values[name])][site] = newest[name]
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
