"""Budgets: caps, what is left of them, and agents that are paused by one."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final
from uuid import UUID

from sqlalchemy import Date, cast, func, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing.reservations import INSTALLATION
from shared.database import ids
from shared.database.tables import Agent, BudgetDay, InboxItem, InstallationBudget
from shared.enums import InboxKind
from shared.errors import PermanentError, RetrySoonError


class Scope(StrEnum):
    """Whose cap."""

    AGENT = "agent"
    INSTALLATION = "installation"


class Unit(StrEnum):
    USD = "usd"
    CALLS = "calls"


@dataclass(frozen=True)
class Account:
    """A cap, None where there is none, and what stands against it on one day."""

    cap: Decimal | None
    spent: Decimal = Decimal(0)
    reserved: Decimal = Decimal(0)

    @property
    def left(self) -> Decimal | None:
        """What may still be reserved, never below zero: a cap may be lowered below what was spent."""
        if self.cap is None:
            return None
        return max(self.cap - self.spent - self.reserved, Decimal(0))

    def lets(self, wanted: Decimal) -> bool:
        return self.cap is None or self.spent + self.reserved + wanted <= self.cap

    def can_ever_let(self, wanted: Decimal) -> bool:
        """Whether it would, if what is reserved turned out to cost nothing."""
        return self.cap is None or self.spent + wanted <= self.cap


@dataclass(frozen=True)
class Standing:
    """How an agent, or the installation, stands on one day."""

    usd: Account
    calls: Account

    def of(self, unit: Unit) -> Account:
        return self.usd if unit is Unit.USD else self.calls


@dataclass(frozen=True)
class Refusal:
    """The cap that is in the way of a sending that could cost `wanted`."""

    scope: Scope
    unit: Unit
    account: Account
    wanted: Decimal
    day: date

    @property
    def passes(self) -> bool:
        """Whether it may be let through when others have settled; else not before the next day."""
        return self.account.can_ever_let(self.wanted)

    @property
    def cause(self) -> str:
        """A word for this cap."""
        return f"{self.scope}-{self.unit}"


def refusal(
    agent: Standing, installation: Standing, *, usd: Decimal, calls: int, day: date
) -> Refusal | None:
    """What is in the way of sendings that could cost so much; a cap that stays in the way comes first."""
    wanted = {Unit.USD: usd, Unit.CALLS: Decimal(calls)}

    def in_the_way() -> Iterator[Refusal]:
        for scope, standing in ((Scope.AGENT, agent), (Scope.INSTALLATION, installation)):
            for unit, amount in wanted.items():
                if not standing.of(unit).lets(amount):
                    yield Refusal(scope, unit, standing.of(unit), amount, day)

    return min(in_the_way(), key=lambda each: each.passes, default=None)


def end_of(day: date) -> datetime:
    """The midnight (UTC) at which `day` ends."""
    return datetime.combine(day + timedelta(days=1), time(), UTC)


@dataclass(frozen=True)
class Caps:
    """What may be spent in a day; None is no cap."""

    usd_per_day: Decimal | None = None
    calls_per_day: int | None = None


async def today(session: AsyncSession) -> date:
    """The day (UTC) by the database's clock."""
    now = func.timezone("UTC", func.statement_timestamp())
    return (await session.execute(select(cast(now, Date)))).scalar_one()


async def caps_of_agent(session: AsyncSession, agent_id: UUID) -> Caps:
    row = (
        await session.execute(
            select(Agent.budget_usd_per_day, Agent.budget_calls_per_day).where(Agent.id == agent_id)
        )
    ).one_or_none()
    return Caps() if row is None else Caps(*row)


async def caps_of_installation(session: AsyncSession) -> Caps:
    row = (
        await session.execute(
            select(InstallationBudget.usd_per_day, InstallationBudget.calls_per_day)
        )
    ).one_or_none()
    return Caps() if row is None else Caps(*row)


async def of_agent(session: AsyncSession, agent_id: UUID, day: date) -> Standing:
    return await _standing(session, agent_id, await caps_of_agent(session, agent_id), day)


