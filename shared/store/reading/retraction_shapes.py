"""What people get to see of pages that are not believed, and of what is in doubt, as frozen models."""

from datetime import datetime
from uuid import UUID

from shared.store.reading.shapes import View


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
