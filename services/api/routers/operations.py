"""Operations: dead letters, metrics, health, and what this installation is."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Path, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from services.api.auth.dependencies import Access, AuthenticatedCaller, OwnedAccess
from services.api.auth.middleware import require_scope
from services.api.auth.owner import BootstrapOwner
from services.api.http.dependencies import Page, Paging
from services.api.http.metrics import Metrics
from services.api.http.problem_details import ConflictError, NotFoundError, problems
from services.api.queries import operations
from shared.database.engine import Database
from shared.database.tables import DeadLetter
from shared.enums import AccessScope
from shared.errors import TransientError
from shared.runtime.logging import logger
from shared.runtime.process import ready_check
from shared.runtime.settings import Settings
from shared.schemas.base import AboutView, OutsideView
from shared.schemas.operations import DeadLetterDetails, DeadLetterView
from shared.version import vigil_version
from shared.workflow import dead_letters as dead_letter_store

dead_letters_router = APIRouter(prefix="/dead-letters", tags=["dead letters"])
health_router = APIRouter(prefix="/health", tags=["health"])
about_router = APIRouter(tags=["about"])
providers_router = APIRouter(tags=["about"])


async def _dead_letter_from_path(
    access: OwnedAccess,
    letter: Annotated[str, Path(description="The letter's id, or as much of it as is its own")],
) -> DeadLetterDetails:
    return await _find_dead_letter(access, letter)


DeadLetterFromPath = Annotated[DeadLetterDetails, Depends(_dead_letter_from_path, scope="function")]


@dead_letters_router.get("", name="list_all")
async def list_dead_letters(
    access: OwnedAccess, paging: Paging, actor: str | None = None
) -> Page[DeadLetterView]:
    """The newest first; of one actor, where it is given."""
    return await operations.list_dead_letters(access.session, access.caller, paging, actor=actor)


@dead_letters_router.get("/{letter}", name="show", responses=problems(HTTPStatus.CONFLICT))
async def show_dead_letter(dead_letter: DeadLetterFromPath) -> DeadLetterDetails:
    return dead_letter


@dead_letters_router.post(
    "/{letter}/retry",
    name="retry",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(HTTPStatus.CONFLICT),
)
async def retry_dead_letter(access: OwnedAccess, dead_letter: DeadLetterFromPath) -> DeadLetterView:
    """Asks for the message to be published again, the failed step to be tried again.

    The scheduler does it, and then the letter is gone; what fails again comes back. Asking twice asks for one.
    """
    if dead_letter.refusal is not None:
        raise ConflictError("not-retried", f"Not retried: {dead_letter.refusal}.")
    await dead_letter_store.request_retry(
        access.session, await _dead_letter_row(access, dead_letter)
    )
    return await _find_dead_letter(access, str(dead_letter.id))


@dead_letters_router.delete(
    "/{letter}",
    name="discard",
    status_code=HTTPStatus.NO_CONTENT,
    responses=problems(HTTPStatus.CONFLICT),
)
async def discard_dead_letter(access: OwnedAccess, dead_letter: DeadLetterFromPath) -> None:
    """Gone for good, with a retry that has not begun. A step that failed stays failed."""
    await dead_letter_store.discard(access.session, await _dead_letter_row(access, dead_letter))


async def _find_dead_letter(access: Access, reference: str) -> DeadLetterDetails:
    dead_letters = await operations.find_dead_letters(access.session, access.caller, reference)
    if not dead_letters:
        raise NotFoundError("dead letter", reference)
    if len(dead_letters) > 1:
        raise ConflictError(
            "ambiguous", f"Several dead letters begin with {reference!r}: write more of the id."
        )
    return dead_letters[0]


async def _dead_letter_row(access: Access, dead_letter: DeadLetterDetails) -> DeadLetter:
    return await access.session.get_one(DeadLetter, dead_letter.id)


_PLAIN_TEXT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}}
}

log = logger(__name__)


def require_operator_scope(caller: AuthenticatedCaller) -> None:
    require_scope(caller, AccessScope.OPERATOR)


metrics_router = APIRouter(tags=["metrics"], dependencies=[Depends(require_operator_scope)])


@metrics_router.get("/metrics", name="metrics", response_class=Response, responses=_PLAIN_TEXT)
async def show_metrics(request: Request) -> Response:
    """Requests, durations, connections, and what is open in the installation at this moment."""
    of_api: Metrics = request.app.state.metrics
    database: Database = request.app.state.database
    of_api.tell_pool(database.pool_use())
    try:
        await of_api.look(database)
    except TransientError as error:
        # The API's own metrics matter most in this case; `vigil_database_up` reports the failure.
        log.warning("metrics without Postgres", reason=str(error))
    return Response(of_api.text(), media_type=CONTENT_TYPE_LATEST)


@health_router.get("/live", name="live")
async def show_liveness() -> dict[str, str]:
    return {"status": "alive"}


@health_router.get("/ready", name="ready")
async def show_readiness(request: Request) -> Response:
    owner: BootstrapOwner = request.app.state.owner
    return await ready_check(owner.fault)(request)


@about_router.get("/about", name="about")
async def show_version() -> AboutView:
    """All that is told to whoever asks."""
    return AboutView(version=vigil_version())


@providers_router.get("/about/outside", name="outside")
async def show_providers(request: Request) -> OutsideView:
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
