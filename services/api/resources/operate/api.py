"""Operations: dead letters, metrics, health, and the installation's providers."""

import asyncio
from functools import partial
from http import HTTPStatus
from math import inf, nan
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request
from starlette.responses import Response

from services.api.auth.dependencies import (
    Access,
    AuthenticatedCaller,
    OperatorAccess,
    OwnedAccess,
)
from services.api.auth.middleware import require_scope
from services.api.auth.owner import BootstrapOwner
from services.api.http.dependencies import Page, PageQuery
from services.api.http.metrics import Metrics
from services.api.http.problem_details import ConflictError, NotFoundError, problems
from services.api.resources.operate import model, retention
from services.api.resources.operate.diagnostics import ServiceLoad
from services.api.resources.operate.measurements import measure, read_bus
from services.api.resources.operate.outages import read_outages
from services.api.streaming.event_hub import EventHub
from shared.database.engine import Database
from shared.enums import AccessScope
from shared.errors import TransientError
from shared.events.stream_admin import Queue
from shared.notifications.mail_server import MailServer
from shared.runtime import database_probe
from shared.runtime.process import ready_check
from shared.runtime.settings import Settings
from shared.schemas.base import AboutResponse, ProvidersResponse
from shared.schemas.operations import (
    DeadLetterDetails,
    DeadLetterResponse,
    RetentionResponse,
    ServiceLoadResponse,
    ServiceLoadsResponse,
)
from shared.telemetry.metrics import CONTENT_TYPE
from shared.version import vigil_version
from shared.workflow import dead_letters as dead_letter_store
from shared.workflow.iterations import database_time

dead_letters_router = APIRouter(prefix="/dead-letters", tags=["dead letters"])
services_router = APIRouter(tags=["services"])
health_router = APIRouter(prefix="/health", tags=["health"])
about_router = APIRouter(tags=["about"])
providers_router = APIRouter(tags=["about"])


async def _dead_letter_from_path(
    access: OwnedAccess,
    dead_letter: Annotated[
        str, Path(description="The dead letter's id, or a unique beginning of it")
    ],
) -> DeadLetterDetails:
    return await _find_dead_letter(access, dead_letter)


DeadLetterFromPath = Annotated[DeadLetterDetails, Depends(_dead_letter_from_path, scope="function")]


@dead_letters_router.get("", name="list_all")
async def list_dead_letters(
    access: OwnedAccess, page_request: PageQuery, service: str | None = None
) -> Page[DeadLetterResponse]:
    """Lists dead letters, newest first; optionally of one service."""
    listed = await model.list_dead_letters(access, page_request, service=service)
    items = [DeadLetterResponse.model_validate(dict(each)) for each in listed.items]
    return Page(items=items, next=listed.next)


@dead_letters_router.get("/{dead_letter}", name="show", responses=problems(HTTPStatus.CONFLICT))
async def show_dead_letter(dead_letter: DeadLetterFromPath) -> DeadLetterDetails:
    return dead_letter


@dead_letters_router.post(
    "/{dead_letter}/retry",
    name="retry",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(HTTPStatus.CONFLICT),
)
async def retry_dead_letter(
    access: OwnedAccess, dead_letter: DeadLetterFromPath
) -> DeadLetterResponse:
    """Requests that the message is published again and the failed step retried.

    The scheduler does it and deletes the dead letter; another failure stores it again. Repeated requests count once.
    """
    if dead_letter.refusal is not None:
        raise ConflictError("not-retried", f"Not retried: {dead_letter.refusal}.")
    await dead_letter_store.request_retries(access.session, [dead_letter.id])
    return await _find_dead_letter(access, str(dead_letter.id))


@dead_letters_router.delete(
    "/{dead_letter}",
    name="discard",
    status_code=HTTPStatus.NO_CONTENT,
    responses=problems(HTTPStatus.CONFLICT),
)
async def discard_dead_letter(access: OwnedAccess, dead_letter: DeadLetterFromPath) -> None:
    """Deletes a dead letter permanently, with a retry that has not started. A failed step stays failed."""
    await dead_letter_store.discard(access.session, [dead_letter.id])


