"""PostgreSQL and NATS of a measurement's own."""

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
def engines(
    home: Path, *, durable: bool = False
) -> Iterator[tuple[EmbeddedPostgres, EmbeddedNats]]:
    """Which need not survive a power cut, unless `durable`: then they are as they are shipped."""
    nats = EmbeddedNats(home / "nats", free_port(), home / "nats.log", durable=durable)
    postgres = EmbeddedPostgres(home / "postgres", home / "postgres.log", durable=durable)
    nats.start()
    try:
        yield postgres.start(), nats
    finally:
        postgres.stop()
        nats.stop()


def provision(settings: Settings) -> None:
    """Makes the database and the streams what the actors expect, in a process of its own as `vigil up` does."""
    made = "from cli.local.members import run_provision; run_provision()"
    environment = dict(os.environ) | {
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
    }
    command = [sys.executable, "-c", made]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
