"""The commands of docs/operations/backup.md for containers, as they are written there."""

import re
import subprocess
from pathlib import Path
from uuid import UUID

import pytest

from tests.support.cluster.stack import Stack
from tests.support.cluster.watch import Watch
from tests.support.paths import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

PAGE = ROOT / "docs" / "operations" / "backup.md"
SECONDS = 300


def documented_commands() -> list[str]:
    """The scripts of the section: the backup, and the restore."""
    section = PAGE.read_text().split("\n### Docker Compose\n")[1].split("\n### ")[0]
    return re.findall(r"^```\n(.*?)^```", section, re.M | re.S)


def run_script(stack: Stack, script: str, dump: Path) -> None:
    of_project = script.replace("vigil_nats-data", f"{stack.project}_nats-data")
    result = subprocess.run(
        ["bash", "-euc", of_project.replace("vigil.dump", str(dump))],
        cwd=ROOT,
        env=stack.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]


def status_in(stack: Stack, dump: Path, iteration_id: UUID) -> str:
    """The status of the iteration in the dump."""
    command = ["docker", "compose", "exec", "-T", "postgres", "pg_restore", "--file=-"]
    with dump.open("rb") as source:
        rows = subprocess.run(
            [*command, "--data-only", "--table=iterations"],
            cwd=ROOT,
            env=stack.environment,
            stdin=source,
            capture_output=True,
            check=True,
            text=True,
        ).stdout.splitlines()
    [names] = [line for line in rows if line.startswith("COPY")]
    columns = re.split(r", ", names[names.index("(") + 1 : names.index(")")])
    [row] = [line.split("\t") for line in rows if line.startswith(str(iteration_id))]
    return row[columns.index("status")]


def test_a_backup_during_an_iteration_is_restored_and_the_iteration_ends(
    watch: Watch, tmp_path: Path
) -> None:
    stack, dump = watch.stack, tmp_path / "vigil.dump"
    backup, restore = documented_commands()
    watch.plan(queries=12)
    watch.slow(0.3)
    watch.start()
    watch.wait_for_queries(1, 2)
    run_script(stack, backup, dump)
    first = watch.ended_whole(1, queries=12)
    watch.ended_whole(watch.run(), queries=12)

    run_script(stack, restore, dump)
    assert status_in(stack, dump, first.id) == "running"
    stack.up()
    restored = watch.ended_whole(1, queries=12)
    assert restored.id == first.id
    assert stack.api.agent(watch.word).iterations_started == 1
    watch.assert_no_dead_letters()
    watch.plan(queries=1)  # the sandbox has forgotten its script
    watch.ended_whole(watch.run(), queries=1)
