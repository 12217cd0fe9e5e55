"""The data directory of a local installation, its lock, and the installation that runs on it."""

import errno
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from cli.config.profiles import write_private
from cli.local.errors import AlreadyRunningError, DataDirectoryError
from cli.local.members import NATS, SANDBOX
from cli.local.ports import LOOPBACK
from shared.accounts.secrets import new_token
from shared.wording import bytes_of


class Running(BaseModel):
    """A running installation, as it describes itself once it is up."""

    model_config = ConfigDict(frozen=True)

    pid: int
    api_url: str
    nats_url: str
    database_url: str
    ports: dict[str, int]
    started_at: datetime
    corpus: str | None = None
    """The corpus of its sandbox; None without a sandbox."""

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """None if the file is missing or written by an incompatible version."""
        try:
            return cls.model_validate_json(path.read_bytes())
        except (FileNotFoundError, ValidationError):
            return None

    @property
    def metrics_targets(self) -> list[dict[str, Any]]:
        """The addresses of `/metrics` of its processes, in the format of Prometheus's file-based discovery."""
        return [
            {"targets": [f"{LOOPBACK}:{port}"], "labels": {"service": name}}
            for name, port in self.ports.items()
            if name not in (NATS, SANDBOX)
        ]

    def write(self, path: Path) -> None:
        """Readable only by its owner, because the URLs give full access."""
        write_private(path, self.model_dump_json(indent=2) + "\n")


MINIMUM_FREE_BYTES: Final = 256 * 1024**2
"""A new PostgreSQL cluster needs about 60 MB, and its log up to 512 MB under load."""

PRIVATE: Final = 0o700
"""Mode of its folders."""

_LOCK_PATIENCE_SECONDS: Final = 0.5
"""A reader of run.json holds the lock only for microseconds."""

_ELSEWHERE: Final = "set VIGIL_DATA to another directory"
_NO_PERMISSION: Final = (
    "you have no permission to write there",
    f"change its owner, or {_ELSEWHERE}",
)
_IS_FILE: Final = f"move that file, or {_ELSEWHERE}"
_NO_SPACE: Final = f"free up space, or {_ELSEWHERE}"
_WRONG: Final = {
    errno.EACCES: _NO_PERMISSION,
    errno.EPERM: _NO_PERMISSION,
    errno.EROFS: ("the file system is read-only", _ELSEWHERE),
    errno.ENOTDIR: ("it, or part of its path, is a file", _IS_FILE),
    errno.EEXIST: ("it is a file, not a directory", _IS_FILE),
    errno.ENOSPC: ("the disk is full", _NO_SPACE),
    errno.EDQUOT: ("your disk quota is used up", _NO_SPACE),
    errno.ENOLCK: ("its file system does not support locks", f"{_ELSEWHERE} on a local disk"),
}


def default_data_directory() -> Path:
    """$VIGIL_DATA, else `vigil` in the XDG data home (`~/.local/share`)."""
    if path := os.environ.get("VIGIL_DATA"):
        return Path(path).expanduser()
    data_home = Path(os.environ.get("XDG_DATA_HOME", ""))
    # The XDG specification says to ignore relative paths.
    return (data_home if data_home.is_absolute() else Path.home() / ".local" / "share") / "vigil"


