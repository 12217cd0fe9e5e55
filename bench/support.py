"""Engines for the benchmarks."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from cli.local.postgres import EmbeddedPostgres
from shared.runtime.settings import Settings


@contextmanager
def running_engines(
    home: Path, *, durable: bool = False
) -> Iterator[tuple[EmbeddedPostgres, EmbeddedNats]]:
    """Run PostgreSQL and NATS. Without `durable`, data need not survive a power failure."""
    nats = EmbeddedNats(home / "nats", free_port(), home / "nats.log", durable=durable)
    postgres = EmbeddedPostgres(home / "postgres", home / "postgres.log", durable=durable)
    nats.start()
    try:
        yield postgres.start(), nats
    finally:
        postgres.stop()
        nats.stop()


def provision(settings: Settings) -> None:
    """Create database and streams in a separate process, as `vigil up` does."""
    code = "from cli.local.members import run_provision; run_provision()"
    environment = dict(os.environ) | {
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
    }
    command = [sys.executable, "-c", code]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
