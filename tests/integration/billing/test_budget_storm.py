"""32 workers with duplicate messages and kills: billing never exceeds a cap, and no reservation stays open."""

import asyncio
import random
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal

import pytest
from sqlalchemy import func, select

from shared.billing import budgets
from shared.billing.budgets import Caps
from shared.billing.reservations import INSTALLATION
from shared.database.engine import Database
from shared.database.tables import Agent, BudgetDay, Call, InboxItem
from shared.runtime.settings import Settings
from tests.support.sandbox_control import Sandbox
from tests.support.seeds import repeatable
from tests.support.spending import caps, ledger_faults, nothing_is_reserved
from tests.support.worker_pool import WorkerPool, agents_with_work, failed_steps, script_model

WORKERS = 32
STEPS = {"agent": 16, "installation": 6}
"""Of each agent."""
CHECK_SECONDS = 0.1


class Watch:
    """Repeatedly compares the sandbox's meter with the budget ledger, and the ledger with the cap."""

    def __init__(
        self, database: Database, sandbox_control: Sandbox, cap: Decimal | int, unit: str
    ) -> None:
        self._database = database
        self._sandbox_control = sandbox_control
        self._cap = cap
        self._unit = unit
        self.checks = 0

    async def run_forever(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(CHECK_SECONDS)

    async def check(self) -> None:
        """Reads the meter first: the ledger has already reserved or spent all that the meter shows."""
        billed = await asyncio.to_thread(self._billed)
        booked = await self._booked()
        assert billed <= booked <= self._cap
        assert await ledger_faults(self._database) == []
        self.checks += 1

    def _billed(self) -> Decimal | int:
        if self._unit == "usd":
            return self._sandbox_control.billed_usd()
        return sum(self._sandbox_control.billed().values())

    async def _booked(self) -> Decimal | int:
        async with self._database.transaction() as session:
            day = await budgets.today(session)
            row = await session.get(BudgetDay, (INSTALLATION, day))
        if row is None:
            return 0
        if self._unit == "usd":
            return row.spent_usd + row.reserved_usd
        return row.spent_calls + row.reserved_calls


@pytest.fixture(autouse=True)
def _retry_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.billing.budgets.RETRY_SECONDS", 0.5)
    # A limit that 429s teach would let the calls wait for minutes.
    monkeypatch.setattr("shared.provider_limits.state.MIN_PER_MINUTE", 1200.0)


@pytest.mark.parametrize(
    ("owner", "unit", "cap"),
    [
        pytest.param("agent", "usd", Decimal("0.50"), marks=pytest.mark.slow),
        ("installation", "usd", Decimal("0.50")),
        pytest.param("installation", "calls", 20, marks=pytest.mark.slow),
    ],
)
async def test_billing_never_exceeds_the_cap(
    sandbox_settings: Settings,
    database: Database,
    sandbox: str,
    seed: int,
    owner: str,
    unit: str,
    cap: Decimal | int,
) -> None:
    sandbox_control, chance = Sandbox(sandbox), random.Random(seed)
    agents = await agents_with_work(
        database, agents=1 if owner == "agent" else 4, steps_each=STEPS[owner]
    )
    caps_to_set = caps(cap) if unit == "usd" else caps(calls=int(cap))
    await set_cap(database, agents, caps_to_set)
    script_model(sandbox_control, chance)
    workers = WorkerPool(sandbox_settings, agents, chance, WORKERS, deaths=WORKERS)
    watch = Watch(database, sandbox_control, cap, unit)
    with repeatable(seed):
        watching = asyncio.create_task(watch.run_forever())
        await workers.work()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await watch.check()
        assert await nothing_is_reserved(database)
        assert workers.happened["killed"] > WORKERS / 2
        assert workers.happened["taken over"] > 0
        assert await failed_steps(database) > 0, "the cap was reached"
        assert await notices(database) == len(await suspended_agents(database)) > 0
    print(dict(workers.happened), "checks:", watch.checks, "billed:", sandbox_control.billed_usd())


async def set_cap(database: Database, agents: Sequence[Agent], new_caps: Caps) -> None:
    """Caps the agent, or the installation where there are several agents."""
    async with database.transaction() as session:
        if len(agents) == 1:
            await budgets.cap_agent(session, agents[0].id, new_caps)
        else:
            await budgets.cap_installation(session, new_caps)


async def notices(database: Database) -> int:
    async with database.transaction() as session:
        statement = select(func.count()).select_from(InboxItem).where(InboxItem.kind == "notice")
        return (await session.execute(statement)).scalar_one()


async def suspended_agents(database: Database) -> list[Agent]:
    async with database.transaction() as session:
        return list(await session.scalars(select(Agent).where(Agent.suspended_until.is_not(None))))


@pytest.mark.slow
async def test_without_caps_the_ledger_covers_all_that_was_billed(
    sandbox_settings: Settings, database: Database, sandbox: str, seed: int
) -> None:
    """It also counts attempts without a response at their maximum cost."""
    sandbox_control, chance = Sandbox(sandbox), random.Random(seed)
    agents = await agents_with_work(database, agents=2, steps_each=6)
    script_model(sandbox_control, chance)
    workers = WorkerPool(sandbox_settings, agents, chance, WORKERS, deaths=WORKERS // 2)
    with repeatable(seed):
        await workers.work()
        async with database.transaction() as session:
            day = await session.get_one(BudgetDay, (INSTALLATION, await budgets.today(session)))
            sums = select(func.sum(Call.cost_usd), func.sum(Call.assumed_usd))
            known, assumed = (amount or 0 for amount in (await session.execute(sums)).one())
        assert await nothing_is_reserved(database)
        assert day.spent_usd == known + assumed
        assert sandbox_control.billed_usd() <= day.spent_usd
        assert sum(sandbox_control.billed().values()) <= day.spent_calls
        assert await failed_steps(database) == 0
