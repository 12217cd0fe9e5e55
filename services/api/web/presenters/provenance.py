"""The evidence chain of a conclusion as a tree, quote highlights, and property provenance. Pure.

Each link is shown in full at its first occurrence and by name afterwards, as in `vigil verify`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, Literal
from uuid import UUID

from services.api.queries.provenance import HashesResponse, ListedPage
from shared.domains import site_of
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.grounding.sentences import find_sentences
from shared.schemas.base import CitationResponse, Json
from shared.schemas.provenance import (
    ChainLink,
    CheckedCounts,
    ClaimResponse,
    ConclusionLink,
    ElementDoubt,
    ElementLink,
    EvidenceLink,
    EvidenceResponse,
    QuoteHighlight,
    SourceLink,
    VerificationResponse,
)

SMALL_LINKS: Final = 40
"""Chains up to this many links are shown expanded."""
LARGE_LINKS: Final = 400
"""Beyond this many links, the parts below the analyses of advice are loaded when they are expanded."""
MAX_QUOTES: Final = 12
"""Quotes shown per node or edge. Broken ones are always shown."""
MAX_KEY_QUOTES: Final = 4
"""Quotes shown with the seal, before the chain."""
_MAX_CONTEXT_CHARS: Final = 280
_ELLIPSIS: Final = "…"
_NUMBER: Final = re.compile(r"(?<![\d.,])(?!(?:19|20)\d\d(?!\d|[.,]\d))\d[\d.,]*\d")
_NOT_IN_PAGE: Final = frozenset({"span", "quote", "source", "text"})
"""Faults after which a quote is not proved to be in its page."""


@dataclass(frozen=True)
class Branch:
    """A link with the links that it rests on. `source` is the page of a quote."""

    kind: str
    """`advice`, `analysis`, `node`, `edge` or `evidence`."""
    link: ConclusionLink | ElementLink | EvidenceLink
    hashes: HashesResponse | None
    is_doubted: bool = False
    """It holds, but a page that it rests on is retracted, or a quote contradicts it."""
    source: SourceLink | None = None
    source_hashes: HashesResponse | None = None
    before: str = ""
    """Of a quote: the sentence before it in the page."""
    after: str = ""
    below: Sequence["Branch"] = field(default_factory=list)
    is_known: bool = False
    """It was shown in full before."""
    is_left: bool = False
    """The part below is loaded when it is expanded."""
    superseded: int = 0
    """Quotes whose values newer ones supersede: verified, but not shown."""
    left_out: int = 0
    """Further quotes that are not shown."""


@dataclass(frozen=True)
class Chain:
    root: Branch
    holds: bool
    breaks: int
    checked: CheckedCounts
    quotes_found: int
    """Quotes that stand in their pages word for word."""
    key_quotes: Sequence[tuple[Branch, str]]
    """Some quotes that it rests on, each of another page where there are enough, with the name of what each supports."""
    quotes_retracted: int
    """Those in pages that are retracted."""
    pages: int
    """Pages that it rests on, of which several versions may be checked."""
    pages_retracted: int
    doubts: Sequence[ElementDoubt]
    elements: Mapping[UUID, "NamedElement"]
    """The nodes and edges of the chain."""
    sites: Sequence[str]
    """Of the pages that it rests on."""
    barred_sites: Sequence[str]
    """Of pages that it rests on and that the owner has barred since."""
    is_small: bool
    citations: Sequence[CitationResponse]
    """The elements of the chain, for texts that cite them by id."""

    @property
    def is_doubted(self) -> bool:
        return bool(self.doubts or self.pages_retracted)


@dataclass(frozen=True)
class NamedElement:
    kind: str
    name: str


Surroundings = Mapping[UUID, tuple[str, str]]
"""The text before and after each quote, by evidence."""
NO_SURROUNDINGS: Final[Surroundings] = {}


def build_chain(
    verification: VerificationResponse,
    hashes: Mapping[UUID, HashesResponse],
    surroundings: Surroundings = NO_SURROUNDINGS,
) -> Chain:
    links = list_links(verification)
    tree = _Tree(verification, hashes, surroundings, is_large=len(links) > LARGE_LINKS)
    retracted = {source.id for source in verification.sources if source.retracted_at is not None}
    pages = {source.url for source in verification.sources}
    trusted_pages = {source.url for source in verification.sources if source.id not in retracted}
    return Chain(
        root=tree.root(),
        quotes_found=_count_found(verification),
        quotes_retracted=sum(quote.source_id in retracted for quote in verification.evidence),
        pages=len(pages),
        pages_retracted=len(pages - trusted_pages),
        key_quotes=tree.key_quotes(),
        doubts=verification.doubts,
        elements={
            element.id: NamedElement(element.link, element.name)
            for element in verification.elements
        },
        holds=verification.holds,
        breaks=sum(len(link.breaks) for link in links),
        checked=verification.checked,
        sites=verification.sites,
        barred_sites=verification.barred_sites,
        is_small=len(links) <= SMALL_LINKS,
        citations=[
            *map(_conclusion_citations, verification.conclusions),
            *map(_known_elements, verification.elements),
        ],
    )


def _count_found(verification: VerificationResponse) -> int:
    changed = {
        source.id
        for source in verification.sources
        if any(fault.broken in _NOT_IN_PAGE for fault in source.breaks)
    }
    return sum(
        quote.source_id not in changed
        and not any(fault.broken in _NOT_IN_PAGE for fault in quote.breaks)
        for quote in verification.evidence
    )


def sentence_before(text: str) -> str:
    """The last sentence of `text`, which a quote follows; with an ellipsis where it is cut."""
    *_, last = ["", *_sentences(text)]
    return last if len(last) <= _MAX_CONTEXT_CHARS else _ELLIPSIS + last[-_MAX_CONTEXT_CHARS:]


def sentence_after(text: str) -> str:
    """The first sentence of `text`, which follows a quote; with an ellipsis where it is cut."""
    first, *_ = [*_sentences(text), ""]
    return first if len(first) <= _MAX_CONTEXT_CHARS else first[:_MAX_CONTEXT_CHARS] + _ELLIPSIS


def _sentences(text: str) -> list[str]:
    return [line[start:end] for line in text.splitlines() for start, end in find_sentences(line)]


def _conclusion_citations(link: ConclusionLink) -> CitationResponse:
    type_name = ADVICE_TYPE if link.link == "advice" else ANALYSIS_TYPE
    return CitationResponse(kind="node", id=link.id, type=type_name, name=link.name)


def _known_elements(link: ElementLink) -> CitationResponse:
    kind: Literal["node", "edge"] = "edge" if link.link == "edge" else "node"
    return CitationResponse(kind=kind, id=link.id, type=link.type, name=link.name)


def list_links(verification: VerificationResponse) -> Sequence[ChainLink]:
    return [
        *verification.conclusions,
        *verification.elements,
        *verification.evidence,
        *verification.sources,
    ]


class _Tree:
    def __init__(
        self,
        verification: VerificationResponse,
        hashes: Mapping[UUID, HashesResponse],
        surroundings: Surroundings,
        *,
        is_large: bool,
    ) -> None:
        self._verification = verification
        self._hashes = hashes
        self._surroundings = surroundings
        self._is_large = is_large
        uppers: Sequence[ConclusionLink | ElementLink] = [
            *verification.conclusions,
            *verification.elements,
        ]
        self._uppers = {upper.id: upper for upper in uppers}
        self._evidence = {evidence_row.id: evidence_row for evidence_row in verification.evidence}
        self._sources = {source.id: source for source in verification.sources}
        self._met: set[UUID] = set()
        self._doubted = {
            element for doubt in verification.doubts for element in (doubt.id, *doubt.elements)
        }

    def root(self) -> Branch:
        return self._branch(self._uppers[self._verification.id])

    def _branch(self, link: ConclusionLink | ElementLink) -> Branch:
        hashes, kind, is_doubted = self._hashes.get(link.id), link.link, link.id in self._doubted
        if link.id in self._met:
            return Branch(kind, link, hashes, is_doubted, is_known=True)
        self._met.add(link.id)
        if self._is_large and kind == "analysis" and link.id != self._verification.id:
            return Branch(kind, link, hashes, is_doubted, is_left=True)
        quotes = [self._evidence[item] for item in link.rests_on if item in self._evidence]
        current_quotes = sorted(
            (quote for quote in quotes if not self._is_superseded(quote)), key=_weight
        )
        broken = sum(not line.holds for line in current_quotes)
        visible_quotes = current_quotes[: max(MAX_QUOTES, broken)]
        return Branch(
            kind,
            link,
            hashes,
            is_doubted,
            below=[*(self._quote(row) for row in visible_quotes), *self._uppers_below(link)],
            superseded=len(quotes) - len(current_quotes),
            left_out=len(current_quotes) - len(visible_quotes),
        )

    def _uppers_below(self, link: ConclusionLink | ElementLink) -> Iterator[Branch]:
        for item in link.rests_on:
            below = self._uppers.get(item)
            if below is None:
                continue
            # An edge's end is shown only where it is broken.
            if isinstance(link, ElementLink) and below.holds:
                continue
            yield self._branch(below)

    def _is_superseded(self, link: EvidenceLink) -> bool:
        """Returns whether newer values replace those of the quote.

        A quote with a fault is shown all the same.
        """
        source = self._sources.get(link.source_id)
        is_believed = source is None or source.retracted_at is None
        return link.holds and is_believed and bool(link.claims) and not link.active_properties

    def _quote(self, link: EvidenceLink) -> Branch:
        source = self._sources.get(link.source_id)
        before, after = self._surroundings.get(link.id, ("", ""))
        return Branch(
            "evidence",
            link,
            self._hashes.get(link.id),
            is_doubted=_is_doubted(link, source),
            source=source,
            source_hashes=self._hashes.get(link.source_id),
            before=sentence_before(before),
            after=sentence_after(after),
        )

    def key_quotes(self) -> list[tuple[Branch, str]]:
        """The quotes to show first: broken ones, then those with figures of the conclusion's summary, then others with
        current values; one of each page before a second.
        """
        root = self._uppers[self._verification.id]
        stated = _figures(root.summary) if isinstance(root, ConclusionLink) else frozenset()
        ordered = sorted(self._evidence.values(), key=_weight)
        visible = [quote for quote in ordered if not self._is_superseded(quote)]
        seen = Counter[UUID]()
        ranked: list[tuple[tuple[bool, bool, int], EvidenceLink]] = []
        for quote in visible:
            has_stated = bool(stated & _figures(quote.quote))
            ranked.append(((quote.holds, not has_stated, seen[quote.source_id]), quote))
            seen[quote.source_id] += has_stated
        ranked.sort(key=itemgetter(0))
        return [
            (self._quote(quote), self._uppers[quote.element_id].name)
            for _, quote in ranked[:MAX_KEY_QUOTES]
            if quote.element_id in self._uppers
        ]


def _is_doubted(quote: EvidenceLink, source: SourceLink | None) -> bool:
    is_retracted = source is not None and source.retracted_at is not None
    is_contradicted = quote.verdict is not None and quote.verdict.verdict == "contradicted"
    return is_retracted or is_contradicted


def _figures(text: str) -> frozenset[str]:
    """The numbers of a text as they are written, without years and single digits."""
    return frozenset(_NUMBER.findall(text))


def _weight(link: EvidenceLink) -> tuple[bool, bool, float]:
    """Sorts broken links first, then quotes with values, the newest first."""
    return link.holds, not link.active_properties, -link.as_of.timestamp() if link.as_of else 0.0


_CONTINUES: Final = 0b1000_0000
_CONTINUES_OF: Final = 0b1100_0000
"""In UTF-8, each byte of a character except its first begins with the bits 10."""


@dataclass(frozen=True)
class TextPiece:
    text: str
    highlights: Sequence[int]
    """Indices of the quotes that the piece is part of; empty for plain text."""
    begins: Sequence[int]
    """Those of `highlights` that begin here."""


def split_at_quotes(text: str, highlights: Sequence[QuoteHighlight]) -> list[TextPiece]:
    """Splits `text` at the ends of quotes.

    Spans are in bytes of its UTF-8, may overlap, and are widened to whole characters.
    """
    page = text.encode()
    spans = [
        (_char_start(page, highlight.first_byte), _char_end(page, highlight.end_byte))
        for highlight in highlights
    ]
    cuts = sorted({0, len(page), *(edge for span in spans for edge in span)})
    opening: dict[int, list[int]] = {}
    for place, (first, end) in enumerate(spans):
        if first < end:
            opening.setdefault(first, []).append(place)
    result: list[TextPiece] = []
    open_now: list[int] = []
    for first, end in pairwise(cuts):
        begins = opening.get(first, [])
        open_now = [place for place in open_now if spans[place][1] > first] + begins
        result.append(TextPiece(page[first:end].decode(), tuple(open_now), tuple(begins)))
    return result


def _char_start(page: bytes, place: int) -> int:
    place = max(0, min(place, len(page)))
    while 0 < place < len(page) and _is_within(page[place]):
        place -= 1
    return place


def _char_end(page: bytes, place: int) -> int:
    place = max(0, min(place, len(page)))
    while place < len(page) and _is_within(page[place]):
        place += 1
    return place


def _is_within(byte: int) -> bool:
    return byte & _CONTINUES_OF == _CONTINUES


@dataclass(frozen=True)
class ClaimedQuote:
    claim: ClaimResponse
    quote: EvidenceResponse


@dataclass
class PropertyProvenance:
    """The provenance of one property.

    `holding` is empty where no listed quote supports the current value.
    """

    name: str
    value: Any
    holding: list[ClaimedQuote] = field(default_factory=list)
    superseded: list[ClaimedQuote] = field(default_factory=list)


@dataclass(frozen=True)
class ElementProvenance:
    properties: Sequence[PropertyProvenance]
    plain: Sequence[EvidenceResponse]
    """Quotes that support the element itself, without a property."""


def property_provenance(
    properties: Json, evidence: Iterable[EvidenceResponse]
) -> ElementProvenance:
    """Groups evidence by property. `evidence` is sorted by valid time, latest first.

    A quote of the current value supports it too.
    """
    by_name = {name: PropertyProvenance(name, value) for name, value in properties.items()}
    plain: list[EvidenceResponse] = []
    for quote in evidence:
        if not quote.claims:
            plain.append(quote)
        for claim in quote.claims:
            provenance = by_name.setdefault(
                claim.property, PropertyProvenance(claim.property, None)
            )
            agrees = claim.value == provenance.value and quote.retracted_at is None
            claims = provenance.holding if claim.holds or agrees else provenance.superseded
            claims.append(ClaimedQuote(claim, quote))
    return ElementProvenance(list(by_name.values()), plain)


@dataclass(frozen=True)
class Site:
    """The pages of a registrable domain."""

    name: str
    pages: Sequence[ListedPage]
    """The most quoted first."""
    quotes: int
    share: float
    """Of all quotes of the agent."""
    fetched_at: datetime
    retracted: int
    """Pages of which a version is retracted."""


def group_by_site(pages: Iterable[ListedPage], all_quotes: int) -> list[Site]:
    """Groups pages by site, the most quoted site first."""
    by_site: dict[str, list[ListedPage]] = {}
    site_of_host: dict[str, str] = {}
    for page in pages:
        # The site follows from what stands before the path, and many pages have the same.
        host = "/".join(page.url.split("/", 3)[:3])
        if (site := site_of_host.get(host)) is None:
            site = site_of_host[host] = site_of(page.url)
        by_site.setdefault(site, []).append(page)
    sites = []
    for name, of_site in by_site.items():
        quotes = sum(page.quotes for page in of_site)
        sites.append(
            Site(
                name,
                sorted(of_site, key=lambda page: -page.quotes),
                quotes,
                quotes / all_quotes if all_quotes else 0.0,
                max(page.fetched_at for page in of_site),
                sum(page.retracted > 0 for page in of_site),
            )
        )
    return sorted(sites, key=lambda site: (-site.quotes, site.name))


class SourceFilter(StrEnum):
    """Which pages are listed."""

    ALL = "all"
    USED = "quoted"
    UNUSED = "not quoted"
    RETRACTED = "retracted"


def filter_pages(pages: Iterable[ListedPage], search: str, state: SourceFilter) -> list[ListedPage]:
    """The pages with `search` in their address or title, in any case."""
    words = search.strip().casefold()
    return [page for page in pages if _is_listed(page, words, state)]


def _is_listed(page: ListedPage, words: str, state: SourceFilter) -> bool:
    """`words` are in lower case."""
    match state:
        case SourceFilter.ALL:
            fits = True
        case SourceFilter.USED:
            fits = page.quotes > 0
        case SourceFilter.UNUSED:
            fits = page.quotes == 0
        case SourceFilter.RETRACTED:
            fits = page.retracted > 0
    return fits and (words in page.url.casefold() or words in (page.title or "").casefold())
