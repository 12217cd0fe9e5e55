"""Tables: iterations, steps, investigation requests."""

from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    Date,
    ForeignKey,
    Index,
    LargeBinary,
    Numeric,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import INT4MULTIRANGE, JSONB, Range
from sqlalchemy.orm import Mapped, mapped_column

from shared.database.tables.base import Base, Created, Id, Json, one_of
from shared.enums import IterationStatus, RequestState, Stage, StepKind, StepStatus


class Iteration(Base):
    """One cycle of an agent. Written by the scheduler (start), Observer (plan) and aggregator (stages, end)."""

    __tablename__ = "iterations"
    __table_args__ = (
        UniqueConstraint("agent_id", "number"),
        one_of("status", IterationStatus),
        one_of("stage", Stage),
        # An agent never runs two iterations at once, even if two schedulers try to start one.
        Index(
            "iterations_one_running_key",
            "agent_id",
            unique=True,
            postgresql_where=text("status = 'running'"),
        ),
        Index(
            "iterations_deadline_idx", "deadline_at", postgresql_where=text("status = 'running'")
        ),
        # Contains only recently ended iterations, so the query stays cheap however long the history is.
        Index(
            "iterations_unpublished_end_idx",
            "ended_at",
            postgresql_where=text("ended_at is not null and end_published_at is null"),
        ),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    number: Mapped[int]
    why: Mapped[str]
    status: Mapped[str] = mapped_column(server_default=IterationStatus.RUNNING)
    stage: Mapped[str] = mapped_column(server_default=Stage.OBSERVING)
    observer_plan: Mapped[Json | None]
    errors: Mapped[list[str]] = mapped_column(JSONB, server_default="[]")
    started_at: Mapped[Created]
    deadline_at: Mapped[datetime]
    """The iteration is not failed for lack of progress before this time; progress postpones it."""
    stage_changed_at: Mapped[Created]
    ended_at: Mapped[datetime | None]
    graph_root: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The newest hash of the graph's journal when it ended."""
    end_published_at: Mapped[datetime | None]
    """When the scheduler received the event of its end; None if it may have been lost."""
    end_republish_count: Mapped[int] = mapped_column(server_default="0")
    """How often the reconciler republished its end."""
    end_republished_at: Mapped[datetime | None]
    transcripts_deleted_at: Mapped[datetime | None]
    """When the scheduler deleted the texts of its phase runs; None: they are there."""


class Step(Base):
    """A unit of work that one worker does under a lease. Written by the service that owns its kind.

    A step without iteration was requested by a user; its `index` counts the agent's steps of that kind. `epoch` is a
    fencing token: it increases with every claim, and a worker with another epoch has lost the step and may write
    nothing.
    """

    __tablename__ = "steps"
    __table_args__ = (
        UniqueConstraint("iteration_id", "kind", "index"),
        one_of("kind", StepKind),
        one_of("status", StepStatus),
        Index(
            "steps_open_idx",
            "requested_at",
            postgresql_where=text("status in ('pending', 'running')"),
        ),
        Index(
            "steps_retry_idx",
            "retry_requested_at",
            postgresql_where=text("retry_requested_at is not null"),
        ),
    )

    id: Mapped[Id]
    iteration_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("iterations.id", ondelete="CASCADE")
    )
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"), index=True)
    kind: Mapped[str]
    index: Mapped[int]
    input: Mapped[Json] = mapped_column(JSONB, server_default="{}")
    status: Mapped[str]
    result: Mapped[Json | None]
    error: Mapped[str | None]
    """The last error, kept while the step is retried so that users can see it."""
    attempts: Mapped[int] = mapped_column(server_default="0")
    """Attempts that ended in an error of the work itself."""
    epoch: Mapped[int] = mapped_column(server_default="0")
    lease_owner: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    retry_at: Mapped[datetime | None]
    """Not to be claimed before; set after a failed attempt and while waiting for a provider."""
    first_requested_at: Mapped[datetime | None]
    """When the step was first requested; never changes. The `occurred_at` of its request event."""
    requested_at: Mapped[datetime | None]
    """When the step was last requested on the bus."""
    republish_count: Mapped[int] = mapped_column(server_default="0")
    """How often the reconciler republished its request."""
    retry_requested_at: Mapped[datetime | None]
    """When a user last requested a retry of the failed step. Written by the API.

    The request is open while the step is failed and ended before it; the next claim fulfils it.
    """
    retried_epoch: Mapped[int] = mapped_column(server_default="0")
    """The epoch at the last manual retry; claims are counted from there."""
    waiting_since: Mapped[datetime | None]
    """Since when the step waits for a provider that is unavailable or rate-limited; None once it has answered again."""
    waits: Mapped[int] = mapped_column(server_default="0")
    """How many claims ended in waiting for a provider. They do not count towards the limit of claims."""
    reserved_on: Mapped[date | None] = mapped_column(Date)
    """The day (UTC) of the budgets that the step holds a reservation of; None if it holds none, as all that do not run.
    When it is set to None, or the step stops running, the trigger `settle_step` books it.
    """
    reserved_usd: Mapped[Decimal] = mapped_column(Numeric(14, 8), server_default="0")
    """Reserved for its next calls, without those in progress."""
    reserved_calls: Mapped[int] = mapped_column(server_default="0")
    spent_usd: Mapped[Decimal] = mapped_column(Numeric(14, 8), server_default="0")
    """Cost of its answered calls. The budgets still show it as reserved."""
    spent_calls: Mapped[int] = mapped_column(server_default="0")
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]


