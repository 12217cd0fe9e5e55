"""Errors as people and programs both can read them: problem details of RFC 9457."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from shared.errors import TransientError, VigilError
from shared.runtime.logs import logger
from shared.store.reading.cursors import BadCursorError

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_SECONDS: Final = 2

log = logger(__name__)


class ProblemError(VigilError):
    """Something the caller did not expect; `kind` is a short stable word, which stands in the problem's type."""

    def __init__(self, status: HTTPStatus, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind


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
    app.add_exception_handler(ProblemError, _expected)
    app.add_exception_handler(TransientError, _away)
    app.add_exception_handler(BadCursorError, _bad_cursor)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


async def _expected(_: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return problem(error.status, error.kind, str(error))


async def _away(_: Request, error: Exception) -> Response:
    return problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "away",
        f"Vigil cannot answer just now: {error}.",
        headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
    )


async def _bad_cursor(_: Request, error: Exception) -> Response:
    faults = [{"where": "cursor", "wrong": f"{error}."}]
    return problem(
        HTTPStatus.UNPROCESSABLE_ENTITY, "bad-cursor", f"cursor: {error}.", errors=faults
    )


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    faults = [
        {"where": _where(fault["loc"]), "wrong": _sentence(fault["msg"])}
        for fault in error.errors()
    ]
    told = " ".join(f"{fault['where']}: {fault['wrong']}" for fault in faults)
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", told, errors=faults)


def _where(location: tuple[str | int, ...]) -> str:
    """Without the part of the request, where something in it is named."""
    return ".".join(str(part) for part in location[1:]) or str(location[0])


def _sentence(message: str) -> str:
    text = message.removeprefix("Value error, ")
    return f"{text[0].lower()}{text[1:].rstrip('.')}."


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return problem(error.status_code, None, str(error.detail), headers=error.headers)


async def _unexpected(request: Request, error: Exception) -> Response:
    log.error("unexpected error", path=request.url.path, exc_info=error)
    return problem(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        None,
        "Vigil broke over this request; the api's log says how.",
    )
