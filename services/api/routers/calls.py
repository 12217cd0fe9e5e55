"""The ledger: what was asked of the model and the search service."""

from fastapi import APIRouter

from services.api.auth.dependencies import OwnedAgent
from services.api.http.dependencies import Page, Paging
from services.api.queries import costs
from shared.enums import CallKind, Phase
from shared.schemas.base import CallsView
from shared.schemas.iterations import CallView

router = APIRouter(prefix="/agents/{agent}/calls", tags=["calls"])


@router.get("")
async def list_of_agent(
    access: OwnedAgent, paging: Paging, kind: CallKind | None = None, phase: Phase | None = None
) -> Page[CallView]:
    """One by one, the newest first."""
    return await costs.page_of_agent(
        access.session, access.owner_id, access.agent.id, paging, kind=kind, phase=phase
    )


@router.get("/summary")
async def summary(access: OwnedAgent) -> CallsView:
    """How often the model and the search service were asked, and what is known of the cost."""
    return await costs.agent_calls(access.session, access.owner_id, access.agent.id)
