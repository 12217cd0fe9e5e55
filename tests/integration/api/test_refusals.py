"""Error responses of the API."""

import httpx

from cli.local.postgres import EmbeddedPostgres
from shared.runtime.settings import Settings
from tests.support.api.clients import assert_problem, create_client


async def test_without_postgres_the_api_is_alive_but_not_ready_and_says_why(
    unreachable_database_url: str,
) -> None:
    async with create_client(Settings(database_url=unreachable_database_url)) as api:
        assert (await api.get("http://127.0.0.1/health/live")).status_code == 200
        readiness = await api.get("http://127.0.0.1/health/ready")
        assert (readiness.status_code, "PostgreSQL" in readiness.json()["reason"]) == (503, True)
        response = await api.get("/agents")
        assert_problem(response, 503, "PostgreSQL")
        assert response.headers["retry-after"]


async def test_without_tables_the_api_says_how_to_create_them(postgres: EmbeddedPostgres) -> None:
    async with create_client(Settings(database_url=postgres.dsn)) as api:
        assert_problem(await api.get("/agents"), 503, "vigil migrate")


async def test_every_error_is_a_problem_response(api: httpx.AsyncClient) -> None:
    assert_problem(await api.get("/nothing"), 404)
    assert_problem(await api.put("/agents"), 405)
    assert_problem(await api.get("/iterations/seven"), 422, "iteration_id")
    as_json = {"content-type": "application/json"}
    assert_problem(await api.post("/agents", content=b"{", headers=as_json), 422)
