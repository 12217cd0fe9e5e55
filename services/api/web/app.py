"""Adds the web UI to the API application."""

from functools import cache
from typing import Final

from fastapi import APIRouter, FastAPI

from services.api.resources.accounts import pages as accounts
from services.api.resources.agents import now
from services.api.resources.agents import pages as agents
from services.api.resources.agents import settings as agent_settings
from services.api.resources.conclusions import pages as conclusions
from services.api.resources.conversation import pages as conversation
from services.api.resources.costs import pages as costs
from services.api.resources.destinations import pages as destinations
from services.api.resources.graph import pages as graph
from services.api.resources.inbox import pages as inbox
from services.api.resources.iterations import pages as iterations
from services.api.resources.operate import pages as operate
from services.api.resources.operate.diagnostics import LoadSampler
from services.api.resources.palette import pages as palette
from services.api.resources.sources import pages as sources
from services.api.web import libraries, rendering
from services.api.web.rendering import Assets, Pages
from shared.runtime.logging import logger

PAGES: Final = (
    accounts.router,
    agents.router,
    now.router,
    agent_settings.router,
    iterations.router,
    costs.router,
    graph.router,
    conclusions.router,
    sources.router,
    conversation.router,
    inbox.router,
    destinations.router,
    operate.router,
    palette.router,
)

log = logger(__name__)


def page_router() -> APIRouter:
    """The routes of pages and static files, which are not in the OpenAPI document."""
    pages = APIRouter(include_in_schema=False)
    for router in (rendering.router, *PAGES):
        pages.include_router(router)
    return pages


class WebUi:
    """The state that all pages share."""

    def __init__(self) -> None:
        self.assets = Assets()
        self.pages = Pages(self.assets)
        if not self.assets.are_complete:
            log.warning(f"{libraries.MISSING} {libraries.INSTALL}")

    def put_on(self, app: FastAPI) -> None:
        app.state.assets = self.assets
        app.state.pages = self.pages
        app.state.loads = LoadSampler()


@cache
def web_ui() -> WebUi:
    """The web UI of this process: static files are read and compressed once."""
    return WebUi()
