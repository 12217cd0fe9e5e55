"""Where the api answers, as far as more than its routes must know."""

from typing import Final

from services.api.window import paths as window

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
    return path in OPEN_PATHS or window.is_open(path)
