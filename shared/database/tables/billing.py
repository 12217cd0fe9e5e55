"""Tables: calls, phase runs, budgets."""

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Date,
    ForeignKey,
    Index,
    Numeric,
    SmallInteger,
    UniqueConstraint,
    Uuid,
    column,
    func,
    literal,
    select,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by
from sqlalchemy.orm import Mapped, column_property, mapped_column

from shared.database.tables.base import Base, Created, Id, Json, one_of
from shared.enums import CallKind, Phase

USD: Final = Numeric(14, 8)


class InstallationBudget(Base):
    """The caps of the whole installation, in a single row; without a row there are none. Written by the API."""

    __tablename__ = "installation_budget"
    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False, server_default="1")
    usd_per_day: Mapped[Decimal | None] = mapped_column(USD)
    calls_per_day: Mapped[int | None]


class ProviderLimit(Base):
    """The state of one provider that all processes share; see `shared.provider_limits`. A row for each base URL and key.

    It is written while a limit is set or was learned, and around an outage; otherwise there is no row, or an unused one.
    """

    __tablename__ = "provider_limits"

    key: Mapped[str] = mapped_column(primary_key=True)
    """A hash of the base URL and the API key."""
    kind: Mapped[str]
    """`model` or `search`."""
    name: Mapped[str]
    """The server, as in error messages."""
    version: Mapped[int] = mapped_column(BigInteger)
    """Grows with each write. A write names the version that it has seen, so that none is lost."""
    state: Mapped[Json]
    updated_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())


class BudgetDay(Base):
    """Amounts spent on one day (UTC) and reserved for calls in progress. Written by the services that pay.

    A call that was sent and may have been billed counts with its maximum cost until the actual cost is known.
    """

    __tablename__ = "budget_days"

    scope: Mapped[UUID] = mapped_column(Uuid, primary_key=True)
    """An agent, or all zeros for the whole installation, which includes what deleted agents have spent."""
    day: Mapped[date] = mapped_column(Date, primary_key=True)
    spent_usd: Mapped[Decimal] = mapped_column(USD, server_default="0")
    reserved_usd: Mapped[Decimal] = mapped_column(USD, server_default="0")
    spent_calls: Mapped[int] = mapped_column(server_default="0")
    reserved_calls: Mapped[int] = mapped_column(server_default="0")


class Context(Base):
    """The context of a graph that phases were given, stored once per distinct text: see `shared.agents.contexts`."""

    __tablename__ = "contexts"

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    sha256: Mapped[bytes] = mapped_column(primary_key=True)
    """SHA-256 of the text in UTF-8."""
    base_sha256: Mapped[bytes | None]
    """The context that `data` is a difference from; None if it is complete."""
    depth: Mapped[int] = mapped_column(SmallInteger)
    """The number of differences that lead to the text."""
    data: Mapped[bytes]
    created_at: Mapped[Created]


class PinnedContext(Base):
    """The context of all steps of an iteration that are requested together.

    Written by the Observer for the queries that it plans, else by the first of these steps. Never changed.
    """

    __tablename__ = "pinned_contexts"

    iteration_id: Mapped[UUID] = mapped_column(
        ForeignKey("iterations.id", ondelete="CASCADE"), primary_key=True
    )
    kind: Mapped[str] = mapped_column(primary_key=True)
    """The kind of the steps."""
    round: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    agent_id: Mapped[UUID]
    sha256: Mapped[bytes]
    """Key of the context, with the agent."""


