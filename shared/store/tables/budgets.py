"""What may be spent in a day, and what has been."""

from datetime import date
from decimal import Decimal
from typing import Final
from uuid import UUID

from sqlalchemy import CheckConstraint, Date, Numeric, Uuid
from sqlalchemy.orm import Mapped, mapped_column

from shared.store.tables.base import Base

USD: Final = Numeric(14, 8)


class InstallationBudget(Base):
    """The caps of the whole installation, in its one row; without a row there are none. Written by the api."""

    __tablename__ = "installation_budget"
    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False, server_default="1")
    usd_per_day: Mapped[Decimal | None] = mapped_column(USD)
    calls_per_day: Mapped[int | None]


class BudgetDay(Base):
    """What was spent on one day (UTC), and what is reserved for calls that are under way. Written by whoever pays.

    A call that was sent and may have been billed counts with the most it can have cost until that is known.
    """

    __tablename__ = "budget_days"

    scope: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    """An agent, or all zeros for the whole installation; the latter keeps what deleted agents have spent."""
    day: Mapped[date] = mapped_column(Date, primary_key=True)
    spent_usd: Mapped[Decimal] = mapped_column(USD, server_default="0")
    reserved_usd: Mapped[Decimal] = mapped_column(USD, server_default="0")
    spent_calls: Mapped[int] = mapped_column(server_default="0")
    reserved_calls: Mapped[int] = mapped_column(server_default="0")
