"""An upgrade during iterations: a migration that adds columns, then a rolling restart of the services."""

import asyncio
import signal
from pathlib import Path
from typing import Final

import pytest

from shared.database import migrate
from tests.support.chaos.figures import Figures
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.chaos.scenarios import assert_all_like_baseline, start_agents
from tests.support.chaos.workers import STEP_KIND_BY_WORKER
from tests.support.migration_factory import history_with

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

INSTALLATION: Final = {
    "replicas": {**dict.fromkeys(STEP_KIND_BY_WORKER, 2), "aggregator": 2},
    "settings": {"VIGIL_SCHEDULER_TICK_SECONDS": "0.1"},
}
"""Default leases and republishing, so that only the upgrade disturbs the services."""
AGENTS: Final = 6
COLUMNS: Final = """
for table in sorted(Base.metadata.tables):
    op.add_column(table, sa.Column("added_later", sa.Text(), nullable=True))
"""
TABLE: Final = 'op.create_table("added_later", sa.Column("id", sa.Uuid(), primary_key=True))'
INDEX: Final = 'create_index_beside_writers("calls_added_idx", "calls", ["added_later"])'


async def test_a_migration_during_iterations(
    runner: ScenarioRunner, baseline: ScenarioRun, figures: Figures, seed: int, tmp_path: Path
) -> None:
    scripts = history_with(tmp_path, COLUMNS, TABLE, INDEX)
    since = await runner.next_sequence()
    runner.sandbox.reset()
    # Statements that a connection repeats are prepared, and depend on the columns of that time.
    agents = await start_agents(runner, seed, AGENTS)
    await runner.wait_until_ended(agents[0])
    agents += await start_agents(runner, seed + AGENTS, AGENTS)
    await asyncio.to_thread(migrate.upgrade, runner.installation.settings.database_url, scripts)
    agents += await start_agents(runner, seed + 2 * AGENTS, 2)
    await assert_all_like_baseline(runner, baseline, figures, agents, since)
    assert runner.installation.deaths == []
    figures.add("iterations under a migration", len(agents))


async def test_a_rolling_restart(
    runner: ScenarioRunner, baseline: ScenarioRun, figures: Figures, seed: int
) -> None:
    installation = runner.installation
    since = await runner.next_sequence()
    runner.sandbox.reset()
    agents = []
    for number, (name, pid) in enumerate(sorted(installation.process_pool.pids().items())):
        agents += await start_agents(runner, seed + number, 1)
        installation.send(name, signal.SIGTERM)
        assert await runner.wait_for_exit(name, exit_code=0) == pid
        await installation.wait_for_restart(name, pid)
    await assert_all_like_baseline(runner, baseline, figures, agents, since)
    figures.add("iterations under a rolling restart", len(agents))
