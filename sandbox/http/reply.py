"""What is sent back."""

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from typing import Self

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from sandbox.http.call import RefusedError


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with status 200, in the pieces it is sent in."""

    pieces: tuple[bytes, ...]
    media_type: str = "application/json"
    usd: Decimal = Decimal(0)
    """What it is billed at."""

    @property
    def streamed(self) -> bool:
        """Whether the client reads it piece by piece."""
        return self.media_type == "text/event-stream"


@dataclass(frozen=True, slots=True)
class Sending:
    """How a reply's pieces are sent. When cut, the connection closes after half of it."""

    cut: bool = False
    pace_seconds: float = 0.0
    """Waited before each further piece of what is streamed."""
    stall_seconds: float = 0.0
    """Waited in the middle of what is streamed."""


class PiecesResponse(Response):
    """A reply sent piece by piece."""

    def __init__(self, reply: Reply, sending: Sending) -> None:
        super().__init__(media_type=reply.media_type)
        self._reply = reply
        self._sending = sending
        if reply.streamed:
            del self.headers["content-length"]
        else:
            self.headers["content-length"] = str(sum(map(len, reply.pieces)))

    def again(self) -> Self:
        """The same for another request, and whole."""
        return type(self)(self._reply, Sending())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Leaving a response unfinished makes the server close the connection: that is the cut."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        if self._sending.cut:
            whole = b"".join(self._reply.pieces)
            await send(_body(whole[: len(whole) // 2], more=True))
            return
        for place, piece in enumerate(self._reply.pieces):
            if self._reply.streamed:
                await asyncio.sleep(self._wait_seconds_before(place))
            await send(_body(piece, more=True))
        await send(_body(b"", more=False))

    def _wait_seconds_before(self, place: int) -> float:
        stalled = place == len(self._reply.pieces) // 2
        pace_seconds = self._sending.pace_seconds if place else 0.0
        return pace_seconds + (self._sending.stall_seconds if stalled else 0.0)


def _body(piece: bytes, *, more: bool) -> dict[str, object]:
    return {"type": "http.response.body", "body": piece, "more_body": more}


def refusal(error: RefusedError) -> Response:
    """The error as it is answered."""
    return JSONResponse(dict(error.body), error.status, dict(error.headers))
