"""What a cap lets through, pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum


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
