"""What people get to see of how far the graph can be proved, as frozen models."""

from datetime import datetime
from uuid import UUID

from shared.store.reading.retraction_shapes import DoubtView
from shared.store.reading.shapes import Json, View


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
