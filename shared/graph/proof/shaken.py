"""Which retractions make of a node or edge something else than it was held to be."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from uuid import UUID

from shared.graph.proof.fold import Claim, standing


def shaken_by(
    claims: Iterable[Claim],
    source_of: Mapping[UUID, UUID],
    retracted_at: Mapping[UUID, datetime],
) -> set[UUID]:
    """The retracted sources but for which other values would hold, or the thing would have a page that speaks for it.

    A retracted source that others bear out shakes nothing, whenever they come to do it. One whose value gave way to another
    after it was retracted shakes it still: what was concluded from that value was never borne out. `source_of` gives each
    evidence's source, `retracted_at` since when each is retracted. It follows from these alone, so that a retraction that
    is undone leaves no trace, whatever was retracted and undone meanwhile.
    """
    known = list(claims)
    if all(claim.is_retracted for claim in known):
        return {source_of[claim.evidence_id] for claim in known}
    holds = standing(known)
    return {
        source
        for source in {source_of[claim.evidence_id] for claim in known if claim.is_retracted}
        if _shakes(source, holds, _held_at(retracted_at[source], known), source_of)
    }


def _held_at(moment: datetime, claims: Iterable[Claim]) -> dict[str, Claim]:
    """What held, or would have if nothing had been retracted."""
    return standing(
        replace(claim, is_retracted=False) for claim in claims if claim.learned_at <= moment
    )


def _shakes(
    source: UUID,
    holds: Mapping[str, Claim],
    held: Mapping[str, Claim],
    source_of: Mapping[UUID, UUID],
) -> bool:
    return any(
        source_of[claim.evidence_id] == source
        and (name not in holds or holds[name].values[name] != claim.values[name])
        for name, claim in held.items()
    )
