"""Schemas of investigation requests."""

from datetime import datetime
from uuid import UUID

from shared.schemas.base import ResponseModel


class InvestigationRequestResponse(ResponseModel):
    """Data that an Analyzer lacked. Open until it is answered or dropped."""

    id: UUID
    iteration_id: UUID | None
    iteration_number: int
    step_id: UUID | None
    """The insight step that lacked it."""
    objective: str
    reasoning: str
    search_hints: list[str]
    created_at: datetime
    answered_at: datetime | None
    answered_by: UUID | None
    """The query step that answered it and wrote something."""
    dropped_at: datetime | None
    """When it was dropped because it had been open for too long."""
