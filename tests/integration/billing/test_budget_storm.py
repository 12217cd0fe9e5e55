"""32 workers with duplicates and deaths: what was billed never passes a cap, and no reservation is left behind."""

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
from tests.support.crowd import Crowd, agents_with_work, failed_steps, teach
from tests.support.levers import Sandbox
from tests.support.seeds import repeatable
from tests.support.spending import book_faults, caps, nothing_is_reserved

WORKERS = 32
STEPS = {"agent": 16, "installation": 6}
"""Of each agent."""
LOOK_SECONDS = 0.1


class Watch:
    """Compares the sandbox's meter with the books and the books with the cap, again and again."""

    def __init__(self, database: Database, levers: Sandbox, cap: Decimal | int, unit: str) -> None:
        self._database = database
        self._levers = levers
        self._cap = cap
        self._unit = unit
        self.looks = 0

    async def for_ever(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        """The meter first: what it has billed by then the books have reserved or spent before."""
        billed = await asyncio.to_thread(self._billed)
        booked = await self._booked()
        assert billed <= booked <= self._cap
        assert await book_faults(self._database) == []
        self.looks += 1

    def _billed(self) -> Decimal | int:
        if self._unit == "usd":
            return self._levers.billed_usd()
        return sum(self._levers.billed().values())

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
def _asked_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.billing.budgets.RETRY_SECONDS", 0.1)


@pytest.mark.parametrize(
    ("whose", "unit", "cap"),
    [
        pytest.param("agent", "usd", Decimal("0.50"), marks=pytest.mark.slow),
        ("installation", "usd", Decimal("0.50")),
        pytest.param("installation", "calls", 20, marks=pytest.mark.slow),
    ],
)
async def test_what_is_billed_never_passes_the_cap(
    sandbox_settings: Settings,
    database: Database,
    sandbox: str,
    seed: int,
    whose: str,
    unit: str,
    cap: Decimal | int,
) -> None:
    levers, chance = Sandbox(sandbox), random.Random(seed)
    agents = await agents_with_work(
        database, agents=1 if whose == "agent" else 4, steps_each=STEPS[whose]
    )
    given = caps(cap) if unit == "usd" else caps(calls=int(cap))
    await set_cap(database, agents, given)
    teach(levers, chance)
    crowd = Crowd(sandbox_settings, agents, chance, WORKERS, deaths=WORKERS)
    watch = Watch(database, levers, cap, unit)
    with repeatable(seed):
        watching = asyncio.create_task(watch.for_ever())
        await crowd.work()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
        await watch.look()
        assert await nothing_is_reserved(database)
        assert crowd.happened["killed"] > WORKERS / 2
        assert crowd.happened["taken over"] > 0
        assert await failed_steps(database) > 0, "the cap was in the way"
        assert await notices(database) == len(await resting(database)) > 0
    print(dict(crowd.happened), "looks:", watch.looks, "billed:", levers.billed_usd())


async def set_cap(database: Database, agents: Sequence[Agent], given: Caps) -> None:
    """The agent's, or where there are several the installation's."""
    async with database.transaction() as session:
        if len(agents) == 1:
            await budgets.cap_agent(session, agents[0].id, given)
        else:
            await budgets.cap_installation(session, given)


async def notices(database: Database) -> int:
    async with database.transaction() as session:
        counted = select(func.count()).select_from(InboxItem).where(InboxItem.kind == "notice")
        return (await session.execute(counted)).scalar_one()


async def resting(database: Database) -> list[Agent]:
    async with database.transaction() as session:
        return list(await session.scalars(select(Agent).where(Agent.suspended_until.is_not(None))))


async def test_without_caps_the_books_tell_what_was_billed(
    sandbox_settings: Settings, database: Database, sandbox: str, seed: int
) -> None:
    """And what may have been: no more than was sent without an answer."""
    levers, chance = Sandbox(sandbox), random.Random(seed)
    agents = await agents_with_work(database, agents=2, steps_each=6)
    teach(levers, chance)
    crowd = Crowd(sandbox_settings, agents, chance, WORKERS, deaths=WORKERS // 2)
    with repeatable(seed):
        await crowd.work()
        async with database.transaction() as session:
            day = await session.get_one(BudgetDay, (INSTALLATION, await budgets.today(session)))
            sums = select(func.sum(Call.cost_usd), func.sum(Call.assumed_usd))
            known, presumed = (amount or 0 for amount in (await session.execute(sums)).one())
        assert await nothing_is_reserved(database)
        assert day.spent_usd == known + presumed
        assert levers.billed_usd() <= day.spent_usd
        assert sum(levers.billed().values()) <= day.spent_calls
        assert await failed_steps(database) == 0
