"""The embedded PostgreSQL and NATS servers: start, stop, crash recovery and access control."""

import asyncio
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import nats
import psutil
import psycopg
import pytest
from nats.js.api import StorageType

from cli.local.engines import Engine
from cli.local.errors import EngineError, UserNamespaceError
from cli.local.nats import EmbeddedNats
from cli.local.ports import free_port, free_ports
from cli.local.postgres import EmbeddedPostgres, make_own_directory
from shared.database.engine import with_login
from tests.support.marks import slow


@pytest.fixture
def cleanup() -> Iterator[ExitStack]:
    """Stop the servers at the end of the test, the last started first."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def postgres(tmp_path: Path, cleanup: ExitStack) -> Callable[[], EmbeddedPostgres]:
    """Return a factory; each call makes a server on the same data and does not start it."""

    def make() -> EmbeddedPostgres:
        engine = EmbeddedPostgres(tmp_path / "postgres", tmp_path / "postgres.log")
        cleanup.callback(engine.stop)
        return engine

    return make


@pytest.fixture
def broker(tmp_path: Path, cleanup: ExitStack) -> Callable[[], EmbeddedNats]:
    """Return a factory; each call makes a server on the same data and does not start it."""

    def make() -> EmbeddedNats:
        engine = EmbeddedNats(tmp_path / "nats", free_port(), tmp_path / "nats.log")
        cleanup.callback(engine.stop)
        return engine

    return make


def kill_all(*engines: Engine) -> None:
    """SIGKILL the servers and all their processes, as the kernel does when memory runs out."""
    roots = [psutil.Process(engine.pid) for engine in engines]
    processes = [*roots, *(child for root in roots for child in root.children(recursive=True))]
    for process in processes:
        process.kill()
    for engine in engines:
        engine.stop()


def fetch_value(engine: EmbeddedPostgres, query: str) -> object:
    with psycopg.connect(engine.dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


async def test_both_engines_keep_their_data_when_every_process_is_killed(
    postgres: Callable[[], EmbeddedPostgres], broker: Callable[[], EmbeddedNats]
) -> None:
    bus = broker().launch()
    database = postgres().start()
    bus.wait_until_ready()
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("create table kept (number int)")
        for number in range(50):
            connection.execute("insert into kept values (%s)", [number])
        client = await nats.connect(bus.url)
        stream = client.jetstream()
        await stream.add_stream(name="KEPT", subjects=["kept"], storage=StorageType.FILE)
        for number in range(50):
            await stream.publish("kept", str(number).encode())
        kill_all(database, bus)
    await client.close()

    bus, database = broker().launch(), postgres().start()
    bus.wait_until_ready()
    assert fetch_value(database, "select array_agg(number order by number) from kept") == list(
        range(50)
    )
    client = await nats.connect(bus.url)
    messages = [await client.jetstream().get_msg("KEPT", seq) for seq in range(1, 51)]
    assert [message.data for message in messages] == [str(number).encode() for number in range(50)]
    await client.close()


def test_nats_moves_when_another_program_takes_its_port(
    broker: Callable[[], EmbeddedNats],
) -> None:
    bus = broker()
    with socket.create_server(("127.0.0.1", bus.port)) as other:
        bus.launch().wait_or_move()
        assert bus.port != other.getsockname()[1]
        assert bus.url.endswith(f":{bus.port}")


SYNC_NANOSECONDS: Final = 2_000_000_000


def test_both_engines_are_durable_unless_configured_otherwise(
    tmp_path: Path, postgres: Callable[[], EmbeddedPostgres], cleanup: ExitStack
) -> None:
    port, monitor = free_ports(2)
    monitored = {"http": f"127.0.0.1:{monitor}"}
    home, log = tmp_path / "nats", tmp_path / "nats.log"
    database, bus = postgres().start(), EmbeddedNats(home, port, log, also=monitored).start()
    cleanup.callback(bus.stop)
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert fetch_value(database, f"show {setting}") == "on"
    assert _jetstream(monitor)["sync_interval"] == SYNC_NANOSECONDS
    database.stop()
    bus.stop()

    volatile_database = EmbeddedPostgres(database.data, database.log, durable=False).start()
    cleanup.callback(volatile_database.stop)
    volatile_bus = EmbeddedNats(home, port, log, durable=False, also=monitored).start()
    cleanup.callback(volatile_bus.stop)
    assert fetch_value(volatile_database, "show fsync") == "off"
    assert _jetstream(monitor)["sync_interval"] != SYNC_NANOSECONDS


def _jetstream(port: int) -> dict[str, object]:
    """Read the JetStream configuration from the server's monitoring port."""
    with urlopen(f"http://127.0.0.1:{port}/varz") as answer:
        config: dict[str, object] = json.load(answer)["jetstream"]["config"]
    return config


