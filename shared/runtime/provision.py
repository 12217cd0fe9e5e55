"""The one-shot that the others wait for: tables, roles, the owner, stream and consumers."""

import asyncio
from pathlib import Path
from uuid import UUID

import psycopg

from shared.accounts import credentials
from shared.accounts.secrets import is_token
from shared.database import migrate, roles
from shared.errors import PermanentError
from shared.events.permissions import OPERATOR
from shared.events.stream_admin import provision as provision_bus
from shared.graph.backfill import take_names
from shared.runtime.connections import bus_of, database_of
from shared.runtime.credentials import database_url_of
from shared.runtime.identity import DATABASE_PASSWORD_FILE, MIGRATE, SERVICES, TOKEN_FILE
from shared.runtime.logging import logger
from shared.runtime.settings import Settings

log = logger(__name__)


async def provision(settings: Settings) -> UUID:
    """Idempotent; brings an older installation up to date. Returns the owner's id.

    Raises PermanentError where keys are asked for and missing or unusable, or Postgres does not let roles be made.
    """
    url = database_url_of(settings, MIGRATE)
    lacking = await asyncio.to_thread(migrate.upgrade, url)
    if lacking is not None:
        log.warning("migrated, but not all could be made", lacking=lacking)
    if settings.keys_dir is not None:
        await asyncio.to_thread(_make_roles, url, settings.keys_dir)
    token = _owner_token(settings)
    await provision_stream(settings)
    database = database_of(settings, MIGRATE, pool_size=1)
    try:
        await take_names(database)
        async with database.transaction() as session:
            owner_id = await credentials.ensure_owner(session, settings.owner)
            if token is not None:
                await credentials.keep_own(session, owner_id, token)
            return owner_id
    finally:
        await database.close()


async def provision_stream(settings: Settings) -> None:
    bus = bus_of(settings, MIGRATE)
    await bus.connect()
    try:
        await provision_bus(
            bus.jetstream,
            max_age_seconds=settings.stream_max_age_seconds,
            max_bytes=settings.stream_max_bytes,
            replicas=settings.stream_replicas,
        )
    finally:
        await bus.close()


def _make_roles(url: str, keys: Path) -> None:
    passwords = {
        service.name: _password(keys / service.name / DATABASE_PASSWORD_FILE)
        for service in SERVICES
        if service.has_database_role
    }
    try:
        roles.apply(url, passwords)
    except psycopg.errors.InsufficientPrivilege as error:
        raise PermanentError(
            "roles_refused",
            f"PostgreSQL does not let this role make others: {error}. It must own the database and have CREATEROLE",
        ) from error


def _owner_token(settings: Settings) -> str | None:
    """By which the installation's own commands come in: as it is set, or lies among the operator's keys."""
    if settings.owner_token is not None:
        token, where = settings.owner_token.get_secret_value().strip(), "VIGIL_OWNER_TOKEN"
    elif settings.keys_dir is not None:
        file = settings.keys_dir / OPERATOR / TOKEN_FILE
        token, where = _password(file), str(file)
    else:
        return None
    if not is_token(token):
        raise PermanentError(
            "no_key",
            f"{where} holds no token of Vigil: delete it, and run `vigil keys` for another",
        )
    return token


def _password(file: Path) -> str:
    try:
        password = file.read_text().strip()
    except OSError as error:
        raise PermanentError(
            "no_key", f"{file} cannot be read ({error.strerror}): run `vigil keys` first"
        ) from error
    if not password:
        raise PermanentError("no_key", f"{file} is empty: delete it and run `vigil keys`")
    return password
