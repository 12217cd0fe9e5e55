"""The pages behind a sign-in link: no script, nothing loaded, nothing in them that came from the request."""

from http import HTTPStatus
from typing import Final

from starlette.responses import HTMLResponse

HEADERS: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": (
        "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
    ),
    # Not no-referrer, by which browsers would say of the form that it comes from nowhere.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Vigil</title></head>
<body><main><h1>Vigil</h1>
{}
</main></body>
</html>
"""


def ask() -> HTMLResponse:
    """Its button uses the link up. Mail scanners open what they find in mails, but they press no buttons."""
    return _page('<form method="post"><button autofocus>Sign in</button></form>')


def signed_in() -> HTMLResponse:
    return _page("<p>You are signed in. You can close this page.</p>")


def refused() -> HTMLResponse:
    return _page(
        "<p>This link has been used or has expired. Ask for another one.</p>", HTTPStatus.GONE
    )


def _page(body: str, status: HTTPStatus = HTTPStatus.OK) -> HTMLResponse:
    return HTMLResponse(_PAGE.format(body), status, headers=HEADERS)