class InvestigationRequest(Base):
    """Data that an Analyzer lacked, specific enough to become a query. An agent has one for equal questions.

    Written by the Analyzer; answered or not found by the Researcher; dropped by the Observer.
    """

    __tablename__ = "investigation_requests"
    __table_args__ = (
        Index("investigation_requests_agent_idx", "agent_id", "created_at", "id"),
        Index(
            "investigation_requests_open_idx",
            "agent_id",
            "created_at",
            "id",
            postgresql_where=text("answered_at is null and dropped_at is null"),
        ),
    )

    id: Mapped[Id]
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"))
    iteration_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("iterations.id", ondelete="SET NULL"), index=True
    )
    iteration_number: Mapped[int]
    """Number of the iteration that lacked it, which may have expired: a request's age is counted in iterations."""
    step_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("steps.id", ondelete="SET NULL"), index=True
    )
    """The insight step that lacked it."""
    objective: Mapped[str]
    """One specific thing to find out, in one line."""
    reasoning: Mapped[str]
    search_hints: Mapped[list[str]] = mapped_column(JSONB, server_default="[]")
    created_at: Mapped[Created]
    answered_at: Mapped[datetime | None]
    answered_by: Mapped[UUID | None] = mapped_column(
        ForeignKey("steps.id", ondelete="SET NULL"), index=True
    )
    """The query step that answered it and wrote something."""
    answered_with: Mapped[Json | None]
    """`{nodes, edges}`: the ids of what that step wrote."""
    not_found_at: Mapped[datetime | None]
    """When a query last found no answer to it, or a part of one."""
    not_found: Mapped[str | None]
    """The sentence of the model that says what was not found; None if it wrote none. An answered request is answered in
    part if it has one.
    """
    reopened_at: Mapped[datetime | None]
    """When a repeated request last reopened it."""
    dropped_at: Mapped[datetime | None]
    """When it was dropped because it had been open for too long."""

    @property
    def state(self) -> RequestState:
        if self.answered_at is not None:
            return RequestState.ANSWERED
        if self.dropped_at is not None:
            return RequestState.DROPPED
        if self.not_found_at is not None and (
            self.reopened_at is None or self.reopened_at <= self.not_found_at
        ):
            return RequestState.NOT_FOUND
        return RequestState.OPEN


class PrunedIterations(Base):
    """Which iterations of an agent the scheduler has deleted because of their age. The journal of the graph covers it, so
    that verification can tell whether an iteration that is missing was deleted by Vigil.
    """

    __tablename__ = "pruned_iterations"

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    numbers: Mapped[Sequence[Range[int]]] = mapped_column(INT4MULTIRANGE, server_default="{}")
    """Numbers of iterations that were deleted with their steps, phase runs and calls."""
    transcripts: Mapped[Sequence[Range[int]]] = mapped_column(INT4MULTIRANGE, server_default="{}")
    """Numbers of iterations whose texts were deleted."""
    calls: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """How many calls were deleted, and summed in `call_days`."""
    updated_at: Mapped[Created]


class KeptInsight(Base):
    """The request of an insight whose step was deleted with its iteration. Its analyses are kept, and the Observer compares
    new insights with both.
    """

    __tablename__ = "kept_insights"

    agent_id: Mapped[UUID] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), primary_key=True
    )
    step_id: Mapped[UUID] = mapped_column(primary_key=True)
    input: Mapped[Json] = mapped_column(JSONB)
    """`{observation, synthesis_direction}` of the step's input."""


class Retention(Base):
    """The state of retention, one row for each kind of data. See `shared.workflow.retention`."""

    __tablename__ = "retention"

    kind: Mapped[str] = mapped_column(primary_key=True)
    days: Mapped[float | None]
    """The age limit of the scheduler that pruned last; None: kept for ever."""
    max_bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Its limit of size; None: none."""
    bytes: Mapped[int | None] = mapped_column(BigInteger)
    """Size of the rows when the newest pass ended; None: it has no limit, so it was not measured."""
    last_rows: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Rows that the newest pass has deleted, or whose text it has deleted."""
    all_rows: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """The same of all passes."""
    started_at: Mapped[datetime | None]
    """Of the newest pass."""
    ended_at: Mapped[datetime | None]
    pruned_at: Mapped[datetime | None]
    """When a pass last deleted something."""
    oldest_at: Mapped[datetime | None]
    """The time of the oldest row that is there, at the end of the newest pass."""
    next_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    """When the next pass is due."""