async def _find_dead_letter(access: Access, reference: str) -> DeadLetterDetails:
    dead_letters = await model.find_dead_letters(access, reference)
    if not dead_letters:
        raise NotFoundError("dead letter", reference)
    if len(dead_letters) > 1:
        raise ConflictError(
            "ambiguous",
            f"Several dead letters begin with {reference!r}: enter more characters of the id.",
        )
    return dead_letters[0]


_PLAIN_TEXT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}}
}

STREAM_SECONDS: Final = 2.0
"""A scrape does not wait longer for NATS."""


def require_operator_scope(caller: AuthenticatedCaller) -> None:
    require_scope(caller, AccessScope.OPERATOR)


metrics_router = APIRouter(tags=["metrics"], dependencies=[Depends(require_operator_scope)])


@metrics_router.get("/metrics", name="metrics", response_class=Response, responses=_PLAIN_TEXT)
async def show_metrics(request: Request) -> Response:
    """Metrics: requests, durations, connections, and open work."""
    of_api: Metrics = request.app.state.metrics
    database: Database = request.app.state.database
    await _measure_stream(request.app.state.hub, of_api)
    await database_probe.probe([database], [partial(of_api.look, database)])
    return Response(of_api.text(), media_type=CONTENT_TYPE)


async def _measure_stream(hub: EventHub, of_api: Metrics) -> None:
    try:
        async with asyncio.timeout(STREAM_SECONDS):
            state = await hub.stream_state()
    except (TransientError, TimeoutError):
        of_api.set_stream(nan, nan)
    else:
        of_api.set_stream(state.size_bytes, inf if state.max_bytes is None else state.max_bytes)


@services_router.get("/services", name="load")
async def show_service_loads(request: Request, access: OperatorAccess) -> ServiceLoadsResponse:
    """The queue, replicas and leases of each service, for operators."""
    state = request.app.state
    measured = await measure(state, access, await read_bus(state.hub))
    return ServiceLoadsResponse(
        measured_at=await database_time(access.session),
        bus_fault=measured.bus_fault,
        services=[_service_load(load) for load in measured.loads],
        outages=list(measured.outages),
    )


@services_router.get("/retention", name="retention")
async def show_retention(access: OperatorAccess) -> RetentionResponse:
    """What is deleted when it is old: age limits, sizes, and what was deleted; for operators."""
    return await retention.read_retention(access.session)


def _service_load(load: ServiceLoad) -> ServiceLoadResponse:
    queue, leases = load.queue or Queue(load.service), load.leases
    return ServiceLoadResponse(
        service=load.service,
        replicas=load.replicas,
        lag=queue.lag,
        in_flight=queue.in_flight,
        waiting_replicas=queue.waiting_replicas,
        delivered=queue.delivered,
        leases=leases.held,
        lapsed_leases=leases.lapsed,
        workers=leases.workers,
    )


@health_router.get("/live", name="live")
async def show_liveness() -> dict[str, str]:
    return {"status": "alive"}


@health_router.get("/ready", name="ready")
async def show_readiness(request: Request) -> Response:
    owner: BootstrapOwner = request.app.state.owner
    return await ready_check(owner.fault)(request)


@about_router.get("/about", name="about")
async def show_version() -> AboutResponse:
    """The version; needs no credential."""
    return AboutResponse(version=vigil_version())


@providers_router.get("/about/providers", name="providers")
async def show_providers(request: Request, access: OwnedAccess) -> ProvidersResponse:
    """The configured model and search service, and whether they are available; of keys only whether they are set."""
    settings: Settings = request.app.state.settings
    return ProvidersResponse(
        model=settings.model,
        model_server=settings.openai_base_url,
        model_key_set=settings.openai_api_key is not None,
        search_server=settings.tavily_base_url,
        search_key_set=settings.tavily_api_key is not None,
        embedding_model=settings.embedding_model,
        model_is_sandbox=settings.model_is_sandbox,
        search_is_sandbox=settings.search_is_sandbox,
        outages=await read_outages(access.session, access.counted_owner_id, settings),
        mail_server=None
        if settings.smtp_url is None
        else MailServer.from_url(settings.smtp_url.get_secret_value()).location,
    )
