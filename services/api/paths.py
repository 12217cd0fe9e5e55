"""Paths of the API and of the window that more than one module needs."""

from typing import Final

from starlette.datastructures import Headers
from starlette.types import Scope

ASSETS: Final = "/assets"
SIGN_IN: Final = "/sign-in"
HOME: Final = "/agents"
_PROGRAMS: Final = ("/api/", "/health/", "/metrics")


def is_for_people(scope: Scope) -> bool:
    """Whether a browser asks there for something to show; all else is for programs, which are answered in JSON."""
    return not is_of_programs(scope["path"]) and "text/html" in Headers(scope=scope).get(
        "accept", ""
    )


def is_of_programs(path: str) -> bool:
    """Whether no page is there, and nothing that a page is made of but what it loads once."""
    return path.startswith((*_PROGRAMS, f"{ASSETS}/"))


def is_open_page(path: str) -> bool:
    """Whether it is answered to whoever asks."""
    return path == SIGN_IN or path.startswith(f"{ASSETS}/")


PREFIX: Final = "/api/v1"
OPEN_PATHS: Final = (
    "/health/live",
    "/health/ready",
    f"{PREFIX}/about",
    f"{PREFIX}/openapi.json",
    f"{PREFIX}/sign-in",
    f"{PREFIX}/sign-in/link",
)
"""All of it that is answered to whoever asks."""


def is_open(path: str) -> bool:
    """Whether nobody is asked there who he is; written exactly so. What answers there looks after itself."""
    return path in OPEN_PATHS or is_open_page(path)
