"""Where a browser comes in."""

from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import RedirectResponse

from services.api.paths import HOME

router = APIRouter()


@router.get("/")
async def home() -> RedirectResponse:
    return RedirectResponse(HOME, HTTPStatus.SEE_OTHER)
