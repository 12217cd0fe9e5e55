"""Reservations for calls without a model, and the budget ledger's entries."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from uuid import UUID

from sqlalchemy import select, text

from shared.billing import budgets, call_ledger, reservations
from shared.billing.budgets import Caps
from shared.billing.call_ledger import CallRequest
from shared.billing.reservations import INSTALLATION, Attempt
from shared.database.engine import Database
from shared.database.tables import Agent, BudgetDay, Call
from shared.enums import CallKind, Phase
from shared.llm.phase_run_store import NewRun
from shared.workflow.leases import Lease
from tests.support import budget_audit as audit
from tests.support import claims
from tests.support.factories import make_agent, make_iteration

TODAY = date(2026, 3, 1)
TOMORROW = date(2026, 3, 2)


Amount = str | int | Decimal


def usd(amount: Amount) -> Decimal:
    return Decimal(amount)


@dataclass(frozen=True)
class LedgerDay:
    """The ledger of one day: USD and calls."""

    spent: tuple[Decimal, int]
    reserved: tuple[Decimal, int]


NOTHING = LedgerDay((Decimal(0), 0), (Decimal(0), 0))


def ledger_day(spent: Amount = 0, calls: int = 0, reserved: Amount = 0, held: int = 0) -> LedgerDay:
    return LedgerDay((usd(spent), calls), (usd(reserved), held))


@dataclass(frozen=True)
class Spender:
    """An agent with a leased step."""

    database: Database
    agent: Agent
    lease: Lease

    @classmethod
    async def of(cls, database: Database, name: str = "Battery watch") -> "Spender":
        agent = await make_agent(database, name=name)
        start = await make_iteration(database, agent)
        async with database.transaction() as session:
            claim = await claims.claimed(session, start.observe.id, "test")
        return cls(database, agent, claim.lease)

    async def call(self, name: str = "a") -> UUID:
        """Record a call that is not sent yet; return its id."""
        async with self.database.transaction() as session:
            new_run = NewRun(
                self.database, self.lease, Phase.OBSERVER, model="m", system_prompt="", request={}
            )
            interaction = await new_run.open_or_resume(session)
            request = CallRequest(CallKind.LLM, {"name": name}, {}, "m")
            row = call_ledger.new_row(
                self.lease,
                interaction.id,
                Phase.OBSERVER,
                request,
            )
            return (await call_ledger.open_call(session, row)).id

    async def reserve(
        self, max_cost: Amount, *names: str, day: date | None = TODAY
    ) -> Sequence[Attempt] | None:
        max_costs = {await self.call(name): usd(max_cost) for name in names or ("a",)}
        async with self.database.transaction() as session:
            return await reservations.reserve(session, self.agent.id, max_costs, day=day)

    async def reserved(
        self, max_cost: Amount, name: str = "a", *, day: date | None = TODAY
    ) -> Attempt:
        attempts = await self.reserve(max_cost, name, day=day)
        assert attempts is not None, "no cap prevents the reservation"
        return attempts[0]

    async def settle(self, attempt: Attempt, cost: Amount | None) -> None:
        async with self.database.transaction() as session:
            closing = reservations.settled(attempt, None if cost is None else usd(cost))
            await reservations.closing_query(closing).execute(session)

    async def release(self, attempt: Attempt) -> None:
        async with self.database.transaction() as session:
            await reservations.release(session, attempt)

    async def row(self, call_id: UUID) -> Call:
        async with self.database.transaction() as session:
            return await session.get_one(Call, call_id)

    async def cap(self, dollars: Amount | None = None, calls: int | None = None) -> None:
        async with self.database.transaction() as session:
            await budgets.cap_agent(session, self.agent.id, caps(dollars, calls))

    async def day(self, day: date = TODAY) -> LedgerDay:
        return await day_of(self.database, self.agent.id, day)


def caps(dollars: Amount | None = None, calls: int | None = None) -> Caps:
    return Caps(None if dollars is None else usd(dollars), calls)


async def cap_all(
    database: Database, dollars: Amount | None = None, calls: int | None = None
) -> None:
    async with database.transaction() as session:
        await budgets.cap_installation(session, caps(dollars, calls))


async def day_of(database: Database, scope: UUID, day: date = TODAY) -> LedgerDay:
    """What is spent, and what is reserved for calls in progress: without what steps hold for their next calls."""
    async with database.transaction() as session:
        row = (await session.execute(_DAY, {"scope": scope, "day": day})).one()
    return LedgerDay((row.spent_usd, row.spent_calls), (row.reserved_usd, row.reserved_calls))


_DAY = text(f"""
select coalesce(sum(spent_usd), 0) as spent_usd, coalesce(sum(spent_calls), 0) as spent_calls,
  coalesce(sum(reserved_usd), 0) as reserved_usd, coalesce(sum(reserved_calls), 0) as reserved_calls
from (
  select spent_usd, spent_calls, reserved_usd, reserved_calls from budget_days
  where scope = :scope and day = :day
  union all
  select spent_usd, spent_calls, -spent_usd - reserved_usd, -spent_calls - reserved_calls from steps
  where reserved_on = :day and (agent_id = :scope or :scope = '{INSTALLATION}')
) as parts
""")


async def whole_day(database: Database, day: date = TODAY) -> LedgerDay:
    """The ledger of the installation."""
    return await day_of(database, INSTALLATION, day)


async def all_days(database: Database) -> list[BudgetDay]:
    async with database.transaction() as session:
        return list(await session.scalars(select(BudgetDay)))


async def ledger_faults(database: Database) -> list[str]:
    async with database.transaction() as session:
        return await audit.faults(session)


async def nothing_is_reserved(database: Database) -> bool:
    async with database.transaction() as session:
        return await audit.reserved(session) == 0 and not await audit.faults(session)
