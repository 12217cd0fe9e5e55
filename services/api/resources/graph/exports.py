"""Exports of a graph. Each holds a transaction while it streams, so only a few run at once."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from enum import StrEnum
from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Send

from services.api.auth.dependencies import OwnedAgentSnapshot
from shared.database.engine import Database
from shared.errors import TransientError
from shared.graph.scope import GraphScope
from shared.graph.transfer import exporter, graphml, prov
from shared.graph.transfer.exporter import GraphContent

router: Final = APIRouter(tags=["export"])

CHUNK_BYTES: Final = 64 * 1024
MAX_RUNNING: Final = 2
"""The limit of one API process, so that connections remain for other requests."""


class Format(StrEnum):
    JSONL = "jsonl"
    GRAPHML = "graphml"
    PROV = "prov"


FormatWriter = Callable[[GraphContent], AsyncIterator[bytes]]

WRITERS: Final[dict[Format, FormatWriter]] = {
    Format.JSONL: exporter.export_json_lines,
    Format.GRAPHML: graphml.export_graphml,
    Format.PROV: prov.export_prov,
}
MEDIA_TYPE: Final = {
    Format.JSONL: "application/x-ndjson",
    Format.GRAPHML: "application/graphml+xml",
    Format.PROV: "application/ld+json",
}


class Exports:
    """Counts the running exports of one API process."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._running = 0

    def of(self, scope: GraphScope, export_format: Format) -> "ExportResponse":
        """Starts an export. Raises TransientError where the limit is reached.

        Clients that read too slowly are disconnected: PostgreSQL ends a transaction that idles.
        """
        if self._running >= MAX_RUNNING:
            raise TransientError(
                f"{self._running} exports are already running, which is the maximum"
            )
        headers = {
            "Content-Disposition": f'attachment; filename="vigil-{scope.agent_id}.{export_format}"',
            "Cache-Control": "no-store",
        }
        pieces = self._pieces(scope, export_format)
        return ExportResponse(pieces, headers=headers, media_type=MEDIA_TYPE[export_format])

    async def _pieces(self, scope: GraphScope, export_format: Format) -> AsyncIterator[bytes]:
        self._running += 1
        try:
            async with self._database.snapshot() as session:
                async for chunk in _chunks(WRITERS[export_format](GraphContent(session, scope))):
                    yield chunk
        finally:
            self._running -= 1


class ExportResponse(StreamingResponse):
    """Ends its transaction as soon as the client is gone."""

    async def stream_response(self, send: Send) -> None:
        async with aclosing(self.body_iterator):  # type: ignore[type-var]  # a generator, from `Exports`
            await super().stream_response(send)


async def _chunks(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    buffer = bytearray()
    async for piece in pieces:
        buffer += piece
        if len(buffer) >= CHUNK_BYTES:
            yield bytes(buffer)
            buffer.clear()
    yield bytes(buffer)


EXPORT: Final[dict[int | str, dict[str, Any]]] = {
    int(HTTPStatus.OK): {
        "description": "A consistent snapshot, in one stream. An incomplete stream lacks its last line.",
        "content": {media_type: {"schema": {}} for media_type in MEDIA_TYPE.values()},
    }
}


@router.get("/agents/{agent}/export", response_class=ExportResponse, responses=EXPORT)
async def export(
    request: Request,
    access: OwnedAgentSnapshot,
    body: Annotated[
        Format,
        Query(
            alias="format",
            description="`jsonl`: what `vigil import` reads; `graphml`: the graph for other tools; `prov`: PROV-O, JSON-LD",
        ),
    ] = Format.JSONL,
) -> Response:
    """Types, pages with their texts, nodes, edges, conclusions, and which quote of which page supports which of them."""
    exports: Exports = request.app.state.exports
    return exports.of(access.scope, body)
