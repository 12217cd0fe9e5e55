"""Where the api answers, as far as more than its routes must know."""

from typing import Final

PREFIX: Final = "/api/v1"
OPEN_PATHS: Final = (
    "/health/live",
    "/health/ready",
    f"{PREFIX}/about",
    f"{PREFIX}/openapi.json",
    f"{PREFIX}/sign-in",
    f"{PREFIX}/sign-in/link",
)
"""All that is answered to whoever asks."""
