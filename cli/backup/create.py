"""Writes a backup of the installation on a data directory, whether it runs or not."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from cli.backup.archive import (
    CORPORA,
    MANIFEST,
    PART_BYTES,
    ArchiveWriter,
    Part,
    Sink,
    database_part,
)
from cli.backup.database import Snapshot, open_snapshot
from cli.backup.encryption import Encryption
from cli.errors import CommandError, NothingRunsError
from cli.local.data_directory import DataDirectory
from cli.local.engines import require_local_extra
from cli.local.postgres import EmbeddedPostgres
from shared.wording import bytes_of

DATABASE: Final = "vigil"


@contextmanager
def open_installation(directory: DataDirectory, say: Callable[[str], None]) -> Iterator[Snapshot]:
    """A snapshot of the installation. If it does not run, its PostgreSQL is started for the block.

    Raises NothingRunsError if there is none, and AlreadyRunningError while it is starting or stopping.
    """
    require_local_extra()
    if (running := directory.running()) is not None:
        say("taking a snapshot")
        with open_snapshot(running.database_url) as snapshot:
            yield snapshot
        return
    if not (directory.postgres / "PG_VERSION").exists():
        raise NothingRunsError(
            f"there is no installation in {directory.root}: name its data directory with --data"
        )
    with directory.locked():
        directory.require_finished_restore()
        say("starting PostgreSQL")
        postgres = EmbeddedPostgres(directory.postgres, directory.logs / "postgres.log")
        try:
            postgres.start()
            with open_snapshot(postgres.url(DATABASE)) as snapshot:
                yield snapshot
        finally:
            postgres.stop()


def write_backup(
    snapshot: Snapshot,
    corpora_file: Path,
    output: BinaryIO,
    encryption: Encryption,
    say: Callable[[str], None],
) -> int:
    """Writes the backup and returns its size. Raises CommandError."""
    counted = _Counted(output)
    try:
        with encryption.encrypting(counted) as sink:  # type: ignore[arg-type]  # it is only written to
            archive = ArchiveWriter(sink)
            archive.add(Part(MANIFEST, snapshot.manifest.render()))
            if corpora_file.exists():
                archive.add(Part(CORPORA, corpora_file.read_bytes()))
            for number, piece in enumerate(snapshot.dump()):
                archive.add(Part(database_part(number), piece))
                say(
                    f"backing up a database of {bytes_of(snapshot.manifest.database_bytes)}: "
                    f"{bytes_of(number * PART_BYTES + len(piece))} written"
                )
            archive.close()
        output.flush()
    except BrokenPipeError as error:
        # `vigil` ends with 0 when a reader such as `head` closes its output, but half a backup is no success.
        raise CommandError("the output was closed before the backup was complete") from error
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise CommandError(f"the backup cannot be written: {reason}") from error
    return counted.size_bytes


class _Counted:
    """Counts the bytes that are written to a file."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.size_bytes = 0

    def write(self, data: bytes) -> int:
        self._sink.write(data)
        self.size_bytes += len(data)
        return len(data)

    def flush(self) -> None:
        pass
