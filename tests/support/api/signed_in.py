"""Credentials for tests, created in the database as the API creates them."""

from collections.abc import AsyncGenerator, Iterable
from datetime import timedelta

import httpx
from psycopg.errors import UndefinedTable

from services.api.auth.middleware import cookie_name
from shared.accounts import credentials
from shared.accounts.secrets import new_token
from shared.agents import agents
from shared.database.engine import Database
from shared.enums import AccessScope
from shared.errors import TransientError
from shared.runtime.connections import create_database
from shared.runtime.settings import Settings


async def create_token(
    settings: Settings,
    user: str | None = None,
    scopes: Iterable[AccessScope] = tuple(AccessScope),
    lifetime: timedelta | None = None,
) -> str:
    """A token of that user, who is created if missing; without a user, of the installation's owner."""
    database = create_database(settings, "api", pool_size=1)
    try:
        if user is None:
            async with database.transaction() as session:
                await credentials.ensure_owner(session, settings.owner)
        return await create_token_in(database, user or settings.owner, scopes, lifetime)
    finally:
        await database.close()


async def create_token_in(
    database: Database,
    user: str,
    scopes: Iterable[AccessScope],
    lifetime: timedelta | None = None,
) -> str:
    """Like `create_token`, with an open database."""
    async with database.transaction() as session:
        user_id = await agents.ensure_user(session, user)
        _, token = await credentials.create_token(
            session, user_id, name="test", scopes=scopes, lifetime=lifetime
        )
        return token


async def session_cookie_name(settings: Settings, database: Database) -> str:
    """The name of this installation's session cookie."""
    async with database.transaction() as session:
        return cookie_name(settings, await credentials.ensure_owner(session, settings.owner))


class SignedIn(httpx.Auth):
    """Sends a token of that user, created at the first request."""

    def __init__(self, settings: Settings, user: str | None = None) -> None:
        self._settings = settings
        self._user = user
        self._token: str | None = None

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        request.headers["authorization"] = f"Bearer {await self._access_token()}"
        yield request

    async def _access_token(self) -> str:
        if self._token is None:
            try:
                self._token = await create_token(self._settings, self._user)
            except (TransientError, UndefinedTable):
                # Without Postgres or its tables no token can be checked.
                return new_token()
        return self._token
