"""`vigil up` on a machine with other users: they have no access, and each service has only its own privileges."""

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
"""The pg_hba.conf of earlier versions of `vigil up`."""
SERVICES_WITH_ROLES = [service.name for service in SERVICES if service.has_database_role]


@pytest.fixture(scope="module")
def home() -> Iterator[Path]:
    """A directory open to every user, without a umask: permissions are those that Vigil sets."""
    directory = Path(tempfile.mkdtemp(prefix="vigil-open-", dir="/tmp"))
    directory.chmod(0o755)
    before = os.umask(0)
    yield directory
    os.umask(before)
    shutil.rmtree(directory)


@pytest.fixture(scope="module")
def vigil(home: Path) -> Iterator[Installation]:
    with installed(home) as installation:
        installation.data.root.mkdir(mode=0o755)  # as a user may have created it for --data
        installation.up()
        yield installation


@pytest.fixture(scope="module")
def owner(vigil: Installation) -> Iterator[psycopg.Connection]:
    with psycopg.connect(vigil.running.database_url, autocommit=True) as connection:
        yield connection


def login(vigil: Installation, service: str) -> dict[str, str]:
    return Keys(vigil.data.keys, private=True).login_of(service)


def listening(vigil: Installation) -> tuple[list[int], list[str]]:
    """TCP ports and Unix sockets of every process; all ports must be on loopback."""
    ports: set[int] = set()
    sockets: set[str] = set()
    for process in vigil.processes():
        for connection in process.net_connections(kind="inet"):
            if connection.status == psutil.CONN_LISTEN:
                assert connection.laddr.ip == "127.0.0.1", connection
                ports.add(connection.laddr.port)
        sockets |= {
            str(connection.laddr)
            for connection in process.net_connections(kind="unix")
            if connection.laddr
        }
    return sorted(ports), sorted(sockets)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_has_no_access(vigil: Installation) -> None:
    data, running = vigil.data, vigil.running
    ports, sockets = listening(vigil)
    assert set(running.ports.values()) == set(ports)
    assert any("PGSQL" in path for path in sockets)
    report = intrude(
        ports=ports,
        sockets=sockets,
        paths=[str(path) for path in (data.root, *data.root.rglob("*"))],
        socket_directory=str(data.postgres),
        roles=["postgres", *map(role_name, SERVICES_WITH_ROLES)],
        users=[service.name for service in SERVICES if service.has_nats_user],
    )
    assert (report["uid"], report["readable"], report["sockets"], report["postgres"]) == (
        65534,
        [],
        [],
        [],
    )
    assert [port for port, answers in report["nats"].items() if answers] == [
        str(running.ports["nats"])
    ]
    answers = report["nats"][str(running.ports["nats"])]
    assert len(answers) > 2 * len(SERVICES_WITH_ROLES)
    assert {answer for _, answer in answers} == {"-ERR 'Authorization Violation'"}
    api = {(path, host): code for path, host, code in report["http"].pop(str(running.ports["api"]))}
    assert api["/api/v1/agents", "127.0.0.1"] == 401
    assert api["/api/v1/agents", "evil.example"] != 200
    assert {code for _, _, code in report["http"].pop(str(running.ports["sandbox"]))} == {401}
    # NATS's client port answers no HTTP; the services' ports serve only health checks.
    assert {code for responses in report["http"].values() for _, _, code in responses} == {404}


