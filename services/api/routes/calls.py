"""The ledger: what was asked of the model and the search service."""

from fastapi import APIRouter

from services.api.access import OwnedAgent
from services.api.pages import Page, Paging
from shared.store.reading import calls
from shared.store.reading.shapes import CallsView
from shared.store.reading.work_shapes import CallView
from shared.store.words import CallKind, Phase

router = APIRouter(prefix="/agents/{agent}/calls", tags=["calls"])


@router.get("")
async def list_of_agent(
    access: OwnedAgent, paging: Paging, kind: CallKind | None = None, phase: Phase | None = None
) -> Page[CallView]:
    """One by one, the newest first."""
    return await calls.page_of_agent(
        access.session, access.owner_id, access.agent.id, paging, kind=kind, phase=phase
    )


@router.get("/summary")
async def summary(access: OwnedAgent) -> CallsView:
    """How often the model and the search service were asked, and what is known of the cost."""
    return await calls.of_agent(access.session, access.owner_id, access.agent.id)
