"""What an agent's Analyzers lacked."""

from typing import Annotated

from fastapi import APIRouter, Query

from services.api.auth.dependencies import OwnedAgent
from services.api.http.dependencies import Page, Paging
from services.api.queries import conclusions
from shared.schemas.conclusions import InvestigationRequestView

router = APIRouter(prefix="/agents/{agent}", tags=["investigation requests"])


@router.get("/investigation-requests")
async def list_investigation_requests(
    access: OwnedAgent,
    paging: Paging,
    is_open: Annotated[
        bool | None, Query(alias="open", description="Those that are open, or are not, only")
    ] = None,
) -> Page[InvestigationRequestView]:
    """The newest first. Open ones stand before the Observer until a query answers them or they have grown old."""
    return await conclusions.of_agent(
        access.session, access.owner_id, access.agent.id, paging, is_open=is_open
    )
