"""What a node or edge is held to be, from all that pages have said of it: nothing is overwritten, the newest is shown."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.graph.proof import seals

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
        return self.as_of, self.learned_at, seals.canonical(self.values)


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
