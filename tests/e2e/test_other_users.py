"""`vigil up` on a machine with other users: they get in nowhere, and its own services can do no more than their work."""

import json
import os
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nats
import psutil
import psycopg
import pytest
from nats.errors import TimeoutError as NatsTimeoutError

from cli.cluster.keys import Keys
from cli.local.postgres import EmbeddedPostgres
from cli.local.supervisor import OPEN_FILES
from shared.database.engine import with_login
from shared.database.grants import role_name
from shared.runtime.identity import SERVICES
from tests.support.e2e.installation import MISSION, Installation, installed

REPOSITORY = Path(__file__).parents[2]
TRUSTING = "local all all trust\nhost all all 127.0.0.1/32 trust\n"
"""As `vigil up` of earlier versions had it."""
SERVICES_WITH_ROLES = [service.name for service in SERVICES if service.has_database_role]


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """Where every user may come by, and with no umask: what is closed, Vigil has closed."""
    made = Path(tempfile.mkdtemp(prefix="vigil-open-", dir="/tmp"))
    made.chmod(0o755)
    before = os.umask(0)
    yield made
    os.umask(before)
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def vigil(home: Path) -> Iterator[Installation]:
    with installed(home) as installation:
        installation.data.root.mkdir(mode=0o755)  # as somebody may have made it for --data
        installation.up()
        yield installation


@pytest.fixture(scope="module")
def owner(vigil: Installation) -> Iterator[psycopg.Connection]:
    with psycopg.connect(vigil.running.database_url, autocommit=True) as connection:
        yield connection


def login(vigil: Installation, service: str) -> dict[str, str]:
    return Keys(vigil.data.keys, private=True).login_of(service)


def listening(vigil: Installation) -> tuple[list[int], list[str]]:
    """TCP ports and Unix sockets of every process, all on loopback."""
    ports: set[int] = set()
    sockets: set[str] = set()
    for process in vigil.processes():
        for each in process.net_connections(kind="inet"):
            if each.status == psutil.CONN_LISTEN:
                assert each.laddr.ip == "127.0.0.1", each
                ports.add(each.laddr.port)
        sockets |= {str(each.laddr) for each in process.net_connections(kind="unix") if each.laddr}
    return sorted(ports), sorted(sockets)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_gets_in_nowhere(vigil: Installation) -> None:
    data, running = vigil.data, vigil.running
    ports, sockets = listening(vigil)
    assert set(running.ports.values()) == set(ports)
    assert any("PGSQL" in path for path in sockets)
    told = intrude(
        ports=ports,
        sockets=sockets,
        paths=[str(path) for path in (data.root, *data.root.rglob("*"))],
        socket_directory=str(data.postgres),
        roles=["postgres", *map(role_name, SERVICES_WITH_ROLES)],
        users=[service.name for service in SERVICES if service.has_nats_user],
    )
    assert (told["uid"], told["readable"], told["sockets"], told["postgres"]) == (65534, [], [], [])
    assert [port for port, answers in told["nats"].items() if answers] == [
        str(running.ports["nats"])
    ]
    answers = told["nats"][str(running.ports["nats"])]
    assert len(answers) > 2 * len(SERVICES_WITH_ROLES)
    assert {answer for _, answer in answers} == {"-ERR 'Authorization Violation'"}
    api = {(path, host): code for path, host, code in told["http"].pop(str(running.ports["api"]))}
    assert api["/api/v1/agents", "127.0.0.1"] == 401
    assert api["/api/v1/agents", "evil.example"] != 200
    assert {code for _, _, code in told["http"].pop(str(running.ports["sandbox"]))} == {401}
    # NATS's own client port answers no HTTP at all; the services' ports know only their health.
    assert {code for found in told["http"].values() for _, _, code in found} == {404}


def intrude(**asked: Any) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.e2e.intruder"],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_all_that_is_kept_is_its_users_alone(vigil: Installation) -> None:
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in vigil.data.root.rglob("*")}
    modes[vigil.data.root] = stat.S_IMODE(vigil.data.root.stat().st_mode)
    assert {path for path, mode in modes.items() if mode & 0o077} == set()
    keys = {path: mode for path, mode in modes.items() if vigil.data.keys in path.parents}
    assert {mode for path, mode in keys.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in keys.items() if path.is_file()} == {0o600}
    assert {path.stat().st_uid for path in keys} == {os.geteuid()}


def test_passwords_stand_in_their_files_and_nowhere_else(vigil: Installation) -> None:
    secrets = {
        login(vigil, service.name)[name]
        for service in SERVICES
        for name in login(vigil, service.name)
        if name.endswith("password")
    }
    assert len(secrets) > len(SERVICES_WITH_ROLES)
    lines = [" ".join(process.cmdline()) for process in vigil.processes()]
    logs = [file.read_text(errors="replace") for file in vigil.data.logs.glob("*.log")]
    said = "\n".join([*lines, *logs, vigil.said])
    assert [secret for secret in secrets if secret in said] == []


def test_services_are_no_superusers(vigil: Installation, owner: psycopg.Connection) -> None:
    roles = owner.execute(
        "select rolname, rolsuper or rolcreaterole or rolcreatedb or rolbypassrls or rolreplication"
        " from pg_roles where rolname like 'vigil\\_%'"
    ).fetchall()
    assert dict(roles) == {role_name(name): False for name in SERVICES_WITH_ROLES}
    working = owner.execute(
        "select distinct substring(application_name from 'vigil-(\\w+)@'), usename"
        " from pg_stat_activity where application_name like 'vigil-%@%'"
    ).fetchall()
    assert len(working) > 5
    assert [(name, role) for name, role in working if role != role_name(name)] == []


