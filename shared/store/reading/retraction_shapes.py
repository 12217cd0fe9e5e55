"""What people get to see of pages, and of those that are not believed, as frozen models."""

from datetime import datetime
from uuid import UUID

from shared.store.reading.shapes import View


class CitingView(View):
    """A conclusion that cites something, by its type and name."""

    id: UUID
    type: str
    name: str


class SourceView(View):
    """A page as it was when it was fetched."""

    id: UUID
    url: str
    title: str | None
    published: datetime | None
    fetched_at: datetime
    sha256: str
    """Of its text in UTF-8, in hex."""
    retracted_at: datetime | None
    retracted_because: str | None


class SourceDetails(SourceView):
    text: str


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
    sources: int
    analyses: int
    """Those that are in doubt because of it, as far as it has been gone through."""
    advice: int
