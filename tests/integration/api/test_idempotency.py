"""A repeated create request with one idempotency key creates one resource."""

import asyncio
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, text

from shared.database.engine import Database
from shared.database.tables import IdempotencyKey
from shared.runtime.settings import Settings
from tests.support.api.clients import MISSION, assert_problem, create_client
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


async def create_agent(api: httpx.AsyncClient, key: str = "a1b2", **params: Any) -> httpx.Response:
    return await api.post(
        "/agents", json={"mission": MISSION, **params}, headers={"idempotency-key": key}
    )


async def count_agents(api: httpx.AsyncClient) -> int:
    return len((await api.get("/agents")).json()["items"])


async def count_stored_keys(database: Database) -> int:
    async with database.transaction() as session:
        return await session.scalar(select(func.count()).select_from(IdempotencyKey)) or 0


async def test_a_repeated_request_gets_the_stored_response(api: httpx.AsyncClient) -> None:
    first = await create_agent(api)
    await api.patch(f"/agents/{first.json()['id']}", json={"name": "Renamed"})
    second = await create_agent(api)
    assert (second.status_code, second.content) == (201, first.content)
    assert second.headers["content-type"] == first.headers["content-type"]
    assert ("idempotency-replayed" in first.headers, second.headers["idempotency-replayed"]) == (
        False,
        "true",
    )
    assert await count_agents(api) == 1
    assert (await create_agent(api, key="other")).json()["id"] != first.json()["id"]


async def test_another_request_with_the_same_key_is_rejected(api: httpx.AsyncClient) -> None:
    await create_agent(api)
    assert_problem(await create_agent(api, name="Other"), 422, "a different request", "a new key")
    assert await count_agents(api) == 1


async def test_a_rejected_request_may_be_repeated(
    api: httpx.AsyncClient, database: Database
) -> None:
    await create_agent(api, key="first", name="Lithium")
    assert_problem(await create_agent(api, name="lithium"), 409, "another name")
    assert await count_stored_keys(database) == 1
    await api.delete("/agents/lithium")
    assert (await create_agent(api, name="lithium")).status_code == 201


async def test_concurrent_requests_create_one_agent(api: httpx.AsyncClient) -> None:
    """Each response has the created agent or says that another request is in progress."""
    await count_agents(api)
    responses = await asyncio.gather(*(create_agent(api) for _ in range(20)))
    created = {response.content for response in responses if response.status_code == 201}
    assert len(created) == 1
    for response in responses:
        if response.status_code != 201:
            assert_problem(response, 409, "in progress", "again")
    assert await count_agents(api) == 1
    assert (await create_agent(api)).content in created


async def test_a_request_is_rejected_while_the_first_is_in_progress(
    api: httpx.AsyncClient, database: Database
) -> None:
    await count_agents(api)
    async with database.transaction() as session:
        await session.execute(
            text(
                "select pg_advisory_xact_lock(hashtextextended('idempotency ' || id || ' a1b2', 0))"
                " from users"
            )
        )
        assert_problem(await create_agent(api), 409, "in progress")
    assert (await create_agent(api)).status_code == 201


async def test_a_key_expires_after_a_day_and_expired_keys_are_deleted(
    api: httpx.AsyncClient, database: Database
) -> None:
    first = await create_agent(api)
    await create_agent(api, key="other")
    async with database.transaction() as session:
        await session.execute(
            text("update idempotency_keys set created_at = now() - interval '25 hours'")
        )
    second = await create_agent(api)
    assert second.json()["id"] != first.json()["id"]
    assert await count_stored_keys(database) == 1


async def test_keys_are_separate_for_each_owner(api: httpx.AsyncClient, database_url: str) -> None:
    first = await create_agent(api)
    async with create_client(Settings(database_url=database_url, owner="stranger")) as other:
        foreign = await create_agent(other)
    assert foreign.status_code == 201
    assert foreign.json()["id"] != first.json()["id"]


INVALID_KEYS = ["", " ", "a b", "x" * 256]


async def test_an_invalid_key_is_rejected(
    api: httpx.AsyncClient, subtests: pytest.Subtests
) -> None:
    for key in INVALID_KEYS:
        with subtests.test(key):
            assert_problem(await create_agent(api, key=key), 422, "Idempotency-Key")
            assert await count_agents(api) == 0


async def post_twice(api: httpx.AsyncClient, path: str, **body: Any) -> list[httpx.Response]:
    headers = {"idempotency-key": "a1b2"}
    return [await api.post(path, json=body, headers=headers) for _ in range(2)]


@pytest.mark.parametrize(("path", "body"), CASES["a_repeated_create_returns_the_first_response"])
async def test_a_repeated_create_returns_the_first_response(
    api: httpx.AsyncClient, path: str, body: dict[str, str]
) -> None:
    await create_agent(api, key="agent", name="Lithium")
    first, second = await post_twice(api, path, **body)
    assert (first.status_code, second.status_code, second.content) == (201, 201, first.content)
    assert second.headers["idempotency-replayed"] == "true"
    if path != "/users":
        items = (await api.get(path)).json()["items"]
        assert len(items) == (2 if path.endswith("messages") else 1), "the question and its answer"


@pytest.mark.parametrize(
    ("path", "body", "secret"), CASES["a_secret_is_returned_once_and_not_stored"]
)
async def test_a_secret_is_returned_once_and_not_stored(
    api: httpx.AsyncClient,
    database: Database,
    path: str,
    body: dict[str, str],
    secret: str,
) -> None:
    before = len((await api.get(path)).json()["items"])
    first, second = await post_twice(api, path, **body)
    assert (first.status_code, first.headers["cache-control"]) == (201, "no-store")
    assert first.json()[secret]
    assert_problem(second, 409, "already created", "delete it")
    assert len((await api.get(path)).json()["items"]) == before + 1
    async with database.transaction() as session:
        assert (await session.scalars(select(IdempotencyKey.body))).all() == [None]


async def test_a_mail_address_has_no_secret(database_url: str) -> None:
    settings = Settings(
        database_url=database_url, smtp_url="smtp://127.0.0.1:1", mail_from="vigil@example.org"
    )
    async with create_client(settings) as api:
        body = {"kind": "mail", "address": "you@example.org"}
        first, second = await post_twice(api, "/destinations", **body)
    assert (first.status_code, second.content) == (201, first.content)
