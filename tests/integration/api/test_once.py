"""A create that is asked for twice makes one."""

import asyncio
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select, text

from shared.database.engine import Database
from shared.database.tables import IdempotencyKey
from shared.runtime.settings import Settings
from tests.support.api.asking import MISSION, assert_problem, client_of


async def make(api: httpx.AsyncClient, key: str = "a1b2", **wanted: Any) -> httpx.Response:
    return await api.post(
        "/agents", json={"mission": MISSION, **wanted}, headers={"idempotency-key": key}
    )


async def count(api: httpx.AsyncClient) -> int:
    return len((await api.get("/agents")).json()["items"])


async def kept(database: Database) -> int:
    async with database.transaction() as session:
        return await session.scalar(select(func.count()).select_from(IdempotencyKey)) or 0


async def test_asked_twice_it_is_made_once_and_answered_alike(api: httpx.AsyncClient) -> None:
    first = await make(api)
    await api.patch(f"/agents/{first.json()['id']}", json={"name": "Renamed"})
    again = await make(api)
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["content-type"] == first.headers["content-type"]
    assert ("idempotency-replayed" in first.headers, again.headers["idempotency-replayed"]) == (
        False,
        "true",
    )
    assert await count(api) == 1
    assert (await make(api, key="other")).json()["id"] != first.json()["id"]


async def test_another_request_with_the_same_key_is_refused(api: httpx.AsyncClient) -> None:
    await make(api)
    assert_problem(await make(api, name="Other"), 422, "another request", "new one")
    assert await count(api) == 1


async def test_what_was_refused_may_be_asked_for_again(
    api: httpx.AsyncClient, database: Database
) -> None:
    await make(api, key="first", name="Lithium")
    assert_problem(await make(api, name="lithium"), 409, "another name")
    assert await kept(database) == 1
    await api.delete("/agents/lithium")
    assert (await make(api, name="lithium")).status_code == 201


async def test_many_at_once_make_one(api: httpx.AsyncClient) -> None:
    """Each is answered with what was made, or told that another is at it."""
    await count(api)
    answers = await asyncio.gather(*(make(api) for _ in range(20)))
    made = {answer.content for answer in answers if answer.status_code == 201}
    assert len(made) == 1
    for answer in answers:
        if answer.status_code != 201:
            assert_problem(answer, 409, "at it", "again")
    assert await count(api) == 1
    assert (await make(api)).content in made


async def test_while_one_is_at_it_another_is_told_to_wait(
    api: httpx.AsyncClient, database: Database
) -> None:
    await count(api)
    async with database.transaction() as session:
        await session.execute(
            text(
                "select pg_advisory_xact_lock(hashtextextended('idempotency ' || id || ' a1b2', 0))"
                " from users"
            )
        )
        assert_problem(await make(api), 409, "at it")
    assert (await make(api)).status_code == 201


async def test_a_day_later_the_key_is_new_and_old_ones_are_gone(
    api: httpx.AsyncClient, database: Database
) -> None:
    first = await make(api)
    await make(api, key="other")
    async with database.transaction() as session:
        await session.execute(
            text("update idempotency_keys set created_at = now() - interval '25 hours'")
        )
    second = await make(api)
    assert second.json()["id"] != first.json()["id"]
    assert await kept(database) == 1


async def test_a_key_is_its_owners(api: httpx.AsyncClient, database_url: str) -> None:
    first = await make(api)
    async with client_of(Settings(database_url=database_url, owner="stranger")) as other:
        theirs = await make(other)
    assert theirs.status_code == 201
    assert theirs.json()["id"] != first.json()["id"]


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256])
async def test_what_is_no_key_is_refused(api: httpx.AsyncClient, key: str) -> None:
    assert_problem(await make(api, key=key), 422, "Idempotency-Key")
    assert await count(api) == 0


async def asked_twice(api: httpx.AsyncClient, path: str, **wanted: Any) -> list[httpx.Response]:
    key = {"idempotency-key": "a1b2"}
    return [await api.post(path, json=wanted, headers=key) for _ in range(2)]


@pytest.mark.parametrize(
    ("path", "wanted"),
    [
        ("/users", {"name": "ada"}),
        ("/agents/lithium/memories", {"content": "Watch nickel."}),
        ("/agents/lithium/conversation/messages", {"content": "Who buys lithium?"}),
    ],
)
async def test_everything_that_is_made_is_made_once(
    api: httpx.AsyncClient, path: str, wanted: dict[str, str]
) -> None:
    await make(api, key="agent", name="Lithium")
    first, again = await asked_twice(api, path, **wanted)
    assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
    assert again.headers["idempotency-replayed"] == "true"
    if path != "/users":
        listed = (await api.get(path)).json()["items"]
        assert len(listed) == (2 if path.endswith("messages") else 1), "a question has its answer"


@pytest.mark.parametrize(
    ("path", "wanted", "secret"),
    [
        ("/tokens", {"name": "spare"}, "token"),
        (
            "/destinations",
            {"kind": "webhook", "address": "https://hooks.example.org/vigil"},
            "secret",
        ),
    ],
)
async def test_a_secret_is_shown_once_and_kept_nowhere(
    api: httpx.AsyncClient,
    database: Database,
    path: str,
    wanted: dict[str, str],
    secret: str,
) -> None:
    before = len((await api.get(path)).json()["items"])
    first, again = await asked_twice(api, path, **wanted)
    assert (first.status_code, first.headers["cache-control"]) == (201, "no-store")
    assert first.json()[secret]
    assert_problem(again, 409, "made already", "delete it")
    assert len((await api.get(path)).json()["items"]) == before + 1
    async with database.transaction() as session:
        assert (await session.scalars(select(IdempotencyKey.body))).all() == [None]


async def test_a_mail_address_has_no_secret(database_url: str) -> None:
    settings = Settings(
        database_url=database_url, smtp_url="smtp://127.0.0.1:1", mail_from="vigil@example.org"
    )
    async with client_of(settings) as api:
        wanted = {"kind": "mail", "address": "you@example.org"}
        first, again = await asked_twice(api, "/destinations", **wanted)
    assert (first.status_code, again.content) == (201, first.content)