@pytest.mark.parametrize("service", SERVICES_WITH_ROLES)
def test_no_service_runs_programs_or_is_another(vigil: Installation, service: str) -> None:
    shown = login(vigil, service)
    role, password = shown["database_user"], shown["database_password"]
    url = with_login(vigil.running.database_url, role=role, password=password)
    with psycopg.connect(url, autocommit=True) as connection:
        for forbidden in (
            "copy (select 1) to program 'true'",
            "copy agents from program 'true'",
            "select pg_read_file('/etc/passwd')",
            "create extension dblink",
            "set role postgres",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(forbidden)
    for wrong in ("", "wrong"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(vigil.running.database_url, user=role, password=wrong)


async def test_a_service_publishes_its_own_subjects_only(vigil: Installation) -> None:
    shown = login(vigil, "researcher")
    client = await nats.connect(
        vigil.running.nats_url,
        user=shown["nats_user"],
        password=shown["nats_password"],
        inbox_prefix="_INBOX_researcher",
    )
    with pytest.raises(NatsTimeoutError):  # NATS is silent to what it forbids
        await client.jetstream(timeout=1).publish("iteration.completed", b"{}")
    await client.close()


@pytest.mark.skipif(sys.platform != "linux", reason="limits of another process are Linux's to tell")
def test_processes_have_many_files_and_outlive_a_client_that_hangs_up(vigil: Installation) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
    for process in vigil.processes():
        assert process.rlimit(psutil.RLIMIT_NOFILE)[0] >= allowed, process.cmdline()
        if re.match(r"vigil (?!forkserver)", process.cmdline()[0]):
            assert _ignores_sigpipe(process.pid), process.cmdline()


def _ignores_sigpipe(pid: int) -> bool:
    (ignored,) = re.findall(r"^SigIgn:\s+(\w+)$", Path(f"/proc/{pid}/status").read_text(), re.M)
    return bool(int(ignored, 16) >> (signal.SIGPIPE - 1) & 1)


@pytest.mark.slow
def test_commands_reach_its_engines(vigil: Installation, tmp_path: Path) -> None:
    (told, *_) = vigil.vigil("top", "--once", "--json").stdout.splitlines()
    assert {each["actor"]: each["replicas"] for each in json.loads(told)}["researcher"] == 1
    migrated = vigil.vigil("migrate")
    assert migrated.returncode == 0, migrated.stderr
    assert vigil.vigil("whoami").returncode == 0
    link = vigil.vigil("sign-in-link", "--database")
    assert link.stdout.startswith(vigil.running.api_url), link.stderr
    made = vigil.vigil("agent", "create", MISSION, "--name", "Batteries", "--interval", "1d")
    assert made.returncode == 0, made.stderr
    graph = tmp_path / "graph.jsonl"
    assert vigil.vigil("export", "Batteries", "-o", str(graph)).returncode == 0
    imported = vigil.vigil("import", str(graph), "--name", "Again")
    assert imported.returncode == 0, imported.stderr


@pytest.mark.slow
def test_data_of_a_trusting_version_is_closed_and_kept(tmp_path: Path) -> None:
    with installed(tmp_path) as vigil:
        vigil.up()
        vigil.json("agent", "create", MISSION, "--name", "Batteries", "--interval", "1d")
        vigil.end()
        data = vigil.data
        shutil.rmtree(data.keys)
        (data.postgres / "pg_hba.conf").write_text(TRUSTING)
        data.root.chmod(0o755)
        before = EmbeddedPostgres(data.postgres, tmp_path / "before.log").start()
        with psycopg.connect(before.url("vigil"), autocommit=True) as connection:
            for name in map(role_name, SERVICES_WITH_ROLES):
                connection.execute(f"drop owned by {name}; drop role {name}".encode())
        before.stop()
        (data.postgres / "pg_hba.conf").write_text(TRUSTING)
        vigil.up()
        (agent,) = vigil.json("agent", "list")
        assert agent["name"] == "Batteries"
        assert "trust\nhost" not in (data.postgres / "pg_hba.conf").read_text()
        assert stat.S_IMODE(data.root.stat().st_mode) == 0o700
        assert vigil.vigil("run", "Batteries", "--wait").returncode == 0


@pytest.mark.slow
def test_data_of_a_newer_version_is_refused_in_a_line(tmp_path: Path) -> None:
    with installed(tmp_path) as vigil:
        vigil.up()
        url = vigil.running.database_url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("update alembic_version set version_num = '9999'")
        migrated = vigil.vigil("migrate")
        vigil.end()
        started = vigil.vigil("up", "--corpus", "tests/corpus")
        for told in (migrated, started):
            assert told.returncode == 1
            assert len(told.stderr.splitlines()) == 1
            assert all(words in told.stderr for words in ("revision 9999", "Nothing was changed"))
        version = vigil.data.postgres / "PG_VERSION"
        ours = version.read_text()
        version.write_text("99\n")
        other = vigil.vigil("up", "--corpus", "tests/corpus")
        assert (other.returncode, len(other.stderr.splitlines())) == (1, 1)
        assert "made by PostgreSQL 99" in other.stderr
        assert "newer version of Vigil" in other.stderr
        version.write_text(ours)
