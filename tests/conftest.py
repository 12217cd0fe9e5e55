"""Real engines, embedded as in the product or in containers; a separate database for each test."""

import gc
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from uuid import uuid4

import httpx
import psycopg
import pytest
from hypothesis import settings as hypothesis_settings
from nats.js.errors import NotFoundError
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr

from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port
from shared.database import engine as database_engine
from shared.database import migrate
from shared.database.engine import Database
from shared.events.stream_admin import create_missing
from shared.events.topology import CONSUMERS, STREAM
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support import engines
from tests.support.chaos.mission import PAGE
from tests.support.databases import END_CONNECTIONS, TEMPLATE, DatabasePool
from tests.support.engines import Nats, Postgres
from tests.support.paths import CORPUS
from tests.support.running_services import running_services
from tests.support.sandbox_control import SANDBOX_HANDLER, Sandbox
from tests.support.sandbox_prices import SANDBOX_PRICES
from tests.support.seeds import SEED, SEEDS, first_seed, seed_count
from tests.support.waiting import wait_for

gc.disable()  # until the tests are collected

# A loaded machine must not fail a test of random cases: time limits belong to benchmarks.
hypothesis_settings.register_profile("vigil", deadline=None)
hypothesis_settings.load_profile("vigil")


def pytest_collection_finish() -> None:
    """Thousands of collected tests stay until the end; the garbage collector need not visit them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_report_header() -> str:
    return f"engines: {engines.chosen()} ({engines.CHOICE})"


@pytest.fixture(scope="session")
def engine_choice() -> str:
    """Embedded or in containers; read before the tests unset Vigil's environment variables."""
    return engines.chosen()


@pytest.fixture(scope="session")
def seed() -> int:
    """The first seed of this run's random tests."""
    return first_seed()


@pytest.fixture(scope="session")
def seeds_wanted() -> int | None:
    """Number of seeds for slow random tests; None leaves it to the test."""
    return seed_count()


