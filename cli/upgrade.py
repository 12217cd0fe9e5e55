"""`vigil upgrade --check`: whether this version can take over an installation, and what it would change."""

import os
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from cli.backup.database import first_line
from cli.doctor import check_nats, unusable_certificate
from cli.findings import Finding, bad, good, note
from shared.database import migrate
from shared.database.migrate import DatabaseVersion
from shared.errors import PermanentError
from shared.runtime.credentials import build_database_url, build_nats_credentials
from shared.runtime.identity import MIGRATE
from shared.runtime.provision import read_database_passwords
from shared.runtime.settings import Settings
from shared.version import Release, release_of, vigil_version
from shared.wording import bytes_of, plural

MAX_TRANSACTION_SECONDS: Final = 30.0
"""A migration waits for open transactions; for longer ones it may give up."""
LAST_UNRECORDED: Final = "0.3.0"
"""The last release that did not record in the database who has migrated it."""
PREFIX: Final = "VIGIL_"
OUTSIDE_SETTINGS: Final = frozenset(
    (
        *("BIND", "CERTS", "CHROMIUM", "DATA", "ENGINES_NODE", "IMAGE", "KEYS", "NATS_IMAGE"),
        *("OSV_URL", "POSTGRES_IMAGE", "PROFILE", "PYTHON_IMAGE", "SANDBOX_PACE_SECONDS"),
        *("SECRETS_DIR", "TOKEN", "TRACEBACK", "URL"),
    )
)
"""Variables of the command line, of Compose, of Swarm and of the tests, without the prefix."""
ALIASES: Final = frozenset(
    ("MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL", "TAVILY_API_KEY", "TAVILY_BASE_URL")
)
"""Settings whose variables usually have no prefix."""


def examine_upgrade(settings: Settings) -> Iterator[Finding]:
    """Runs every check. Changes nothing."""
    yield good("version", f"this is Vigil {vigil_version()}")
    try:
        found = migrate.inspect(build_database_url(settings, MIGRATE))
    except (SQLAlchemyError, ValueError) as error:  # the latter from an address such as host:port
        text = first_line(getattr(error, "orig", None) or error)
        fix = "check VIGIL_DATABASE_URL, or start the installation with `vigil up`"
        yield bad("postgres", text, fix)
    else:
        yield from check_database(found)
    if settings.keys_dir is not None:
        yield check_key_files(settings.keys_dir)
    try:
        credentials = build_nats_credentials(settings, MIGRATE)
    except OSError as error:
        yield bad("certificates", *unusable_certificate(error))
    else:
        # The upgrade creates or corrects the stream and its consumers.
        yield from check_nats(settings.nats_url, credentials, note)
    yield from check_variables(os.environ)


def check_key_files(directory: Path) -> Finding:
    """Whether `vigil keys` has written a password for each service of this version."""
    try:
        read_database_passwords(directory)
    except PermanentError as error:
        fix = "run `vigil keys` of this version, which adds what is missing"
        return bad("keys", str(error), fix)
    return good("keys", f"{directory} has a password for each service")


def check_database(found: DatabaseVersion) -> Iterator[Finding]:
    """Compares the tables with this version."""
    name = "database"
    if found.refusal is not None and (found.revision is None or found.pending):
        fix = "check that VIGIL_DATABASE_URL names the right database, and its owner as the user"
        yield bad(name, f"it cannot be migrated: {found.refusal}", fix)
        return
    if found.revision is None:
        yield note(name, "has no tables yet", "`vigil migrate` creates them")
        return
    by = f", migrated by Vigil {found.migrated_by}" if found.migrated_by else ""
    if found.is_newer and found.is_usable:
        text = f"revision {found.revision}{by}: newer than this version, whose services can use it as it is"
        yield note(name, text, "there is nothing to migrate; replace the services one by one")
        return
    if found.is_newer:
        text = f"revision {found.revision}{by}: newer than this version, which knows revisions up to {found.head}"
        fix = "run that version or a later one, or restore a backup made by this version"
        yield bad(name, text, fix)
        return
    if not found.pending:
        yield good(name, f"revision {found.revision}{by}: there is nothing to migrate")
        return
    yield from check_distance(found.migrated_by)
    yield note(
        name,
        f"revision {found.revision}{by}, {bytes_of(found.bytes)}: {plural(len(found.pending), 'migration')} to apply",
        "make a backup first: `vigil backup`, or for a cluster see docs/operations/backup.md",
    )
    for revision, title in found.pending:
        yield note("migration", f"{revision}: {title}")
    if found.longest_transaction_seconds > MAX_TRANSACTION_SECONDS:
        yield bad("transactions", found.longest_transaction, "wait until it ends, or end it")
    elif found.hides_transactions:
        text = "this role cannot see how long those of the services have been open"
        yield note("transactions", text, f"grant it {migrate.READ_STATS}")


def check_distance(migrated_by: str | None) -> Iterator[Finding]:
    """Whether services of the version before can run during the upgrade."""
    before, own = release_of(migrated_by or LAST_UNRECORDED), release_of(vigil_version())
    if before is None or own is None or _is_next(before, own):
        return
    yield note(
        "version",
        f"the installation was last migrated by Vigil {migrated_by or f'{LAST_UNRECORDED} or older'}, more than one minor"
        " version away from this one",
        "stop all services before the upgrade, or upgrade to each minor version in turn",
    )


def _is_next(before: Release, own: Release) -> bool:
    return before[0] == own[0] and own[1] - before[1] <= 1


def check_variables(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Names variables that this version does not know: their names may have changed, or be misspelt."""
    known = {name.upper() for name in Settings.model_fields} | OUTSIDE_SETTINGS | ALIASES
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in known or name.removesuffix("_FILE") in known:
            continue
        similar = get_close_matches(name, known, 1)
        meant = f"; is {PREFIX}{similar[0]} meant?" if similar else ""
        text = f"{variable} is not a setting of this version{meant}"
        yield note("settings", text, "remove it, or correct its name")
