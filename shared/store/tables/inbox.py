"""What reaches people: advice in the inbox, and messages nobody could handle."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from shared.store.tables.base import Base, Created, Id
from shared.store.words import InboxKind


class InboxItem(Base):
    """What its owner should see. Marked read by the api.

    Advice is written by the Adviser, a notice (that a budget is used up) by whoever has one to give.
    """

    __tablename__ = "inbox_items"
    __table_args__ = (
        Index("inbox_items_owner_idx", "owner_id", "created_at"),
        Index(
            "inbox_items_unread_idx",
            "owner_id",
            "created_at",
            postgresql_where=text("read_at is null"),
        ),
        Index(
            "inbox_items_undispatched_idx",
            "created_at",
            postgresql_where=text("dispatched_at is null"),
        ),
    )

    id: Mapped[Id]
    owner_id: Mapped[UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    agent_id: Mapped[UUID] = mapped_column(ForeignKey("agents.id", ondelete="CASCADE"), index=True)
    kind: Mapped[str] = mapped_column(server_default=InboxKind.ADVICE)
    node_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("graph_nodes.id", ondelete="CASCADE"), unique=True
    )
    """The advice; None for a notice."""
    title: Mapped[str]
    summary: Mapped[str]
    read_at: Mapped[datetime | None]
    dispatched_at: Mapped[datetime | None]
    """When the courier made a delivery of it for each destination that its owner then had."""
    created_at: Mapped[Created]


class DeadLetter(Base):
    """A message that could not be handled, or a step that failed for good.

    Written by any actor; the api writes the wish to retry it, and the scheduler deletes it once it is published again.
    """

    __tablename__ = "dead_letters"
    __table_args__ = (
        Index("dead_letters_created_idx", "created_at"),
        Index("dead_letters_kept_idx", "kept_at"),
        Index(
            "dead_letters_retry_idx",
            "retry_requested_at",
            postgresql_where=text("retry_requested_at is not null"),
        ),
    )

    id: Mapped[Id]
    actor: Mapped[str]
    subject: Mapped[str]
    payload: Mapped[bytes]
    step_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("steps.id", ondelete="CASCADE"), index=True
    )
    code: Mapped[str]
    error: Mapped[str]
    attempts: Mapped[int]
    created_at: Mapped[Created]
    """When it was first kept."""
    kept_at: Mapped[Created]
    """When it was last kept: a message that fails again is the same letter."""
    retry_requested_at: Mapped[datetime | None]
    """When a person last asked for a retry. The wish is open until the letter is published, or kept again."""
