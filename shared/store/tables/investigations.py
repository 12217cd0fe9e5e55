"""What Analyzers lacked, so that somebody looks for it."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from shared.store.tables.base import Base, Created, Id


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
