"""Backups and restores that are killed at random moments, and `vigil up` on a restored data directory."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import psutil
import psycopg
import pytest

from cli.local.data_directory import DataDirectory
from cli.local.postgres import EmbeddedPostgres
from tests.support.backup import (
    DATABASE,
    digest_tables,
    running_source,
    start_vigil,
    started,
    vigil,
)
from tests.support.seeds import repeatable
from tests.support.waiting import wait_for

ROWS: Final = 20_000
"""So many that the load takes as long as the other parts."""
KILLS: Final = 20

pytestmark = pytest.mark.slow

Source = tuple[DataDirectory, EmbeddedPostgres]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    with running_source(tmp_path_factory.mktemp("source") / "data", rows=ROWS) as running:
        yield running


def test_killed_backups(source: Source, tmp_path: Path, seed: int) -> None:
    home = tmp_path
    directory, postgres = source
    interrupted = 0
    before = load(postgres)
    arguments = ("backup", home / "backup.tar", "--data", directory.root)
    seconds = time_of(*arguments, cwd=home)
    whole = (home / "backup.tar").read_bytes()
    for number in range(KILLS):
        with repeatable(seed + number):
            (home / "backup.tar").unlink(missing_ok=True)
            kill_after(Random(seed + number).uniform(0, seconds), *arguments, cwd=home)
            if (home / "backup.tar").exists():
                assert vigil("restore", "--check", "backup.tar", cwd=home)[0] == 0
            else:
                interrupted += 1
            wait_for(lambda: has_no_backup(postgres) or None, "the server to notice the kill")
            assert load(postgres) == before
    (home / "backup.tar").unlink(missing_ok=True)
    assert vigil(*arguments, cwd=home)[0] == 0
    assert abs((home / "backup.tar").stat().st_size - len(whole)) < 2000
    assert {file.name for file in home.iterdir()} <= {"backup.tar", ".cache"}
    assert interrupted > 0


def test_killed_restores(source: Source, tmp_path: Path, seed: int) -> None:
    home = tmp_path
    directory, postgres = source
    interrupted = 0
    before = load(postgres)
    backup, target = home / "backup.tar", home / "target"
    assert vigil("backup", backup, "--data", directory.root, cwd=home)[0] == 0
    arguments = ("restore", backup, "--data", target)
    seconds = time_of("restore", backup, "--data", home / "first", cwd=home)
    for number in range(KILLS):
        with repeatable(seed + number):
            kill_after(Random(seed + number).uniform(0, 1.1 * seconds), *arguments, cwd=home)
            if (target / "postgres").exists():
                assert_complete(target, before)
                target = home / f"target-{number}"
                arguments = ("restore", backup, "--data", target)
            elif DataDirectory(target).unfinished_restore.exists():
                interrupted += 1
                code, _, errors = vigil("up", "--data", target, cwd=home)
                assert (code, "a restore into it was interrupted" in errors) == (1, True), errors
            assert load(postgres) == before
    if not (target / "postgres").exists():
        assert vigil(*arguments, cwd=home)[0] == 0
    assert_complete(target, before)
    assert not DataDirectory(target).unfinished_restore.exists()
    assert interrupted > 0


def assert_complete(target: Path, rows: dict[str, tuple[int, str]]) -> None:
    with started(target) as connection:
        assert digest_tables(connection) == rows


def load(postgres: EmbeddedPostgres) -> dict[str, tuple[int, str]]:
    with psycopg.connect(postgres.url(DATABASE)) as connection:
        return digest_tables(connection)


def has_no_backup(postgres: EmbeddedPostgres) -> bool:
    """Whether no transaction of a backup is open: it would keep the server from cleaning up."""
    query = """select count(*) from pg_stat_activity
      where application_name in ('vigil-backup', 'pg_dump')"""
    with psycopg.connect(postgres.url(DATABASE)) as connection:
        return connection.execute(query).fetchone() == (0,)


def time_of(*arguments: str | Path, cwd: Path) -> float:
    started_at = time.monotonic()
    assert start_vigil(*arguments, cwd=cwd).wait(60) == 0
    return time.monotonic() - started_at


def kill_after(seconds: float, *arguments: str | Path, cwd: Path) -> None:
    """Kills the command after that time, unless it has ended."""
    process = start_vigil(*arguments, cwd=cwd)
    children: list[psutil.Process] = []
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    if process.poll() is None:
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    _, alive = psutil.wait_procs(children, timeout=60)
    assert alive == []


POLICIES = "select tablename, policyname, qual, with_check from pg_policies order by 1, 2"
PRIVILEGES = """
select table_name, grantee, privilege_type from information_schema.role_table_grants
where table_schema = 'public' order by 1, 2, 3
"""
ROOTS = "select agent_id, seq, hash from graph_head order by agent_id"


def test_a_restored_installation_continues(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    code, _, errors = vigil("demo", "--keep", old, "--exit", "--json", cwd=tmp_path)
    assert code == 0, errors
    assert vigil("backup", "backup.tar", "--data", old, cwd=tmp_path)[0] == 0
    assert vigil("restore", "backup.tar", "--data", new, cwd=tmp_path)[0] == 0
    before = look_up(old, ROOTS)
    assert before
    assert look_up(new, ROOTS) == before
    with (tmp_path / "up.log").open("wb") as log:
        up = start_vigil("up", "--data", new, cwd=tmp_path, stdout=log, stderr=log)
        try:
            continue_iterations(new, tmp_path)
        finally:
            up.send_signal(signal.SIGINT)
            up.wait(60)
    for query in (POLICIES, PRIVILEGES):
        assert look_up(new, query) == look_up(old, query)
    assert up.returncode == 130 or up.returncode == 0


def continue_iterations(data: Path, home: Path) -> None:
    def answers() -> str | None:
        code, out, _ = vigil("agent", "list", "--json", "--data", data, cwd=home)
        return out if code == 0 else None

    [agent] = json.loads(wait_for(answers, "the restored installation to start"))
    [verified] = json.loads(vigil("verify", "--all", "--json", "--data", data, cwd=home)[1])
    assert (verified["holds"], verified["checked"]["nodes"] > 0) == (True, True)
    code, _, errors = vigil("run", agent["id"], "--wait", "--data", data, cwd=home)
    assert code == 0, errors


def look_up(data: Path, query: str) -> list[tuple[Any, ...]]:
    with started(data) as connection:
        return connection.execute(query).fetchall()
