"""Many agents, while processes are killed, frozen and stopped at random; the results do not change."""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from typing import Final

import pytest

from cli.local.engines import Engine
from shared.database.tables import Agent
from shared.events.topology import CONSUMERS
from shared.graph.scope import GraphScope
from tests.support.chaos.evidence import faults, list_events_since, load_result
from tests.support.chaos.fault_injector import FaultInjector
from tests.support.chaos.figures import Figures
from tests.support.chaos.installation import HASTY
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.chaos.scenarios import start_agents

pytestmark = pytest.mark.chaos

ACK_WAIT_SECONDS: Final = max(consumer.ack_wait_seconds for consumer in CONSUMERS.values())
LEASE_SECONDS: Final = 3.0
"""Long enough to be renewed in time on a loaded machine: a slow worker must not lose its lease here."""
INSTALLATION: Final = {
    "replicas": dict.fromkeys(CONSUMERS, 2),
    "settings": {**HASTY, "VIGIL_LEASE_SECONDS": f"{LEASE_SECONDS}"},
}
"""Two replicas of every service, so that one can take over from the other."""
FREEZE_SECONDS: Final = 2 * LEASE_SECONDS
START_INTERVAL_SECONDS: Final = 1.0


async def test_random_faults_for_a_short_time(
    runner: ScenarioRunner, baseline: ScenarioRun, figures: Figures, seed: int
) -> None:
    await run_with_faults(
        runner,
        baseline,
        figures,
        seed,
        FaultInjector(runner, seed, freeze_seconds=FREEZE_SECONDS),
        12.0,
    )


@pytest.mark.slow
async def test_random_faults_for_a_long_time(
    runner: ScenarioRunner, baseline: ScenarioRun, figures: Figures, seed: int
) -> None:
    seconds = float(os.environ.get("VIGIL_TEST_RAGE_SECONDS") or 180)
    injector = FaultInjector(runner, seed, freeze_seconds=FREEZE_SECONDS)
    await run_with_faults(runner, baseline, figures, seed, injector, seconds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("outage", "seconds"),
    [("nats", ACK_WAIT_SECONDS + 5), ("postgres", 15.0), ("both", ACK_WAIT_SECONDS + 5)],
)
async def test_an_engine_outage(
    runner: ScenarioRunner,
    baseline: ScenarioRun,
    figures: Figures,
    seed: int,
    outage: str,
    seconds: float,
) -> None:
    installation = runner.installation
    engines: dict[str, list[Engine]] = {
        "nats": [installation.nats],
        "postgres": [installation.postgres],
        "both": [installation.nats, installation.postgres],
    }
    injector = FaultInjector(runner, seed, freeze_seconds=FREEZE_SECONDS)
    runner.sandbox.reset()
    agents = await start_agents(runner, seed, 4)
    await asyncio.gather(injector.stop_engines(engines[outage], seconds), injector.run(seconds / 2))
    await assert_results_unchanged(runner, baseline, figures, agents, injector)


async def run_with_faults(
    runner: ScenarioRunner,
    baseline: ScenarioRun,
    figures: Figures,
    seed: int,
    injector: FaultInjector,
    seconds: float,
) -> None:
    runner.sandbox.reset()
    injection = asyncio.create_task(injector.run(seconds))
    agents: list[Agent] = []
    while not injection.done():
        agents += await start_agents(runner, seed + len(agents), 1)
        await asyncio.wait({injection}, timeout=START_INTERVAL_SECONDS)
    await injection
    await assert_results_unchanged(runner, baseline, figures, agents, injector)


async def assert_results_unchanged(
    runner: ScenarioRunner,
    baseline: ScenarioRun,
    figures: Figures,
    agents: Sequence[Agent],
    injector: FaultInjector,
) -> None:
    for agent in agents:
        await runner.wait_until_ended(agent)
    for name in CONSUMERS:
        await runner.wait_until_idle(name)
    events = await list_events_since(runner.bus, 1)
    differences: list[str] = []
    async with runner.database.transaction() as session:
        for agent in agents:
            differences += [
                f"{agent.name}: {fault}" for fault in await faults(session, events, agent.id)
            ]
            if await load_result(session, GraphScope(agent.owner_id, agent.id)) != baseline.result:
                differences.append(f"{agent.name}: its result differs")
    repeated = runner.sandbox.repeated()
    print(
        f"{len(agents)} iterations, {dict(injector.fault_counts)}, {repeated} calls paid twice,"
        f" {injector.in_flight} in flight"
    )
    assert differences == []
    assert repeated <= injector.in_flight
    event_counts = Counter(event.subject for event, _ in events)
    assert event_counts["iteration.completed"] >= len(agents)
    figures.add("iterations under random strikes", len(agents))
    for kind, times in injector.fault_counts.items():
        figures.add(f"strikes: {kind}", times)
    figures.add("calls in flight when strikes fell", injector.in_flight)
    figures.add("of these paid twice under strikes", repeated)
