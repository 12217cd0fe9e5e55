"""However often, however late and in whatever order the bus delivers: the same comes of it as of an undisturbed run."""

from collections.abc import Sequence
from functools import partial

import pytest
from sqlalchemy import func, select

from shared.database.engine import Database
from shared.database.tables import DeadLetter
from shared.events.topology import CONSUMERS
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.account import Account, account_of
from tests.support.actors import BUILDERS, ended_iteration, idle, running, told
from tests.support.disorder import disordered
from tests.support.levers import Sandbox
from tests.support.mission import Mission
from tests.support.seeds import repeatable
from tests.support.waiting import until

AT_THE_SAME_TIME = 3
"""Agents whose events are disordered together."""
REPLICAS = 2


async def test_events_delivered_up_to_five_times_in_any_order_come_to_the_same(
    sandbox_settings: Settings,
    database: Database,
    bus: Bus,
    sandbox: str,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    seeds_wanted: int | None,
) -> None:
    levers = Sandbox(sandbox)
    mission = await Mission.begin(database, levers, "undisturbed")
    async with running(sandbox_settings):
        await ended_iteration(database, mission.agent, 1)
        await all_is_heard(bus)
    [calm] = await accounts(database, bus, [mission])
    billed = levers.billed()
    assert calm.is_whole()
    end = seed + (seeds_wanted or AT_THE_SAME_TIME)
    for first in range(seed, end, AT_THE_SAME_TIME):
        levers.reset()
        seeds = range(first, min(first + AT_THE_SAME_TIME, end))
        missions = [await Mission.begin(database, levers, f"seed {each}") for each in seeds]
        with repeatable(first):
            await run_in_disorder(sandbox_settings, database, bus, monkeypatch, missions, seeds)
            assert levers.billed() == {kind: count * len(seeds) for kind, count in billed.items()}
            assert levers.repeated() == 0
        for each, account in zip(seeds, await accounts(database, bus, missions), strict=True):
            with repeatable(each):
                assert account == calm
                assert account.is_whole()


async def run_in_disorder(
    settings: Settings,
    database: Database,
    bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
    missions: Sequence[Mission],
    seeds: Sequence[int],
) -> None:
    """Until every iteration has ended and every copy of every event has been heard and acked."""
    of_agent = {mission.agent.id: each for mission, each in zip(missions, seeds, strict=True)}
    async with (
        disordered(bus, of_agent, monkeypatch) as disorders,
        running(settings, tuple(BUILDERS) * REPLICAS),
    ):
        for mission in missions:
            await ended_iteration(database, mission.agent, 1)
        for disorder in disorders:
            disorder.let_out_the_rest()
        for disorder in disorders:
            await until(disorder.is_silent, what="every copy to be let out")
        await all_is_heard(bus)
    assert [disorder.contradictions for disorder in disorders] == [[]] * len(disorders)


async def all_is_heard(bus: Bus) -> None:
    for name in CONSUMERS:
        await until(partial(idle, bus, name), what=f"the {name} to be idle")


async def accounts(database: Database, bus: Bus, missions: Sequence[Mission]) -> list[Account]:
    events = await told(bus)
    async with database.transaction() as session:
        strays = select(func.count()).select_from(DeadLetter).where(DeadLetter.step_id.is_(None))
        assert await session.scalar(strays) == 0
        return [await account_of(session, mission, events) for mission in missions]
