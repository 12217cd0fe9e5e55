"""Errors as problem details (RFC 9457), for people and programs."""

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Any, Final

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from psycopg.errors import ForeignKeyViolation
from pydantic import BaseModel
from sqlalchemy.exc import NoResultFound
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from services.api.paths import is_for_programs
from shared.database.pagination import InvalidCursorError
from shared.errors import DeletedError, TransientError, VigilError, describe_invalid_value
from shared.runtime.logging import logger

MEDIA_TYPE: Final = "application/problem+json"
SCHEMA: Final = "Problem"

STATUSES_OF_EVERY_ROUTE: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
STATUSES_OF_BODIES: Final = (
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)
_DESCRIPTIONS: Final[Mapping[HTTPStatus, str]] = {
    HTTPStatus.BAD_REQUEST: "The request cannot be parsed.",
    HTTPStatus.UNAUTHORIZED: "The credential is missing or unknown.",
    HTTPStatus.FORBIDDEN: "The credential does not allow this, or the request comes from a page on another site.",
    HTTPStatus.NOT_FOUND: "It does not exist, or it belongs to another user.",
    HTTPStatus.CONFLICT: "The current state does not allow it.",
    HTTPStatus.PRECONDITION_FAILED: "It was changed after it was read.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is longer than the API accepts.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not declared as JSON.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "A value in the request is not valid; `errors` says which.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests; `Retry-After` says when to continue.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "An internal error of Vigil; the API log has the details.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Vigil is currently unavailable; `Retry-After` says when to try again.",
}


class Fault(BaseModel):
    """One thing that is wrong with a request, and where in it."""

    where: str
    wrong: str


