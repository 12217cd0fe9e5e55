"""Repeated, late and reordered deliveries have the same result as an undisturbed run."""

from collections.abc import Sequence
from functools import partial

import pytest
from sqlalchemy import func, select

from shared.database.engine import Database
from shared.database.tables import DeadLetter
from shared.events.topology import CONSUMERS
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.event_shuffler import shuffled
from tests.support.iteration_result import IterationResult, load_iteration_result
from tests.support.mission import Mission
from tests.support.running_services import (
    BUILDERS,
    ended_iteration,
    is_idle,
    list_events,
    running_services,
)
from tests.support.sandbox_control import Sandbox
from tests.support.seeds import repeatable
from tests.support.waiting import wait_until

CONCURRENT_AGENTS = 3
"""Agents whose events are reordered together."""
REPLICAS = 2


async def test_events_delivered_up_to_five_times_in_any_order_have_the_same_result(
    sandbox_settings: Settings,
    database: Database,
    bus: Bus,
    sandbox: str,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    seeds_wanted: int | None,
) -> None:
    sandbox_control = Sandbox(sandbox)
    mission = await Mission.begin(database, sandbox_control, "undisturbed")
    async with running_services(sandbox_settings):
        await ended_iteration(database, mission.agent, 1)
        await wait_until_all_idle(bus)
    [calm] = await accounts(database, bus, [mission])
    billed = sandbox_control.billed()
    assert calm.is_whole()
    end = seed + (seeds_wanted or 1)
    for first in range(seed, end, CONCURRENT_AGENTS):
        sandbox_control.reset()
        seeds = range(first, min(first + CONCURRENT_AGENTS, end))
        missions = [
            await Mission.begin(database, sandbox_control, f"seed {number}") for number in seeds
        ]
        with repeatable(first):
            await run_shuffled(sandbox_settings, database, bus, monkeypatch, missions, seeds)
            assert sandbox_control.billed() == {
                kind: count * len(seeds) for kind, count in billed.items()
            }
            assert sandbox_control.repeated() == 0
        for number, account in zip(seeds, await accounts(database, bus, missions), strict=True):
            with repeatable(number):
                assert account == calm
                assert account.is_whole()


async def run_shuffled(
    settings: Settings,
    database: Database,
    bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
    missions: Sequence[Mission],
    seeds: Sequence[int],
) -> None:
    """Runs until every iteration has ended and every copy of every event is consumed and acked."""
    seed_by_agent = {
        mission.agent.id: number for mission, number in zip(missions, seeds, strict=True)
    }
    async with (
        shuffled(bus, seed_by_agent, monkeypatch) as disorders,
        running_services(settings, tuple(BUILDERS) * REPLICAS),
    ):
        for mission in missions:
            await ended_iteration(database, mission.agent, 1)
        for shuffler in disorders:
            shuffler.deliver_rest()
        for shuffler in disorders:
            await wait_until(shuffler.is_silent, what="every copy to be delivered")
        await wait_until_all_idle(bus)
    assert [shuffler.contradictions for shuffler in disorders] == [[]] * len(disorders)


async def wait_until_all_idle(bus: Bus) -> None:
    for name in CONSUMERS:
        await wait_until(partial(is_idle, bus, name), what=f"the {name} to be idle")


async def accounts(
    database: Database, bus: Bus, missions: Sequence[Mission]
) -> list[IterationResult]:
    events = await list_events(bus)
    async with database.transaction() as session:
        statement = select(func.count()).select_from(DeadLetter).where(DeadLetter.step_id.is_(None))
        assert await session.scalar(statement) == 0
        return [await load_iteration_result(session, mission, events) for mission in missions]
