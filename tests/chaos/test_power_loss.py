"""NATS loses what it had not synced when the power failed: iterations end all the same, and no call is paid twice."""

import os
import random
import shutil
import signal
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import func, select

from shared.database.tables import Agent, Iteration
from shared.events.topology import CONSUMERS, STREAM
from shared.graph.scope import GraphScope
from tests.support.chaos.evidence import faults, list_events_since, load_result
from tests.support.chaos.figures import Figures
from tests.support.chaos.scenario_run import ScenarioRun, ScenarioRunner
from tests.support.waiting import wait_until

pytestmark = pytest.mark.chaos

AGENTS: Final = 3
MAX_EVENTS: Final = 20
"""Until the last sync, and from then to the power failure; the iterations publish some forty."""


@pytest.mark.parametrize("cut", [pytest.param(False, marks=pytest.mark.slow), True])
async def test_a_power_loss_of_nats(
    runner: ScenarioRunner,
    baseline: ScenarioRun,
    figures: Figures,
    tmp_path: Path,
    seed: int,
    cut: bool,
) -> None:
    chance = random.Random(seed)
    runner.sandbox.reset()
    since = await runner.next_sequence()
    agents = [await runner.begin_another(seed + number) for number in range(AGENTS)]
    await events_are_stored(runner, since + chance.randint(1, MAX_EVENTS))
    synced = await copy_store(runner, tmp_path / "synced")
    await events_are_stored(runner, synced + chance.randint(1, MAX_EVENTS))
    await lose_power(runner, tmp_path / "synced", chance if cut else None)
    for agent in agents:
        await runner.wait_until_ended(agent)
    await wait_until(lambda: ends_received(runner, agents), what="the scheduler to know every end")
    for name in CONSUMERS:
        await runner.wait_until_idle(name)
    assert await differences(runner, baseline, agents) == []
    assert runner.sandbox.repeated() == 0
    assert runner.installation.deaths == []
    figures.add("iterations over a power loss of NATS", len(agents))


async def copy_store(runner: ScenarioRunner, target: Path) -> int:
    """Copies what NATS has written, as a sync would leave it on the disk; returns the last sequence."""
    nats = runner.installation.nats
    os.kill(nats.pid, signal.SIGSTOP)
    shutil.copytree(nats.data / "jetstream", target)
    os.kill(nats.pid, signal.SIGCONT)
    return await runner.next_sequence() - 1


async def events_are_stored(runner: ScenarioRunner, last: int) -> None:
    async def look() -> bool:
        return await runner.next_sequence() > last

    await wait_until(look, what="events to be published")


async def lose_power(runner: ScenarioRunner, synced: Path, chance: random.Random | None) -> None:
    """Kills NATS, and starts it with the copy; with `chance`, the newest block of messages ends at a random byte."""
    installation, nats = runner.installation, runner.installation.nats

    async def is_dead() -> bool:
        return not nats.alive()

    installation.not_restarted.add(nats.name)
    os.kill(nats.pid, signal.SIGKILL)
    await wait_until(is_dead, what="NATS to be dead")
    shutil.rmtree(nats.data / "jetstream")
    shutil.copytree(synced, nats.data / "jetstream")
    if chance is not None:
        blocks = (nats.data / "jetstream").glob(f"*/streams/{STREAM}/msgs/*.blk")
        newest = max(blocks, key=lambda block: int(block.stem))
        os.truncate(newest, chance.randrange(newest.stat().st_size))
    installation.not_restarted.remove(nats.name)


async def ends_received(runner: ScenarioRunner, agents: list[Agent]) -> bool:
    ids = [agent.id for agent in agents]
    statement = select(func.count()).where(
        Iteration.agent_id.in_(ids), Iteration.end_published_at.is_not(None)
    )
    async with runner.database.transaction() as session:
        return await session.scalar(statement) == len(agents)


async def differences(
    runner: ScenarioRunner, baseline: ScenarioRun, agents: list[Agent]
) -> list[str]:
    """How the iterations differ from an undisturbed one. The stream may lack events whose effects are committed."""
    events = await list_events_since(runner.bus, 1)
    found: list[str] = []
    async with runner.database.transaction() as session:
        for agent in agents:
            found += [
                f"{agent.name}: {fault}"
                for fault in await faults(session, events, agent.id)
                if not fault.endswith("was never published")
            ]
            if await load_result(session, GraphScope(agent.owner_id, agent.id)) != baseline.result:
                found.append(f"{agent.name}: its result differs")
    return found
