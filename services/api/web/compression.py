"""Pages are sent compressed: a long list is a tenth of itself then."""

from typing import Final

from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from services.api.paths import SIGN_IN, is_of_programs

SMALLEST_BYTES: Final = 1_000
LEVEL: Final = 5
"""What more there is to gain takes longer to make than to send."""
_SAFE: Final = ("GET", "HEAD")


class Smaller:
    """Around the window's pages alone.

    What is compressed tells by its length whether what somebody has had put into it stands in it twice (BREACH), so no
    secret may stand there: pages that lead in by one and answers to forms, of which one shows a new token, are sent as
    they are. The pages need no token against forged forms: `services.api.http.host_guard` refuses those by their origin.
    Streams of events are the api's, and not compressed either: what is told would be kept back.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._as_it_is = app
        self._smaller = GZipMiddleware(app, minimum_size=SMALLEST_BYTES, compresslevel=LEVEL)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._smaller if _may_be_smaller(scope) else self._as_it_is
        await app(scope, receive, send)


def _may_be_smaller(scope: Scope) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] in _SAFE
        and not is_of_programs(scope["path"])
        and not scope["path"].startswith(SIGN_IN)
    )
