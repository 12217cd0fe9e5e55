"""What is sent back."""

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


class PiecesResponse(Response):
    """A reply sent piece by piece; when cut, the connection closes after half of it."""

    def __init__(self, reply: Reply, *, cut: bool) -> None:
        super().__init__(media_type=reply.media_type)
        self._reply = reply
        self._pieces = reply.pieces
        self._cut = cut
        if reply.streamed:
            del self.headers["content-length"]
        else:
            self.headers["content-length"] = str(sum(map(len, reply.pieces)))

    def again(self) -> Self:
        """The same for another request, and whole."""
        return type(self)(self._reply, cut=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Leaving a response unfinished makes the server close the connection: that is the cut."""
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        whole = b"".join(self._pieces)
        pieces = (whole[: len(whole) // 2],) if self._cut else self._pieces
        for piece in pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        if not self._cut:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def refusal(error: RefusedError) -> Response:
    """The error as it is answered."""
    return JSONResponse(dict(error.body), error.status, dict(error.headers))