async def of_installation(session: AsyncSession, day: date) -> Standing:
    return await _standing(session, INSTALLATION, await caps_of_installation(session), day)


async def in_the_way(
    session: AsyncSession, agent_id: UUID, usd: Decimal, *, day: date | None = None
) -> Refusal | None:
    """The cap that a sending which could cost `usd` is refused by; None where it would not be, now."""
    day = day or await today(session)
    agent = await of_agent(session, agent_id, day)
    installation = await of_installation(session, day)
    return refusal(agent, installation, usd=usd, calls=1, day=day)


async def _standing(session: AsyncSession, scope: UUID, caps: Caps, day: date) -> Standing:
    columns = (
        BudgetDay.spent_usd,
        BudgetDay.reserved_usd,
        BudgetDay.spent_calls,
        BudgetDay.reserved_calls,
    )
    kept = (
        await session.execute(
            select(*columns).where(BudgetDay.scope == scope, BudgetDay.day == day)
        )
    ).one_or_none()
    spent_usd, reserved_usd, spent_calls, reserved_calls = kept or (Decimal(0), Decimal(0), 0, 0)
    most_calls = None if caps.calls_per_day is None else Decimal(caps.calls_per_day)
    return Standing(
        Account(caps.usd_per_day, spent_usd, reserved_usd),
        Account(most_calls, Decimal(spent_calls), Decimal(reserved_calls)),
    )


_SHOWN: Final = Decimal("0.0001")


def amount(value: Decimal, unit: Unit) -> str:
    """`1.5 USD`, `20 calls`; rounded to a hundredth of a cent."""
    if unit is Unit.CALLS:
        return f"{value:.0f} {'call' if value == 1 else 'calls'}"
    return f"{_plain(value)} USD"


def notice_title(name: str, refused: Refusal) -> str:
    whose = "its" if refused.scope is Scope.AGENT else "the installation's"
    cap = amount(_cap(refused), refused.unit)
    return f"{name} rests until tomorrow: {whose} budget of {cap} a day is used up"


def refused_in_words(refused: Refusal, name: str = "the agent") -> str:
    """What is wrong, and what to do."""
    whose = f"the budget of {name}" if refused.scope is Scope.AGENT else "the installation's budget"
    spent = amount(refused.account.spent, refused.unit)
    cap = amount(_cap(refused), refused.unit)
    next_call = (
        f"the next call could cost {amount(refused.wanted, refused.unit)}"
        if refused.unit is Unit.USD
        else "none is left"
    )
    option = "--usd" if refused.unit is Unit.USD else "--calls"
    raised = "AGENT" if refused.scope is Scope.AGENT else "--installation"
    return (
        f"{whose} for {refused.day} is used up: of {cap} a day {spent} {'is' if spent == '1 call' else 'are'} spent,"
        f" and {next_call}. {_capital(name)} rests until midnight (UTC); a higher budget"
        f" (`vigil budget {raised} {option} …`) ends its rest at once"
    )


def _cap(refused: Refusal) -> Decimal:
    assert refused.account.cap is not None, "what has no cap refuses nothing"
    return refused.account.cap


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def _plain(value: Decimal) -> str:
    """Without an exponent, and without zeros at its end."""
    rounded = f"{value.quantize(_SHOWN):f}"
    return rounded.rstrip("0").rstrip(".")


CODE: Final = "budget"
ASK_AGAIN_SECONDS: Final = 1.0
"""Where only what others have reserved is in the way, and may be free again when they have settled."""

# Any fixed number: whoever puts an agent to rest holds this advisory lock in share, whoever changes a cap holds it
# alone, so that none is put to rest by a cap that was raised meanwhile.
_CAPS_LOCK: Final = 0x7669_6275


