"""Tables: calls, phase runs, budgets."""

from datetime import date, datetime
from decimal import Decimal
from typing import Final
from uuid import UUID

from sqlalchemy import (
    CheckConstraint,
    Date,
    ForeignKey,
    Index,
    Numeric,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.database.tables.base import Base, Created, Id, Json, one_of
from shared.enums import CallKind, Phase

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


class Context(Base):
    """What phases were shown of a graph, once for all that were shown the same. Written by those who share it."""

    __tablename__ = "contexts"

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    sha256: Mapped[bytes] = mapped_column(primary_key=True)
    """Of `text` in UTF-8."""
    text: Mapped[str]
    created_at: Mapped[Created]
    """What was written to the graph later, it does not show."""


class Interaction(Base):
    """One run of a phase: what it was told, and what has happened in it so far.

    `events` grows as they happen: `{"type": "answer", "call_id"}` for what the model said (the text stands in the
    ledger, once), `{"type": "tool_result", "tool_call_id", "name", "result" or "call_id"}` for what a tool gave back,
    `{"type": "repair", "subject", "repairs"}` for what code repaired of an answer.
    """

    __tablename__ = "llm_interactions"
    __table_args__ = (
        one_of("phase", Phase),
        UniqueConstraint("step_id", "phase"),
        Index("llm_interactions_agent_idx", "agent_id", "created_at"),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    iteration_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("iterations.id", ondelete="CASCADE"), index=True
    )
    step_id: Mapped[UUID | None] = mapped_column(ForeignKey("steps.id", ondelete="CASCADE"))
    phase: Mapped[str]
    model: Mapped[str]
    system_prompt: Mapped[str]
    request: Mapped[Json]
    """`{"messages": [...], "tools": [names]}` as first sent; a resumed run sends the same bytes again.

    Where the words of a context are kept once, it stands here without them: see `shared.llm.phase_run_store`.
    """
    context_sha256: Mapped[bytes | None]
    """The context that `request` refers to; None where it holds all its words itself."""
    events: Mapped[list[Json]] = mapped_column(JSONB, server_default="[]")
    created_at: Mapped[Created]
    completed_at: Mapped[datetime | None]


class Call(Base):
    """The ledger: a call is written before it is sent, when the other side names it, and when it is answered.

    Keyed by step and by the hash of the request, so that a finished call is never paid for twice, whatever the order.
    """

    __tablename__ = "calls"
    __table_args__ = (
        UniqueConstraint("step_id", "request_hash"),
        one_of("kind", CallKind),
        # An embedding is the same for whoever asks: what one step has paid for is there for the agent's others.
        Index(
            "calls_embedded_idx",
            "agent_id",
            "request_hash",
            postgresql_where=text("request ? 'embeds'"),
        ),
        Index("calls_reserved_idx", "agent_id", postgresql_where=text("reserved_on is not null")),
        # With all that costs are made of, so that the calls themselves, which are large, are not read for them. Lists of
        # calls go by it too.
        Index(
            "calls_costs_idx",
            "agent_id",
            "started_at",
            postgresql_include=[
                "kind",
                "phase",
                "model",
                "sendings",
                "input_tokens",
                "output_tokens",
                "cost_usd",
                "presumed_usd",
            ],
        ),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    iteration_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("iterations.id", ondelete="CASCADE"), index=True
    )
    step_id: Mapped[UUID] = mapped_column(ForeignKey("steps.id", ondelete="CASCADE"))
    interaction_id: Mapped[UUID] = mapped_column(
        ForeignKey("llm_interactions.id", ondelete="CASCADE"), index=True
    )
    kind: Mapped[str]
    phase: Mapped[str]
    model: Mapped[str | None]
    request_hash: Mapped[str]
    request: Mapped[Json]
    """A summary for people; the messages themselves stand in the interaction."""
    provider_ref: Mapped[str | None]
    """What the other side calls it, where it has such a name: by that it is asked for, not sent again."""
    answer: Mapped[Json | None]
    input_tokens: Mapped[int | None]
    output_tokens: Mapped[int | None]
    cost_usd: Mapped[Decimal | None] = mapped_column(Numeric(14, 8))
    """None where the model server did not say how many tokens it took."""
    sent_at: Mapped[datetime | None]
    """When the newest sending was reserved, which is just before it was sent."""
    received_chars: Mapped[int | None]
    """Characters of the answer that is being streamed; None before the first, or where the server does not stream."""
    progressed_at: Mapped[datetime | None]
    """When `received_chars` was last written: at most every few seconds."""
    sendings: Mapped[int] = mapped_column(server_default="0")
    """How often it was sent, or was about to be: each time that may be billed counts against the budgets."""
    reserved_usd: Mapped[Decimal | None] = mapped_column(USD)
    """The most that the newest sending can cost, while that is not known."""
    reserved_on: Mapped[date | None] = mapped_column(Date)
    """The day (UTC) whose budgets that is reserved from; None where nothing is reserved."""
    presumed_usd: Mapped[Decimal] = mapped_column(USD, server_default="0")
    """What sendings have cost that brought no usable answer, or where nobody knows, the most that they can have: they
    count as spent, besides `cost_usd`."""
    failures: Mapped[list[Json]] = mapped_column(JSONB, server_default="[]")
    """Sendings that were answered, or given up, without a usable answer: `{"at", "epoch", "kind", "error", "said",
    "input_tokens", "output_tokens", "cost_usd"}` of each, the oldest first."""
    started_at: Mapped[Created]
    answered_at: Mapped[datetime | None]
