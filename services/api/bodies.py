"""What may stand in a request, so that nothing behind it has to be surprised.

A body is no longer than `VIGIL_MAX_BODY_BYTES`, counted while it arrives, whatever its Content-Length says; the head is
held to 64 KiB by the server. What is in them is JSON, of a sane depth, in characters that Postgres can store.
"""

from collections.abc import Iterator
from http import HTTPStatus
from typing import Any, Final

from fastapi import Request
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from services.api.problems import ProblemError, problem

DEEPEST: Final = 64
LONGEST_LENGTH: Final = 18
"""Digits of a Content-Length; a longer one is too much without being read."""
JSON: Final = "application/json"
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})


class BodyLimit:
    """Refuses a longer body: before it is sent where it says how long it is, else where it becomes too long."""

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        length = Headers(scope=scope).get("content-length", "")
        if length.isdecimal() and (len(length) > LONGEST_LENGTH or int(length) > self._max_bytes):
            told = f"The body is longer than the {self._max_bytes:,} bytes that this api takes."
            refusal = problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, None, told)
            await refusal(scope, receive, send)
            return
        await self._app(scope, self._counted(receive), send)

    def _counted(self, receive: Receive) -> Receive:
        arrived_bytes = 0

        async def counted() -> Message:
            nonlocal arrived_bytes
            message = await receive()
            arrived_bytes += len(message.get("body", b""))
            if arrived_bytes > self._max_bytes:
                # FastAPI lets this through from where it reads the body, and nothing else.
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return message

        return counted


async def readable(request: Request) -> None:
    """For every route of the api. Raises ProblemError where the request holds what cannot be read or stored."""
    if not _storable(request.url.path) or "%00" in request.url.query:
        raise _refused(
            HTTPStatus.BAD_REQUEST, "The address holds the character NUL, which names nothing here."
        )
    if request.method in _WITH_BODY and await request.body():
        _refuse_other_media(request)
        try:
            body = await request.json()
        except (ValueError, RecursionError) as error:
            raise _refused(HTTPStatus.BAD_REQUEST, f"The body is no JSON: {error}.") from error
        _refuse_unstorable(body)


def _refuse_other_media(request: Request) -> None:
    given = request.headers.get("content-type", "")
    media_type = given.partition(";")[0].strip().lower()
    if media_type != JSON and not (
        media_type.startswith("application/") and media_type.endswith("+json")
    ):
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "no-json",
            f"The body is declared as {given!r}: send JSON, with Content-Type: {JSON}.",
        )


def _refuse_unstorable(body: Any) -> None:
    for value, depth in _inside(body):
        if depth > DEEPEST:
            raise _refused(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"The body is nested more than {DEEPEST} deep: send it flatter.",
            )
        if isinstance(value, str) and not _storable(value):
            raise _refused(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                "The body holds the character NUL or half of a surrogate pair, which cannot be stored: leave it out.",
            )


def _inside(body: Any) -> Iterator[tuple[Any, int]]:
    """Every value and key with its depth; without recursion, for the depth is what is in question."""
    waiting = [(body, 1)]
    while waiting:
        value, depth = waiting.pop()
        yield value, depth
        if isinstance(value, dict):
            waiting += ((each, depth + 1) for pair in value.items() for each in pair)
        elif isinstance(value, list):
            waiting += ((each, depth + 1) for each in value)


def _storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\x00" not in text


def _refused(status: HTTPStatus, told: str) -> ProblemError:
    return ProblemError(status, "unreadable", told)
