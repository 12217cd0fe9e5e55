"""Errors as problem details (RFC 9457), for people and programs."""

from collections.abc import Mapping
from http import HTTPStatus
from math import ceil
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from shared.database.pagination import BadCursorError
from shared.errors import TransientError, VigilError
from shared.runtime.logging import logger

MEDIA_TYPE: Final = "application/problem+json"
SCHEMA: Final = "Problem"

OF_EVERY_ROUTE: Final = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    HTTPStatus.SERVICE_UNAVAILABLE,
)
OF_BODIES: Final = (
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
)
_WHEN: Final[Mapping[HTTPStatus, str]] = {
    HTTPStatus.BAD_REQUEST: "The request cannot be read.",
    HTTPStatus.UNAUTHORIZED: "No credential was shown, or none that is known.",
    HTTPStatus.FORBIDDEN: "Not from here, or not with this credential.",
    HTTPStatus.NOT_FOUND: "There is none, or it is another's.",
    HTTPStatus.CONFLICT: "What is there speaks against it.",
    HTTPStatus.PRECONDITION_FAILED: "It has been changed since it was read.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is longer than this api takes.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is no JSON.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Something in the request cannot be; `errors` says what.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests; `Retry-After` says when to go on.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Vigil broke over this request.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Vigil cannot answer just now; `Retry-After` says when to ask again.",
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
    """For a route's `responses`: what it may answer besides what every route may."""
    return {int(status): told(status) for status in statuses}


def told(status: HTTPStatus) -> dict[str, Any]:
    schema = {"$ref": f"#/components/schemas/{SCHEMA}"}
    return {
        "description": _WHEN.get(status, status.phrase),
        "content": {MEDIA_TYPE: {"schema": schema}},
    }


RETRY_AFTER_SECONDS: Final = 2

_TOLD: Final[dict[int, str]] = {
    HTTPStatus.NOT_FOUND: "Nothing answers at {request.url.path}: /api/v1/openapi.json says what there is.",
    HTTPStatus.METHOD_NOT_ALLOWED: "{request.method} is not answered here; Allow says what is.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is longer than this api takes: send less.",
}
"""What FastAPI and Starlette say in two words."""

log = logger(__name__)


class ProblemError(VigilError):
    """Something the caller did not expect; `kind` is a short stable word, which stands in the problem's type."""

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
    """There is none, or it is another's: the two are not told apart."""

    def __init__(self, what: str, reference: object) -> None:
        super().__init__(
            HTTPStatus.NOT_FOUND,
            f"no-such-{what.replace(' ', '-')}",
            f"There is no {what} {str(reference)!r}.",
        )


class ConflictError(ProblemError):
    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(HTTPStatus.CONFLICT, kind, detail)


class UnknownCallerError(ProblemError):
    """Nothing was shown to be let in, or nothing that lets anybody in."""

    def __init__(self, detail: str, *, is_shown: bool = True) -> None:
        challenge = 'Bearer realm="vigil"' + (', error="invalid_token"' if is_shown else "")
        headers = {"WWW-Authenticate": challenge}
        super().__init__(HTTPStatus.UNAUTHORIZED, "unknown-caller", detail, headers=headers)


class ForbiddenError(ProblemError):
    """Who asks is known, and may not."""

    def __init__(self, kind: str, detail: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(HTTPStatus.FORBIDDEN, kind, detail, headers=headers)


class TooManyError(ProblemError):
    """Asked too often; `wait_seconds` is when to ask again."""

    def __init__(self, what: str, wait_seconds: float) -> None:
        wait = max(1, ceil(wait_seconds))
        super().__init__(
            HTTPStatus.TOO_MANY_REQUESTS,
            "too-many-attempts",
            f"{what} Try again in {wait} s.",
            headers={"Retry-After": str(wait)},
        )


def problem(
    status: int,
    kind: str | None,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    **extra: Any,
) -> JSONResponse:
    """`kind` None is a problem that says no more than its HTTP status."""
    body = {
        "type": f"urn:vigil:problem:{kind}" if kind else "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        **extra,
    }
    return JSONResponse(body, status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def handle_problems(app: FastAPI) -> None:
    """Makes every error of `app` a problem."""
    app.add_exception_handler(ProblemError, _answered)
    app.add_exception_handler(TransientError, _answered)
    app.add_exception_handler(BadCursorError, _bad_cursor)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _hung_up)
    app.add_exception_handler(Exception, _unexpected)


def answer_to(error: ProblemError | TransientError) -> Response:
    """For what stands before the routes, where no handler hears of an error."""
    if isinstance(error, ProblemError):
        return problem(error.status, error.kind, str(error), headers=error.headers)
    return problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "away",
        f"Vigil cannot answer just now: {error}.",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


async def _answered(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError | TransientError)
    return answer_to(error)


async def _bad_cursor(_: Request, error: Exception) -> Response:
    faults = [{"where": "cursor", "wrong": f"{error}."}]
    return problem(
        HTTPStatus.UNPROCESSABLE_ENTITY, "bad-cursor", f"cursor: {error}.", errors=faults
    )


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [_fault(fault) for fault in error.errors()]
    told = " ".join(f"{fault['where']}: {fault['wrong']}" for fault in faults)
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", told, errors=faults)


def _fault(told: Mapping[str, Any]) -> dict[str, str]:
    if told["type"] == "json_invalid":
        return {"where": "body", "wrong": f"it is no JSON: {told['ctx']['error']}."}
    return {"where": _where(told["loc"]), "wrong": _sentence(told["msg"])}


def _where(location: tuple[str | int, ...]) -> str:
    """Without the part of the request, where something in it is named."""
    return ".".join(str(part) for part in location[1:]) or str(location[0])


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return f"{text[0].lower()}{text[1:].rstrip('.')}."


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = _TOLD.get(error.status_code, "{error.detail}").format(request=request, error=error)
    return problem(error.status_code, None, told, headers=error.headers)


async def _hung_up(_: Request, __: Exception) -> Response:
    """The client ended the connection within the body of its request: an answer that only the metrics see."""
    return problem(HTTPStatus.BAD_REQUEST, "incomplete-body", "The body did not come to its end.")


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("unexpected error", path=request.url.path, exc_info=error)
    return problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        None,
        "Vigil broke over this request; the api's log says how.",
    )