def test_a_clean_stop_keeps_the_data_for_the_next_start(
    postgres: Callable[[], EmbeddedPostgres], broker: Callable[[], EmbeddedNats]
) -> None:
    database, bus = postgres().start(), broker().start()
    with psycopg.connect(database.dsn) as connection:
        connection.execute("create table kept as select 42 as answer")
    idle = psycopg.connect(database.dsn)
    for engine in (database, bus):
        engine.stop()
        assert not engine.alive()
        engine.stop()
    idle.close()
    assert not (database.data / "postmaster.pid").exists()
    assert fetch_value(database.start(), "select answer from kept") == 42
    assert bus.start().alive()


def test_an_engine_runs_in_its_own_process_group(broker: Callable[[], EmbeddedNats]) -> None:
    bus = broker().start()
    assert os.getpgid(bus.pid) == bus.pid


@pytest.mark.parametrize("content", ["{foreign}\n/elsewhere\n1\n5432\n", *slow("", "garbage\n")])
def test_a_misleading_pid_file_does_not_prevent_the_start(
    content: str, postgres: Callable[[], EmbeddedPostgres], cleanup: ExitStack
) -> None:
    database = postgres().start()
    kill_all(database)
    foreign = cleanup.enter_context(subprocess.Popen(["sleep", "600"]))
    cleanup.callback(foreign.kill)
    (database.data / "postmaster.pid").write_text(content.format(foreign=foreign.pid))
    assert fetch_value(postgres().start(), "select 1") == 1
    assert foreign.poll() is None


def test_an_orphaned_server_is_shut_down_before_a_new_start(
    postgres: Callable[[], EmbeddedPostgres], broker: Callable[[], EmbeddedNats]
) -> None:
    orphans = [postgres().start(), broker().start()]
    assert fetch_value(postgres().start(), "select 1") == 1
    assert broker().start().alive()
    assert not any(orphan.alive() for orphan in orphans)
    assert "received fast shutdown request" in orphans[0].log.read_text()
    assert "Server Exiting" in orphans[1].log.read_text()


