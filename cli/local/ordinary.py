"""As root, PostgreSQL is made to see an ordinary user: what that needs, and what it cannot do."""

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from cli.local.errors import EngineError, UserNamespaceError
from cli.local.kernel import LINUX

_UID: Final = 1000
"""No such user need exist: it is a number inside the server's own user namespace."""


def ordinary_uid() -> int | None:
    """Whom root has to look like to PostgreSQL; None for everybody else."""
    return _UID if LINUX and os.geteuid() == 0 else None


@contextmanager
def namespace_explained(uid: int | None) -> Iterator[None]:
    """What fails between fork and exec arrives without its reason: with a `uid`, the namespace."""
    try:
        yield
    except subprocess.SubprocessError as error:
        if uid is None:
            raise
        raise UserNamespaceError from error


def require_open_path(path: Path) -> None:
    """Raise EngineError where root cannot get to `path` without its special rights.

    The server runs without them: what counts there is whom the folders belong to.
    """
    for folder in reversed(path.parents):
        if not folder.exists():
            return
        status = folder.stat()
        if not status.st_mode & _entry(status):
            raise EngineError(
                f"{folder} belongs to user {status.st_uid} and is closed to others, and PostgreSQL "
                "runs without root's special rights: run `vigil up` as that user, "
                "or give another directory with VIGIL_DATA"
            )


def _entry(status: os.stat_result) -> int:
    """The bit that lets plain root enter a folder."""
    if status.st_uid == 0:
        return stat.S_IXUSR
    return stat.S_IXGRP if status.st_gid == 0 else stat.S_IXOTH
