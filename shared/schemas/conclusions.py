"""Schemas of investigation requests."""

from datetime import datetime
from uuid import UUID

from shared.enums import RequestState
from shared.schemas.base import Json, ResponseModel


class InvestigationRequestResponse(ResponseModel):
    """Data that an Analyzer lacked. Open until it is answered, not found or dropped."""

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
    answered_with: Json | None = None
    """`{nodes, edges}`: the ids of what that step wrote."""
    not_found_at: datetime | None = None
    """When a query last found no answer to it, or a part of one."""
    not_found: str | None = None
    """The sentence of the model that says what was not found; an answered request was answered in part if it has one."""
    reopened_at: datetime | None = None
    """When a repeated request last reopened it."""
    state: RequestState = RequestState.OPEN
    dropped_at: datetime | None
    """When it was dropped because it had been open for too long."""
