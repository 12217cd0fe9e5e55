"""What pages say of a thing, property by property: what holds, and beneath it what was said before or elsewhere."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from shared.store.reading.evidence_shapes import ClaimView, EvidenceView
from shared.store.reading.shapes import Json


@dataclass(frozen=True)
class Said:
    claim: ClaimView
    quote: EvidenceView


@dataclass
class Saying:
    """One property. Nothing is under `holding` where no quote among those that are told bears its value out."""

    name: str
    value: Any
    holding: list[Said] = field(default_factory=list)
    superseded: list[Said] = field(default_factory=list)


@dataclass(frozen=True)
class Sayings:
    properties: Sequence[Saying]
    plain: Sequence[EvidenceView]
    """Quotes that say of no property, only that the thing is."""


def sayings(properties: Json, evidence: Iterable[EvidenceView]) -> Sayings:
    """`evidence` is what is true latest first, and stays so. A quote of the value that holds bears it out too."""
    by_name = {name: Saying(name, value) for name, value in properties.items()}
    plain: list[EvidenceView] = []
    for quote in evidence:
        if not quote.claims:
            plain.append(quote)
        for claim in quote.claims:
            saying = by_name.setdefault(claim.property, Saying(claim.property, None))
            agrees = claim.value == saying.value and quote.retracted_at is None
            under = saying.holding if claim.holds or agrees else saying.superseded
            under.append(Said(claim, quote))
    return Sayings(list(by_name.values()), plain)
