"""What people get to see of investigation requests, as a frozen model."""

from datetime import datetime
from uuid import UUID

from shared.schemas.base import View


class InvestigationRequestView(View):
    """Data that an Analyzer lacked. Open until it is answered or dropped."""

    id: UUID
    iteration_id: UUID | None
    iteration_number: int
    step_id: UUID | None
    """The insight that could not be analyzed without it."""
    objective: str
    reasoning: str
    search_hints: list[str]
    created_at: datetime
    answered_at: datetime | None
    answered_by: UUID | None
    """The query that was made of it and found something."""
    dropped_at: datetime | None
    """Nobody could answer it for so long that it is no longer asked for."""
