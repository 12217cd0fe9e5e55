"""Rolling upgrade and downgrade under load: the newest release and the tree under test run side by side."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from cli.local.members import CONSUMER_SERVICES
from shared.runtime.provision import provision
from tests.chaos.conftest import open_runner
from tests.support.chaos import released
from tests.support.chaos.figures import Figures
from tests.support.chaos.installation import Installation, running_installation
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.chaos.scenarios import assert_all_like_baseline, start_agents

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

AGENTS: Final = 20
SETTINGS: Final = {"VIGIL_SCHEDULER_TICK_SECONDS": "0.1"}
"""Default leases and republishing, so that only the replacement disturbs the services."""


@pytest.fixture(scope="module")
def old_tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    try:
        yield released.tree_of(released.NEWEST, tmp_path_factory.mktemp("released"))
    except released.MissingHistoryError as error:
        pytest.skip(f"the commit of {released.NEWEST} is not in this clone: {error}")


@pytest.fixture(scope="module")
async def runner(
    tmp_path_factory: pytest.TempPathFactory, sandbox_server: str, old_tree: Path
) -> AsyncIterator[ScenarioRunner]:
    """An installation of the released version, whose tables this version has migrated while its services ran.

    This process reads the tables with the models of this version.
    """
    opened = running_installation(
        tmp_path_factory.mktemp("rolling"),
        sandbox_server,
        settings=SETTINGS,
        released_tree=old_tree,
    )
    async with open_runner(opened) as scenario_runner:
        await provision(scenario_runner.installation.settings)
        yield scenario_runner


async def test_a_rolling_upgrade_and_downgrade(
    runner: ScenarioRunner,
    baseline: ScenarioRun,
    figures: Figures,
    seed: int,
    old_tree: Path,
) -> None:
    installation = runner.installation
    for number, tree in enumerate([None, old_tree]):
        since = await runner.next_sequence()
        runner.sandbox.reset()
        agents = await start_agents(runner, seed + 1000 * number, AGENTS // 2)
        if tree is not None and newest_migration(tree) < newest_migration(released.ROOT):
            # Its services run all the same: the tables that they know are as they were.
            with pytest.raises(released.RefusedError, match="newer version has used it"):
                await asyncio.to_thread(released.migrate, tree, installation.environment)
        waiting = AGENTS - len(agents)
        for position, kind in enumerate(CONSUMER_SERVICES):
            await replace(installation, runner, kind, tree)
            due = waiting * (position + 1) // len(CONSUMER_SERVICES) - (len(agents) - AGENTS // 2)
            agents += await start_agents(runner, seed + 1000 * number + len(agents), due)
        assert len(agents) == AGENTS
        await assert_all_like_baseline(
            runner, baseline, figures, agents, since, are_versions_mixed=True
        )
    figures.add("iterations under a rolling upgrade and downgrade", 2 * AGENTS)


def newest_migration(tree: Path) -> str:
    return max(file.name for file in (tree / "shared/database/migrations/versions").glob("0*.py"))


async def replace(
    installation: Installation, runner: ScenarioRunner, kind: str, tree: Path | None
) -> None:
    """Start a replica of the other version, then stop those of this one in order."""
    before = installation.replicas(kind)
    name = installation.add_replica(kind, tree)
    await installation.wait_until_running([name])
    for old in before:
        installation.not_restarted.add(old)
        installation.send(old, signal.SIGTERM)
        await runner.wait_for_exit(old, exit_code=0)