class Interaction(Base):
    """One run of a phase: its request, and what has happened in it so far.

    `events` is append-only, and stored in the rows of its calls: `{"type": "answer", "call_id"}` for a response of the
    model (whose text is stored in the call ledger), `{"type": "tool_result", "tool_call_id", "name", "result" or
    "call_id"}` for the result of a tool, `{"type": "repair", "subject", "repairs"}` for what code repaired in a response.
    """

    __tablename__ = "llm_interactions"
    __table_args__ = (
        # The last is of releases before 0.4.
        one_of("phase", [*Phase, "entailment_check"]),
        UniqueConstraint("step_id", "phase"),
        Index("llm_interactions_agent_idx", "agent_id", "created_at"),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID]
    iteration_id: Mapped[UUID | None] = mapped_column(index=True)
    step_id: Mapped[UUID | None] = mapped_column(ForeignKey("steps.id", ondelete="CASCADE"))
    phase: Mapped[str]
    model: Mapped[str]
    system_prompt: Mapped[str]
    request: Mapped[Json]
    """`{"messages": [...], "tools": [names]}` as first sent; a resumed run sends the same bytes again.

    Without `messages` if `message` has them: see `shared.llm.phase_run_store`.
    """
    message: Mapped[bytes | None]
    """The only message, compressed with the context as dictionary; None if `request` is complete."""
    context_sha256: Mapped[bytes | None]
    """The context in `message`, if it has one."""
    if TYPE_CHECKING:  # Set below, where `Call` is defined.
        events: Mapped[list[Json]]
    created_at: Mapped[Created]
    completed_at: Mapped[datetime | None]


PART_COLUMNS: Final = ("system_tokens", "tools_tokens", "context_tokens", "results_tokens")
"""Input tokens by the part of the request."""


class Call(Base):
    """The call ledger: a row is written before a call is sent, when the provider assigns an id, and when it is
    answered.

    The id is derived from the step and the hash of the request, so that a finished call is never paid for twice, whatever
    the order.
    """

    __tablename__ = "calls"
    __table_args__ = (
        one_of("kind", CallKind),
        # An embedding does not depend on the step: what one step has paid for, the agent's other steps reuse.
        Index(
            "calls_embedded_idx",
            "agent_id",
            "request_hash",
            postgresql_where=text("request ? 'embeds'"),
        ),
        Index("calls_reserved_idx", "agent_id", postgresql_where=text("reserved_on is not null")),
        # Covers all columns of cost queries, so that the large rows are not read. Lists of calls use it too.
        Index(
            "calls_costs_idx",
            "agent_id",
            "started_at",
            postgresql_include=[
                "kind",
                "phase",
                "model",
                "attempts",
                "input_tokens",
                "output_tokens",
                "cached_tokens",
                "reasoning_tokens",
                *PART_COLUMNS,
                "cost_usd",
                "assumed_usd",
            ],
        ),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID]
    iteration_id: Mapped[UUID | None] = mapped_column(index=True)
    step_id: Mapped[UUID] = mapped_column(index=True)
    interaction_id: Mapped[UUID] = mapped_column(
        ForeignKey("llm_interactions.id", ondelete="CASCADE"), index=True
    )
    kind: Mapped[str]
    phase: Mapped[str]
    model: Mapped[str | None]
    request_hash: Mapped[str]
    request: Mapped[Json]
    """A summary for display; the messages are stored in the interaction."""
    provider_ref: Mapped[str | None]
    """The provider's id of the call, if it has one: used to poll for the response instead of sending again."""
    answer: Mapped[Json | None]
    input_tokens: Mapped[int | None]
    output_tokens: Mapped[int | None]
    cached_tokens: Mapped[int] = mapped_column(server_default="0")
    """The input tokens that the provider read from its cache."""
    reasoning_tokens: Mapped[int] = mapped_column(server_default="0")
    """The output tokens that were used for reasoning."""
    system_tokens: Mapped[int] = mapped_column(server_default="0")
    """The input tokens of the system prompt, by its share of the request's length; likewise the next ones."""
    tools_tokens: Mapped[int] = mapped_column(server_default="0")
    """Declarations of tools, and the schema of the answer."""
    context_tokens: Mapped[int] = mapped_column(server_default="0")
    """The input tokens of the graph context."""
    results_tokens: Mapped[int] = mapped_column(server_default="0")
    """Results of tools. The rest of the input is the task, and the model's own answers."""
    cost_usd: Mapped[Decimal | None] = mapped_column(Numeric(14, 8))
    """None if the model server reported no token counts."""
    sent_at: Mapped[datetime | None]
    """When the newest attempt was reserved, just before it was sent."""
    received_chars: Mapped[int | None]
    """Characters received of a streamed response; None before the first, or without streaming."""
    progressed_at: Mapped[datetime | None]
    """When `received_chars` was last written: every few seconds at most."""
    attempts: Mapped[int] = mapped_column(server_default="0")
    """Number of attempts, including one about to be sent: each that may be billed counts against the budgets."""
    reserved_usd: Mapped[Decimal | None] = mapped_column(USD)
    """Maximum cost of the newest attempt while its cost is unknown."""
    reserved_on: Mapped[date | None] = mapped_column(Date)
    """The day (UTC) of the budgets that it is reserved from; None if nothing is reserved."""
    assumed_usd: Mapped[Decimal] = mapped_column(USD, server_default="0")
    """Cost of attempts without a usable response, or their maximum if unknown: counts as spent in addition to
    `cost_usd`.
    """
    failures: Mapped[list[Json]] = mapped_column(JSONB, server_default="[]")
    """Attempts that ended without a usable response, oldest first: `{"at", "epoch", "kind", "error", "response",
    "input_tokens", "output_tokens", "cost_usd"}`.
    """
    events: Mapped[list[Json]] = mapped_column(JSONB, server_default="[]")
    """Events that are written with its answer, and until the next answer of its phase run: see `Interaction`."""
    started_at: Mapped[Created]
    answered_at: Mapped[datetime | None]


