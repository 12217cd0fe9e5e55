"""The composition root of the API service."""

from collections.abc import Sequence
from functools import cache, partial
from typing import Final
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, FastAPI
from starlette.middleware import Middleware
from starlette.routing import BaseRoute

from services.api.auth.middleware import (
    AuthenticationMiddleware,
    cookie_name,
    security_dependencies,
)
from services.api.http.guards import (
    BodyLimit,
    HostGuard,
    RateLimit,
    validate_request,
)
from services.api.http.metrics import MetricsMiddleware
from services.api.http.openapi import add_document_route, openapi_builder, operation_id
from services.api.http.problem_details import add_problem_handlers
from services.api.lifespan import ApplicationState
from services.api.paths import PREFIX
from services.api.resources.accounts import api as accounts
from services.api.resources.agents import api as agents
from services.api.resources.conclusions import api as conclusions
from services.api.resources.conversation import api as conversation
from services.api.resources.costs import api as costs
from services.api.resources.destinations import api as destinations
from services.api.resources.events import api as events
from services.api.resources.graph import api as graph
from services.api.resources.graph import exports
from services.api.resources.inbox import api as inbox
from services.api.resources.iterations import api as iterations
from services.api.resources.operate import api as operate
from services.api.resources.sources import api as sources
from services.api.web.app import WebUi, page_router, web_ui
from services.api.web.responses import CompressionMiddleware, HtmlErrorMiddleware
from shared.runtime import process
from shared.runtime.settings import Settings
from shared.version import vigil_version


def middleware_stack(parts: ApplicationState, window: WebUi) -> list[Middleware]:
    """Returns the middleware stack, outermost first."""
    settings = parts.settings
    hosts = [settings.host, *settings.allowed_hosts, urlsplit(settings.base_url).hostname or ""]
    return [
        Middleware(MetricsMiddleware, metrics=parts.metrics),
        Middleware(CompressionMiddleware),
        Middleware(HtmlErrorMiddleware, pages=window.pages),
        Middleware(HostGuard, hosts=hosts, public_url=settings.base_url),
        Middleware(
            AuthenticationMiddleware,
            owner=parts.owner,
            database=parts.database,
            settings=settings,
            places=parts.places,
        ),
        Middleware(
            RateLimit,
            per_second=settings.requests_per_second,
            burst=settings.requests_burst,
        ),
        Middleware(BodyLimit, max_bytes=settings.max_body_bytes),
    ]


PUBLIC_ROUTERS: Final = (operate.about_router, accounts.sign_in_router)
ROUTERS: Final = (
    operate.providers_router,
    accounts.access_router,
    accounts.users_router,
    agents.agents_router,
    agents.configuration_router,
    iterations.iterations_router,
    iterations.interactions_router,
    graph.router,
    conclusions.conclusions_router,
    conclusions.verification_router,
    exports.router,
    sources.router,
    inbox.router,
    conversation.router,
    conclusions.investigations_router,
    destinations.router,
    costs.calls_router,
    costs.budgets_router,
    costs.costs_router,
    events.router,
    operate.dead_letters_router,
    operate.services_router,
)
"""These routers require a credential."""


def serve() -> None:
    """Runs the API until SIGTERM or SIGINT."""
    settings = process.begin("api")
    with process.exiting_if_unusable("api"):
        app = build(settings)
    process.serve(app, settings, at_stop=app.state.stop)


def build(settings: Settings) -> FastAPI:
    """Builds the application.

    It starts without PostgreSQL, answers 503 until the database is available, and keeps trying.
    Without NATS, only event streams are unavailable.
    """
    parts = ApplicationState.of(settings)
    window = web_ui()
    app = FastAPI(
        title="Vigil",
        description="The API of a Vigil installation.",
        version=vigil_version(),
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=parts.lifespan,
        # A trailing slash makes a different path, which is 404; there is no redirect.
        redirect_slashes=False,
        middleware=middleware_stack(parts, window),
        routes=[*_routes(cookie_name(settings, None))],
    )
    parts.put_on(app.state)
    add_problem_handlers(app)
    window.put_on(app)
    name = partial(_session_cookie, parts)
    add_document_route(app, f"{PREFIX}/openapi.json", name)
    app.openapi = openapi_builder(app, name)  # type: ignore[method-assign]  # FastAPI's own way to complete it
    return app


@cache
def _routes(session_cookie: str) -> Sequence[BaseRoute]:
    """All routes. The applications of a process share them, because FastAPI takes 0.2 s to analyze them."""
    root = APIRouter(generate_unique_id_function=operation_id)
    dependencies = security_dependencies(session_cookie)
    root.include_router(operate.health_router)
    root.include_router(operate.metrics_router, dependencies=dependencies)
    for router in PUBLIC_ROUTERS:
        root.include_router(router, prefix=PREFIX, dependencies=[Depends(validate_request)])
    for router in ROUTERS:
        root.include_router(
            router, prefix=PREFIX, dependencies=[*dependencies, Depends(validate_request)]
        )
    root.include_router(page_router())
    return root.routes


def _session_cookie(parts: ApplicationState) -> str:
    return cookie_name(parts.settings, parts.owner.known_id)
