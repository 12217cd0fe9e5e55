"""Schemas of sources, evidence, retractions and verification."""

from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from shared.schemas.base import Json, View


class SourceView(View):
    """A page as it was when it was fetched; what changed since is another one of the same address."""

    id: UUID
    url: str
    title: str | None
    published: datetime | None
    """As the page or the search says."""
    fetched_at: datetime
    sha256: str
    """Of the text in UTF-8, in hex."""
    retracted_at: datetime | None
    retracted_because: str | None


class SourceDetails(SourceView):
    step_id: UUID | None
    """The step that fetched it first."""
    text: str
    """What was read of the page."""


class ClaimView(View):
    """What a quote says of one property."""

    property: str
    value: Any
    holds: bool
    """False where another claim supersedes it, or its page is retracted."""


class EvidenceView(View):
    """A quote, letter by letter as it stands in the page, and what it bears out of a node or edge."""

    id: UUID
    source_id: UUID
    url: str
    title: str | None
    published: datetime | None
    fetched_at: datetime
    retracted_at: datetime | None
    first_byte: int
    end_byte: int
    """Where in the source's text, in bytes of UTF-8; the last one is not part of it."""
    quote: str
    claims: list[ClaimView]
    """None where it says only that the thing is."""
    valid_from: datetime | None
    valid_to: datetime | None
    """The first moment when it is true no more."""
    as_of: datetime
    """By which newer supersedes older."""
    learned_at: datetime


class MarkView(View):
    """A quote within a page, and the node or edge that rests on it."""

    evidence_id: UUID
    first_byte: int
    end_byte: int
    kind: Literal["node", "edge"]
    thing_id: UUID
    type: str
    name: str
    claims: Json
    """Values by property; none where it says only that the thing is."""


class MarksView(View):
    """In the order of the text. `cut` says that more rests on the page than is told."""

    items: list[MarkView]
    cut: bool


class CitingView(View):
    """A conclusion that cites something, by its type and name."""

    id: UUID
    type: str
    name: str


class DoubtView(View):
    """That a conclusion rests on something which is not what it was held to be, because a page was retracted."""

    since: datetime
    source_id: UUID
    url: str
    because: str
    """Why the page was retracted."""


class RetractionView(View):
    """That an address, or one version of what stood there, is not believed; or was not, until it was restored."""

    id: UUID
    url: str
    source_id: UUID | None
    """The one version that it is about; None where it is all that there were."""
    because: str
    created_at: datetime
    restored_at: datetime | None
    is_pending: bool
    """Whether what rests on it is still being gone through."""
    left: int
    """Quotes of its sources whose nodes and edges are still to be gone through."""
    sources: int
    analyses: int
    """Those that are in doubt because of it, as far as it has been gone through."""
    advice: int


class BreakView(View):
    """What is wrong with one link, by a fixed word and in a sentence."""

    broken: str
    told: str


class LinkView(View):
    """One link of a chain. It `holds` where nothing is wrong with it, nor with anything that it rests on."""

    id: UUID
    holds: bool
    breaks: list[BreakView]


class ConclusionLink(LinkView):
    link: str
    """`advice` or `analysis`."""
    name: str
    summary: str
    rests_on: list[UUID]
    """The nodes and edges that it cites, as they are called now; conclusions are nodes too."""
    doubts: list[DoubtView]
    """What it rests on may be proved, and yet not be what it was when this was concluded: one for each retracted page."""


class ThingLink(LinkView):
    link: str
    """`node` or `edge`."""
    type: str
    name: str
    """An edge's is that of both its ends."""
    properties: Json
    rests_on: list[UUID]
    """Its evidence; an edge's ends too."""


class EvidenceLink(LinkView):
    thing_id: UUID
    source_id: UUID
    quote: str
    """What stands at the span now."""
    first_byte: int
    end_byte: int
    claims: Json
    stands: list[str]
    """The properties whose values hold because of it; of the others it says what newer or other pages supersede."""
    valid_from: datetime | None
    valid_to: datetime | None
    as_of: datetime
    learned_at: datetime


class SourceLink(LinkView):
    url: str
    title: str | None
    published: datetime | None
    fetched_at: datetime
    retracted_at: datetime | None


class VerificationView(View):
    """One conclusion down to the pages that it rests on, each link once."""

    id: UUID
    agent_id: UUID
    holds: bool
    conclusions: list[ConclusionLink]
    """The one that was asked about first."""
    things: list[ThingLink]
    evidence: list[EvidenceLink]
    sources: list[SourceLink]


class CheckedView(View):
    """How many of each were looked at; conclusions are nodes."""

    sources: int = 0
    evidence: int = 0
    nodes: int = 0
    edges: int = 0


class FoundBreak(BreakView):
    """A break, and where it is."""

    link: str
    """`source`, `evidence`, `node`, `edge`, `analysis` or `advice`."""
    id: UUID
    name: str


class FoundDoubt(DoubtView):
    """A conclusion in doubt, which breaks nothing."""

    link: str
    """`analysis` or `advice`."""
    id: UUID
    name: str


class VerificationPage(View):
    """Some of an agent's graph, looked at. `next`, given as `cursor`, asks for what follows; None: that was all."""

    checked: CheckedView
    breaks: list[FoundBreak]
    doubts: list[FoundDoubt]
    next: str | None
