"""The file that a backup is written to: it appears under its name only when it is complete."""

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO, Final

from cli.errors import BadInputError, CommandError
from cli.local.postgres import sync_directory

STDOUT_DESCRIPTOR: Final = 1
PARTIAL_SUFFIX: Final = ".part"
_NAME: Final = re.compile(r"vigil-\d{8}T\d{6}Z\.tar(\.age)?")


def file_name(taken_at: datetime, *, encrypted: bool) -> str:
    """The name of a backup of that time (UTC). The order of names is that of times."""
    return f"vigil-{taken_at:%Y%m%dT%H%M%SZ}.tar{'.age' if encrypted else ''}"


def is_standard_output(file: Path) -> bool:
    """Whether it is another name of standard output, such as /dev/stdout."""
    try:
        return os.path.samestat(file.stat(), os.fstat(STDOUT_DESCRIPTOR))
    except OSError:
        return False


@contextmanager
def open_output(file: Path) -> Iterator[BinaryIO]:
    """Opens a new file, readable by its owner only. After an error in the block there is no file.

    A device or a pipe is written to as it is. Raises BadInputError if the file exists, and CommandError if it cannot be
    written.
    """
    if file.exists() and not file.is_file() and not file.is_dir():
        with _closing(file.open("wb"), file) as output:
            yield output
        return
    refuse_existing(file)
    partial = file.with_name(file.name + PARTIAL_SUFFIX)
    with _explained(file):
        descriptor = _create(partial)
    with _closing(os.fdopen(descriptor, "wb"), file) as output:
        _lock(output, file, partial)
        try:
            yield output
            with _explained(file):
                output.flush()
                os.fsync(descriptor)
            refuse_existing(file)
            partial.rename(file)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    sync_directory(file.parent)


@contextmanager
def _closing(output: BinaryIO, file: Path) -> Iterator[BinaryIO]:
    """Closes the output, which writes what is still buffered. If the block has failed, its error is kept."""
    try:
        yield output
    except BaseException:
        with suppress(OSError):
            output.close()
        raise
    with _explained(file):
        output.close()


@dataclass(frozen=True)
class Pruned:
    """Old backups that were removed, and why others were not."""

    removed: list[Path]
    failed: list[OSError]
    """Each names its file."""


def prune(directory: Path, keep: int, newest: Path) -> Pruned:
    """Deletes all backups in the directory except the newest `keep`, and what killed runs have left there.

    `newest` was just written. It is kept even if a clock that was wrong has dated others later. Only regular files with
    names of `file_name` count. What cannot be deleted keeps nothing else from being deleted.
    """
    others = sorted(
        file
        for file in directory.iterdir()
        if _NAME.fullmatch(file.name) and file.name != newest.name and _is_regular(file)
    )
    old = others[: len(others) - (keep - 1)] if len(others) >= keep else []
    pruned = Pruned([], [])
    for file in old:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            pruned.failed.append(error)
        else:
            pruned.removed.append(file)
    for file in directory.glob(f"vigil-*{PARTIAL_SUFFIX}"):
        if _NAME.fullmatch(file.name.removesuffix(PARTIAL_SUFFIX)) and _is_regular(file):
            try:
                _remove_abandoned(file)
            except OSError as error:
                pruned.failed.append(error)
    return pruned


def _is_regular(file: Path) -> bool:
    return file.is_file() and not file.is_symlink()


def _create(partial: Path) -> int:
    """Opens the file, which may be there already: of a killed run, or planted by another user.

    A link would lead the backup into another file, and a file of another user could be read by that user. Raises OSError.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(partial, flags, 0o600)
    status = os.fstat(descriptor)
    is_own = S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink <= 1
    if not is_own:
        os.close(descriptor)
        raise FileExistsError(
            errno.EEXIST, f"{partial.name}, which is not a file of this user, is in the way"
        )
    os.fchmod(descriptor, 0o600)
    return descriptor


def _remove_abandoned(file: Path) -> None:
    with file.open("rb") as partial:
        try:
            fcntl.flock(partial, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # a backup is writing it
        file.unlink(missing_ok=True)


def _lock(output: BinaryIO, file: Path, partial: Path) -> None:
    """Takes the partial file and empties it. The kernel releases the lock when this process ends.

    Another backup may have completed the file, and renamed it, after it was opened here.
    """
    try:
        fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_taken = not os.path.samestat(os.fstat(output.fileno()), partial.lstat())
    except (BlockingIOError, FileNotFoundError):
        is_taken = True
    if is_taken:
        raise BadInputError(f"another backup is writing {file}: name another file")
    os.ftruncate(output.fileno(), 0)  # of a run that was killed


def refuse_existing(file: Path) -> None:
    """Raises BadInputError. A link to a file that does not exist is in the way too."""
    if os.path.lexists(file):
        raise BadInputError(f"{file} exists and is not overwritten: name another file")


@contextmanager
def _explained(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CommandError(
            f"{file} cannot be written: {(error.strerror or str(error)).lower()}; name another file"
        ) from error
