"""Tables: inbox, dead letters, destinations, deliveries."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from shared.database.tables.base import Base, Created, Id, one_of
from shared.enums import DeliveryStatus, DestinationKind, InboxKind


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
    """When the notifier made a delivery of it for each destination that its owner then had."""
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


class Destination(Base):
    """A webhook or mail address of an owner's. Written by the api; the notifier stops it where the receiver is gone."""

    __tablename__ = "destinations"
    __table_args__ = (
        UniqueConstraint(
            "owner_id", "kind", "address", "agent_id", postgresql_nulls_not_distinct=True
        ),
        one_of("kind", DestinationKind),
        Index("destinations_owner_idx", "owner_id", "created_at"),
    )

    id: Mapped[Id]
    owner_id: Mapped[UUID] = mapped_column(ForeignKey("users.id", ondelete="CASCADE"))
    agent_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("agents.id", ondelete="CASCADE"), index=True
    )
    """Whose items it is sent; None is all of the owner's agents."""
    kind: Mapped[str]
    address: Mapped[str]
    active: Mapped[bool] = mapped_column(server_default=text("true"))
    """While it is not, nothing is sent to it or put aside for it."""
    stopped_because: Mapped[str | None]
    """Why the notifier stopped it; None where a person did."""
    created_at: Mapped[Created]


class WebhookSecret(Base):
    """What deliveries to a webhook are signed with. The api writes it and cannot read it; the notifier reads it."""

    __tablename__ = "webhook_secrets"

    id: Mapped[Id]
    destination_id: Mapped[UUID] = mapped_column(
        ForeignKey("destinations.id", ondelete="CASCADE"), index=True
    )
    secret: Mapped[str]
    created_at: Mapped[Created]
    expires_at: Mapped[datetime | None]
    """Until when it signs beside the one that took its place; None is the one in use."""


class Delivery(Base):
    """One inbox item on its way to one destination. Made by the notifier; a test of a destination by the api."""

    __tablename__ = "deliveries"
    __table_args__ = (
        UniqueConstraint("destination_id", "inbox_item_id"),
        one_of("status", DeliveryStatus),
        Index("deliveries_destination_idx", "destination_id", "created_at"),
        Index("deliveries_due_idx", "next_attempt_at", postgresql_where=text("status = 'pending'")),
        Index(
            "deliveries_retry_idx",
            "retry_requested_at",
            postgresql_where=text("retry_requested_at is not null"),
        ),
    )

    id: Mapped[Id]
    """The receiver sees it, the same at every attempt."""
    destination_id: Mapped[UUID] = mapped_column(ForeignKey("destinations.id", ondelete="CASCADE"))
    inbox_item_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("inbox_items.id", ondelete="CASCADE"), index=True
    )
    """None is a test."""
    status: Mapped[str] = mapped_column(server_default=DeliveryStatus.PENDING)
    attempts: Mapped[int] = mapped_column(server_default="0")
    """Since it was made, or its retry was asked for."""
    next_attempt_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    """While it is pending: when it may be claimed. Claimed, that is when the lease lapses."""
    give_up_at: Mapped[datetime]
    """The first attempt that fails after this is the last."""
    lease_owner: Mapped[str | None]
    epoch: Mapped[int] = mapped_column(server_default="0")
    status_code: Mapped[int | None]
    """What the receiver last answered, by HTTP."""
    error: Mapped[str | None]
    created_at: Mapped[Created]
    ended_at: Mapped[datetime | None]
    retry_requested_at: Mapped[datetime | None]
    """A person's wish that one that failed be tried again; the notifier takes it up."""
