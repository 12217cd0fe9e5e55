"""Whether the process lives, and whether it can answer."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from services.api.auth.owner import Owner
from shared.runtime.process import ready_check

router = APIRouter(prefix="/health", tags=["health"])


@router.get("/live")
async def live() -> dict[str, str]:
    return {"status": "alive"}


@router.get("/ready")
async def ready(request: Request) -> Response:
    owner: Owner = request.app.state.owner
    return await ready_check(owner.fault)(request)
