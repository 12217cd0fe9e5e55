"""Whether what agents say can be proved: looked up, hashed and compared, without a model."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from services.api.auth.dependencies import OwnedAgentSnapshot, OwnedSnapshot
from services.api.http.problem_details import NotFoundError
from shared.graph.verification import verifier
from shared.graph.verification.verifier import LARGEST_PAGE_ROWS, PAGE_ROWS, sweep
from shared.schemas.provenance import VerificationPage, VerificationView

router = APIRouter(tags=["verification"])


@router.get("/conclusions/{conclusion_id}/verification")
async def verify_conclusion(access: OwnedSnapshot, conclusion_id: UUID) -> VerificationView:
    """An analysis or advice of any of your agents, down to the bytes of the pages that it rests on."""
    found = await verifier.verification(access.session, access.owner_id, conclusion_id)
    if found is None:
        raise NotFoundError("conclusion", conclusion_id)
    return found


@router.get("/agents/{agent}/verification")
async def verify_all(
    access: OwnedAgentSnapshot,
    limit: Annotated[
        int, Query(ge=1, le=LARGEST_PAGE_ROWS, description="Rows to look at in this page")
    ] = PAGE_ROWS,
    cursor: Annotated[
        str | None, Query(description="`next` of the page before; without it, from the beginning")
    ] = None,
) -> VerificationPage:
    """All that the agent knows: what is broken of the pages, nodes and edges of this page, with all evidence of them.

    Ask for one page after the other until `next` is null.
    """
    return await sweep(access.session, access.scope, cursor=cursor, rows=limit)
