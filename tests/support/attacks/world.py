"""Two users with all that a user can have, and whoever attacks them."""

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
from tests.support.api.asking import MISSION, stranger_to
from tests.support.api.rows import row_of
from tests.support.api.signed_in import made_token, session_cookie
from tests.support.attacks.belongings import belongings
from tests.support.attacks.routes import WORDS

SECRETS = re.compile(r"vgl_[A-Za-z0-9_-]{10,}|secret=[A-Za-z0-9_-]{10,}")
READ_WRITE = (AccessScope.READ, AccessScope.WRITE)
NOTED = {"api_tokens": "last_used_at", "sessions": "last_used_at"}
"""Columns that coming in itself writes."""


@dataclass(frozen=True)
class Person:
    """A user with an agent that has done, concluded and advised something."""

    name: str
    token: str
    session: str
    """The secret of a browser's session."""
    webhook_secret: str
    cookie_name: str
    """Of that session."""
    values: dict[str, str]
    """What the parameters of routes are to mean: ids of what is this user's, by the parameter's name."""

    @property
    def private(self) -> list[str]:
        """What no answer to anybody else may hold."""
        told_to_all = {*WORDS, "number"}
        own = [value for name, value in self.values.items() if name not in told_to_all]
        return [self.name, *self.secrets, *own]

    @property
    def secrets(self) -> list[str]:
        """What no answer may hold, to whomever."""
        return [self.token, self.session, self.webhook_secret]

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    @property
    def cookie(self) -> dict[str, str]:
        return {"cookie": f"{self.cookie_name}={self.session}"}


@dataclass(frozen=True)
class World:
    settings: Settings
    database: Database
    app: FastAPI
    victim: Person
    attacker: Person

    async def token(
        self, user: str, scopes: Iterable[AccessScope], lifetime: timedelta | None = None
    ) -> str:
        return await made_token(self.database, user, scopes, lifetime)

    async def state(self, but: Collection[str] = ()) -> dict[str, str]:
        """A digest of every table's rows, without what coming in itself writes down."""
        names = sorted(set(Base.metadata.tables) - set(but))
        async with self.database.transaction() as session:
            found = await session.execute(text(" union all ".join(map(_digest, names))))
            return {name: str(digest) for name, digest in found}


def _digest(table: str) -> str:
    row = f"(to_jsonb(t) - '{NOTED.get(table, '')}')::text"
    rows = f'select {row} as row from "{table}" t'
    return f"select '{table}', md5(string_agg(row, ',' order by row)) from ({rows}) r"


_addresses = count(1)


def from_anywhere(app: FastAPI, **options: Any) -> httpx.AsyncClient:
    """A stranger from an address that nobody came from before, so that no other test's attempts are held against it."""
    number = next(_addresses)
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return stranger_to(app, address=address, **options)


async def made_world(url: str) -> World:
    # A user asks here within seconds what people ask in hours; how fast they may is tried elsewhere.
    settings = Settings(database_url=url, requests_burst=1_000_000)
    database = Database(url, name="attacked")
    app = build(settings)
    victim = await person(database, app, "victim", iterations=2)
    attacker = await person(database, app, "attacker")
    return World(settings, database, app, victim, attacker)


async def person(database: Database, app: FastAPI, name: str, *, iterations: int = 1) -> Person:
    """With an agent that is ready, has ended all its iterations but the last, and is called `Of name`."""
    token = await made_token(database, name, READ_WRITE)
    async with from_anywhere(app, headers={"authorization": f"Bearer {token}"}) as own:
        for agent_name in (f"Of {name}", f"More of {name}"):
            made = await own.post("/agents", json={"mission": MISSION, "name": agent_name})
            assert made.status_code == 201, made.text
    await made_token(database, name, READ_WRITE)
    await session_of(database, name)
    opened, secret = await session_of(database, name), new_secret()
    agent = await row_of(database, f"Of {name}")
    values = await belongings(database, agent, name, iterations=iterations, secret=secret)
    cookie = await session_cookie(app.state.settings, database)
    return Person(name, token, opened, secret, cookie, values)


async def session_of(database: Database, user: str) -> str:
    async with database.transaction() as session:
        made = await credentials.create_link(session, await agents.ensure_user(session, user))
        opened = await credentials.open_session(session, made[1], "a browser")
        assert opened is not None
        return opened