class Problem(BaseModel):
    """Problem details of RFC 9457."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[Fault] | None = None


def problems(*statuses: HTTPStatus) -> dict[int | str, dict[str, Any]]:
    """Returns the `responses` of a route: problems that it may answer besides those of every route."""
    return {int(status): problem_response_schema(status) for status in statuses}


def problem_response_schema(status: HTTPStatus) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{SCHEMA}"}
    return {
        "description": _DESCRIPTIONS.get(status, status.phrase),
        "content": {MEDIA_TYPE: {"schema": schema}},
    }


RETRY_AFTER_SECONDS: Final = 2

_DETAILS: Final[dict[int, str]] = {
    HTTPStatus.NOT_FOUND: "There is nothing at {request.url.path}.",
    HTTPStatus.METHOD_NOT_ALLOWED: "{request.method} is not allowed for {request.url.path}; the Allow header lists what is.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is longer than the API accepts: send less.",
}
"""Details for errors that FastAPI and Starlette describe in two words."""

log = logger(__name__)


class ProblemError(VigilError):
    """An expected error. `kind` is a short stable word in the problem's type."""

    def __init__(
        self,
        status: HTTPStatus,
        kind: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.headers = dict(headers or {})


class NotFoundError(ProblemError):
    """The resource does not exist or belongs to another user; the response does not say which."""

    def __init__(self, noun: str, reference: object) -> None:
        super().__init__(
            HTTPStatus.NOT_FOUND,
            f"no-such-{noun.replace(' ', '-')}",
            f"There is no {noun} {str(reference)!r}.",
        )


class GoneError(ProblemError):
    """The resource was deleted because of its age."""

    def __init__(self, noun: str, detail: str) -> None:
        super().__init__(HTTPStatus.GONE, f"{noun}-deleted", detail)


class ConflictError(ProblemError):
    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(HTTPStatus.CONFLICT, kind, detail)


class UnknownCallerError(ProblemError):
    """No credential, or an invalid one."""

    def __init__(self, detail: str, *, is_shown: bool = True) -> None:
        challenge = 'Bearer realm="vigil"' + (', error="invalid_token"' if is_shown else "")
        headers = {"WWW-Authenticate": challenge}
        super().__init__(HTTPStatus.UNAUTHORIZED, "unknown-caller", detail, headers=headers)


class ForbiddenError(ProblemError):
    """The caller is authenticated but not allowed."""

    def __init__(self, kind: str, detail: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(HTTPStatus.FORBIDDEN, kind, detail, headers=headers)


class TooManyError(ProblemError):
    """Too many requests; `wait_seconds` is when to retry."""

    def __init__(self, reason: str, wait_seconds: float) -> None:
        wait = max(1, ceil(wait_seconds))
        super().__init__(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too-many-attempts",
            f"{reason} Try again in {wait} s.",
            headers={"Retry-After": str(wait)},
        )


def problem_response(
    status: int,
    kind: str | None,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    **extra: Any,
) -> JSONResponse:
    """Builds a problem response. Without `kind` it says no more than its HTTP status."""
    body = {
        "type": f"urn:vigil:problem:{kind}" if kind else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **extra,
    }
    return JSONResponse(body, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def add_problem_handlers(app: FastAPI) -> None:
    """Registers handlers that turn every error of `app` into a problem."""
    app.add_exception_handler(ProblemError, _problem_response)
    app.add_exception_handler(TransientError, _problem_response)
    app.add_exception_handler(InvalidCursorError, _bad_cursor)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _client_disconnected)
    app.add_exception_handler(NoResultFound, _deleted_meanwhile)
    app.add_exception_handler(DeletedError, _deleted_meanwhile)
    app.add_exception_handler(psycopg.IntegrityError, _integrity_error)
    app.add_exception_handler(Exception, _unexpected)


def response_to(error: ProblemError | TransientError) -> Response:
    """Returns the response to an error that was raised in a middleware, where no exception handler runs."""
    if isinstance(error, ProblemError):
        return problem_response(error.status, error.kind, str(error), headers=error.headers)
    return problem_response(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "away",
        f"Vigil is currently unavailable: {error}.",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


async def _problem_response(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError | TransientError)
    return response_to(error)


async def _bad_cursor(_: Request, error: Exception) -> Response:
    faults = [{"where": "cursor", "wrong": f"{error}."}]
    return problem_response(
        HTTPStatus.UNPROCESSABLE_ENTITY, "bad-cursor", f"cursor: {error}.", errors=faults
    )


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [_fault(fault) for fault in error.errors()]
    detail = " ".join(f"{fault['where']}: {fault['wrong']}" for fault in faults)
    return problem_response(
        HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail, errors=faults
    )


def _fault(validation_error: Mapping[str, Any]) -> dict[str, str]:
    if validation_error["type"] == "json_invalid":
        return {
            "where": "body",
            "wrong": f"it is not valid JSON: {validation_error['ctx']['error']}.",
        }
    return {"where": _where(validation_error["loc"]), "wrong": _sentence(validation_error)}


def _where(location: tuple[str | int, ...]) -> str:
    """Returns the path of a fault, without the request part where it has a field."""
    return ".".join(str(part) for part in location[1:]) or str(location[0])


def _sentence(validation_error: Mapping[str, Any]) -> str:
    return f"{describe_invalid_value(validation_error)}."


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    detail = _DETAILS.get(error.status_code, "{error.detail}").format(request=request, error=error)
    if error.status_code == HTTPStatus.NOT_FOUND and is_for_programs(request.url.path):
        detail += " /api/v1/openapi.json lists the paths of the API."
    return problem_response(error.status_code, None, detail, headers=error.headers)


async def _client_disconnected(_: Request, __: Exception) -> Response:
    """The client disconnected while sending the body. Only metrics see this response."""
    return problem_response(
        HTTPStatus.BAD_REQUEST, "incomplete-body", "The request ended before its body was complete."
    )


async def _deleted_meanwhile(request: Request, error: Exception) -> Response:
    """Another request deleted a row, such as the agent, after this request had found it."""
    log.info("deleted by another request", path=request.url.path, error=str(error))
    return problem_response(
        HTTPStatus.NOT_FOUND,
        "deleted-meanwhile",
        "It was deleted while the request was being handled.",
    )


async def _integrity_error(request: Request, error: Exception) -> Response:
    if isinstance(error, ForeignKeyViolation):
        return await _deleted_meanwhile(request, error)
    return await _unexpected(request, error)


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("unexpected error", path=request.url.path, exc_info=error)
    return problem_response(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        None,
        "Vigil could not handle this request because of an internal error; the API log has the details.",
    )
