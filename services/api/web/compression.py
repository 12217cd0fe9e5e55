"""Compresses pages: a long list shrinks to a tenth."""

from typing import Final

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from services.api.paths import SIGN_IN, is_for_programs

MIN_BYTES: Final = 1_000
LEVEL: Final = 5
"""Higher levels take longer to compress than they save in sending."""
_SAFE: Final = ("GET", "HEAD")


class CompressionMiddleware:
    """Middleware that compresses responses of the web UI only.

    The length of a compressed response can reveal whether text that an attacker injected also
    occurs in a secret (BREACH). So sign-in pages and responses to forms, one of which shows a new
    token, are not compressed. The pages contain no CSRF tokens, because
    `services.api.http.host_guard` checks the origin. Event streams belong to the API and are not
    compressed either, because that would delay events.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._uncompressed = app
        self._compressed = GZipMiddleware(app, minimum_size=MIN_BYTES, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._compressed if _is_compressible(scope) else self._uncompressed
        await app(scope, receive, send)


def _is_compressible(scope: Scope) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] in _SAFE
        and not is_for_programs(scope["path"])
        and not scope["path"].startswith(SIGN_IN)
    )
