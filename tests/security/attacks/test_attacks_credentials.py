"""However many bad credentials come, valid ones pass, and the database is asked little."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import event
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from services.api.app import build
from services.api.auth.middleware import (
    MAX_ATTEMPTS_PER_CREDENTIAL,
    MAX_BAD_ATTEMPTS,
    ValidityCheck,
)
from shared.accounts import credentials
from shared.accounts.secrets import new_secret, new_token
from shared.agents import agents
from shared.database.engine import Database
from shared.enums import AccessScope
from shared.errors import TransientError
from shared.runtime.settings import Settings
from tests.support.api.asking import assert_problem, stranger_to
from tests.support.api.signed_in import made_token
from tests.support.attacks.pages import OWN_PAGE
from tests.support.attacks.world import from_anywhere

BAD = 3 * MAX_BAD_ATTEMPTS


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[FastAPI]:
    made = build(Settings(database_url=database_url))
    yield made
    await made.state.database.close()


async def token_of(database: Database, user: str = "anna") -> str:
    return await made_token(database, user, [AccessScope.READ])


async def flood(client: httpx.AsyncClient, **headers: str) -> Counter[int]:
    """The answers to bad tokens, each another one."""
    asked = (client.get("/me", headers={**bearer(new_token()), **headers}) for _ in range(BAD))
    return Counter(answer.status_code for answer in await asyncio.gather(*asked))


async def test_a_valid_token_passes_among_bad_ones_of_its_address(
    app: FastAPI, database: Database
) -> None:
    async with from_anywhere(app) as client:
        assert await flood(client) == {401: MAX_BAD_ATTEMPTS, 429: BAD - MAX_BAD_ATTEMPTS}
        refused = await client.get("/me", headers=bearer(new_token()))
        assert_problem(refused, 429, "not known")
        assert 0 < int(refused.headers["retry-after"]) <= 60
        # One that this process has not seen before.
        assert (await client.get("/me", headers=bearer(await token_of(database)))).is_success


async def test_a_valid_link_opens_among_bad_ones_of_its_address(
    app: FastAPI, database: Database
) -> None:
    async with database.transaction() as session:
        made = await credentials.create_link(session, await agents.ensure_user(session, "anna"))
    async with from_anywhere(app, headers=OWN_PAGE) as client:
        answers = [
            (await client.post("/sign-in/link", params={"secret": new_secret()})).status_code
            for _ in range(40)
        ]
        assert set(answers) == {410, 429}
        opened = await client.post("/sign-in/link", params={"secret": made[1]})
        assert opened.status_code == 303


async def test_a_credential_that_becomes_valid_passes_however_often_it_was_refused(
    app: FastAPI, database: Database
) -> None:
    token = await token_of(database)
    async with database.transaction() as session:
        anna = await credentials.find_user(session, "anna")
        assert anna is not None
        await credentials.set_disabled(session, anna.id, disabled=True)
    async with from_anywhere(app, headers=bearer(token)) as client:
        asked = (client.get("/me") for _ in range(2 * MAX_ATTEMPTS_PER_CREDENTIAL))
        answers = [answer.status_code for answer in await asyncio.gather(*asked)]
        assert answers.count(401) == MAX_BAD_ATTEMPTS
        assert answers.count(429) == len(answers) - MAX_BAD_ATTEMPTS
        async with database.transaction() as session:
            await credentials.set_disabled(session, anna.id, disabled=False)
        assert (await client.get("/me")).status_code == 200


async def test_one_bad_credential_is_counted_wherever_it_is_shown(app: FastAPI) -> None:
    token, answers = new_token(), []
    for _ in range(MAX_ATTEMPTS_PER_CREDENTIAL + 1):
        async with from_anywhere(app, headers=bearer(token)) as client:
            answers.append((await client.get("/me")).status_code)
    assert answers == [401] * MAX_ATTEMPTS_PER_CREDENTIAL + [429]


async def test_a_flood_of_bad_credentials_costs_few_queries(
    app: FastAPI, database: Database
) -> None:
    queries = 0
    engine = app.state.database._engine.sync_engine

    @event.listens_for(engine, "before_cursor_execute")
    def count(*_: object) -> None:
        nonlocal queries
        queries += 1

    async with from_anywhere(app, headers=bearer(await token_of(database))) as client:
        assert (await client.get("/me")).is_success
        queries = 0
        await flood(client)
    assert queries < BAD / 10


@pytest.mark.parametrize(
    ("stranger", "owner", "neighbour"),
    [
        ("203.0.113.5", "203.0.113.6", False),
        ("10.9.9.9, 203.0.113.5, 10.0.0.2", "203.0.113.5", True),
        ("203.0.113.6, 203.0.113.5", "203.0.113.6", False),
        ("2001:db8:1:2::5", "2001:db8:1:2:ffff::6", True),
        ("2001:db8:1:2::5", "2001:db8:1:3::5", False),
    ],
)
async def test_behind_a_proxy_attempts_are_counted_by_the_address_that_it_names(
    app: FastAPI, stranger: str, owner: str, neighbour: bool
) -> None:
    """As uvicorn is told to do by `VIGIL_PROXIES`."""
    proxied = ProxyHeadersMiddleware(app, trusted_hosts=["10.0.0.0/29"])  # type: ignore[arg-type]
    async with stranger_to(proxied, address="10.0.0.1") as client:  # type: ignore[arg-type]
        await flood(client, **{"x-forwarded-for": stranger})
        headers = {**bearer(new_token()), "x-forwarded-for": owner}
        answer = await client.get("/me", headers=headers)
        assert answer.status_code == (429 if neighbour else 401)


async def test_who_is_no_proxy_names_no_address(app: FastAPI) -> None:
    proxied = ProxyHeadersMiddleware(app, trusted_hosts=["10.0.0.0/29"])  # type: ignore[arg-type]
    async with stranger_to(proxied, address="192.0.2.77") as client:  # type: ignore[arg-type]
        for number in range(MAX_BAD_ATTEMPTS):
            headers = {**bearer(new_token()), "x-forwarded-for": f"203.0.113.{number}"}
            assert (await client.get("/me", headers=headers)).status_code == 401
        assert (await client.get("/me", headers=bearer(new_token()))).status_code == 429


async def test_while_postgres_is_away_every_waiting_check_is_told(database: Database) -> None:
    async def away(*_: object) -> set[bytes]:
        raise TransientError("it is away")

    check = ValidityCheck(database, away)
    found = await asyncio.gather(*map(check.is_valid, [b"1", b"2"]), return_exceptions=True)
    assert [type(each) for each in found] == [TransientError, TransientError]
    check = ValidityCheck(database, credentials.find_valid_links)
    assert await asyncio.gather(*map(check.is_valid, [b"1", b"2", b"1"])) == [False] * 3
