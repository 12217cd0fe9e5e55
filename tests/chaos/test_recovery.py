"""With the default settings: how long the step of a killed worker waits for another replica."""

from collections.abc import Iterator
from typing import Final

import pytest

from shared.failpoints import Failpoint
from tests.support.chaos.figures import Figures
from tests.support.chaos.lease_probe import takeover_seconds
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.chaos.scenarios import Trial, assert_like_baseline
from tests.support.chaos.workers import STEP_KIND_BY_WORKER

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

INSTALLATION: Final = {
    "replicas": dict.fromkeys(STEP_KIND_BY_WORKER, 2),
    "settings": {},
    "armed_together": True,
}
"""Default settings, two replicas of each worker; the first to reach the failpoint is killed."""
MAX_TAKEOVER_SECONDS: Final = 15.0
POINTS: Final = {
    Failpoint.MESSAGE_RECEIVED: "its message in hand",
    Failpoint.LEASE_TAKEN: "the step leased",
    Failpoint.CALL_UNSENT: "a call about to be sent",
    Failpoint.TOOL_APPLIED: "a tool's effect uncommitted",
}
WITHOUT_TOOLS: Final = {"observer"}


def cases() -> Iterator[tuple[str, Failpoint]]:
    for worker in STEP_KIND_BY_WORKER:
        for point in POINTS:
            if point is not Failpoint.TOOL_APPLIED or worker not in WITHOUT_TOOLS:
                yield worker, point


@pytest.mark.parametrize(("worker", "point"), list(cases()))
async def test_another_replica_takes_a_killed_workers_step(
    runner: ScenarioRunner,
    baseline: ScenarioRun,
    figures: Figures,
    seed: int,
    worker: str,
    point: Failpoint,
) -> None:
    installation = runner.installation
    replicas = installation.replicas(worker)
    installation.not_restarted |= replicas
    installation.arm(worker, point)
    since = await runner.next_sequence()
    agent = await runner.begin(seed)
    pid = await runner.wait_for_kill(replicas)
    in_flight = await runner.in_flight(pid)
    seconds_waited = await takeover_seconds(
        runner.database, agent, STEP_KIND_BY_WORKER[worker], pid
    )
    assert_like_baseline(figures, baseline, Trial(await runner.end(agent, since), in_flight))
    installation.not_restarted -= replicas
    await installation.wait_until_running(replicas)
    assert seconds_waited < MAX_TAKEOVER_SECONDS
    figures.sample(
        f"a worker killed with {POINTS[point]}: until another has its step", seconds_waited
    )
