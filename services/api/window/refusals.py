"""What people see instead of a page: that they must sign in, or what went wrong and what to do."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import RedirectResponse, Response
from starlette.types import Scope

from services.api.window.paths import SIGN_IN
from services.api.window.rendering import Pages

_TITLES: Final[Mapping[int, str]] = {
    HTTPStatus.NOT_FOUND: "Nothing is here",
    HTTPStatus.FORBIDDEN: "You may not do this",
    HTTPStatus.CONFLICT: "This cannot be done now",
    HTTPStatus.UNPROCESSABLE_ENTITY: "Something is not as it must be",
    HTTPStatus.TOO_MANY_REQUESTS: "Too often",
    HTTPStatus.SERVICE_UNAVAILABLE: "Vigil is not all there",
    HTTPStatus.INTERNAL_SERVER_ERROR: "Vigil broke over this",
}


def refusal(pages: Pages, scope: Scope, status: HTTPStatus, detail: str) -> Response:
    """In place of the page that `scope` asks for; of a part of a page it is the sentence alone."""
    headers = Headers(scope=scope)
    is_part = headers.get("hx-request") == "true"
    if status == HTTPStatus.UNAUTHORIZED:
        if is_part:
            return Response(status_code=HTTPStatus.NO_CONTENT, headers={"HX-Redirect": SIGN_IN})
        return RedirectResponse(SIGN_IN, HTTPStatus.SEE_OTHER)
    context = {
        "status": int(status),
        "title": _TITLES.get(status, status.phrase),
        "detail": detail,
        "path": scope["path"],
    }
    template = "refused_part.html" if is_part else "refused.html"
    return pages.answer(template, context, status=status)
