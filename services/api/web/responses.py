"""Responses to browsers: problems as pages, and pages compressed."""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.api.auth.middleware import CALLER, SAFE_METHODS
from services.api.http.problem_details import MEDIA_TYPE
from services.api.paths import SIGN_IN, is_for_programs, is_web_page
from services.api.web.rendering import Pages
from shared.accounts.authentication import Caller

_TITLES: Final[Mapping[int, str]] = {
    HTTPStatus.BAD_REQUEST: "This address is not valid",
    HTTPStatus.NOT_FOUND: "Not found",
    HTTPStatus.METHOD_NOT_ALLOWED: "This page cannot be opened",
    HTTPStatus.FORBIDDEN: "Not allowed",
    HTTPStatus.CONFLICT: "Not possible right now",
    HTTPStatus.PRECONDITION_FAILED: "Changed in the meantime",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "Too much text",
    HTTPStatus.UNPROCESSABLE_ENTITY: "A value is not valid",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests",
    HTTPStatus.SERVICE_UNAVAILABLE: "Vigil is unavailable",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Something went wrong",
}
_ADVICE: Final[Mapping[int, str]] = {
    HTTPStatus.NOT_FOUND: "It may have been deleted, or it belongs to another user. Check the address.",
    HTTPStatus.METHOD_NOT_ALLOWED: "It only accepts a form sent from another page.",
    HTTPStatus.FORBIDDEN: "Ask an operator of this installation if you need access.",
    HTTPStatus.CONFLICT: "Go back, reload the page, and check what has changed.",
    HTTPStatus.PRECONDITION_FAILED: "Go back, reload the page, and make your change again.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Go back and correct it.",
    HTTPStatus.SERVICE_UNAVAILABLE: "Wait a few seconds, then try again. Agents continue where they left off.",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Try again. If it happens again, tell an operator of this installation: "
    "the API log has the details.",
}
"""What to do next."""
_WORTH_ANOTHER_TRY: Final = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.INTERNAL_SERVER_ERROR,
)
UNEXPECTED: Final = "Vigil could not handle this request because of an internal error."


def error_page(pages: Pages, scope: Scope, status: HTTPStatus, detail: str) -> Response:
    """Renders a problem in place of the requested page; for a part of a page, only the sentence."""
    headers = Headers(scope=scope)
    is_part = headers.get("hx-request") == "true"
    if status == HTTPStatus.UNAUTHORIZED:
        if is_part:
            return Response(status_code=HTTPStatus.NO_CONTENT, headers={"HX-Redirect": SIGN_IN})
        return RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER)
    caller: Caller | None = scope.get(CALLER)
    context = {
        "status": int(status),
        "title": _TITLES.get(status, status.phrase),
        "detail": detail,
        "advice": _ADVICE.get(status),
        "path": scope["path"],
        "can_retry": scope["method"] in SAFE_METHODS and status in _WORTH_ANOTHER_TRY,
        "back": _page_before(headers),
        "is_operator": caller is not None and caller.is_operator,
    }
    template = "refused_part.html" if is_part else "refused.html"
    return pages.answer(template, context, status=status)


def _page_before(headers: Headers) -> str | None:
    """The page of this host that the request came from."""
    try:
        url = urlsplit(headers.get("referer", ""))
    except ValueError:
        return None
    if (
        url.netloc != headers.get("host")
        or not url.path.startswith("/")
        or url.path.startswith("//")
    ):
        return None
    return f"{url.path}?{url.query}" if url.query else url.path


_COPIED_HEADERS: Final = ("retry-after", "allow")


class HtmlErrorMiddleware:
    """Middleware that turns problem responses to browsers into pages, whichever component raised them."""

    def __init__(self, app: ASGIApp, pages: Pages) -> None:
        self._app = app
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not is_web_page(scope):
            await self._app(scope, receive, send)
            return
        captured = _CapturedProblem(send)
        try:
            await self._app(scope, receive, captured)
        except Exception:
            if not captured.has_begun:
                status = HTTPStatus.INTERNAL_SERVER_ERROR
                await error_page(self._pages, scope, status, UNEXPECTED)(scope, receive, send)
            # An outer middleware logs it.
            raise
        if captured.problem is not None:
            status, detail, headers = captured.problem
            answer = error_page(self._pages, scope, status, detail)
            answer.headers.update(headers)
            await answer(scope, receive, send)


class _CapturedProblem:
    """Passes a response through, but captures a problem."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message | None = None
        self._body = b""
        self.problem: tuple[HTTPStatus, str, Mapping[str, str]] | None = None
        self.has_begun = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start" and _is_problem(message):
            self._start = message
        elif self._start is None:
            self.has_begun = True
            await self._send(message)
        elif message["type"] == "http.response.body":
            self._body += message.get("body", b"")
            if not message.get("more_body"):
                self.problem = self._parse_problem(self._start)

    def _parse_problem(self, start: Message) -> tuple[HTTPStatus, str, Mapping[str, str]]:
        headers = Headers(raw=start["headers"])
        problem_headers = {name: headers[name] for name in _COPIED_HEADERS if name in headers}
        return HTTPStatus(start["status"]), json.loads(self._body)["detail"], problem_headers


def _is_problem(start: Message) -> bool:
    content_type = Headers(raw=start["headers"]).get("content-type", "")
    return content_type.partition(";")[0] == MEDIA_TYPE


MIN_BYTES: Final = 1_000
LEVEL: Final = 5
"""Higher levels take longer to compress than they save in sending."""


class CompressionMiddleware:
    """Middleware that compresses responses of the web UI only.

    The length of a compressed response can reveal whether text that an attacker injected also
    occurs in a secret (BREACH). So sign-in pages and responses to forms, one of which shows a new
    token, are not compressed. The pages contain no CSRF tokens, because
    `services.api.http.guards` checks the origin. Event streams belong to the API and are not
    compressed either, because that would delay events.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._uncompressed = app
        self._compressed = GZipMiddleware(app, minimum_size=MIN_BYTES, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_compressible = (
            scope["type"] == "http"
            and scope["method"] in ("GET", "HEAD")
            and not is_for_programs(scope["path"])
            and not scope["path"].startswith(SIGN_IN)
        )
        app = self._compressed if is_compressible else self._uncompressed
        await app(scope, receive, send)
