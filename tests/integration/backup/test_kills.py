"""Backups and restores that are killed at random moments: the source is unharmed, the target complete or refused."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

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
