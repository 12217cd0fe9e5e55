"""Phase runs: what the model was told, what it said and which tools it used."""

from uuid import UUID

from fastapi import APIRouter

from services.api.access import Owned, OwnedAgent
from services.api.pages import Page, Paging
from services.api.problems import NotFoundError
from shared.store.reading import interactions
from shared.store.reading.shapes import InteractionEvent
from shared.store.reading.work_shapes import InteractionDetails, InteractionHead
from shared.store.words import Phase

router = APIRouter(tags=["interactions"])


@router.get("/agents/{agent}/interactions")
async def list_of_agent(
    access: OwnedAgent, paging: Paging, phase: Phase | None = None
) -> Page[InteractionHead]:
    """The newest first; of one phase, where it is given."""
    return await interactions.of_agent(
        access.session, access.owner_id, access.agent.id, paging, phase=phase
    )


@router.get("/interactions/{interaction_id}")
async def show(access: Owned, interaction_id: UUID) -> InteractionDetails:
    """What the model was told first; what came then are its events."""
    found = await interactions.find(access.session, access.owner_id, interaction_id)
    if found is None:
        raise NotFoundError("interaction", interaction_id)
    return found


@router.get("/interactions/{interaction_id}/events")
async def list_events(
    access: Owned, paging: Paging, interaction_id: UUID
) -> Page[InteractionEvent]:
    """The oldest first: each answer with its text and tool calls, each tool's result."""
    found = await interactions.events_of(access.session, access.owner_id, interaction_id, paging)
    if found is None:
        raise NotFoundError("interaction", interaction_id)
    return found