class DataDirectory:
    """Its paths, its lock, its token, and the installation that runs on it."""

    def __init__(self, root: Path, *, minimum_free_bytes: int = MINIMUM_FREE_BYTES) -> None:
        self.root = root.expanduser().absolute()
        self.postgres = self.root / "postgres"
        self.nats = self.root / "nats"
        self.logs = self.root / "logs"
        self.keys = self.root / "keys"
        self.run_file = self.root / "run.json"
        self.targets_file = self.root / "metrics-targets.json"
        self.lock_file = self.root / "lock"
        self.token_file = self.root / "token"
        self.corpora_file = self.root / "corpora.json"
        self.unfinished_restore = self.root / "restore.unfinished"
        self._minimum_free_bytes = minimum_free_bytes

    def create(self) -> None:
        """Creates it if it is missing, and closes it to other users. Raises DataDirectoryError.

        An existing one is closed too: its logs contain sign-in links, its keys passwords.
        """
        with self._explained():
            self.root.parent.mkdir(parents=True, exist_ok=True)
            for directory in (self.root, self.logs):
                directory.mkdir(mode=PRIVATE, exist_ok=True)
                directory.chmod(PRIVATE)
            self.lock_file.touch(mode=0o600)
            free_bytes = shutil.disk_usage(self.root).free
        if free_bytes < self._minimum_free_bytes:
            raise DataDirectoryError(
                self.root,
                f"only {bytes_of(free_bytes)} is free on its disk, but {bytes_of(self._minimum_free_bytes)} is required",
                _NO_SPACE,
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the directory for this process. Raises AlreadyRunningError.

        The kernel releases the lock when the process ends, however it ends.
        """
        with self._explained():
            descriptor = os.open(self.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            if not self._take(descriptor):
                running = self.running()
                raise AlreadyRunningError(
                    self.root, self._holder(), running.api_url if running else None
                )
            with self._explained():
                os.ftruncate(descriptor, 0)
                os.write(descriptor, str(os.getpid()).encode())
                self.run_file.unlink(missing_ok=True)  # of a run that was killed
            yield
        finally:
            os.close(descriptor)

    def require_finished_restore(self) -> None:
        """Raises DataDirectoryError if a restore into the directory was killed. Use it while locked."""
        if not self.unfinished_restore.exists():
            return
        if not self.postgres.exists():
            raise DataDirectoryError(
                self.root,
                "a restore into it was interrupted",
                "run `vigil restore` again, or delete the directory",
            )
        # The database is moved last, so the restore was complete.
        shutil.rmtree(self.unfinished_restore, ignore_errors=True)

    @contextmanager
    def announced(self, running: Running) -> Iterator[None]:
        """Publishes the running installation within the block, to other commands and to Prometheus. Use it while locked."""
        running.write(self.run_file)
        write_private(self.targets_file, json.dumps(running.metrics_targets, indent=2) + "\n")
        try:
            yield
        finally:
            self.targets_file.unlink(missing_ok=True)
            self.run_file.unlink(missing_ok=True)

    def renew_token(self) -> str:
        """Replaces the token that commands on this directory present. Use it while locked."""
        token = new_token()
        with self._explained():
            write_private(self.token_file, f"{token}\n")
        return token

    def token(self) -> str | None:
        """None if there is none, or this user may not read it."""
        try:
            return self.token_file.read_text().strip()
        except (FileNotFoundError, PermissionError):
            return None

    def running(self) -> Running | None:
        """The installation that runs here, or None; files of a killed run do not count.

        Raises DataDirectoryError if this user has no access to the directory.
        """
        try:
            running = Running.read(self.run_file)
            if running is None or running.pid != self._holder() or not self._is_held():
                return None
        except NotADirectoryError as error:
            raise DataDirectoryError(self.root, *_WRONG[errno.ENOTDIR]) from error
        except PermissionError as error:
            raise DataDirectoryError(
                self.root,
                "it belongs to another user, and only that user can use its installation",
                "run the command as that user, or use --url and --token",
            ) from error
        return running

    def _take(self, descriptor: int) -> bool:
        deadline = time.monotonic() + _LOCK_PATIENCE_SECONDS
        while not self._try_lock(descriptor, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        return True

    def _is_held(self) -> bool:
        """Whether a living process holds the lock."""
        descriptor = os.open(self.lock_file, os.O_RDONLY)
        try:
            return not self._try_lock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    def _try_lock(self, descriptor: int, kind: int) -> bool:
        with self._explained():
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    def _holder(self) -> int | None:
        """The pid in the lock file; None until its holder has written it."""
        content = self.lock_file.read_text() if self.lock_file.exists() else ""
        return int(content) if content.isdecimal() else None

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            unlisted = (error.strerror or str(error), _ELSEWHERE)
            wrong, remedy = _WRONG.get(error.errno or 0, unlisted)
            raise DataDirectoryError(self.root, wrong, remedy) from error
