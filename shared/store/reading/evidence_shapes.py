"""What people get to see of pages and of what rests on them, as frozen models."""

from datetime import datetime
from typing import Any
from uuid import UUID

from shared.store.reading.shapes import View


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
