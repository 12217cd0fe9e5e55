"""Which retractions make of a node or edge something else than it was held to be."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from uuid import UUID

from shared.graph.proof.fold import Claim, standing


def shaken_by(claims: Iterable[Claim], source_of: Mapping[UUID, UUID]) -> set[UUID]:
    """The retracted sources but for which other values would hold, or the thing would have a page that speaks for it.

    A retracted source that others bear out shakes nothing. `source_of` gives each evidence's source. It follows from the
    claims alone, so that a retraction that is undone leaves no trace, whatever was retracted and undone meanwhile.
    """
    known = list(claims)
    retracted = {source_of[claim.evidence_id] for claim in known if claim.is_retracted}
    if all(claim.is_retracted for claim in known):
        return retracted
    holds = standing(known)
    held = standing(replace(claim, is_retracted=False) for claim in known)
    return retracted & {
        source_of[claim.evidence_id]
        for name, claim in held.items()
        if name not in holds or holds[name].values[name] != claim.values[name]
    }
