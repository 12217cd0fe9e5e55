"""The evidence chain of a conclusion as a tree. Pure.

Each link is shown in full at its first occurrence and by name afterwards, as in `vigil verify`.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final
from uuid import UUID

from services.api.resources.sources.model import HashesResponse
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.grounding.sentences import find_sentences
from shared.schemas.base import CitationResponse, ReadingResponse
from shared.schemas.provenance import (
    ChainLink,
    CheckedCounts,
    ConclusionLink,
    ElementDoubt,
    ElementLink,
    EvidenceLink,
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
"""Faults after which it is open whether a quote is in its page."""


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
    """Quotes whose values newer ones supersede: checked, but not shown."""
    left_out: int = 0
    """Further quotes that are not shown."""


@dataclass(frozen=True)
class Chain:
    root: Branch
    holds: bool
    breaks: int
    checked: CheckedCounts
    quotes_found: int
    """Quotes that their pages contain word for word."""
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
    origins: Sequence[Sequence[str]]
    """Of the pages that it rests on."""
    barred_sites: Sequence[str]
    """Of pages that it rests on and that the owner has barred since."""
    reading: ReadingResponse | None
    """The verdicts of the model that read the conclusion; None if none has read it."""
    is_small: bool
    citations: Sequence[CitationResponse]
    """The elements of the chain, for texts that cite them by id."""

    @property
    def is_doubted(self) -> bool:
        return bool(self.doubts or self.pages_retracted)

    @property
    def is_supported(self) -> bool:
        """Whether each sentence of the conclusion was read as supported, and nothing is wrong with what it rests on."""
        return self.holds and self.reading is not None and self.reading.is_supported


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
        origins=verification.origins,
        barred_sites=verification.barred_sites,
        reading=verification.conclusions[0].reading,
        is_small=len(links) <= SMALL_LINKS,
        citations=[
            *map(_citation, verification.conclusions),
            *map(_citation, verification.elements),
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


def _citation(link: ConclusionLink | ElementLink) -> CitationResponse:
    if isinstance(link, ElementLink):
        kind, type_name = link.link, link.type
    else:
        kind, type_name = "node", ADVICE_TYPE if link.link == "advice" else ANALYSIS_TYPE
    return CitationResponse.model_validate(
        {"kind": kind, "id": link.id, "type": type_name, "name": link.name}
    )


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
        self._uppers: dict[UUID, ConclusionLink | ElementLink] = {
            **{link.id: link for link in verification.conclusions},
            **{link.id: link for link in verification.elements},
        }
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
