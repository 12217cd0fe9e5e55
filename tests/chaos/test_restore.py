"""Restore drills: a backup is taken while agents work, and an empty machine continues from it."""

from pathlib import Path
from typing import Final

import pytest

from tests.chaos.conftest import open_runner
from tests.support.chaos.figures import Figures
from tests.support.chaos.installation import running_installation
from tests.support.chaos.restore_drill import AGENTS, Drill
from tests.support.chaos.scenario_run import ScenarioRun
from tests.support.sandbox_control import Sandbox
from tests.support.seeds import repeatable

pytestmark = pytest.mark.chaos

DRILLS: Final = 4


async def test_a_restored_backup_continues(
    baseline: ScenarioRun,
    figures: Figures,
    seed: int,
    sandbox_server: str,
    tmp_path: Path,
) -> None:
    await run_drill(baseline, figures, seed, sandbox_server, tmp_path)


@pytest.mark.slow
async def test_more_restored_backups_continue(
    baseline: ScenarioRun,
    figures: Figures,
    seed: int,
    seeds_wanted: int | None,
    sandbox_server: str,
    tmp_path: Path,
) -> None:
    for number in range(1, seeds_wanted or DRILLS):
        with repeatable(seed + number):
            home = tmp_path / str(number)
            home.mkdir()
            await run_drill(baseline, figures, seed + number, sandbox_server, home)


async def run_drill(
    baseline: ScenarioRun, figures: Figures, seed: int, sandbox_url: str, home: Path
) -> None:
    drill = Drill(home / "backup.tar", home / "restored", seed)
    async with open_runner(running_installation(home / "source", sandbox_url)) as source:
        await drill.back_up_under_load(source)
    drill.restore()
    assert await drill.load_restored_state() == drill.state
    drill.script(Sandbox(sandbox_url))
    async with open_runner(running_installation(drill.target, sandbox_url)) as restored:
        finished = await drill.finish(restored)
    assert finished.faults == []
    assert finished.results == [baseline.result] * AGENTS
    # A call that the backup knows as answered is not sent again; all others are, once.
    expected_calls = AGENTS * sum(baseline.billed.values())
    assert finished.calls == expected_calls
    assert (finished.billed, finished.repeated) == (expected_calls - drill.state.answered_calls, 0)
    figures.add("restore drills")
    figures.add("open iterations continued from a backup", AGENTS - len(drill.state.ended_agents))
    figures.sample("a backup of an installation at work", drill.backup_seconds)
    figures.sample("its restore on an empty machine", drill.restore_seconds)
