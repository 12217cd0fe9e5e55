"""Two users with everything a user can have: the victim and the attacker."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any

import httpx
from fastapi import FastAPI
from sqlalchemy import text

from services.api.app import build
from shared.accounts import credentials
from shared.agents import agents
from shared.database.engine import Database
from shared.database.tables import Base
from shared.enums import AccessScope
from shared.notifications.webhooks import new_secret
from shared.runtime.settings import Settings
from tests.support.api.clients import MISSION, create_anonymous_client
from tests.support.api.rows import get_agent
from tests.support.api.signed_in import create_token_in, session_cookie_name
from tests.support.attacks.owned_resources import make_owned_resources
from tests.support.attacks.routes import SHARED_PARAMETERS

SECRETS = re.compile(r"vgl_[A-Za-z0-9_-]{10,}|secret=[A-Za-z0-9_-]{10,}")
READ_WRITE = (AccessScope.READ, AccessScope.WRITE)
WRITTEN_BY_AUTHENTICATION = {"api_tokens": "last_used_at", "sessions": "last_used_at"}
"""Columns that authentication itself writes."""


@dataclass(frozen=True)
class Person:
    """A user with an agent that has iterations, conclusions and advice."""

    name: str
    token: str
    session: str
    """The secret of a browser session."""
    webhook_secret: str
    cookie_name: str
    """The name of the session cookie."""
    values: dict[str, str]
    """Values of route parameters: ids of this user's rows, by the name of the parameter."""

    @property
    def private(self) -> list[str]:
        """Return values that must not be in responses to other users."""
        shared = {*SHARED_PARAMETERS, "number"}
        values = [value for name, value in self.values.items() if name not in shared]
        return [self.name, *self.secrets, *values]

    @property
    def secrets(self) -> list[str]:
        """Return values that must not be in any response."""
        return [self.token, self.session, self.webhook_secret]

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    @property
    def cookie(self) -> dict[str, str]:
        return {"cookie": f"{self.cookie_name}={self.session}"}


@dataclass(frozen=True)
class AttackSetup:
    settings: Settings
    database: Database
    app: FastAPI
    victim: Person
    attacker: Person

    async def token(
        self, user: str, scopes: Iterable[AccessScope], lifetime: timedelta | None = None
    ) -> str:
        return await create_token_in(self.database, user, scopes, lifetime)

    async def state(self, excluded: Collection[str] = ()) -> dict[str, str]:
        """Return a digest of each table's rows, without the columns that authentication writes."""
        names = sorted(set(Base.metadata.tables) - set(excluded))
        async with self.database.transaction() as session:
            rows = await session.execute(text(" union all ".join(map(_digest, names))))
            return {name: str(digest) for name, digest in rows}


def _digest(table: str) -> str:
    row = f"(to_jsonb(t) - '{WRITTEN_BY_AUTHENTICATION.get(table, '')}')::text"
    rows = f'select {row} as row from "{table}" t'
    return f"select '{table}', md5(string_agg(row, ',' order by row)) from ({rows}) r"


_addresses = count(1)


def client_from_new_address(app: FastAPI, **options: Any) -> httpx.AsyncClient:
    """Return a client without a credential from a new address, unaffected by the attempts of other tests."""
    number = next(_addresses)
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return create_anonymous_client(app, address=address, **options)


async def make_attack_setup(url: str) -> AttackSetup:
    # These users send more requests than real ones; other tests cover the rate limit.
    settings = Settings(database_url=url, requests_burst=1_000_000)
    database = Database(url, name="attacked")
    app = build(settings)
    victim = await make_person(database, app, "victim", iterations=2)
    attacker = await make_person(database, app, "attacker")
    return AttackSetup(settings, database, app, victim, attacker)


async def make_person(
    database: Database, app: FastAPI, name: str, *, iterations: int = 1
) -> Person:
    """Create a user with a ready agent called `Of name`; all its iterations except the last have ended."""
    token = await create_token_in(database, name, READ_WRITE)
    async with client_from_new_address(app, headers={"authorization": f"Bearer {token}"}) as client:
        for agent_name in (f"Of {name}", f"More of {name}"):
            response = await client.post("/agents", json={"mission": MISSION, "name": agent_name})
            assert response.status_code == 201, response.text
    await create_token_in(database, name, READ_WRITE)
    await open_session(database, name)
    session_secret, secret = await open_session(database, name), new_secret()
    agent = await get_agent(database, f"Of {name}")
    values = await make_owned_resources(database, agent, name, iterations=iterations, secret=secret)
    cookie = await session_cookie_name(app.state.settings, database)
    return Person(name, token, session_secret, secret, cookie, values)


async def open_session(database: Database, user: str) -> str:
    async with database.transaction() as session:
        link = await credentials.create_link(session, await agents.ensure_user(session, user))
        secret = await credentials.open_session(session, link[1], "a browser")
        assert secret is not None
        return secret
