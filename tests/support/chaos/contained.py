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
"""Little space for the WAL, so that a full disk shows soon."""


def docker(*arguments: str, check: bool = True) -> str:
    result = subprocess.run(["docker", *arguments], capture_output=True, text=True)
    if check and result.returncode:
        raise RuntimeError(f"docker {' '.join(arguments)}: {result.stderr.strip()}")
    return result.stdout


def docker_is_available() -> bool:
    try:
        return subprocess.run(["docker", "info"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


class PostgresContainer(Engine):
    """Docker restarts it when it exits. Its disk is a tmpfs volume, which a second container keeps mounted."""

    name = "PostgreSQL"
    stop_signals = ()

    def __init__(self, port: int, log: Path) -> None:
        super().__init__(log)
        self.port = port
        self._container = f"vigil-test-postgres-{secrets.token_hex(4)}"
        self._disk_container = f"{self._container}-disk"

    def url(self, database: str) -> str:
        return f"postgresql://postgres@{LOOPBACK}:{self.port}/{database}"

    def launch(self) -> Self:
        self._prepare()
        docker(*self._command())
        return self

    def alive(self) -> bool:
        """Always true: Docker restarts the server, not the test installation."""
        return True

    def stop(self) -> None:
        """Remove the containers and the volume."""
        with self.log.open("wb") as log:
            subprocess.run(["docker", "logs", self._container], stdout=log, stderr=log)
        docker("rm", "--force", "--volumes", self._container, self._disk_container, check=False)
        docker("volume", "rm", "--force", self._disk_container, check=False)

    def fill_disk(self) -> None:
        """Fill the disk to the last byte."""
        command = (
            f"dd if=/dev/zero of={FILLER} bs=64k; sync; dd if=/dev/zero bs=1 count=65536 >>{FILLER}"
        )
        docker("exec", self._disk_container, "sh", "-c", command, check=False)

    def free_disk(self) -> None:
        docker("exec", self._disk_container, "rm", "--force", FILLER)

    def free_bytes(self) -> int:
        return int(
            docker("exec", self._disk_container, "df", "--output=avail", "-B1", DATA).split()[-1]
        )

    def restarts(self) -> int:
        return int(docker("inspect", "--format", "{{.RestartCount}}", self._container))

    def _prepare(self) -> None:
        options = ("type=tmpfs", "device=tmpfs", f"o=size={DISK_MEGABYTES}m")
        option_words = [word for option in options for word in ("--opt", option)]
        docker("volume", "create", "--driver", "local", *option_words, self._disk_container)
        mount = f"{self._disk_container}:{DATA}"
        docker(
            "run", "--detach", "--name", self._disk_container, "--volume", mount,
            "--entrypoint", "sleep", POSTGRES_IMAGE, "infinity",
        )  # fmt: skip

    def _command(self) -> Sequence[str]:
        return [
            "run", "--detach", "--name", self._container, "--restart", "always",
            "--volume", f"{self._disk_container}:{DATA}",
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
