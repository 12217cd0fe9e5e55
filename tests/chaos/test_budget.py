"""A whole installation at its cap, with random faults: the amount billed never exceeds the cap."""

import asyncio
from decimal import Decimal
from typing import Final

import pytest
from sqlalchemy import select

from shared.billing import budgets
from shared.billing.budgets import ERROR_CODE, Caps
from shared.database.tables import Agent, DeadLetter, Iteration
from tests.support.chaos.fault_injector import FaultInjector
from tests.support.chaos.figures import Figures
from tests.support.chaos.installation import HASTY
from tests.support.chaos.scenario_run import ScenarioRunner
from tests.support.spending import nothing_is_reserved

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

CAP_USD: Final = Decimal("0.30")
AGENTS: Final = 6
LEASE_SECONDS: Final = 3.0
INSTALLATION: Final = {
    "replicas": {"observer": 2, "researcher": 3, "analyzer": 2},
    "settings": {**HASTY, "VIGIL_LEASE_SECONDS": f"{LEASE_SECONDS}"},
}
FAULT_SECONDS: Final = 15.0


async def test_the_amount_billed_never_exceeds_the_cap(
    runner: ScenarioRunner, figures: Figures, seed: int
) -> None:
    runner.sandbox.reset()
    async with runner.database.transaction() as session:
        await budgets.cap_installation(session, Caps(usd_per_day=CAP_USD))
    injector = FaultInjector(runner, seed, freeze_seconds=2 * LEASE_SECONDS)
    injection = asyncio.create_task(injector.run(FAULT_SECONDS))
    agents = [await runner.begin_another(seed + number) for number in range(AGENTS)]
    await injection
    for agent in agents:
        await runner.wait_until_ended(agent)
    billed = runner.sandbox.billed_usd()
    print(f"billed {billed} USD, {dict(injector.fault_counts)}")
    assert 0 < billed <= CAP_USD
    assert await nothing_is_reserved(runner.database)
    async with runner.database.transaction() as session:
        iteration_errors = (await session.scalars(select(Iteration.errors))).all()
        dead_letter_codes = (await session.scalars(select(DeadLetter.code))).all()
        suspensions = (await session.scalars(select(Agent.suspended_until))).all()
    assert any("budget" in error for errors in iteration_errors for error in errors), (
        "the cap was reached"
    )
    assert ERROR_CODE not in dead_letter_codes
    assert any(suspensions)
    figures.add("iterations at a cap under random strikes", len(agents))
