"""Floods of bad credentials: none succeeds, nothing leaks, valid ones pass, and the database gets few queries."""

import asyncio
import time
import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import islice
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from structlog.testing import capture_logs
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from services.api.app import build
from services.api.auth.middleware import (
    LOOKUP_SECONDS,
    MAX_ADDRESSES,
    MAX_ATTEMPTS_PER_CREDENTIAL,
    MAX_BAD_ATTEMPTS,
    MAX_RECENT_CREDENTIALS,
    AttemptLimiter,
    RecentlyValidCredentials,
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
from tests.support.attacks.attack_setup import (
    SECRETS,
    AttackSetup,
    client_from_new_address,
    make_attack_setup,
)
from tests.support.attacks.pages import OWN_PAGE
from tests.support.case_files import read_cases
from tests.support.sql_capture import Statements, captured_statements

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


BAD_LOGINS = 10_000
ADDRESSES = 20
BATCH_SIZE = 50


class Attackers:
    """Attackers from a few addresses, one of which is also the owner's."""

    def __init__(self, app: FastAPI, cookie: str, clients: list[httpx.AsyncClient]) -> None:
        self.app = app
        self._cookie = cookie
        self.clients = clients
        self.answers: Counter[tuple[str, int]] = Counter()
        self.bodies: set[str] = set()
        self.tried: list[str] = []

    async def attempt(self, number: int) -> None:
        kinds: dict[str, Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]] = {
            "token": self._token,
            "malformed": self._malformed,
            "session": self._session,
            "link": self._link,
            "sign-in": self._sign_in,
        }
        kind = list(kinds)[number % len(kinds)]
        answer = await kinds[kind](self.clients[number // len(kinds) % len(self.clients)])
        self.answers[kind, answer.status_code] += 1
        self.bodies.add(answer.text)

    def _record(self, secret: str) -> str:
        self.tried.append(secret)
        return secret

    async def _token(self, client: httpx.AsyncClient) -> httpx.Response:
        bearer = {"authorization": f"Bearer {self._record(new_token())}"}
        return await client.get("/agents", headers=bearer)

    async def _malformed(self, client: httpx.AsyncClient) -> httpx.Response:
        bearer = {"authorization": f"Bearer {self._record(new_secret())}"}
        return await client.post("/tokens", headers=bearer, json={"name": "mine"})

    async def _session(self, client: httpx.AsyncClient) -> httpx.Response:
        return await client.get(
            "/me", headers={"cookie": f"{self._cookie}={self._record(new_secret())}"}
        )

    async def _link(self, client: httpx.AsyncClient) -> httpx.Response:
        return await client.post("/sign-in/link", params={"secret": self._record(new_secret())})

    async def _sign_in(self, client: httpx.AsyncClient) -> httpx.Response:
        return await client.post("/sign-in", json={"user": "owner"})


@pytest.mark.slow
async def test_ten_thousand_bad_logins(database_url: str) -> None:
    attack_setup = await make_attack_setup(database_url)
    app = build(Settings(database_url=database_url))
    clients = [
        create_anonymous_client(app, address=f"192.0.2.{number}") for number in range(ADDRESSES)
    ]
    attackers = Attackers(app, attack_setup.victim.cookie_name, clients)
    owner = create_anonymous_client(app, address="192.0.2.0", headers=attack_setup.victim.bearer)
    await owner.get("/me")
    before = await attack_setup.state(excluded=("sign_in_links",))
    waits: list[float] = []
    start = time.monotonic()
    with captured_statements() as statements, capture_logs() as lines:
        numbers = iter(range(BAD_LOGINS))
        while batch := list(islice(numbers, BATCH_SIZE)):
            batch_start = time.monotonic()
            attempts = asyncio.gather(*map(attackers.attempt, batch))
            response = await owner.get("/me")
            waits.append(time.monotonic() - batch_start)
            await attempts
            assert response.status_code == 200
    seconds = time.monotonic() - start
    lookups = _count_lookups(statements)
    print(
        f"\n{BAD_LOGINS} bad logins in {seconds:.1f} s, {lookups.total()} looked up;"
        f" {dict(attackers.answers)}; the owner was answered within {max(waits):.2f} s"
    )
    _assert_no_attempt_succeeded(attackers)
    _assert_nothing_leaked(attackers, lines, attack_setup)
    assert await attack_setup.state(excluded=("sign_in_links",)) == before
    kinds = 3
    assert lookups.total() <= kinds * (seconds / LOOKUP_SECONDS + 1) + len(waits) + 1
    assert lookups.total() < BAD_LOGINS / 5
    await _assert_the_owner_can_still_authenticate(app, attack_setup)
    for client in (*clients, owner):
        await client.aclose()


def test_the_memory_for_login_attempts_is_bounded() -> None:
    attempts, recent = AttemptLimiter(10), RecentlyValidCredentials()
    tracemalloc.start()
    try:
        for number in range(3 * MAX_ADDRESSES):
            attempts.add(f"10.0.{number >> 8}.{number & 255}")
            recent.add(number.to_bytes(32, "big"))
        assert len(attempts._seen) == MAX_ADDRESSES
        assert len(recent._digests) == MAX_RECENT_CREDENTIALS
        assert tracemalloc.get_traced_memory()[0] < 16 * 1024**2
    finally:
        tracemalloc.stop()


def _assert_no_attempt_succeeded(attackers: Attackers) -> None:
    assert attackers.answers.total() == BAD_LOGINS
    allowed = {
        "token": {401, 429},
        "malformed": {401},
        "session": {401, 429},
        "link": {410, 429},
        "sign-in": {202, 429},
    }
    assert {kind for kind, _ in attackers.answers} == set(allowed)
    for kind, status in attackers.answers:
        assert status in allowed[kind], (kind, status)


def _assert_nothing_leaked(
    attackers: Attackers, lines: list[Any], attack_setup: AttackSetup
) -> None:
    """Sign-in links are excluded: without mail they are delivered through the log."""
    log_lines = [line for line in lines if "sign_in_link" not in line]
    log_text = str(log_lines)
    assert not [line for line in log_lines if line["log_level"] == "error"]
    assert len(log_lines) < 3 * ADDRESSES
    responses = "".join(attackers.bodies)
    assert len(attackers.bodies) < 200
    for secret in (*attackers.tried, attack_setup.victim.token, attack_setup.victim.session):
        assert secret not in log_text
        assert secret not in responses
    assert not SECRETS.search(log_text + responses)


async def _assert_the_owner_can_still_authenticate(app: FastAPI, attack_setup: AttackSetup) -> None:
    async with create_anonymous_client(
        app, address="192.0.2.0", headers=attack_setup.victim.bearer
    ) as known_address:
        assert (await known_address.get("/me")).status_code == 200
    token = await attack_setup.token("victim", [AccessScope.READ])
    bearer = {"authorization": f"Bearer {token}"}
    async with create_anonymous_client(app, address="198.51.100.1", headers=bearer) as new_address:
        assert (await new_address.get("/me")).status_code == 200


def _count_lookups(statements: Statements) -> Counter[str]:
    """Count the lookups of credentials in the database, by table."""
    return Counter(
        table
        for statement, _ in statements
        for table in ("api_tokens", "sessions", "sign_in_links")
        if f"{table}.digest = " in statement
    )