@pytest.fixture(scope="session")
def postgres(engine_choice: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """One server for all tests."""
    with engines.postgres_of(engine_choice, tmp_path_factory.mktemp("postgres")) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(f"create database {TEMPLATE}")
        migrate.upgrade(server.url(TEMPLATE))
        yield server


@pytest.fixture(scope="session")
def database_pool(postgres: Postgres) -> Iterator[DatabasePool]:
    pool = DatabasePool(postgres)
    yield pool
    pool.close()


@pytest.fixture
def database_url(postgres: Postgres, database_pool: DatabasePool) -> Iterator[str]:
    """A migrated database without rows of earlier tests."""
    name = database_pool.take()
    yield postgres.url(name)
    database_pool.give_back(name)


@contextmanager
def cloned(postgres: Postgres, original_url: str | None = None) -> Iterator[str]:
    """Copy a database, which nobody may use meanwhile, for the duration of the block; yields the URL.

    Without `original_url`, it is a new one.
    """
    name = f"test_{uuid4().hex}"
    template = conninfo_to_dict(original_url)["dbname"] if original_url else TEMPLATE
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute(END_CONNECTIONS, [template])
        connection.execute(f"create database {name} template {template} strategy file_copy")
    try:
        yield postgres.url(name)
    finally:
        with psycopg.connect(postgres.dsn, autocommit=True) as connection:
            connection.execute(f"drop database {name} with (force)")


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with connected(database_url) as database:
        yield database


@asynccontextmanager
async def connected(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test")
    try:
        yield database
    finally:
        await database.close()


@pytest.fixture
def unreachable_database_url(monkeypatch: pytest.MonkeyPatch) -> str:
    """The URL of a database that does not answer, which is found out in a second."""
    monkeypatch.setattr(database_engine, "CONNECT_TIMEOUT_SECONDS", 1)
    return "postgresql://postgres@127.0.0.1:1/vigil"


@pytest.fixture(scope="session")
def nats_server(engine_choice: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nats]:
    with engines.nats_of(engine_choice, tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.fixture
def own_nats(tmp_path: Path) -> Iterator[EmbeddedNats]:
    """A server that the test may kill."""
    server = EmbeddedNats(tmp_path / "data", free_port(), tmp_path / "nats.log")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
async def stream_admin(nats_server: Nats) -> AsyncIterator[Bus]:
    """A connection for what happens to the stream between tests."""
    connected = Bus(nats_server.url, name="test")
    await connected.connect()
    yield connected
    await connected.close()


@pytest.fixture
async def nats_url(nats_server: Nats, stream_admin: Bus) -> str:
    """URL of the server, with a new stream."""
    await renew_stream(stream_admin)
    return nats_server.url


async def renew_stream(stream_admin: Bus) -> None:
    jetstream, settings = stream_admin.jetstream, Settings()
    with suppress(NotFoundError):
        await jetstream.delete_stream(STREAM)
    await create_missing(
        jetstream,
        [*CONSUMERS.values()],
        max_age_seconds=settings.stream_max_age_seconds,
        max_bytes=settings.stream_max_bytes,
        replicas=settings.stream_replicas,
    )


@pytest.fixture
async def bus(nats_url: str) -> AsyncIterator[Bus]:
    connected = Bus(nats_url, name="test")
    await connected.connect()
    yield connected
    await connected.close()


@pytest.fixture(scope="session")
def sandbox_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The sandbox in its own process, with a small corpus and its control API."""
    home = tmp_path_factory.mktemp("sandbox")
    corpus = home / "corpus"
    shutil.copytree(CORPUS, corpus)
    (corpus / "supplies.json").write_text(json.dumps(PAGE))
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "sandbox", "--port", str(port), "--handler", SANDBOX_HANDLER]
    with (
        (home / "sandbox.log").open("wb") as log,
        subprocess.Popen([*command, "--corpus", str(corpus)], stdout=log, stderr=log) as process,
    ):
        try:
            # Without an event loop: Playwright already runs one.
            wait_for(lambda: _answers(url), f"the sandbox to answer at {url}")
            yield url
        finally:
            # Else the end of the block would wait for it forever.
            process.terminate()


@pytest.fixture
def sandbox(sandbox_server: str) -> str:
    """The sandbox with a cleared meter, script and faults."""
    httpx.post(f"{sandbox_server}/control/reset", verify=False).raise_for_status()
    return sandbox_server


@pytest.fixture
def settings(database_url: str, nats_url: str) -> Settings:
    """Settings of a service with this test's database and stream."""
    return settings_of_service(database_url, nats_url)


def settings_of_service(database_url: str, nats_url: str) -> Settings:
    return Settings.model_validate(
        {
            "database_url": database_url,
            "nats_url": nats_url,
            "scheduler_tick_seconds": 0.1,
            "drain_seconds": 2.0,
        }
    )


@pytest.fixture
def sandbox_settings(settings: Settings, sandbox: str) -> Settings:
    """The same, with the sandbox as model and search service, and with prices."""
    return with_sandbox(settings, sandbox)


def with_sandbox(settings: Settings, sandbox: str) -> Settings:
    return settings.model_copy(
        update={
            "openai_api_key": SecretStr("sandbox"),
            "openai_base_url": f"{sandbox}/v1",
            "tavily_api_key": SecretStr("sandbox"),
            "tavily_base_url": sandbox,
            "model": "sandbox-reader",
            "prices_file": SANDBOX_PRICES,
        }
    )


@pytest.fixture(autouse=True)
def _no_real_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test may reach a real service with keys from the environment."""
    for name in list(os.environ):
        if name.startswith(("OPENAI_", "TAVILY_", "VIGIL_")) and name not in {SEED, SEEDS}:
            monkeypatch.delenv(name)


def _answers(url: str) -> bool | None:
    try:
        return httpx.get(f"{url}/health", verify=False).status_code == HTTPStatus.OK or None
    except httpx.TransportError:
        return None


@pytest.fixture
def sandbox_control(sandbox: str) -> Sandbox:
    return Sandbox(sandbox)


@pytest.fixture
async def assistant(sandbox_settings: Settings) -> AsyncIterator[None]:
    """A running assistant."""
    async with running_services(sandbox_settings, ["assistant"]):
        yield
