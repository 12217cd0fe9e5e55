"""The data directory that a backup is restored into: either complete, or refused by every command."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cli.errors import BadInputError
from cli.local.data_directory import PRIVATE, DataDirectory
from cli.local.errors import DataDirectoryError
from cli.local.postgres import EmbeddedPostgres, sync_directory

ALLOWED: Final = frozenset({"lock", "logs", "lost+found"})
"""What an empty directory may contain: traces of a start that failed, and what a file system has at its root."""


@contextmanager
def restore_target(directory: DataDirectory) -> Iterator[Path]:
    """A folder whose contents are moved to the data directory, the database last, when the block ends.

    While the folder exists and the database does not, `vigil up` refuses the directory, and another restore starts
    anew. After an error the directory is as before. Raises BadInputError if it is not empty.
    """
    is_new = not directory.root.exists()
    _require_empty(directory)
    try:
        directory.create()
    except DataDirectoryError:
        if is_new:
            shutil.rmtree(directory.root, ignore_errors=True)
        raise
    # Everything below holds the lock, so that it deletes nothing of another process.
    with directory.locked():
        try:
            _require_empty(directory)
            with _staging(directory) as staging:
                yield staging
                corpora = staging / directory.corpora_file.name
                if corpora.exists():
                    corpora.replace(directory.corpora_file)
                    sync_directory(directory.root)
                (staging / directory.postgres.name).rename(directory.postgres)
                sync_directory(directory.root)
        except BaseException:
            if is_new and not directory.postgres.exists():
                shutil.rmtree(directory.root, ignore_errors=True)
            raise


@contextmanager
def _staging(directory: DataDirectory) -> Iterator[Path]:
    staging = directory.unfinished_restore
    if staging.exists():
        # Of a killed restore, whose server may still be stopping.
        EmbeddedPostgres(staging / "postgres", staging / "postgres.log").stop_orphans()
        shutil.rmtree(staging)
    staging.mkdir(mode=PRIVATE)
    sync_directory(directory.root)
    try:
        yield staging
    finally:
        if not directory.postgres.exists():
            directory.corpora_file.unlink(missing_ok=True)
        shutil.rmtree(staging, ignore_errors=True)


def _require_empty(directory: DataDirectory) -> None:
    if not directory.root.is_dir():
        return  # `create` explains what else may be there
    allowed = set(ALLOWED)
    if directory.unfinished_restore.exists() and not directory.postgres.exists():
        allowed |= {directory.unfinished_restore.name, directory.corpora_file.name}
    if {file.name for file in directory.root.iterdir()} - allowed:
        raise BadInputError(
            f"{directory.root} is not empty, and a backup is restored only into an empty data directory: name another "
            "one with --data, or move this one away"
        )
