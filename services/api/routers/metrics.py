"""Figures for who looks after the installation, in Prometheus' format."""

from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from services.api.auth.dependencies import Called
from services.api.auth.middleware import demand
from services.api.http.metrics import Metrics
from shared.database.engine import Database
from shared.enums import AccessScope
from shared.errors import TransientError
from shared.runtime.logging import logger

_TEXT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/plain": {"schema": {"type": "string"}}}}
}

log = logger(__name__)


def for_operators(caller: Called) -> None:
    demand(caller, AccessScope.OPERATOR)


router = APIRouter(tags=["metrics"], dependencies=[Depends(for_operators)])


@router.get("/metrics", response_class=Response, responses=_TEXT)
async def metrics(request: Request) -> Response:
    """Requests, durations, connections, and what is open in the installation at this moment."""
    of_api: Metrics = request.app.state.metrics
    database: Database = request.app.state.database
    of_api.tell_pool(database.pool_use())
    try:
        await of_api.look(database)
    except TransientError as error:
        # The figures of the api itself are wanted most just then; `vigil_database_up` tells.
        log.warning("metrics without Postgres", reason=str(error))
    return Response(of_api.text(), media_type=CONTENT_TYPE_LATEST)
