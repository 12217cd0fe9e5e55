"""PostgreSQL and NATS of a measurement's own, which need not survive a power cut."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port, free_ports
from cli.local.postgres import EmbeddedPostgres


@contextmanager
def engines(home: Path) -> Iterator[tuple[EmbeddedPostgres, EmbeddedNats]]:
    port, monitor_port = free_ports(2)
    nats = EmbeddedNats(home / "nats", port, monitor_port, home / "nats.log", durable=False)
    postgres = EmbeddedPostgres(
        home / "postgres", free_port(), home / "postgres.log", durable=False
    )
    nats.start()
    try:
        yield postgres.start(), nats
    finally:
        postgres.stop()
        nats.stop()
