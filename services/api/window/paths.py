"""Which addresses are the window's."""

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


def is_open(path: str) -> bool:
    """Whether it is answered to whoever asks."""
    return path == SIGN_IN or path.startswith(f"{ASSETS}/")
