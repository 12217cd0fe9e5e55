"""Tables: iterations, steps, investigation requests."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.database.tables.base import Base, Created, Id, Json, one_of
from shared.enums import IterationStatus, Stage, StepKind, StepStatus


class Iteration(Base):
    """One turn of an agent's loop. Written by scheduler (start), Observer (plan) and aggregator (stages, end)."""

    __tablename__ = "iterations"
    __table_args__ = (
        UniqueConstraint("agent_id", "number"),
        one_of("status", IterationStatus),
        one_of("stage", Stage),
        # An agent never runs two iterations at once, whatever schedulers believe.
        Index(
            "iterations_one_running_key",
            "agent_id",
            unique=True,
            postgresql_where=text("status = 'running'"),
        ),
        Index(
            "iterations_deadline_idx", "deadline_at", postgresql_where=text("status = 'running'")
        ),
        # Holds only what has just ended, so that looking there costs the same however long the history is.
        Index(
            "iterations_untold_idx",
            "ended_at",
            postgresql_where=text("ended_at is not null and end_told_at is null"),
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
    """The iteration is not ended for want of progress before this time; progress since then puts it off."""
    stage_changed_at: Mapped[Created]
    ended_at: Mapped[datetime | None]
    end_told_at: Mapped[datetime | None]
    """When the scheduler heard on the bus that it has ended; None where perhaps nobody has."""
    end_resends: Mapped[int] = mapped_column(server_default="0")
    """How often the reconciler told of its end again."""
    end_resent_at: Mapped[datetime | None]


class Step(Base):
    """A piece of work that one worker does under a lease. Written by the actor that owns its kind.

    One that is no iteration's was ordered by a person; `index` then counts those of its kind of the agent.

    `epoch` grows with every claim; a worker whose epoch is not the row's has lost the step and may write nothing.
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
    """The last error, kept while the step is tried again, so that people see what is going on."""
    attempts: Mapped[int] = mapped_column(server_default="0")
    """Tries that ended in an error of the work itself."""
    epoch: Mapped[int] = mapped_column(server_default="0")
    lease_owner: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    retry_at: Mapped[datetime | None]
    """Not to be claimed before; set when a try failed and the other side asked for patience."""
    first_requested_at: Mapped[datetime | None]
    """When the step was first asked for, which never changes: the time that its request tells."""
    requested_at: Mapped[datetime | None]
    """When the step was last asked for on the bus."""
    resends: Mapped[int] = mapped_column(server_default="0")
    """How often the reconciler asked again."""
    retry_requested_at: Mapped[datetime | None]
    """When a person last asked for the failed step to be tried again. Written by the api.

    The wish is open while the step is failed and ended before it; who claims the step next fulfils it.
    """
    retried_epoch: Mapped[int] = mapped_column(server_default="0")
    """The epoch that it had when it was last tried again after it had failed; its claims are counted from there."""
    waiting_since: Mapped[datetime | None]
    """Since when the step waits for a provider that is away or limits requests; None once it has answered again."""
    waits: Mapped[int] = mapped_column(server_default="0")
    """How many claims ended in waiting for a provider. They say nothing against the step, however many they are."""
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]


class InvestigationRequest(Base):
    """Data that an Analyzer lacked, specific enough to be the next query.

    Written by the Analyzer; that it was answered by the Researcher, that nobody waits for it any more by the Observer.
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
    """Of the iteration that lacked it, which may have expired: a request's age is counted in iterations."""
    step_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("steps.id", ondelete="SET NULL"), index=True
    )
    """The insight that could not be analyzed without it."""
    objective: Mapped[str]
    """One specific thing to find out, in one line."""
    reasoning: Mapped[str]
    search_hints: Mapped[list[str]] = mapped_column(JSONB, server_default="[]")
    created_at: Mapped[Created]
    answered_at: Mapped[datetime | None]
    answered_by: Mapped[UUID | None] = mapped_column(
        ForeignKey("steps.id", ondelete="SET NULL"), index=True
    )
    """The query that was made of it and wrote something."""
    dropped_at: Mapped[datetime | None]
    """Nobody answered it for so long that it is no longer asked for."""
