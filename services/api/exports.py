"""Graphs on their way out: streamed, a few at a time, for each holds a transaction as long as it goes on."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from enum import StrEnum
from typing import Final

from starlette.responses import StreamingResponse
from starlette.types import Send

from shared.database.engine import Database
from shared.errors import TransientError
from shared.graph.scope import Scope
from shared.graph.transfer import exporter, graphml, prov
from shared.graph.transfer.exporter import Content

CHUNK_BYTES: Final = 64 * 1024
MOST_AT_ONCE: Final = 2
"""Of one api process, so that connections are left for everybody else."""


class Format(StrEnum):
    JSONL = "jsonl"
    GRAPHML = "graphml"
    PROV = "prov"


Written = Callable[[Content], AsyncIterator[bytes]]

WRITTEN: Final[dict[Format, Written]] = {
    Format.JSONL: exporter.written,
    Format.GRAPHML: graphml.written,
    Format.PROV: prov.written,
}
MEDIA_TYPE: Final = {
    Format.JSONL: "application/x-ndjson",
    Format.GRAPHML: "application/graphml+xml",
    Format.PROV: "application/ld+json",
}


class Exports:
    """All of one api process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._running = 0

    def of(self, scope: Scope, wanted: Format) -> "ExportResponse":
        """Raises TransientError where as many go on as may.

        Who reads too slowly is cut off: PostgreSQL ends a transaction that stands still.
        """
        if self._running >= MOST_AT_ONCE:
            raise TransientError(f"{self._running} exports go on already, which is as many as may")
        headers = {
            "Content-Disposition": f'attachment; filename="vigil-{scope.agent_id}.{wanted}"',
            "Cache-Control": "no-store",
        }
        pieces = self._pieces(scope, wanted)
        return ExportResponse(pieces, headers=headers, media_type=MEDIA_TYPE[wanted])

    async def _pieces(self, scope: Scope, wanted: Format) -> AsyncIterator[bytes]:
        self._running += 1
        try:
            async with self._database.snapshot() as session:
                async for chunk in _chunks(WRITTEN[wanted](Content(session, scope))):
                    yield chunk
        finally:
            self._running -= 1


class ExportResponse(StreamingResponse):
    """Ends its transaction as soon as nobody reads any more."""

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self.body_iterator):  # type: ignore[type-var]  # a generator, from `Exports`
            await super().stream_response(send)


async def _chunks(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    waiting = bytearray()
    async for piece in pieces:
        waiting += piece
        if len(waiting) >= CHUNK_BYTES:
            yield bytes(waiting)
            waiting.clear()
    yield bytes(waiting)