def test_a_start_waits_for_the_processes_of_a_killed_server(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    database = postgres().start()
    connection = psycopg.connect(database.dsn)
    os.kill(database.pid, signal.SIGKILL)
    assert fetch_value(postgres().start(), "select 1") == 1
    connection.close()


def test_the_unfinished_cluster_of_a_killed_start_is_removed(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    database = postgres()
    unfinished = database.data.with_name("postgres.unfinished")
    unfinished.mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18")
    database.data.mkdir()
    assert fetch_value(database.start(), "select 1") == 1
    assert not unfinished.exists()


def test_foreign_data_is_not_touched(postgres: Callable[[], EmbeddedPostgres]) -> None:
    database = postgres()
    database.data.mkdir()
    (database.data / "novel.txt").write_text("Call me Ishmael.")
    with pytest.raises(EngineError, match="neither empty nor a PostgreSQL cluster"):
        database.start()
    assert [path.name for path in database.data.iterdir()] == ["novel.txt"]


def test_data_of_another_version_is_rejected_with_instructions(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    database = postgres()
    database.data.mkdir()
    (database.data / "PG_VERSION").write_text("17\n")
    with pytest.raises(EngineError, match=r"created by PostgreSQL 17, but \d+.*`pg_dumpall`"):
        database.start()


@pytest.mark.skipif(sys.platform != "linux", reason="user namespaces exist only on Linux")
def test_root_without_a_user_namespace_gets_instructions(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    database = postgres()
    database.appear_as_uid = -1  # the kernel rejects it, as on a machine without user namespaces
    with pytest.raises(UserNamespaceError, match=r"normal user.*docker compose up"):
        database.start()
    assert not database.data.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may enter directories of other users")
def test_root_gets_an_error_for_a_directory_that_postgres_may_not_enter(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, 1234, 1234)
    database = EmbeddedPostgres(home / "data" / "postgres", tmp_path / "log")
    with pytest.raises(EngineError, match=r"/home belongs to user 1234 .*VIGIL_DATA"):
        database.start()


def test_a_port_in_use_is_reported_with_the_server_error(
    broker: Callable[[], EmbeddedNats], tmp_path: Path
) -> None:
    bus = broker().start()
    second_bus = EmbeddedNats(tmp_path / "second", bus.port, tmp_path / "second.log")
    with pytest.raises(EngineError, match=r"(?s)ended with 1 while .*ddress already in use"):
        second_bus.start()
    assert not second_bus.alive()


async def test_only_the_main_thread_may_start_a_server(
    broker: Callable[[], EmbeddedNats],
) -> None:
    with pytest.raises(EngineError, match="main thread"):
        await asyncio.to_thread(broker().start)


def test_only_its_own_user_reaches_postgres_through_a_socket(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    database = postgres().start()
    assert fetch_value(database, "show listen_addresses") == ""
    statuses = [entry.status for entry in psutil.Process(database.pid).net_connections("inet")]
    assert statuses == []
    for path, mode in ((database.data, 0o700), (database.data / ".s.PGSQL.5432", 0o700)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("create role somebody login password 'secret'")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(database.dsn, user="somebody", password="wrong")


def test_a_cluster_with_trust_authentication_is_secured_and_keeps_its_data(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    database = postgres().start()
    with psycopg.connect(database.dsn) as connection:
        connection.execute("create table kept as select 42 as answer")
    database.stop()
    hba = database.data / "pg_hba.conf"
    hba.write_text("local all all trust\nhost all all 127.0.0.1/32 trust\n")
    second = postgres().start()
    assert fetch_value(second, "select answer from kept") == 42
    assert fetch_value(second, "select count(*) from pg_hba_file_rules where type = 'host'") == 0
    assert stat.S_IMODE(hba.stat().st_mode) == 0o600


def test_a_data_path_too_long_for_a_socket_gets_a_short_socket_path(
    tmp_path: Path, cleanup: ExitStack
) -> None:
    deep = tmp_path / ('a, long "name" ' * 8) / "postgres"
    database = EmbeddedPostgres(deep, tmp_path / "postgres.log")
    cleanup.callback(database.stop)
    assert database.sockets.parent == Path("/tmp")
    assert fetch_value(database.start(), "select 1") == 1
    assert stat.S_IMODE(database.sockets.stat().st_mode) == 0o700
    database.stop()
    assert not database.sockets.exists()


def test_a_socket_directory_of_another_user_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    for path in (tmp_path / "file", tmp_path / "link"):
        with pytest.raises(EngineError, match="belongs to another user"):
            make_own_directory(path)


@pytest.mark.parametrize("name", ['a b "c"&?#%', *slow("with, a comma")])
def test_a_data_path_with_special_characters_accepts_connections(
    tmp_path: Path, cleanup: ExitStack, name: str
) -> None:
    database = EmbeddedPostgres(tmp_path / name, tmp_path / "postgres.log")
    cleanup.callback(database.stop)
    assert (database.sockets == database.data) is ("," not in name)
    assert fetch_value(database.start(), "select 1") == 1
    psycopg.connect(with_login(database.dsn, role="postgres", password="any")).close()
