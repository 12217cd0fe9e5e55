"""Adds the web UI to the API application."""

from typing import Final

from fastapi import APIRouter, FastAPI

from services.api.diagnostics import LoadSampler
from services.api.web import rendering
from services.api.web.pages import (
    accounts,
    agents,
    conversation,
    costs,
    graph,
    iterations,
    notifications,
    operations,
    provenance,
)
from services.api.web.rendering import Assets, Pages
from shared.runtime.logging import logger

PAGES: Final = (
    accounts.router,
    agents.router,
    iterations.router,
    costs.router,
    graph.router,
    provenance.router,
    conversation.router,
    notifications.router,
    operations.router,
)

log = logger(__name__)


class WebUi:
    """The state that all pages share. One instance per process."""

    def __init__(self) -> None:
        self.assets = Assets()
        self.pages = Pages(self.assets)
        if not self.assets.are_complete:
            log.warning(
                "pages do not update, because their libraries are missing: run `make setup`"
            )

    def put_on(self, app: FastAPI) -> None:
        app.state.assets = self.assets
        app.state.pages = self.pages
        app.state.loads = LoadSampler()
        app.include_router(rendering.router)
        for page in PAGES:
            app.include_router(_excluded_from_schema(page))


def _excluded_from_schema(router: APIRouter) -> APIRouter:
    """Excludes the pages from the OpenAPI document."""
    hidden = APIRouter(include_in_schema=False)
    hidden.include_router(router)
    return hidden
