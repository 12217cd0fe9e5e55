"""PostgreSQL in a container on a small disk, which can be filled."""

import secrets
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

import psycopg

from cli.local.engines import Engine
from cli.local.ports import LOOPBACK
from tests.support.engines import POSTGRES_IMAGE

DATA: Final = "/var/lib/postgresql/data"
FILLER: Final = f"{DATA}/filler"
DISK_MEGABYTES: Final = 320
SETTINGS: Final = ("min_wal_size=32MB", "max_wal_size=48MB", "max_connections=200")
"""So little room for its log that a full disk is felt soon."""


def docker(*arguments: str, check: bool = True) -> str:
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True)
    if check and done.returncode:
        raise RuntimeError(f"docker {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def docker_answers() -> bool:
    try:
        return subprocess.run(["docker", "info"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


class ContainedPostgres(Engine):
    """Docker starts it again when it ends. Its disk is a piece of memory, which a second container keeps alive."""

    name = "PostgreSQL"
    stop_signals = ()

    def __init__(self, port: int, log: Path) -> None:
        super().__init__(log)
        self.port = port
        self._container = f"vigil-test-postgres-{secrets.token_hex(4)}"
        self._keeper = f"{self._container}-disk"

    def url(self, database: str) -> str:
        return f"postgresql://postgres@{LOOPBACK}:{self.port}/{database}"

    def launch(self) -> Self:
        self._prepare()
        docker(*self._command())
        return self

    def alive(self) -> bool:
        """Docker's care, not the house's."""
        return True

    def stop(self) -> None:
        """Takes away all that it made."""
        with self.log.open("wb") as log:
            subprocess.run(["docker", "logs", self._container], stdout=log, stderr=log)
        docker("rm", "--force", "--volumes", self._container, self._keeper, check=False)
        docker("volume", "rm", "--force", self._keeper, check=False)

    def fill_disk(self) -> None:
        """Not a byte is left."""
        written = (
            f"dd if=/dev/zero of={FILLER} bs=64k; sync; dd if=/dev/zero bs=1 count=65536 >>{FILLER}"
        )
        docker("exec", self._keeper, "sh", "-c", written, check=False)

    def free_disk(self) -> None:
        docker("exec", self._keeper, "rm", "--force", FILLER)

    def free_bytes(self) -> int:
        return int(docker("exec", self._keeper, "df", "--output=avail", "-B1", DATA).split()[-1])

    def restarts(self) -> int:
        return int(docker("inspect", "--format", "{{.RestartCount}}", self._container))

    def _prepare(self) -> None:
        options = ("type=tmpfs", "device=tmpfs", f"o=size={DISK_MEGABYTES}m")
        asked = [word for option in options for word in ("--opt", option)]
        docker("volume", "create", "--driver", "local", *asked, self._keeper)
        mounted = f"{self._keeper}:{DATA}"
        docker(
            "run", "--detach", "--name", self._keeper, "--volume", mounted,
            "--entrypoint", "sleep", POSTGRES_IMAGE, "infinity",
        )  # fmt: skip

    def _command(self) -> Sequence[str]:
        return [
            "run", "--detach", "--name", self._container, "--restart", "always",
            "--volume", f"{self._keeper}:{DATA}",
            "--publish", f"{LOOPBACK}:{self.port}:5432",
            "--env", "POSTGRES_HOST_AUTH_METHOD=trust", "--env", f"PGDATA={DATA}/cluster",
            POSTGRES_IMAGE, "postgres",
            *(word for setting in SETTINGS for word in ("-c", setting)),
        ]  # fmt: skip

    def _is_ready(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url("postgres"), connect_timeout=2).close()
            return True
        return False
