"""Paths of the API and the web UI that several modules need."""

from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

ASSETS: Final = "/assets"
SIGN_IN: Final = "/sign-in"
PREFIX: Final = "/api/v1"
SIGN_IN_LINK: Final = f"{PREFIX}/sign-in/link"
"""The page behind a sign-in link, at an address of the API."""
HOME: Final = "/agents"
_PROGRAM_PATHS: Final = ("/api/", "/health/", "/metrics")


def is_web_page(scope: Scope) -> bool:
    """Returns whether the response is a web page, or a part of one that a page asks for; all others are JSON."""
    headers = Headers(scope=scope)
    is_asked_for = "text/html" in headers.get("accept", "") or headers.get("hx-request") == "true"
    is_page = scope["path"] == SIGN_IN_LINK or not is_for_programs(scope["path"])
    return is_asked_for and is_page


def is_for_programs(path: str) -> bool:
    """Returns whether `path` belongs to the JSON API or to static files."""
    return path.startswith((*_PROGRAM_PATHS, f"{ASSETS}/"))


PUBLIC_PATHS: Final = (
    "/health/live",
    "/health/ready",
    f"{PREFIX}/about",
    f"{PREFIX}/openapi.json",
    f"{PREFIX}/sign-in",
    SIGN_IN_LINK,
    SIGN_IN,
)
"""All public paths."""


def is_public(path: str) -> bool:
    """Returns whether `path` needs no authentication here.

    The routes at these paths protect themselves.
    """
    return path in PUBLIC_PATHS or path.startswith(f"{ASSETS}/")
