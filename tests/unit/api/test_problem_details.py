"""Errors of the database that become answers."""

import httpx
import pytest
from fastapi import FastAPI
from psycopg.errors import ForeignKeyViolation, UniqueViolation
from sqlalchemy.exc import NoResultFound

from services.api.http.problem_details import add_problem_handlers
from shared.errors import DeletedError


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NoResultFound(), 404),
        (DeletedError("agent was deleted"), 404),
        (ForeignKeyViolation(), 404),
        (UniqueViolation(), 500),
    ],
)
async def test_a_row_that_another_request_deleted_is_not_found(
    error: Exception, status: int
) -> None:
    app = FastAPI()
    add_problem_handlers(app)

    @app.get("/")
    async def fail() -> None:
        raise error

    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://vigil") as client:
        answer = await client.get("/")
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert (answer.json()["type"] == "urn:vigil:problem:deleted-meanwhile") == (status == 404)
