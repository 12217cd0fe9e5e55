"""Phase runs: what the model was told, what it said and which tools it used."""

from uuid import UUID

from fastapi import APIRouter

from services.api.auth.dependencies import Owned, OwnedAgent
from services.api.http.dependencies import Page, Paging
from services.api.http.problem_details import NotFoundError
from services.api.queries import transcripts
from shared.enums import Phase
from shared.schemas.base import InteractionEvent
from shared.schemas.iterations import InteractionDetails, InteractionHead

router = APIRouter(tags=["interactions"])


@router.get("/agents/{agent}/interactions")
async def list_of_agent(
    access: OwnedAgent, paging: Paging, phase: Phase | None = None
) -> Page[InteractionHead]:
    """The newest first; of one phase, where it is given."""
    return await transcripts.of_agent(
        access.session, access.owner_id, access.agent.id, paging, phase=phase
    )


@router.get("/interactions/{interaction_id}")
async def show(access: Owned, interaction_id: UUID) -> InteractionDetails:
    """What the model was told first; what came then are its events."""
    found = await transcripts.find(access.session, access.owner_id, interaction_id)
    if found is None:
        raise NotFoundError("interaction", interaction_id)
    return found


@router.get("/interactions/{interaction_id}/events")
async def list_events(
    access: Owned, paging: Paging, interaction_id: UUID
) -> Page[InteractionEvent]:
    """The oldest first: each answer with its text and tool calls, each tool's result."""
    found = await transcripts.events_of(access.session, access.owner_id, interaction_id, paging)
    if found is None:
        raise NotFoundError("interaction", interaction_id)
    return found
