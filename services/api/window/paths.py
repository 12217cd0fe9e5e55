"""Which addresses are the window's."""

from typing import Final

ASSETS: Final = "/assets"
SIGN_IN: Final = "/sign-in"
HOME: Final = "/agents"
_PROGRAMS: Final = ("/api/", "/health/", "/metrics")


def is_page(path: str) -> bool:
    """Whether people come there by a browser; all else is for programs, which are answered in JSON."""
    return not path.startswith((*_PROGRAMS, f"{ASSETS}/"))


def is_open(path: str) -> bool:
    """Whether it is answered to whoever asks."""
    return path == SIGN_IN or path.startswith(f"{ASSETS}/")
