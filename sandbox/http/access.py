"""Closes a sandbox to those that lack its key: its corpus may be somebody's own documents."""

from hmac import compare_digest
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from sandbox.http.call import bearer_key

OPEN_TO_ALL: Final = "/health"
REFUSAL: Final = "This sandbox belongs to an installation of Vigil and answers to no other key."


class KeyRequired:
    """Answers 401 to every request without `key`, health checks excepted."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] != OPEN_TO_ALL:
            shown = bearer_key(Request(scope)).encode()
            if not compare_digest(shown, self._key):
                body = {"error": {"message": REFUSAL, "code": "invalid_api_key"}}
                await JSONResponse(body, 401)(scope, receive, send)
                return
        await self._app(scope, receive, send)
