"""How the api says no."""

import httpx

from cli.local.postgres import EmbeddedPostgres
from shared.runtime.settings import Settings
from tests.support.api.asking import assert_problem, client_of
from tests.support.api.away import NOBODY_LISTENS


async def test_without_postgres_it_lives_is_not_ready_and_says_why() -> None:
    async with client_of(Settings(database_url=NOBODY_LISTENS)) as api:
        assert (await api.get("http://127.0.0.1/health/live")).status_code == 200
        ready = await api.get("http://127.0.0.1/health/ready")
        assert (ready.status_code, "PostgreSQL" in ready.json()["reason"]) == (503, True)
        answer = await api.get("/agents")
        assert_problem(answer, 503, "PostgreSQL")
        assert answer.headers["retry-after"]


async def test_without_tables_it_says_how_to_get_them(postgres: EmbeddedPostgres) -> None:
    async with client_of(Settings(database_url=postgres.dsn)) as api:
        assert_problem(await api.get("/agents"), 503, "vigil migrate")


async def test_every_error_is_a_problem(api: httpx.AsyncClient) -> None:
    assert_problem(await api.get("/nothing"), 404)
    assert_problem(await api.put("/agents"), 405)
    assert_problem(await api.get("/iterations/seven"), 422, "iteration_id")
    as_json = {"content-type": "application/json"}
    assert_problem(await api.post("/agents", content=b"{", headers=as_json), 422)


async def test_pages_of_others_are_kept_away(api: httpx.AsyncClient) -> None:
    """A page that a browser on this machine shows can reach loopback; it must not get in."""
    foreign = {"origin": "https://elsewhere.example"}
    assert_problem(await api.post("/agents/x/run", headers=foreign), 403, "elsewhere.example")
    rebound = {"host": "rebound.example"}
    assert_problem(await api.get("/agents", headers=rebound), 403, "rebound.example")
    own = {"origin": "http://127.0.0.1"}
    assert (await api.get("/agents", headers=own)).status_code == 200
