"""A worker is stopped in the middle of a call: another replica takes over its steps at once."""

import signal
from collections.abc import Collection
from typing import Final
from uuid import UUID

import pytest

from shared.database.tables import Agent
from shared.enums import Phase
from tests.support.chaos.figures import Figures
from tests.support.chaos.lease_probe import handover_seconds, leased_steps
from tests.support.chaos.mission import INSIGHTS, QUERIES
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.chaos.scenarios import Trial, assert_like_baseline
from tests.support.chaos.workers import STEP_KIND_BY_WORKER
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

INSTALLATION: Final = {
    "replicas": dict.fromkeys(STEP_KIND_BY_WORKER, 2),
    "settings": {"VIGIL_DRAIN_SECONDS": "1"},
}
"""Leases and republishing keep their defaults: they must play no part here."""
SLOW_RESPONSE_SECONDS: Final = 6.0
MAX_HANDOVER_SECONDS: Final = 2.0
FIRST_CALLS: Final = {
    "observer": (Phase.OBSERVER, 1),
    "researcher": (Phase.KNOWLEDGE_ACQUISITION, QUERIES),
    "analyzer": (Phase.ANALYSIS_GENERATION, INSIGHTS),
    "adviser": (Phase.ADVICE_GENERATION, 1),
}
"""The first phase of each worker, and how many of its steps run at the same time."""


@pytest.mark.parametrize("worker", STEP_KIND_BY_WORKER)
async def test_a_stopped_workers_steps_are_taken_over_at_once(
    runner: ScenarioRunner, baseline: ScenarioRun, figures: Figures, seed: int, worker: str
) -> None:
    installation = runner.installation
    replicas = installation.replicas(worker)
    since = await runner.next_sequence()
    agent = await start_slow_calls(runner, worker, seed)
    name, epochs = await leasing_replica(runner, replicas)
    installation.not_restarted.add(name)
    installation.send(name, signal.SIGTERM)
    seconds_waited = await handover_seconds(runner.database, epochs)
    await runner.wait_for_exit(name, exit_code=0)
    assert "released unfinished work" in installation.log(name)
    assert_like_baseline(figures, baseline, Trial(await runner.end(agent, since), len(epochs)))
    installation.not_restarted.clear()
    await installation.wait_until_running(replicas)
    assert max(seconds_waited) < MAX_HANDOVER_SECONDS
    for seconds in seconds_waited:
        figures.sample("a worker that is stopped: until another has its step", seconds)


async def start_slow_calls(runner: ScenarioRunner, worker: str, seed: int) -> Agent:
    """Start an agent; return when all steps of that worker wait for a slow response."""
    phase, steps = FIRST_CALLS[worker]
    sandbox = runner.sandbox
    sandbox.reset()
    sandbox.faults(
        {
            "kind": "latency",
            "phase": phase,
            "latency_seconds": SLOW_RESPONSE_SECONDS,
            "count": steps,
        }
    )
    agent = await runner.begin_another(seed)

    async def look() -> bool:
        return sandbox.matched(phase) == steps

    await wait_until(look, what=f"{steps} calls of {phase} to be in flight")
    return agent


async def leasing_replica(
    runner: ScenarioRunner, names: Collection[str]
) -> tuple[str, dict[UUID, int]]:
    """The name of one replica that has leased steps, and the epoch of each step."""
    pids = runner.installation.process_pool.pids()
    epochs = {name: await leased_steps(runner.database, pids[name]) for name in sorted(names)}
    return next((name, steps) for name, steps in epochs.items() if steps)
