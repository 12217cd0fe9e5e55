"""The window as a part of the api: its pages, and what is read once for all of them."""

from typing import Final

from fastapi import APIRouter, FastAPI

from services.api.diagnostics import Loads
from services.api.web import rendering
from services.api.web.pages import (
    agent_prompts,
    agent_settings,
    agents,
    conclusions,
    conversation,
    costs,
    dead_letters,
    destinations,
    doubles,
    events,
    graph,
    health,
    home,
    inbox,
    iterations,
    now,
    settings,
    sign_in,
    sources,
    things,
    tokens,
    types,
    users,
)
from services.api.web.rendering import Assets, Pages
from shared.runtime.logging import logger

PAGES: Final = (
    sign_in.router,
    sign_in.leaving,
    home.router,
    agents.router,
    now.router,
    agent_settings.router,
    agent_prompts.router,
    iterations.router,
    costs.router,
    graph.router,
    things.router,
    types.router,
    sources.router,
    doubles.router,
    conclusions.router,
    conversation.router,
    inbox.router,
    events.router,
    dead_letters.router,
    health.router,
    settings.router,
    tokens.router,
    destinations.router,
    users.router,
)

log = logger(__name__)


class Window:
    """What all pages share. Give one to each process."""

    def __init__(self) -> None:
        self.assets = Assets()
        self.pages = Pages(self.assets)
        if not self.assets.are_complete:
            log.warning(
                "pages stand still, for their libraries are not there: `make setup` fetches them"
            )

    def put_on(self, app: FastAPI) -> None:
        app.state.assets = self.assets
        app.state.pages = self.pages
        app.state.loads = Loads()
        app.include_router(rendering.router)
        for page in PAGES:
            app.include_router(_hidden(page))


def _hidden(router: APIRouter) -> APIRouter:
    """Left out of the api's document, which is for programs."""
    hidden = APIRouter(include_in_schema=False)
    hidden.include_router(router)
    return hidden
