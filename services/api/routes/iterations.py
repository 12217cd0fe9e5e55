"""Iterations, and all that happened in one."""

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from services.api.access import Owned, OwnedAgent
from services.api.problems import NotFoundError
from shared.store.reading import iterations
from shared.store.reading.shapes import IterationDetails, IterationView

router = APIRouter(tags=["iterations"])


@router.get("/agents/{agent}/iterations")
async def list_of_agent(
    access: OwnedAgent, limit: Annotated[int, Query(ge=1, le=iterations.MAX_LIMIT)] = 20
) -> list[IterationView]:
    """The newest first."""
    return await iterations.of_agent(access.session, access.owner_id, access.agent.id, limit=limit)


@router.get("/iterations/{iteration_id}")
async def show(access: Owned, iteration_id: UUID) -> IterationDetails:
    """The plan, the steps, and every phase's conversation with the model as far as it has come."""
    found = await iterations.find(access.session, access.owner_id, iteration_id)
    if found is None:
        raise NotFoundError("iteration", iteration_id)
    return found
