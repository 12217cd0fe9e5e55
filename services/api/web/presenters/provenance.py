"""The chain from a conclusion to its sources, as a tree. Pure.

Each link is told in full where it is met first, and named where it is met again, as `vigil verify` tells it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, Literal
from uuid import UUID

from services.api.queries.provenance import HashView
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.schemas.base import CitationView, Json
from shared.schemas.provenance import (
    CheckedView,
    ClaimView,
    ConclusionLink,
    EvidenceLink,
    EvidenceView,
    LinkView,
    MarkView,
    SourceLink,
    ThingLink,
    VerificationView,
)

SMALL_LINKS: Final = 40
"""Up to so many, all of it is shown unfolded."""
LARGE_LINKS: Final = 400
"""Beyond so many, what lies below the analyses of advice is asked for when they are unfolded."""
MOST_QUOTES: Final = 12
"""Of one node or edge that are shown; what is broken is always among them."""


@dataclass(frozen=True)
class Branch:
    """One link with what it rests on. `source` is the page of a quote."""

    kind: str
    """`advice`, `analysis`, `node`, `edge` or `evidence`."""
    link: ConclusionLink | ThingLink | EvidenceLink
    hashes: HashView | None
    source: SourceLink | None = None
    source_hashes: HashView | None = None
    below: Sequence["Branch"] = field(default_factory=list)
    is_known: bool = False
    """It was told further up."""
    is_left: bool = False
    """What lies below is asked for when it is unfolded."""
    superseded: int = 0
    """Quotes of values that newer ones supersede: checked, and not shown."""
    left_out: int = 0
    """Further quotes that are not shown."""


@dataclass(frozen=True)
class Chain:
    root: Branch
    holds: bool
    breaks: int
    checked: CheckedView
    is_small: bool
    citations: Sequence[CitationView]
    """What stands in the chain, for texts that name it by its id."""


def chain_of(found: VerificationView, hashes: Mapping[UUID, HashView]) -> Chain:
    links = links_of(found)
    edges = sum(each.link == "edge" for each in found.things)
    return Chain(
        root=_Tree(found, hashes, is_large=len(links) > LARGE_LINKS).root(),
        holds=found.holds,
        breaks=sum(len(link.breaks) for link in links),
        checked=CheckedView(
            sources=len(found.sources),
            evidence=len(found.evidence),
            nodes=len(found.conclusions) + len(found.things) - edges,
            edges=edges,
        ),
        is_small=len(links) <= SMALL_LINKS,
        citations=[*map(_concluded, found.conclusions), *map(_known, found.things)],
    )


def _concluded(link: ConclusionLink) -> CitationView:
    type_name = ADVICE_TYPE if link.link == "advice" else ANALYSIS_TYPE
    return CitationView(kind="node", id=link.id, type=type_name, name=link.name)


def _known(link: ThingLink) -> CitationView:
    kind: Literal["node", "edge"] = "edge" if link.link == "edge" else "node"
    return CitationView(kind=kind, id=link.id, type=link.type, name=link.name)


def links_of(found: VerificationView) -> Sequence[LinkView]:
    return [*found.conclusions, *found.things, *found.evidence, *found.sources]


class _Tree:
    def __init__(
        self, found: VerificationView, hashes: Mapping[UUID, HashView], *, is_large: bool
    ) -> None:
        self._found = found
        self._hashes = hashes
        self._is_large = is_large
        uppers: Sequence[ConclusionLink | ThingLink] = [*found.conclusions, *found.things]
        self._uppers = {each.id: each for each in uppers}
        self._evidence = {each.id: each for each in found.evidence}
        self._sources = {each.id: each for each in found.sources}
        self._met: set[UUID] = set()

    def root(self) -> Branch:
        return self._branch(self._uppers[self._found.id])

    def _branch(self, link: ConclusionLink | ThingLink) -> Branch:
        hashes, kind = self._hashes.get(link.id), link.link
        if link.id in self._met:
            return Branch(kind, link, hashes, is_known=True)
        self._met.add(link.id)
        if self._is_large and kind == "analysis" and link.id != self._found.id:
            return Branch(kind, link, hashes, is_left=True)
        quotes = [self._evidence[each] for each in link.rests_on if each in self._evidence]
        told = sorted((each for each in quotes if not self._is_superseded(each)), key=_weight)
        broken = sum(not each.holds for each in told)
        shown = told[: max(MOST_QUOTES, broken)]
        return Branch(
            kind,
            link,
            hashes,
            below=[*(self._quote(each) for each in shown), *self._uppers_below(link)],
            superseded=len(quotes) - len(told),
            left_out=len(told) - len(shown),
        )

    def _uppers_below(self, link: ConclusionLink | ThingLink) -> Iterator[Branch]:
        for each in link.rests_on:
            below = self._uppers.get(each)
            if below is None:
                continue
            # An edge's end is told where it is broken.
            if isinstance(link, ThingLink) and below.holds:
                continue
            yield self._branch(below)

    def _is_superseded(self, link: EvidenceLink) -> bool:
        """It says values, and newer ones hold; where something is wrong with it or its page, that is told all the same."""
        source = self._sources.get(link.source_id)
        is_believed = source is None or source.retracted_at is None
        return link.holds and is_believed and bool(link.claims) and not link.stands

    def _quote(self, link: EvidenceLink) -> Branch:
        source = self._sources.get(link.source_id)
        return Branch(
            "evidence",
            link,
            self._hashes.get(link.id),
            source=source,
            source_hashes=self._hashes.get(link.source_id),
        )


def _weight(link: EvidenceLink) -> tuple[bool, bool, float]:
    """What is broken first, then what values rest on, the newest before the others."""
    return link.holds, not link.stands, -link.as_of.timestamp()


_CONTINUES: Final = 0b1000_0000
_CONTINUES_OF: Final = 0b1100_0000
"""In UTF-8 each byte of a character but its first begins with the bits 10."""


@dataclass(frozen=True)
class Piece:
    text: str
    marks: Sequence[int]
    """Places in the list of marks of the quotes that it is part of; none of plain text."""
    begins: Sequence[int]
    """Of those, the ones that begin here."""


def pieces(text: str, marks: Sequence[MarkView]) -> list[Piece]:
    """`text` in order; spans are in bytes of its UTF-8, may overlap, and are widened to whole characters."""
    page = text.encode()
    spans = [(_back(page, each.first_byte), _forth(page, each.end_byte)) for each in marks]
    cuts = sorted({0, len(page), *(edge for span in spans for edge in span)})
    opening: dict[int, list[int]] = {}
    for place, (first, end) in enumerate(spans):
        if first < end:
            opening.setdefault(first, []).append(place)
    told: list[Piece] = []
    open_now: list[int] = []
    for first, end in pairwise(cuts):
        begins = opening.get(first, [])
        open_now = [place for place in open_now if spans[place][1] > first] + begins
        told.append(Piece(page[first:end].decode(), tuple(open_now), tuple(begins)))
    return told


def _back(page: bytes, place: int) -> int:
    place = max(0, min(place, len(page)))
    while 0 < place < len(page) and _is_within(page[place]):
        place -= 1
    return place


def _forth(page: bytes, place: int) -> int:
    place = max(0, min(place, len(page)))
    while place < len(page) and _is_within(page[place]):
        place += 1
    return place


def _is_within(byte: int) -> bool:
    return byte & _CONTINUES_OF == _CONTINUES


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
