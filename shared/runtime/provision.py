"""One-time setup that the services wait for: tables, roles, the owner, the stream and its consumers."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import psycopg
from sqlalchemy.exc import DBAPIError

from shared.accounts import credentials
from shared.accounts.secrets import is_token
from shared.database import migrate, roles
from shared.database.migrate import Upgraded
from shared.errors import PermanentError
from shared.events.permissions import OPERATOR
from shared.events.stream_admin import provision as provision_bus
from shared.events.stream_admin import stream_exists
from shared.runtime.connections import create_bus, create_database
from shared.runtime.credentials import build_database_url
from shared.runtime.identity import DATABASE_PASSWORD_FILE, MIGRATE, SERVICES, TOKEN_FILE
from shared.runtime.logging import logger
from shared.runtime.settings import Settings

log = logger(__name__)


@dataclass(frozen=True)
class Provisioned:
    owner_id: UUID
    is_newer: bool
    """Whether a newer version has migrated the database, so that its tables, roles, stream and consumers were left alone."""


async def provision(settings: Settings) -> Provisioned:
    """Idempotent.

    If a newer version has migrated the database, only the owner and the token are ensured: its roles, stream and consumers
    may serve newer services. A stream that is missing, as after a restore, is created.

    Raises PermanentError if keys are needed and missing or invalid, or PostgreSQL refuses to create roles or tables.
    """
    url = build_database_url(settings, MIGRATE)
    # Before anything is changed, so that a missing file stops the upgrade.
    passwords = None if settings.keys_dir is None else read_database_passwords(settings.keys_dir)
    token = _owner_token(settings)
    upgraded = await asyncio.to_thread(_migrate, url)
    if upgraded.problem is not None:
        log.warning(
            "the migration is complete, but an optional feature is unavailable",
            problem=upgraded.problem,
        )
    if upgraded.is_newer:
        log.warning("a newer version of Vigil has migrated the database; using it as it is")
    elif passwords is not None:
        await asyncio.to_thread(_make_roles, url, passwords)
    await provision_stream(settings, only_if_missing=upgraded.is_newer)
    database = create_database(settings, MIGRATE, pool_size=1)
    try:
        async with database.transaction() as transaction:
            owner_id = await credentials.ensure_owner(transaction, settings.owner)
            if token is not None:
                await credentials.store_own_token(transaction, owner_id, token)
            return Provisioned(owner_id, upgraded.is_newer)
    finally:
        await database.close()


async def provision_stream(settings: Settings, *, only_if_missing: bool = False) -> None:
    bus = create_bus(settings, MIGRATE)
    await bus.connect()
    try:
        if only_if_missing and await stream_exists(bus.jetstream):
            return
        await provision_bus(
            bus.jetstream,
            max_age_seconds=settings.stream_max_age_seconds,
            max_bytes=settings.stream_max_bytes,
            replicas=settings.stream_replicas,
        )
    finally:
        await bus.close()


def read_database_passwords(keys: Path) -> Mapping[str, str]:
    """By service. Raises PermanentError if one is missing."""
    return {
        service.name: _password(keys / service.name / DATABASE_PASSWORD_FILE)
        for service in SERVICES
        if service.has_database_role
    }


def _migrate(url: str) -> Upgraded:
    try:
        return migrate.upgrade(url)
    except DBAPIError as error:
        if not isinstance(
            error.orig, psycopg.errors.InsufficientPrivilege | psycopg.errors.ReadOnlySqlTransaction
        ):
            raise
        raise PermanentError(
            "migration_refused",
            f"PostgreSQL does not let this role change the tables: {error.orig}. It must own the database and its tables",
        ) from error


def _make_roles(url: str, passwords: Mapping[str, str]) -> None:
    try:
        roles.apply(url, passwords)
    except psycopg.errors.InsufficientPrivilege as error:
        raise PermanentError(
            "roles_refused",
            f"PostgreSQL does not allow this role to create others: {error}. It must own the database and have CREATEROLE",
        ) from error


def _owner_token(settings: Settings) -> str | None:
    """The token of the installation's own commands: from the settings, or from the operator's keys."""
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
            f"{where} does not contain a Vigil token: delete it and run `vigil keys` to create one",
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
