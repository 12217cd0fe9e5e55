"""Credentials for tests: made in the database, as the api would make them."""

from collections.abc import AsyncGenerator, Iterable
from datetime import timedelta

import httpx
from sqlalchemy.exc import ProgrammingError

from services.api.auth.middleware import cookie_name
from shared.accounts import credentials
from shared.accounts.secrets import new_token
from shared.agents import agents
from shared.database.engine import Database
from shared.enums import AccessScope
from shared.errors import TransientError
from shared.runtime.connections import create_database
from shared.runtime.settings import Settings


async def token_of(
    settings: Settings,
    user: str | None = None,
    scopes: Iterable[AccessScope] = tuple(AccessScope),
    lifetime: timedelta | None = None,
) -> str:
    """A token of that user, who is made where there is none; of the installation's owner where none is named."""
    database = create_database(settings, "api", pool_size=1)
    try:
        if user is None:
            async with database.transaction() as session:
                await credentials.ensure_owner(session, settings.owner)
        return await made_token(database, user or settings.owner, scopes, lifetime)
    finally:
        await database.close()


async def made_token(
    database: Database,
    user: str,
    scopes: Iterable[AccessScope],
    lifetime: timedelta | None = None,
) -> str:
    """The same, where the database is reached already."""
    async with database.transaction() as session:
        user_id = await agents.ensure_user(session, user)
        _, token = await credentials.create_token(
            session, user_id, name="test", scopes=scopes, lifetime=lifetime
        )
        return token


async def session_cookie(settings: Settings, database: Database) -> str:
    """The name of the cookie that sessions of this installation have."""
    async with database.transaction() as session:
        return cookie_name(settings, await credentials.ensure_owner(session, settings.owner))


class SignedIn(httpx.Auth):
    """Shows a token of that user, which is made when it is first needed."""

    def __init__(self, settings: Settings, user: str | None = None) -> None:
        self._settings = settings
        self._user = user
        self._token: str | None = None

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        request.headers["authorization"] = f"Bearer {await self._shown()}"
        yield request

    async def _shown(self) -> str:
        if self._token is None:
            try:
                self._token = await token_of(self._settings, self._user)
            except (TransientError, ProgrammingError):
                return (
                    new_token()
                )  # without Postgres or its tables nobody knows whether it is a good one
        return self._token
