"""A whole installation at its cap, anybody killed, frozen or told to stop: what is billed never passes it."""

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Final

import pytest
from sqlalchemy import select

from shared.billing import budgets
from shared.billing.budgets import ERROR_CODE, Caps
from shared.database.tables import Agent, DeadLetter, Iteration
from tests.chaos.conftest import visited
from tests.support.chaos.figures import Figures
from tests.support.chaos.house import HASTY, lived_in
from tests.support.chaos.monkey import Monkey
from tests.support.chaos.visit import Visitor
from tests.support.spending import nothing_is_reserved

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

CAP_USD: Final = Decimal("0.30")
AGENTS: Final = 6
LEASE_SECONDS: Final = 3.0
RAGE_SECONDS: Final = 15.0


@pytest.fixture(scope="module")
async def visitor(
    tmp_path_factory: pytest.TempPathFactory, sandbox_server: str
) -> AsyncIterator[Visitor]:
    home = tmp_path_factory.mktemp("capped")
    settings = {**HASTY, "VIGIL_LEASE_SECONDS": f"{LEASE_SECONDS}"}
    replicas = {"observer": 2, "researcher": 3, "analyzer": 2}
    async with visited(
        lived_in(home, sandbox_server, replicas=replicas, settings=settings)
    ) as found:
        yield found


async def test_what_is_billed_never_passes_the_cap(
    visitor: Visitor, figures: Figures, seed: int
) -> None:
    visitor.sandbox.reset()
    async with visitor.database.transaction() as session:
        await budgets.cap_installation(session, Caps(usd_per_day=CAP_USD))
    monkey = Monkey(visitor, seed, freeze_seconds=2 * LEASE_SECONDS)
    raging = asyncio.create_task(monkey.rage(RAGE_SECONDS))
    agents = [await visitor.begin_another(seed + number) for number in range(AGENTS)]
    await raging
    for agent in agents:
        await visitor.ended(agent)
    billed = visitor.sandbox.billed_usd()
    print(f"billed {billed} USD, {dict(monkey.deeds)}")
    assert 0 < billed <= CAP_USD
    assert await nothing_is_reserved(visitor.database)
    async with visitor.database.transaction() as session:
        ended = (await session.scalars(select(Iteration.errors))).all()
        letters = (await session.scalars(select(DeadLetter.code))).all()
        resting = (await session.scalars(select(Agent.suspended_until))).all()
    assert any("budget" in error for errors in ended for error in errors), "the cap was reached"
    assert ERROR_CODE not in letters
    assert any(resting)
    figures.add("iterations at a cap under random strikes", len(agents))
