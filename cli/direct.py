"""Credentials made straight in the database, for whoever cannot come in by the api yet.

Who holds the database's password holds all of it, so nothing is opened that was closed. The role of the api is enough.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final, TypeVar

from sqlalchemy.ext.asyncio import AsyncSession

from cli.config.discovery import engine_settings
from cli.errors import BadInputError
from shared.accounts import credentials
from shared.accounts.authentication import scopes_of
from shared.database.tables import User
from shared.enums import AccessScope
from shared.runtime.connections import database_of
from shared.runtime.settings import Settings
from shared.schemas.accounts import NewTokenView, SignInLinkView, TokenView

API: Final = "api"

T = TypeVar("T")


def create_token(
    user: str | None,
    name: str,
    *,
    scopes: Sequence[str],
    lifetime: timedelta | None,
    data: Path | None = None,
) -> NewTokenView:
    """Of that user, or of the installation's owner. Raises BadInputError where the user can have no such token."""

    async def make(session: AsyncSession, settings: Settings) -> NewTokenView:
        owner = await user_named(session, settings, user)
        allowed = scopes_of(operator=owner.operator)
        wanted = frozenset(map(AccessScope, scopes)) or credentials.USUAL_SCOPES
        if beyond := wanted - allowed:
            raise BadInputError(f"{owner.name} is no operator: leave out {', '.join(beyond)}")
        row, token = await credentials.create_token(
            session, owner.id, name=name, scopes=wanted, lifetime=lifetime
        )
        return NewTokenView(**dict(TokenView.model_validate(row)), token=token)

    return _in_database(make, data)


def make_link(user: str | None, data: Path | None = None) -> SignInLinkView:
    async def make(session: AsyncSession, settings: Settings) -> SignInLinkView:
        owner = await user_named(session, settings, user)
        link, secret = await credentials.create_link(session, owner.id)
        return SignInLinkView(
            url=credentials.link_url(settings.reached_at, secret), expires_at=link.expires_at
        )

    return _in_database(make, data)


def _in_database(make: Callable[[AsyncSession, Settings], Awaitable[T]], data: Path | None) -> T:
    async def made() -> T:
        settings = engine_settings(API, data)
        database = database_of(settings, API, pool_size=1)
        try:
            async with database.transaction() as session:
                return await make(session, settings)
        finally:
            await database.close()

    return asyncio.run(made())


async def user_named(session: AsyncSession, settings: Settings, name: str | None) -> User:
    """That user, or where none is named the installation's owner. Raises BadInputError."""
    if name is None:
        return await session.get_one(User, await credentials.ensure_owner(session, settings.owner))
    found = await credentials.find(session, name)
    if found is None:
        raise BadInputError(f"there is no user {name!r}")
    return found
