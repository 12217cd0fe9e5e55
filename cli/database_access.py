"""What commands write to the database directly: a first token, a sign-in link, an imported graph.

Who holds the database's password already has full access, so this opens nothing. Credentials need only the role of the
API; an import needs the owner of the tables.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

from cli.config.discovery import DATABASE_URL, engine_settings, running_on
from cli.errors import BadInputError, CommandError
from cli.render.console import err
from cli.render.operations import Activity
from shared.accounts import credentials
from shared.accounts.authentication import allowed_scopes
from shared.database.tables import Agent, User
from shared.database.transaction import Transaction
from shared.enums import AccessScope
from shared.graph.transfer.file_reader import BadFileError, ExportedGraph
from shared.graph.transfer.importer import import_graph
from shared.runtime.connections import create_database
from shared.runtime.identity import MIGRATE
from shared.runtime.settings import Settings
from shared.schemas.accounts import NewTokenResponse, SignInLinkResponse, TokenResponse
from shared.schemas.operations import ImportedAgent, ImportedCounts
from shared.wording import bytes_of

API: Final = "api"
STANDARD_INPUT: Final = Path("-")

T = TypeVar("T")


def create_token(
    user: str | None,
    name: str,
    *,
    scopes: Sequence[str],
    lifetime: timedelta | None,
    data: Path | None = None,
) -> NewTokenResponse:
    """A token of that user, or of the installation's owner. Raises BadInputError if the user may not have it."""

    async def create(session: Transaction, settings: Settings) -> NewTokenResponse:
        owner = await find_user(session, settings, user)
        requested = frozenset(map(AccessScope, scopes)) or credentials.DEFAULT_SCOPES
        if forbidden := requested - allowed_scopes(operator=owner.operator):
            raise BadInputError(
                f"{owner.name} is not an operator: remove the scope {', '.join(forbidden)}"
            )
        row, token = await credentials.create_token(
            session, owner.id, name=name, scopes=requested, lifetime=lifetime
        )
        return NewTokenResponse(**dict(TokenResponse.model_validate(row)), token=token)

    return _run_in_transaction(create, data)


def create_link(user: str | None, data: Path | None = None) -> SignInLinkResponse:
    """A sign-in link for that user, or for the installation's owner."""

    async def create(session: Transaction, settings: Settings) -> SignInLinkResponse:
        owner = await find_user(session, settings, user)
        link, secret = await credentials.create_link(session, owner.id)
        return SignInLinkResponse(
            url=credentials.link_url(settings.base_url, secret), expires_at=link.expires_at
        )

    return _run_in_transaction(create, data)


async def find_user(session: Transaction, settings: Settings, name: str | None) -> User:
    """The user of that name, or the installation's owner. Raises BadInputError."""
    if name is None:
        return await session.get_one(User, await credentials.ensure_owner(session, settings.owner))
    user = await credentials.find_user(session, name)
    if user is None:
        raise BadInputError(f"there is no user {name!r}")
    return user


async def import_file(
    file: Path, *, name: str | None, user: str | None, data: Path | None
) -> ImportedAgent:
    """Imports an exported graph as a new agent.

    Raises CommandError if the file fails a check, and BadInputError if the user or the database does not exist.
    """
    settings = _import_settings(data)
    database = create_database(settings, MIGRATE, pool_size=1)
    try:
        with _open_with_progress(file) as stream:
            exported = ExportedGraph(stream)
            async with database.transaction() as session:
                owner = await find_user(session, settings, user)
                agent = await import_graph(session, owner.id, exported, name)
                await session.update(
                    Agent,
                    agent.id,
                    budget_usd_per_day=settings.budget_usd_per_day,
                    budget_calls_per_day=settings.budget_calls_per_day,
                )
            counts = ImportedCounts.model_validate(exported.counts)
            return ImportedAgent(agent_id=agent.id, name=agent.name, counts=counts)
    except BadFileError as error:
        raise CommandError(f"{file}: {error}. Nothing was imported.") from error
    finally:
        await database.close()


def _run_in_transaction(
    create: Callable[[Transaction, Settings], Awaitable[T]], data: Path | None
) -> T:
    async def run() -> T:
        settings = engine_settings(API, data)
        database = create_database(settings, API, pool_size=1)
        try:
            async with database.transaction() as session:
                return await create(session, settings)
        finally:
            await database.close()

    return asyncio.run(run())


def _import_settings(data: Path | None) -> Settings:
    if not os.environ.get(DATABASE_URL) and running_on(data) is None:
        raise BadInputError(
            f"no Vigil is running here: start one with `vigil up`, or name a database with {DATABASE_URL}"
        )
    return engine_settings(MIGRATE, data)


@contextmanager
def _open_with_progress(file: Path) -> Iterator[BinaryIO]:
    """Opens the file, with progress on stderr."""
    if file == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    with Activity(err()) as activity, file.open("rb") as stream:
        activity.say(f"importing {bytes_of(file.stat().st_size)}")
        yield stream