def intrude(**targets: Any) -> dict[str, Any]:
    result = subprocess.run(
        [sys.executable, "-m", "tests.support.e2e.intruder"],
        input=json.dumps(targets),
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def test_the_data_directory_is_accessible_to_its_user_only(vigil: Installation) -> None:
    modes = {path: stat.S_IMODE(path.lstat().st_mode) for path in vigil.data.root.rglob("*")}
    modes[vigil.data.root] = stat.S_IMODE(vigil.data.root.stat().st_mode)
    assert {path for path, mode in modes.items() if mode & 0o077} == set()
    keys = {path: mode for path, mode in modes.items() if vigil.data.keys in path.parents}
    assert {mode for path, mode in keys.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in keys.items() if path.is_file()} == {0o600}
    assert {path.stat().st_uid for path in keys} == {os.geteuid()}


def test_passwords_appear_only_in_their_files(vigil: Installation) -> None:
    secrets = {
        login(vigil, service.name)[name]
        for service in SERVICES
        for name in login(vigil, service.name)
        if name.endswith("password")
    }
    assert len(secrets) > len(SERVICES_WITH_ROLES)
    lines = [" ".join(process.cmdline()) for process in vigil.processes()]
    logs = [file.read_text(errors="replace") for file in vigil.data.logs.glob("*.log")]
    output = "\n".join([*lines, *logs, vigil.output])
    assert [secret for secret in secrets if secret in output] == []


def test_services_are_not_superusers(vigil: Installation, owner: psycopg.Connection) -> None:
    roles = owner.execute(
        "select rolname, rolsuper or rolcreaterole or rolcreatedb or rolbypassrls or rolreplication"
        " from pg_roles where rolname like 'vigil\\_%'"
    ).fetchall()
    assert dict(roles) == {role_name(name): False for name in SERVICES_WITH_ROLES}
    sessions = owner.execute(
        "select distinct substring(application_name from 'vigil-(\\w+)@'), usename"
        " from pg_stat_activity where application_name like 'vigil-%@%'"
    ).fetchall()
    assert len(sessions) > 5
    assert [(name, role) for name, role in sessions if role != role_name(name)] == []


@pytest.mark.parametrize("service", SERVICES_WITH_ROLES)
def test_a_service_cannot_run_programs_or_assume_another_role(
    vigil: Installation, service: str
) -> None:
    credentials = login(vigil, service)
    role, password = credentials["database_user"], credentials["database_password"]
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
    credentials = login(vigil, "researcher")
    client = await nats.connect(
        vigil.running.nats_url,
        user=credentials["nats_user"],
        password=credentials["nats_password"],
        inbox_prefix="_INBOX_researcher",
    )
    with pytest.raises(NatsTimeoutError):  # NATS does not answer a forbidden publish
        await client.jetstream(timeout=1).publish("iteration.completed", b"{}")
    await client.close()


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux shows the limits of another process"
)
def test_processes_have_a_high_file_limit_and_ignore_sigpipe(vigil: Installation) -> None:
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
def test_commands_connect_to_the_installations_engines(vigil: Installation, tmp_path: Path) -> None:
    (line, *_) = vigil.vigil("top", "--once", "--json").stdout.splitlines()
    assert {row["service"]: row["replicas"] for row in json.loads(line)}["researcher"] == 1
    migrated = vigil.vigil("migrate")
    assert migrated.returncode == 0, migrated.stderr
    assert vigil.vigil("whoami").returncode == 0
    link = vigil.vigil("sign-in-link", "--database")
    assert link.stdout.startswith(vigil.running.api_url), link.stderr
    creation = vigil.vigil("agent", "create", MISSION, "--name", "Batteries", "--interval", "1d")
    assert creation.returncode == 0, creation.stderr
    graph = tmp_path / "graph.jsonl"
    assert vigil.vigil("export", "Batteries", "-o", str(graph)).returncode == 0
    imported = vigil.vigil("import", str(graph), "--name", "Again")
    assert imported.returncode == 0, imported.stderr


@pytest.mark.slow
def test_data_of_a_version_without_passwords_is_secured_and_kept(tmp_path: Path) -> None:
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
def test_data_of_a_newer_version_is_refused_in_one_line(tmp_path: Path) -> None:
    with installed(tmp_path) as vigil:
        vigil.up()
        url = vigil.running.database_url
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("update alembic_version set version_num = '9999'")
        migrated = vigil.vigil("migrate")
        vigil.end()
        started = vigil.vigil("up", "--corpus", "tests/corpus")
        for result in (migrated, started):
            assert result.returncode == 1
            assert len(result.stderr.splitlines()) == 1
            assert all(words in result.stderr for words in ("revision 9999", "Nothing was changed"))
        version = vigil.data.postgres / "PG_VERSION"
        version_text = version.read_text()
        version.write_text("99\n")
        other = vigil.vigil("up", "--corpus", "tests/corpus")
        assert (other.returncode, len(other.stderr.splitlines())) == (1, 1)
        assert "created by PostgreSQL 99" in other.stderr
        assert "newer version of Vigil" in other.stderr
        version.write_text(version_text)
