"""Sources: the pages that an agent has read."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgent
from services.api.http.dependencies import Page, Paging
from services.api.http.etags import UNCHANGED, tagged
from services.api.http.problem_details import NotFoundError
from services.api.queries import provenance
from shared.schemas.provenance import SourceDetails, SourceView

router = APIRouter(prefix="/agents/{agent}/sources", tags=["sources"])


@router.get("")
async def list_sources(
    access: OwnedAgent,
    paging: Paging,
    url: Annotated[
        str | None, Query(max_length=2000, description="Versions of the page at this address only")
    ] = None,
    retracted: Annotated[
        bool | None, Query(description="Those that are retracted, or those that are not, only")
    ] = None,
) -> Page[SourceView]:
    """Those fetched last first, without their text. A page that changed is another source."""
    return await provenance.sources(
        access.session, access.scope, paging, url=url, retracted=retracted
    )


@router.get("/{source_id}", response_model=SourceDetails, responses=UNCHANGED)
async def show_source(access: OwnedAgent, source_id: UUID, request: Request) -> Response:
    """With its text, as it was when it was fetched."""
    found = await provenance.source(access.session, access.scope, source_id)
    if found is None:
        raise NotFoundError("source", source_id)
    return tagged(request, found)
