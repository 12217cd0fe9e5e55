"""Two users with all that a user can have, and whoever attacks them."""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import timedelta
from itertools import count
from typing import Any
from uuid import UUID

import httpx
from fastapi import FastAPI
from sqlalchemy import select, text

from services.api.app import build
from shared.runtime.settings import Settings
from shared.store import agents, dead_letters, ids, sign_in
from shared.store.database import Database
from shared.store.tables import (
    Agent,
    ApiToken,
    Base,
    BrowserSession,
    GraphEdge,
    GraphNode,
    InboxItem,
    Step,
)
from shared.store.words import AccessScope
from tests.integration.api.asking import MISSION, stranger_to
from tests.integration.api.rows import advise, an_iteration, row_of
from tests.integration.api.signed_in import token_of

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
    values: dict[str, str]
    """What the parameters of routes are to mean: ids of what is this user's, by the parameter's name."""

    @property
    def bearer(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.token}"}

    @property
    def cookie(self) -> dict[str, str]:
        return {"cookie": f"vigil_session={self.session}"}


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
        return await token_of(self.settings, user, scopes, lifetime)

    async def state(self, but: Collection[str] = ()) -> dict[str, str]:
        """A digest of every table's rows, without what coming in itself writes down."""
        found = {}
        async with self.database.transaction() as session:
            for name in sorted(set(Base.metadata.tables) - set(but)):
                row = f"(to_jsonb(t) - '{NOTED.get(name, '')}')::text"
                rows = f'select {row} as row from "{name}" t'
                digest = (
                    f"select md5(coalesce(string_agg(row, ',' order by row), '')) from ({rows}) r"
                )
                found[name] = str(await session.scalar(text(digest)))
        return found


_addresses = count(1)


def from_anywhere(app: FastAPI, **options: Any) -> httpx.AsyncClient:
    """A stranger from an address that nobody came from before, so that no other test's attempts are held against it."""
    number = next(_addresses)
    address = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return stranger_to(app, address=address, **options)


async def made_world(url: str) -> World:
    settings = Settings(database_url=url)
    database = Database(url, name="attacked")
    app = build(settings)
    victim = await _person(settings, database, app, "victim")
    attacker = await _person(settings, database, app, "attacker")
    return World(settings, database, app, victim, attacker)


async def _person(settings: Settings, database: Database, app: FastAPI, name: str) -> Person:
    token = await token_of(settings, name, READ_WRITE)
    async with from_anywhere(app, headers={"authorization": f"Bearer {token}"}) as own:
        made = await own.post("/agents", json={"mission": MISSION, "name": f"Of {name}"})
        assert made.status_code == 201, made.text
    agent = await row_of(database, f"Of {name}")
    await advise(database, agent)
    iteration_id = await an_iteration(database, agent.name)
    return Person(
        name, token, await session_of(database, name), await _values(database, agent, iteration_id)
    )


async def session_of(database: Database, user: str) -> str:
    async with database.transaction() as session:
        made = await sign_in.create_link(session, await agents.ensure_user(session, user))
        assert made is not None
        opened = await sign_in.open_session(session, made[1], "a browser")
        assert opened is not None
        return opened


async def _values(database: Database, agent: Agent, iteration_id: UUID) -> dict[str, str]:
    letter = await _letter(database, iteration_id)
    async with database.transaction() as session:

        async def one(row: type[Any], *where: Any) -> str:
            found = await session.scalars(select(row.id).where(*where).order_by(row.id))
            return str(found.first())

        return {
            "agent": str(agent.id),
            "iteration_id": str(iteration_id),
            "step_id": await one(Step, Step.agent_id == agent.id),
            "item_id": await one(InboxItem, InboxItem.agent_id == agent.id),
            "letter": letter,
            "node_id": await one(GraphNode, GraphNode.agent_id == agent.id),
            "edge_id": await one(GraphEdge, GraphEdge.agent_id == agent.id),
            "token_id": await one(ApiToken, ApiToken.user_id == agent.owner_id),
            "session_id": await one(BrowserSession, BrowserSession.user_id == agent.owner_id),
            "user": str(agent.owner_id),
        }


async def _letter(database: Database, iteration_id: UUID) -> str:
    async with database.transaction() as session:
        step = (await session.scalars(select(Step).where(Step.iteration_id == iteration_id))).one()
        payload = f"of {step.id}".encode()
        await dead_letters.keep(
            session,
            actor="researcher",
            subject="query.requested",
            payload=payload,
            code="llm_key",
            error="the key is wrong",
            attempts=1,
            step_id=step.id,
        )
        return str(ids.dead_letter_id("query.requested", payload))
