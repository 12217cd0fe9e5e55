"""The pages that an agent has read."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from services.api.access import OwnedAgent
from services.api.etags import UNCHANGED, tagged
from services.api.pages import Page, Paging
from services.api.problems import NotFoundError
from shared.store.reading import retractions as reading
from shared.store.reading.retraction_shapes import SourceDetails, SourceView

router = APIRouter(prefix="/agents/{agent}/sources", tags=["sources"])


@router.get("")
async def list_sources(
    access: OwnedAgent,
    paging: Paging,
    page_url: Annotated[
        str | None, Query(alias="url", min_length=1, description="Versions of this page only")
    ] = None,
    retracted: Annotated[
        bool | None, Query(description="Those that are retracted, or those that are not, only")
    ] = None,
) -> Page[SourceView]:
    """Those fetched last first. A page that changed is another source."""
    return await reading.sources(
        access.session,
        access.owner_id,
        access.agent.id,
        paging,
        url=page_url,
        retracted=retracted,
    )


@router.get("/{source_id}", response_model=SourceDetails, responses=UNCHANGED)
async def show_source(access: OwnedAgent, source_id: UUID, request: Request) -> Response:
    """With its text, as it was read."""
    found = await reading.source(access.session, access.owner_id, access.agent.id, source_id)
    if found is None:
        raise NotFoundError("source", source_id)
    return tagged(request, found)
