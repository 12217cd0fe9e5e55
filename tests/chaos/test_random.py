"""Many agents, and anybody killed, frozen or told to stop at any time; afterwards all is as if nothing had been."""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from typing import Final

import pytest

from cli.local.engines import Engine
from shared.database.tables import Agent
from shared.events.topology import CONSUMERS
from shared.graph.scope import GraphScope
from tests.chaos.conftest import visited
from tests.support.chaos.evidence import faults, result_of, told_since
from tests.support.chaos.figures import Figures
from tests.support.chaos.house import HASTY, lived_in
from tests.support.chaos.monkey import Monkey
from tests.support.chaos.visit import Visit, Visitor

pytestmark = pytest.mark.chaos

REPLICAS: Final = dict.fromkeys(CONSUMERS, 2)
ACK_WAIT_SECONDS: Final = max(consumer.ack_wait_seconds for consumer in CONSUMERS.values())
LEASE_SECONDS: Final = 3.0
"""Long enough that a loaded machine renews it in time: who is merely slow is not to be taken for dead here."""
FREEZE_SECONDS: Final = 2 * LEASE_SECONDS
AGENT_EACH_SECONDS: Final = 1.0


@pytest.fixture(scope="module")
async def visitor(
    tmp_path_factory: pytest.TempPathFactory, sandbox_server: str
) -> AsyncIterator[Visitor]:
    """Two replicas of everybody, so that whoever is struck has somebody to take over."""
    home = tmp_path_factory.mktemp("crowd")
    settings = {**HASTY, "VIGIL_LEASE_SECONDS": f"{LEASE_SECONDS}"}
    async with visited(
        lived_in(home, sandbox_server, replicas=REPLICAS, settings=settings)
    ) as found:
        yield found


async def test_a_short_rage(
    visitor: Visitor, undisturbed: Visit, figures: Figures, seed: int
) -> None:
    await survives(
        visitor,
        undisturbed,
        figures,
        seed,
        Monkey(visitor, seed, freeze_seconds=FREEZE_SECONDS),
        12.0,
    )


@pytest.mark.slow
async def test_a_long_rage(
    visitor: Visitor, undisturbed: Visit, figures: Figures, seed: int
) -> None:
    seconds = float(os.environ.get("VIGIL_TEST_RAGE_SECONDS") or 180)
    monkey = Monkey(visitor, seed, freeze_seconds=FREEZE_SECONDS)
    await survives(visitor, undisturbed, figures, seed, monkey, seconds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("away", "seconds"),
    [("nats", ACK_WAIT_SECONDS + 5), ("postgres", 15.0), ("both", ACK_WAIT_SECONDS + 5)],
)
async def test_an_engine_that_is_away(
    visitor: Visitor, undisturbed: Visit, figures: Figures, seed: int, away: str, seconds: float
) -> None:
    house = visitor.house
    engines: dict[str, list[Engine]] = {
        "nats": [house.nats],
        "postgres": [house.postgres],
        "both": [house.nats, house.postgres],
    }
    monkey = Monkey(visitor, seed, freeze_seconds=FREEZE_SECONDS)
    visitor.sandbox.reset()
    agents = await crowd(visitor, seed, 4)
    await asyncio.gather(monkey.take_away(engines[away], seconds), monkey.rage(seconds / 2))
    await all_as_if_nothing_had_been(visitor, undisturbed, figures, agents, monkey)


async def survives(
    visitor: Visitor,
    undisturbed: Visit,
    figures: Figures,
    seed: int,
    monkey: Monkey,
    seconds: float,
) -> None:
    visitor.sandbox.reset()
    raging = asyncio.create_task(monkey.rage(seconds))
    agents: list[Agent] = []
    while not raging.done():
        agents += await crowd(visitor, seed + len(agents), 1)
        await asyncio.wait({raging}, timeout=AGENT_EACH_SECONDS)
    await raging
    await all_as_if_nothing_had_been(visitor, undisturbed, figures, agents, monkey)


async def crowd(visitor: Visitor, seed: int, count: int) -> list[Agent]:
    """So many agents, told to run; Postgres may be away for a moment."""
    return [await visitor.begin_another(seed + number) for number in range(count)]


async def all_as_if_nothing_had_been(
    visitor: Visitor,
    undisturbed: Visit,
    figures: Figures,
    agents: Sequence[Agent],
    monkey: Monkey,
) -> None:
    for agent in agents:
        await visitor.ended(agent)
    for name in CONSUMERS:
        await visitor.quiet(name)
    told = await told_since(visitor.bus, 1)
    wrong: list[str] = []
    async with visitor.database.transaction() as session:
        for agent in agents:
            wrong += [f"{agent.name}: {fault}" for fault in await faults(session, told, agent.id)]
            if await result_of(session, GraphScope(agent.owner_id, agent.id)) != undisturbed.result:
                wrong.append(f"{agent.name}: another result")
    repeated = visitor.sandbox.repeated()
    print(
        f"{len(agents)} iterations, {dict(monkey.deeds)}, {repeated} calls paid twice, {monkey.in_flight} in flight"
    )
    assert wrong == []
    assert repeated <= monkey.in_flight
    ended = Counter(event.subject for event, _ in told)
    assert ended["iteration.completed"] >= len(agents)
    figures.add("iterations under random strikes", len(agents))
    for deed, times in monkey.deeds.items():
        figures.add(f"strikes: {deed}", times)
    figures.add("calls in flight when strikes fell", monkey.in_flight)
    figures.add("of these paid twice under strikes", repeated)
