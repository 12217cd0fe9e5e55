"""Under a flood of bad credentials, valid ones pass, and the database gets few queries."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI
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
from tests.support.api.clients import assert_problem, create_anonymous_client
from tests.support.api.signed_in import create_token_in
from tests.support.attacks.attack_setup import client_from_new_address
from tests.support.attacks.pages import OWN_PAGE
from tests.support.case_files import read_cases
from tests.support.sql_capture import captured_statements

CASES = read_cases(__file__)

BAD_CREDENTIALS = 3 * MAX_BAD_ATTEMPTS


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[FastAPI]:
    application = build(Settings(database_url=database_url))
    yield application
    await application.state.database.close()


async def token_of(database: Database, user: str = "anna") -> str:
    return await create_token_in(database, user, [AccessScope.READ])


async def flood(client: httpx.AsyncClient, **headers: str) -> Counter[int]:
    """Send different bad tokens and count the statuses of the responses."""
    responses = (
        client.get("/me", headers={**bearer(new_token()), **headers})
        for _ in range(BAD_CREDENTIALS)
    )
    return Counter(answer.status_code for answer in await asyncio.gather(*responses))


async def test_a_valid_token_passes_among_bad_ones_from_its_address(
    app: FastAPI, database: Database
) -> None:
    async with client_from_new_address(app) as client:
        assert await flood(client) == {
            401: MAX_BAD_ATTEMPTS,
            429: BAD_CREDENTIALS - MAX_BAD_ATTEMPTS,
        }
        response = await client.get("/me", headers=bearer(new_token()))
        assert_problem(response, 429, "is unknown")
        assert 0 < int(response.headers["retry-after"]) <= 60
        # A token that this process has not seen before.
        assert (await client.get("/me", headers=bearer(await token_of(database)))).is_success


async def test_a_valid_link_works_among_bad_ones_from_its_address(
    app: FastAPI, database: Database
) -> None:
    async with database.transaction() as session:
        link = await credentials.create_link(session, await agents.ensure_user(session, "anna"))
    async with client_from_new_address(app, headers=OWN_PAGE) as client:
        answers = [
            (await client.post("/sign-in/link", params={"secret": new_secret()})).status_code
            for _ in range(40)
        ]
        assert set(answers) == {410, 429}
        response = await client.post("/sign-in/link", params={"secret": link[1]})
        assert response.status_code == 303


async def test_a_credential_that_becomes_valid_passes_after_many_refusals(
    app: FastAPI, database: Database
) -> None:
    token = await token_of(database)
    async with database.transaction() as session:
        anna = await credentials.find_user(session, "anna")
        assert anna is not None
        await credentials.set_disabled(session, anna.id, disabled=True)
    async with client_from_new_address(app, headers=bearer(token)) as client:
        responses = (client.get("/me") for _ in range(2 * MAX_ATTEMPTS_PER_CREDENTIAL))
        statuses = [answer.status_code for answer in await asyncio.gather(*responses)]
        assert statuses.count(401) == MAX_BAD_ATTEMPTS
        assert statuses.count(429) == len(statuses) - MAX_BAD_ATTEMPTS
        async with database.transaction() as session:
            await credentials.set_disabled(session, anna.id, disabled=False)
        assert (await client.get("/me")).status_code == 200


async def test_one_bad_credential_is_counted_across_addresses(app: FastAPI) -> None:
    token, answers = new_token(), []
    for _ in range(MAX_ATTEMPTS_PER_CREDENTIAL + 1):
        async with client_from_new_address(app, headers=bearer(token)) as client:
            answers.append((await client.get("/me")).status_code)
    assert answers == [401] * MAX_ATTEMPTS_PER_CREDENTIAL + [429]


async def test_a_flood_of_bad_credentials_costs_few_queries(
    app: FastAPI, database: Database
) -> None:
    async with client_from_new_address(app, headers=bearer(await token_of(database))) as client:
        assert (await client.get("/me")).is_success
        with captured_statements() as statements:
            await flood(client)
    assert len(statements) < BAD_CREDENTIALS / 10


@pytest.mark.parametrize(
    ("stranger", "owner", "neighbour"),
    CASES["behind_a_proxy_attempts_are_counted_by_the_forwarded_address"],
)
async def test_behind_a_proxy_attempts_are_counted_by_the_forwarded_address(
    app: FastAPI, stranger: str, owner: str, neighbour: bool
) -> None:
    """As uvicorn is configured by `VIGIL_PROXIES`."""
    proxied = ProxyHeadersMiddleware(app, trusted_hosts=["10.0.0.0/29"])  # type: ignore[arg-type]
    async with create_anonymous_client(proxied, address="10.0.0.1") as client:  # type: ignore[arg-type]
        await flood(client, **{"x-forwarded-for": stranger})
        headers = {**bearer(new_token()), "x-forwarded-for": owner}
        answer = await client.get("/me", headers=headers)
        assert answer.status_code == (429 if neighbour else 401)


async def test_forwarded_addresses_of_untrusted_clients_are_ignored(app: FastAPI) -> None:
    proxied = ProxyHeadersMiddleware(app, trusted_hosts=["10.0.0.0/29"])  # type: ignore[arg-type]
    async with create_anonymous_client(proxied, address="192.0.2.77") as client:  # type: ignore[arg-type]
        for number in range(MAX_BAD_ATTEMPTS):
            headers = {**bearer(new_token()), "x-forwarded-for": f"203.0.113.{number}"}
            assert (await client.get("/me", headers=headers)).status_code == 401
        assert (await client.get("/me", headers=bearer(new_token()))).status_code == 429


async def test_all_waiting_checks_fail_while_postgres_is_unavailable(database: Database) -> None:
    async def unavailable(*_: object) -> set[bytes]:
        raise TransientError("it is away")

    check = ValidityCheck(database, unavailable)
    errors = await asyncio.gather(*map(check.is_valid, [b"1", b"2"]), return_exceptions=True)
    assert [type(error) for error in errors] == [TransientError, TransientError]
    check = ValidityCheck(database, credentials.find_valid_links)
    assert await asyncio.gather(*map(check.is_valid, [b"1", b"2", b"1"])) == [False] * 3
