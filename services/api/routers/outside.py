"""Whom this installation asks."""

from fastapi import APIRouter, Request

from shared.runtime.settings import Settings
from shared.schemas.base import OutsideView

router = APIRouter(tags=["about"])


@router.get("/about/outside")
async def outside(request: Request) -> OutsideView:
    """Who answers in place of the model and the search service; keys are never told, only whether they are set."""
    settings: Settings = request.app.state.settings
    return OutsideView(
        model=settings.model,
        model_server=settings.openai_base_url,
        model_key_set=settings.openai_api_key is not None,
        search_server=settings.tavily_base_url,
        search_key_set=settings.tavily_api_key is not None,
        embedding_model=settings.embedding_model,
    )