class BudgetUsedUpError(PermanentError):
    """A cap has refused a call before it was sent. The agent rests; to retry the step by hand would mend nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(CODE, message)


async def rest_or_wait(
    session: AsyncSession, agent_id: UUID, usd: Decimal, *, day: date | None = None
) -> BudgetUsedUpError | RetrySoonError:
    """What to raise, once `session` is committed, for a sending that could cost `usd` and was refused.

    BudgetUsedUpError where the cap stays in the way until the day ends: then the agent rests until that, and its owner
    is told. RetrySoonError where the call may be let through in a moment.
    """
    await session.execute(text("select pg_advisory_xact_lock_shared(:key)"), {"key": _CAPS_LOCK})
    day = day or await today(session)
    refused = await in_the_way(session, agent_id, usd, day=day)
    if refused is None or refused.passes:
        return RetrySoonError(
            "what calls under way may cost leaves nothing of the budget for another just now",
            retry_in_seconds=ASK_AGAIN_SECONDS,
        )
    await _rest(session, agent_id, refused)
    return BudgetUsedUpError(refused_in_words(refused))


async def lock_caps(session: AsyncSession) -> None:
    """Before a cap is changed: nobody is put to rest by it until the transaction ends."""
    await session.execute(text("select pg_advisory_xact_lock(:key)"), {"key": _CAPS_LOCK})


async def end_rest(session: AsyncSession, agent_id: UUID | None = None) -> None:
    """Wakes the agent, or all of them, where its own budget and the installation's leave something to spend today."""
    given = {"agent": agent_id, "day": await today(session), "installation": INSTALLATION}
    await session.execute(_END_REST, given)


async def _rest(session: AsyncSession, agent_id: UUID, refused: Refusal) -> None:
    resting = (
        update(Agent)
        .where(Agent.id == agent_id)
        .values(resting_until=end_of(refused.day))
        .returning(Agent.owner_id, Agent.name)
        .execution_options(synchronize_session=False)
    )
    for owner_id, name in await session.execute(resting):
        # Nothing said of what is there already, or it would ask for the right to read the inbox.
        await session.execute(
            insert(InboxItem)
            .values(
                id=ids.notice_id(agent_id, refused.cause, refused.day),
                owner_id=owner_id,
                agent_id=agent_id,
                kind=InboxKind.NOTICE,
                title=notice_title(name, refused),
                summary=refused_in_words(refused, name),
            )
            .on_conflict_do_nothing()
        )


_END_REST: Final = text("""
with room as (
  select agents.id,
    (coalesce(own.spent_usd + own.reserved_usd, 0) < agents.budget_usd_per_day) is not false
    and (coalesce(own.spent_calls + own.reserved_calls, 0) < agents.budget_calls_per_day) is not false
    and (coalesce(all_of.spent_usd + all_of.reserved_usd, 0) < whole.usd_per_day) is not false
    and (coalesce(all_of.spent_calls + all_of.reserved_calls, 0) < whole.calls_per_day) is not false
    as is_there
  from agents
  left join installation_budget as whole on true
  left join budget_days as own on own.scope = agents.id and own.day = :day
  left join budget_days as all_of on all_of.scope = :installation and all_of.day = :day
  where agents.resting_until is not null
    and (cast(:agent as uuid) is null or agents.id = cast(:agent as uuid))
)
update agents set resting_until = null from room where agents.id = room.id and room.is_there
""")


async def cap_agent(session: AsyncSession, agent_id: UUID, caps: Caps) -> None:
    """Its rest ends where there is something to spend again."""
    await lock_caps(session)
    await session.execute(
        update(Agent)
        .where(Agent.id == agent_id)
        .values(budget_usd_per_day=caps.usd_per_day, budget_calls_per_day=caps.calls_per_day)
        .execution_options(synchronize_session=False)
    )
    await end_rest(session, agent_id)


async def cap_installation(session: AsyncSession, caps: Caps) -> None:
    """Every agent's rest ends that has something to spend again."""
    await lock_caps(session)
    given = {"usd_per_day": caps.usd_per_day, "calls_per_day": caps.calls_per_day}
    await session.execute(
        insert(InstallationBudget)
        .values(id=1, **given)
        .on_conflict_do_update(index_elements=[InstallationBudget.id], set_=given)
    )
    await end_rest(session)
