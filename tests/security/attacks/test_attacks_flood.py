"""10,000 bad logins of every kind: nobody gets in, nothing leaks, nothing falls over, the owner hardly notices."""

import asyncio
import time
import tracemalloc
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import islice
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import event
from structlog.testing import capture_logs

from services.api.app import build
from services.api.auth.middleware import (
    LOOKUP_SECONDS,
    MAX_ADDRESSES,
    MAX_RECENT_CREDENTIALS,
    AttemptLimiter,
    RecentlyValidCredentials,
)
from shared.accounts.secrets import new_secret, new_token
from shared.enums import AccessScope
from shared.runtime.settings import Settings
from tests.support.api.asking import stranger_to
from tests.support.attacks.world import SECRETS, World, made_world

BAD_LOGINS = 10_000
ADDRESSES = 20
AT_ONCE = 50


class Attackers:
    """From a few addresses, one of which is the owner's own."""

    def __init__(self, app: FastAPI, cookie: str, clients: list[httpx.AsyncClient]) -> None:
        self.app = app
        self._cookie = cookie
        self.clients = clients
        self.answers: Counter[tuple[str, int]] = Counter()
        self.said: set[str] = set()
        self.tried: list[str] = []

    async def attempt(self, number: int) -> None:
        kinds: dict[str, Callable[[httpx.AsyncClient], Awaitable[httpx.Response]]] = {
            "token": self._token,
            "malformed": self._malformed,
            "session": self._session,
            "link": self._link,
            "asking": self._asking,
        }
        kind = list(kinds)[number % len(kinds)]
        answer = await kinds[kind](self.clients[number // len(kinds) % len(self.clients)])
        self.answers[kind, answer.status_code] += 1
        self.said.add(answer.text)

    def _bad(self, secret: str) -> str:
        self.tried.append(secret)
        return secret

    async def _token(self, client: httpx.AsyncClient) -> httpx.Response:
        bearer = {"authorization": f"Bearer {self._bad(new_token())}"}
        return await client.get("/agents", headers=bearer)

    async def _malformed(self, client: httpx.AsyncClient) -> httpx.Response:
        bearer = {"authorization": f"Bearer {self._bad(new_secret())}"}
        return await client.post("/tokens", headers=bearer, json={"name": "mine"})

    async def _session(self, client: httpx.AsyncClient) -> httpx.Response:
        return await client.get(
            "/me", headers={"cookie": f"{self._cookie}={self._bad(new_secret())}"}
        )

    async def _link(self, client: httpx.AsyncClient) -> httpx.Response:
        return await client.post("/sign-in/link", params={"secret": self._bad(new_secret())})

    async def _asking(self, client: httpx.AsyncClient) -> httpx.Response:
        return await client.post("/sign-in", json={"user": "owner"})


@pytest.mark.slow
async def test_ten_thousand_bad_logins(database_url: str) -> None:
    world = await made_world(database_url)
    app = build(Settings(database_url=database_url))
    looks = _lookups(app)
    clients = [stranger_to(app, address=f"192.0.2.{number}") for number in range(ADDRESSES)]
    attackers = Attackers(app, world.victim.cookie_name, clients)
    owner = stranger_to(app, address="192.0.2.0", headers=world.victim.bearer)
    await owner.get("/me")
    before = await world.state(but=("sign_in_links",))
    waits: list[float] = []
    began = time.monotonic()
    with capture_logs() as lines:
        numbers = iter(range(BAD_LOGINS))
        while batch := list(islice(numbers, AT_ONCE)):
            asked = time.monotonic()
            attempts = asyncio.gather(*map(attackers.attempt, batch))
            mine = await owner.get("/me")
            waits.append(time.monotonic() - asked)
            await attempts
            assert mine.status_code == 200
    seconds = time.monotonic() - began
    print(
        f"\n{BAD_LOGINS} bad logins in {seconds:.1f} s, {looks.total()} looked up;"
        f" {dict(attackers.answers)}; the owner was answered within {max(waits):.2f} s"
    )
    _assert_nobody_came_in(attackers)
    _assert_nothing_leaked(attackers, lines, world)
    assert await world.state(but=("sign_in_links",)) == before
    kinds = 3
    assert looks.total() <= kinds * (seconds / LOOKUP_SECONDS + 1) + len(waits) + 1
    assert looks.total() < BAD_LOGINS / 5
    await _assert_the_owner_still_comes_in(app, world)
    for client in (*clients, owner):
        await client.aclose()


def test_what_is_remembered_of_attackers_is_bounded() -> None:
    attempts, known = AttemptLimiter(10), RecentlyValidCredentials()
    tracemalloc.start()
    try:
        for number in range(3 * MAX_ADDRESSES):
            attempts.add(f"10.0.{number >> 8}.{number & 255}")
            known.add(number.to_bytes(32, "big"))
        assert len(attempts._seen) == MAX_ADDRESSES
        assert len(known._digests) == MAX_RECENT_CREDENTIALS
        assert tracemalloc.get_traced_memory()[0] < 16 * 1024**2
    finally:
        tracemalloc.stop()


def _assert_nobody_came_in(attackers: Attackers) -> None:
    assert attackers.answers.total() == BAD_LOGINS
    allowed = {
        "token": {401, 429},
        "malformed": {401},
        "session": {401, 429},
        "link": {410, 429},
        "asking": {202, 429},
    }
    assert {kind for kind, _ in attackers.answers} == set(allowed)
    for kind, status in attackers.answers:
        assert status in allowed[kind], (kind, status)


def _assert_nothing_leaked(attackers: Attackers, lines: list[Any], world: World) -> None:
    """The links that the owner was sent are told to the log, which is where they are sent to."""
    told = [line for line in lines if "sign_in_link" not in line]
    logged = str(told)
    assert not [line for line in told if line["log_level"] == "error"]
    assert len(told) < 3 * ADDRESSES
    said = "".join(attackers.said)
    assert len(attackers.said) < 200
    for secret in (*attackers.tried, world.victim.token, world.victim.session):
        assert secret not in logged
        assert secret not in said
    assert not SECRETS.search(logged + said)


async def _assert_the_owner_still_comes_in(app: FastAPI, world: World) -> None:
    async with stranger_to(app, address="192.0.2.0", headers=world.victim.bearer) as known:
        assert (await known.get("/me")).status_code == 200
    token = await world.token("victim", [AccessScope.READ])
    bearer = {"authorization": f"Bearer {token}"}
    async with stranger_to(app, address="198.51.100.1", headers=bearer) as elsewhere:
        assert (await elsewhere.get("/me")).status_code == 200


def _lookups(app: FastAPI) -> Counter[str]:
    """Counts how often a credential is looked for in the database."""
    found: Counter[str] = Counter()
    engine = app.state.database._engine.sync_engine

    @event.listens_for(engine, "before_cursor_execute")
    def count(_: Any, __: Any, statement: str, *___: Any) -> None:
        for table in ("api_tokens", "sessions", "sign_in_links"):
            if f"{table}.digest = " in statement:
                found[table] += 1

    return found