_EVENT: Final = (
    func.jsonb_array_elements(Call.events)
    .table_valued(column("event", JSONB), with_ordinality="place", name="stored")
    .render_derived()
)
_EVENTS: Final = func.jsonb_agg(
    aggregate_order_by(_EVENT.c.event, Call.answered_at, Call.id, _EVENT.c.place)
)
Interaction.events = column_property(
    select(func.coalesce(_EVENTS, literal([], JSONB)))
    .select_from(Call)
    .join(_EVENT, true())
    .where(Call.interaction_id == Interaction.id)
    .correlate_except(Call, _EVENT)
    .scalar_subquery()
)


class CallDay(Base):
    """The total cost of the deleted calls of one day (UTC). Written by the scheduler when it deletes them.

    With the calls that are still there, the sums are those of all calls that an agent has ever made.
    """

    __tablename__ = "call_days"
    __table_args__ = (one_of("kind", CallKind),)

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    day: Mapped[date] = mapped_column(Date, primary_key=True)
    kind: Mapped[str] = mapped_column(primary_key=True)
    phase: Mapped[str] = mapped_column(primary_key=True)
    model: Mapped[str] = mapped_column(primary_key=True)
    """Empty for calls without one."""
    calls: Mapped[int] = mapped_column(BigInteger)
    answered: Mapped[int] = mapped_column(BigInteger)
    attempts: Mapped[int] = mapped_column(BigInteger)
    unpriced: Mapped[int] = mapped_column(BigInteger)
    """Model calls of unknown cost."""
    answered_unpriced: Mapped[int] = mapped_column(BigInteger)
    """The number of answered calls among them."""
    input_tokens: Mapped[int] = mapped_column(BigInteger)
    output_tokens: Mapped[int] = mapped_column(BigInteger)
    cached_tokens: Mapped[int] = mapped_column(BigInteger)
    reasoning_tokens: Mapped[int] = mapped_column(BigInteger)
    system_tokens: Mapped[int] = mapped_column(BigInteger)
    tools_tokens: Mapped[int] = mapped_column(BigInteger)
    context_tokens: Mapped[int] = mapped_column(BigInteger)
    results_tokens: Mapped[int] = mapped_column(BigInteger)
    cost_usd: Mapped[Decimal] = mapped_column(Numeric(20, 8))
    assumed_usd: Mapped[Decimal] = mapped_column(Numeric(20, 8))
