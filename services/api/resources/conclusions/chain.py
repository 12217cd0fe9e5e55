"""The proof of a conclusion as a tree, as in `vigil verify`: what each conclusion states, then what it cites. Pure.

Each conclusion is shown in full at its first occurrence and by name afterwards. Of the nodes, edges and quotes below, only
what is broken is shown.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from services.api.resources.sources.model import HashesResponse
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.provenance.page_reading import find_sentences
from shared.schemas.base import CitationResponse, ReadingResponse
from shared.schemas.provenance import (
    ChainLink,
    CheckedCounts,
    ConclusionLink,
    ElementDoubt,
    ElementLink,
    EvidenceLink,
    ProofLink,
    SourceLink,
    VerificationResponse,
)
from shared.tools.readings import EXISTS

SMALL_ROWS: Final = 40
"""Chains up to this many rows are shown expanded."""
LARGE_ROWS: Final = 400
"""Beyond this many rows, the parts below the analyses of advice are loaded when they are expanded."""
_MAX_CONTEXT_CHARS: Final = 280
_ELLIPSIS: Final = "…"


@dataclass(frozen=True)
class ProvenRow:
    """A row of a proof, with its page."""

    link: ProofLink
    hashes: HashesResponse | None
    source: SourceLink | None
    source_hashes: HashesResponse | None
    is_doubted: bool
    """Its page is retracted, or a model found that it says something else."""
    before: str = ""
    """The sentence before it in the page."""
    after: str = ""


@dataclass(frozen=True)
class Branch:
    """A conclusion with its proof and what it cites, or a broken link."""

    kind: str
    """`advice`, `analysis`, `node`, `edge`, `evidence` or `source`."""
    link: ConclusionLink | ElementLink | EvidenceLink | SourceLink
    hashes: HashesResponse | None
    is_doubted: bool = False
    """It holds, but a page that it rests on is retracted, or a quote contradicts it."""
    proof: Sequence[ProvenRow] = ()
    below: Sequence["Branch"] = field(default_factory=list)
    is_known: bool = False
    """It was shown in full before."""
    is_left: bool = False
    """The part below is loaded when it is expanded."""


@dataclass(frozen=True)
class Chain:
    root: Branch
    holds: bool
    breaks: int
    checked: CheckedCounts
    quotes_retracted: int
    """Sentences of the proofs in pages that are retracted."""
    pages: int
    """Pages that the proofs quote, of which several versions may be checked."""
    pages_retracted: int
    doubts: Sequence[ElementDoubt]
    elements: Mapping[UUID, "NamedElement"]
    """The nodes and edges of the chain."""
    origins: Sequence[Sequence[str]]
    """Of the pages that it rests on."""
    said_by: Sequence[str]
    """The speakers, if all that it rests on are their words."""
    barred_sites: Sequence[str]
    """Sites among these pages that the owner has barred since."""
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
        """Whether each sentence of the conclusion and each claim below it was read as supported, and nothing is wrong."""
        is_read = self.reading is not None and self.reading.is_supported
        return self.holds and is_read and self.checked.are_claims_supported


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
    rows = [row for conclusion in verification.conclusions for row in conclusion.proof]
    tree = _Tree(verification, hashes, surroundings, is_large=len(rows) > LARGE_ROWS)
    retracted = {source.id for source in verification.sources if source.retracted_at is not None}
    pages = {row.url for row in rows}
    trusted_pages = {row.url for row in rows if row.source_id not in retracted}
    sentences = {(row.element_id, row.source_id, row.first_byte, row.end_byte) for row in rows}
    return Chain(
        root=tree.root(),
        quotes_retracted=sum(source_id in retracted for _, source_id, *_ in sentences),
        pages=len(pages),
        pages_retracted=len(pages - trusted_pages),
        doubts=verification.doubts,
        elements={
            element.id: NamedElement(element.link, element.name)
            for element in verification.elements
        },
        holds=verification.holds,
        breaks=sum(len(link.breaks) for link in list_links(verification)),
        checked=verification.checked,
        origins=verification.origins,
        said_by=verification.said_by,
        barred_sites=verification.barred_sites,
        reading=verification.conclusions[0].reading,
        is_small=len(rows) <= SMALL_ROWS,
        citations=[
            *map(_citation, verification.conclusions),
            *map(_citation, verification.elements),
        ],
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
        self._root = verification.id
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
        return self._branch(self._uppers[self._root])

    def _branch(self, link: ConclusionLink | ElementLink) -> Branch:
        hashes, kind, is_doubted = self._hashes.get(link.id), link.link, link.id in self._doubted
        if link.id in self._met:
            return Branch(kind, link, hashes, is_doubted, is_known=True)
        self._met.add(link.id)
        if self._is_large and kind == "analysis" and link.id != self._root:
            return Branch(kind, link, hashes, is_doubted, is_left=True)
        proof = [self._row(row) for row in link.proof] if isinstance(link, ConclusionLink) else []
        return Branch(kind, link, hashes, is_doubted, proof, list(self._below(link)))

    def _below(self, link: ConclusionLink | ElementLink) -> Iterator[Branch]:
        for item in link.rests_on:
            upper = self._uppers.get(item)
            if upper is not None and (isinstance(upper, ConclusionLink) or not upper.holds):
                yield self._branch(upper)
            quote = self._evidence.get(item)
            if quote is not None and not quote.holds:
                yield Branch("evidence", quote, self._hashes.get(item), below=self._page(quote))

    def _page(self, quote: EvidenceLink) -> list[Branch]:
        """The page of a broken quote, if that is broken."""
        source = self._sources.get(quote.source_id)
        if source is None or source.holds:
            return []
        return [Branch("source", source, self._hashes.get(source.id))]

    def _row(self, row: ProofLink) -> ProvenRow:
        evidence_id = row.evidence_id
        source = self._sources.get(row.source_id)
        quote = None if evidence_id is None else self._evidence.get(evidence_id)
        found = None if quote is None else quote.verdicts.get(row.property or EXISTS)
        before, after = self._surroundings.get(evidence_id, ("", "")) if evidence_id else ("", "")
        return ProvenRow(
            row,
            self._hashes.get(evidence_id) if evidence_id else None,
            source,
            self._hashes.get(row.source_id),
            is_doubted=(found is not None and found.verdict != "supported")
            or (source is not None and source.retracted_at is not None),
            before=sentence_before(before),
            after=sentence_after(after),
        )
