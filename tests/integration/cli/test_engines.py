"""PostgreSQL and NATS from wheels, for real: what a person may do to them, and a machine."""

import asyncio
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
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


@pytest.fixture
def running() -> Iterator[ExitStack]:
    """Stops at the end what was started, the latest first."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def postgres(tmp_path: Path, running: ExitStack) -> Callable[[], EmbeddedPostgres]:
    """Another server on the same data at each call, not started."""

    def make() -> EmbeddedPostgres:
        engine = EmbeddedPostgres(tmp_path / "postgres", tmp_path / "postgres.log")
        running.callback(engine.stop)
        return engine

    return make


@pytest.fixture
def broker(tmp_path: Path, running: ExitStack) -> Callable[[], EmbeddedNats]:
    """Another server on the same data at each call, not started."""

    def make() -> EmbeddedNats:
        engine = EmbeddedNats(tmp_path / "nats", free_port(), tmp_path / "nats.log")
        running.callback(engine.stop)
        return engine

    return make


def kill_all(*engines: Engine) -> None:
    """SIGKILL the servers and all their processes, as the kernel does when memory ends."""
    roots = [psutil.Process(engine.pid) for engine in engines]
    everyone = [*roots, *(child for root in roots for child in root.children(recursive=True))]
    for process in everyone:
        process.kill()
    for engine in engines:
        engine.stop()


def ask(engine: EmbeddedPostgres, query: str) -> object:
    with psycopg.connect(engine.dsn) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


async def test_both_survive_the_kill_of_every_process(
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
    assert ask(database, "select array_agg(number order by number) from kept") == list(range(50))
    client = await nats.connect(bus.url)
    messages = [await client.jetstream().get_msg("KEPT", seq) for seq in range(1, 51)]
    assert [message.data for message in messages] == [str(number).encode() for number in range(50)]
    await client.close()


def test_both_promise_durability_unless_told_otherwise(
    tmp_path: Path, postgres: Callable[[], EmbeddedPostgres], running: ExitStack
) -> None:
    port, monitor = free_ports(2)
    monitored = {"http": f"127.0.0.1:{monitor}"}
    home, log = tmp_path / "nats", tmp_path / "nats.log"
    database, bus = postgres().start(), EmbeddedNats(home, port, log, also=monitored).start()
    running.callback(bus.stop)
    for setting in ("fsync", "synchronous_commit", "full_page_writes"):
        assert ask(database, f"show {setting}") == "on"
    assert _jetstream(monitor)["sync_always"] is True
    database.stop()
    bus.stop()

    careless = EmbeddedPostgres(database.data, database.log, durable=False).start()
    running.callback(careless.stop)
    quick = EmbeddedNats(home, port, log, durable=False, also=monitored).start()
    running.callback(quick.stop)
    assert ask(careless, "show fsync") == "off"
    assert "sync_always" not in _jetstream(monitor)


def _jetstream(port: int) -> dict[str, object]:
    """As the server itself tells, whose monitoring port the test has opened."""
    with urlopen(f"http://127.0.0.1:{port}/varz") as answer:
        config: dict[str, object] = json.load(answer)["jetstream"]["config"]
    return config


def test_a_stop_is_in_order_and_the_next_start_finds_everything(
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
    assert ask(database.start(), "select answer from kept") == 42
    assert bus.start().alive()


def test_the_terminals_interrupt_does_not_reach_them(broker: Callable[[], EmbeddedNats]) -> None:
    bus = broker().start()
    assert os.getpgid(bus.pid) == bus.pid


@pytest.mark.parametrize("content", ["", "garbage\n", "{foreign}\n/elsewhere\n1\n5432\n"])
def test_a_pid_file_that_misleads_does_not_hinder(
    content: str, postgres: Callable[[], EmbeddedPostgres], running: ExitStack
) -> None:
    database = postgres().start()
    kill_all(database)
    foreign = running.enter_context(subprocess.Popen(["sleep", "600"]))
    running.callback(foreign.kill)
    (database.data / "postmaster.pid").write_text(content.format(foreign=foreign.pid))
    assert ask(postgres().start(), "select 1") == 1
    assert foreign.poll() is None


def test_the_server_of_a_killed_run_is_stopped_in_order_first(
    postgres: Callable[[], EmbeddedPostgres], broker: Callable[[], EmbeddedNats]
) -> None:
    orphans = [postgres().start(), broker().start()]
    assert ask(postgres().start(), "select 1") == 1
    assert broker().start().alive()
    assert not any(orphan.alive() for orphan in orphans)
    assert "received fast shutdown request" in orphans[0].log.read_text()
    assert "Server Exiting" in orphans[1].log.read_text()


def test_processes_whose_server_was_killed_are_waited_for(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    database = postgres().start()
    connection = psycopg.connect(database.dsn)
    os.kill(database.pid, signal.SIGKILL)
    assert ask(postgres().start(), "select 1") == 1
    connection.close()


def test_a_start_that_was_killed_leaves_nothing_half_made(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    database = postgres()
    unfinished = database.data.with_name("postgres.unfinished")
    unfinished.mkdir(parents=True)
    (unfinished / "PG_VERSION").write_text("18")
    database.data.mkdir()
    assert ask(database.start(), "select 1") == 1
    assert not unfinished.exists()


def test_data_of_something_else_is_left_alone(postgres: Callable[[], EmbeddedPostgres]) -> None:
    database = postgres()
    database.data.mkdir()
    (database.data / "novel.txt").write_text("Call me Ishmael.")
    with pytest.raises(EngineError, match="neither empty nor a PostgreSQL cluster"):
        database.start()
    assert [path.name for path in database.data.iterdir()] == ["novel.txt"]


def test_data_of_another_version_is_refused_with_the_way_out(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    database = postgres()
    database.data.mkdir()
    (database.data / "PG_VERSION").write_text("17\n")
    with pytest.raises(EngineError, match=r"made by PostgreSQL 17, but \d+.*`pg_dumpall`"):
        database.start()


@pytest.mark.skipif(sys.platform != "linux", reason="user namespaces are Linux's")
def test_root_without_a_user_namespace_is_told_what_to_do(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    database = postgres()
    database.appear_as_uid = -1  # refused by the kernel, as a machine without namespaces would
    with pytest.raises(UserNamespaceError, match=r"ordinary user.*docker compose up"):
        database.start()
    assert not database.data.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root is let into the folders of others")
def test_root_is_told_of_a_folder_that_postgres_may_not_enter(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, 1234, 1234)
    database = EmbeddedPostgres(home / "data" / "postgres", tmp_path / "log")
    with pytest.raises(EngineError, match=r"/home belongs to user 1234 .*VIGIL_DATA"):
        database.start()


def test_a_taken_port_is_told_in_the_servers_words(
    broker: Callable[[], EmbeddedNats], tmp_path: Path
) -> None:
    bus = broker().start()
    refused = EmbeddedNats(tmp_path / "second", bus.port, tmp_path / "second.log")
    with pytest.raises(EngineError, match=r"(?s)ended with 1 while .*ddress already in use"):
        refused.start()
    assert not refused.alive()


async def test_a_server_ends_with_the_thread_so_only_the_main_thread_starts_it(
    broker: Callable[[], EmbeddedNats],
) -> None:
    with pytest.raises(EngineError, match="main thread"):
        await asyncio.to_thread(broker().start)


def test_postgres_is_reached_by_its_user_alone_through_a_socket(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    database = postgres().start()
    assert ask(database, "show listen_addresses") == ""
    kinds = [each.status for each in psutil.Process(database.pid).net_connections("inet")]
    assert kinds == []
    for path, mode in ((database.data, 0o700), (database.data / ".s.PGSQL.5432", 0o700)):
        assert stat.S_IMODE(path.stat().st_mode) == mode
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute("create role somebody login password 'secret'")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(database.dsn, user="somebody", password="wrong")


def test_a_cluster_that_trusted_everybody_is_closed_and_kept(
    postgres: Callable[[], EmbeddedPostgres],
) -> None:
    database = postgres().start()
    with psycopg.connect(database.dsn) as connection:
        connection.execute("create table kept as select 42 as answer")
    database.stop()
    hba = database.data / "pg_hba.conf"
    hba.write_text("local all all trust\nhost all all 127.0.0.1/32 trust\n")
    again = postgres().start()
    assert ask(again, "select answer from kept") == 42
    assert ask(again, "select count(*) from pg_hba_file_rules where type = 'host'") == 0
    assert stat.S_IMODE(hba.stat().st_mode) == 0o600


def test_a_path_too_long_for_a_socket_gets_a_short_one(tmp_path: Path, running: ExitStack) -> None:
    deep = tmp_path / ('a, long "name" ' * 8) / "postgres"
    database = EmbeddedPostgres(deep, tmp_path / "postgres.log")
    running.callback(database.stop)
    assert database.sockets.parent == Path("/tmp")
    assert ask(database.start(), "select 1") == 1
    assert stat.S_IMODE(database.sockets.stat().st_mode) == 0o700
    database.stop()
    assert not database.sockets.exists()


def test_a_socket_directory_that_is_anothers_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "link").symlink_to(tmp_path)
    for planted in (tmp_path / "file", tmp_path / "link"):
        with pytest.raises(EngineError, match="belongs to another user"):
            make_own_directory(planted)


@pytest.mark.parametrize("name", ['a b "c"&?#%', "with, a comma"])
def test_a_path_with_odd_characters_can_be_connected_to(
    tmp_path: Path, running: ExitStack, name: str
) -> None:
    database = EmbeddedPostgres(tmp_path / name, tmp_path / "postgres.log")
    running.callback(database.stop)
    assert (database.sockets == database.data) is ("," not in name)
    assert ask(database.start(), "select 1") == 1
    psycopg.connect(with_login(database.dsn, role="postgres", password="any")).close()
