"""The export of an agent's graph."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from services.api.auth.dependencies import OwnedAgentSnapshot
from services.api.exports import MEDIA_TYPE, ExportResponse, Exports, Format

router = APIRouter(tags=["export"])

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
