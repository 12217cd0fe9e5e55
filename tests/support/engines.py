"""PostgreSQL and NATS for the tests: embedded as in `vigil up`, or in containers as in the cluster."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from cli.local.postgres import EmbeddedPostgres

CHOICE: Final = "VIGIL_TEST_ENGINES"
EMBEDDED: Final = "embedded"
DOCKER: Final = "docker"
POSTGRES_IMAGE: Final = "pgvector/pgvector:pg17"
NATS_IMAGE: Final = "nats:2.12-alpine"
START_SECONDS: Final = 60


class Postgres(Protocol):
    @property
    def dsn(self) -> str:
        """URL of the maintenance database, as the superuser."""

    def url(self, database: str) -> str: ...


class Nats(Protocol):
    @property
    def url(self) -> str: ...


def chosen() -> str:
    """The engines that $VIGIL_TEST_ENGINES selects. Raises ValueError for an unknown name."""
    choice = os.environ.get(CHOICE) or EMBEDDED
    if choice not in (EMBEDDED, DOCKER):
        raise ValueError(f"{CHOICE} is {choice!r}; there are {EMBEDDED!r} and {DOCKER!r}")
    return choice


@contextmanager
def postgres_of(choice: str, home: Path) -> Iterator[Postgres]:
    """A PostgreSQL server without durability."""
    if choice == DOCKER:
        with _postgres_container() as container:
            yield container
        return
    server = EmbeddedPostgres(home / "data", home / "postgres.log", durable=False)
    server.start()
    yield server
    server.stop()


@contextmanager
def nats_of(choice: str, home: Path) -> Iterator[Nats]:
    if choice == DOCKER:
        with _nats_container() as container:
            yield container
        return
    server = EmbeddedNats(home / "data", free_port(), home / "nats.log", durable=False)
    server.start()
    yield server
    server.stop()


@dataclass(frozen=True)
class _Postgres:
    address: str
    password: str

    @property
    def dsn(self) -> str:
        return self.url("postgres")

    def url(self, database: str) -> str:
        return f"postgresql://postgres:{self.password}@{self.address}/{quote(database, safe='')}"


@dataclass(frozen=True)
class _Nats:
    url: str


@contextmanager
def _postgres_container() -> Iterator[_Postgres]:
    _disable_reaper()
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import ExecWaitStrategy

    password = secrets.token_urlsafe(16)
    readiness_check = ["pg_isready", "-q", "-h", "127.0.0.1", "-U", "postgres"]
    container = (
        DockerContainer(POSTGRES_IMAGE, env={"POSTGRES_PASSWORD": password}, ports=[5432])
        .with_command("postgres -c fsync=off -c max_connections=200")
        .waiting_for(ExecWaitStrategy(readiness_check).with_startup_timeout(START_SECONDS))
    )
    with container as running:
        host, port = running.get_container_host_ip(), running.get_exposed_port(5432)
        yield _Postgres(f"{host}:{port}", password)


@contextmanager
def _nats_container() -> Iterator[_Nats]:
    _disable_reaper()
    from testcontainers.core.container import DockerContainer
    from testcontainers.core.wait_strategies import LogMessageWaitStrategy

    ready = LogMessageWaitStrategy("Server is ready").with_startup_timeout(START_SECONDS)
    container = DockerContainer(NATS_IMAGE, ports=[4222]).with_command("--jetstream")
    with container.waiting_for(ready) as running:
        host, port = running.get_container_host_ip(), running.get_exposed_port(4222)
        yield _Nats(f"nats://{host}:{port}")


def _disable_reaper() -> None:
    """Call before importing testcontainers. Its reaper needs another image; the containers here end with their block."""
    os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")
