"""Keeps web pages of others away: without a sign-in, a browser on this machine must not be their way in."""

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from services.api.problems import problem

_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


class Guard:
    """Refuses requests that come from another site's page, and names of this machine that such a page invented."""

    def __init__(self, app: ASGIApp, host: str) -> None:
        """`host` is the address that is listened on; on a loopback address only loopback names are answered to."""
        self._app = app
        self._loopback_only = host in _LOOPBACK

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and (wrong := self._wrong(Headers(scope=scope))):
            await problem(403, "foreign-page", wrong)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _wrong(self, headers: Headers) -> str | None:
        host = headers.get("host", "")
        if self._loopback_only and urlsplit(f"//{host}").hostname not in _LOOPBACK:
            return f"This api answers to localhost only, not to {host!r}."
        origin = headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != host:
            return f"Pages of {origin} may not use this api."
        return None
