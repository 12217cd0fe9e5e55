"""Replies with status 200: sent in pieces, paced, stalled or cut off."""

import asyncio
from dataclasses import dataclass
from typing import Self

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sandbox.http.endpoint import EVENT_STREAM, Reply


@dataclass(frozen=True, slots=True)
class SendOptions:
    """How a reply is sent. If `is_cut_off`, the connection closes after half of it."""

    is_cut_off: bool = False
    pace_seconds: float = 0.0
    """Delay before each piece of a stream except the first."""
    stall_seconds: float = 0.0
    """Pause in the middle of a stream."""


class PiecesResponse(Response):
    """A response that sends a reply in pieces."""

    def __init__(self, reply: Reply, sending: SendOptions) -> None:
        super().__init__(media_type=reply.media_type)
        self._reply = reply
        self._sending = sending
        self._is_streamed = reply.media_type == EVENT_STREAM
        if self._is_streamed:
            del self.headers["content-length"]
        else:
            self.headers["content-length"] = str(sum(map(len, reply.pieces)))

    def replay(self) -> Self:
        """The same response for another request, without faults."""
        return type(self)(self._reply, SendOptions())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the reply. An unfinished response makes the server close the connection: that is the cut-off."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        if self._sending.is_cut_off:
            body = b"".join(self._reply.pieces)
            await send(_body(body[: len(body) // 2], more=True))
            return
        for place, piece in enumerate(self._reply.pieces):
            if self._is_streamed:
                await asyncio.sleep(self._wait_seconds_before(place))
            await send(_body(piece, more=True))
        await send(_body(b"", more=False))

    def _wait_seconds_before(self, place: int) -> float:
        stalled = place == len(self._reply.pieces) // 2
        pace_seconds = self._sending.pace_seconds if place else 0.0
        return pace_seconds + (self._sending.stall_seconds if stalled else 0.0)


def _body(piece: bytes, *, more: bool) -> dict[str, object]:
    return {"type": "http.response.body", "body": piece, "more_body": more}
