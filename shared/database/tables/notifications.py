"""Tables: inbox, dead letters, destinations, deliveries."""

from datetime import datetime
from uuid import UUID

from sqlalchemy import ForeignKey, Index, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from shared.database.tables.base import Base, Created, Id, one_of
from shared.enums import DeliveryStatus, DestinationKind, InboxKind


class InboxItem(Base):
    """A message to the owner of an agent. Marked as read by the API.

    The Adviser writes advice; notices (for example that a budget is used up) come from several services.
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
        Index(
            "inbox_items_shown_idx", "owner_id", text("coalesce(snoozed_until, created_at)"), "id"
        ),
        Index(
            "inbox_items_answered_idx",
            "agent_id",
            "answered_at",
            postgresql_where=text("answered_at is not null"),
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
    cause: Mapped[str | None]
    """A `NoticeCause`. An agent has at most one unresolved notice of a cause. None for other items."""
    title: Mapped[str]
    summary: Mapped[str]
    read_at: Mapped[datetime | None]
    dispatched_at: Mapped[datetime | None]
    """When the notifier created a delivery for each destination that the owner had then."""
    outcome: Mapped[str | None]
    """The owner's decision, an `InboxOutcome`; None while it is open."""
    useful: Mapped[bool | None]
    """Whether the owner found it useful; None if the owner did not say."""
    feedback: Mapped[str | None]
    """The owner's comment, which the agent's phases are shown."""
    answered_at: Mapped[datetime | None]
    """When the owner last decided or gave feedback."""
    snoozed_until: Mapped[datetime | None]
    """Until then it is neither open nor unread; from then on it is sorted by this time."""
    resolved_at: Mapped[datetime | None]
    """The time at which the cause of a notice ended."""
    created_at: Mapped[Created]


class DeadLetter(Base):
    """A message that could not be handled, or the request of a step that failed for good.

    Written by any service. The API writes the retry request; the scheduler deletes the row when it has republished it.
    """

    __tablename__ = "dead_letters"
    __table_args__ = (
        Index("dead_letters_created_idx", "created_at"),
        Index("dead_letters_kept_idx", "stored_at"),
        Index(
            "dead_letters_retry_idx",
            "retry_requested_at",
            postgresql_where=text("retry_requested_at is not null"),
        ),
    )

    id: Mapped[Id]
    service: Mapped[str]
    subject: Mapped[str]
    payload: Mapped[bytes]
    step_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("steps.id", ondelete="CASCADE"), index=True
    )
    code: Mapped[str]
    error: Mapped[str]
    attempts: Mapped[int]
    created_at: Mapped[Created]
    """When it was first stored."""
    stored_at: Mapped[Created]
    """When it was last stored: a message that fails again is the same dead letter."""
    retry_requested_at: Mapped[datetime | None]
    """When a user last requested a retry. Open until the message is republished, or stored again."""


class Destination(Base):
    """A webhook or mail address of an owner. Written by the API; the notifier deactivates it if the receiver is gone."""

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
    """The agent whose items it receives; None: all agents of the owner."""
    kind: Mapped[str]
    address: Mapped[str]
    active: Mapped[bool] = mapped_column(server_default=text("true"))
    """While inactive, nothing is sent to it or queued for it."""
    stop_reason: Mapped[str | None]
    """Why the notifier deactivated it; None if a user did."""
    created_at: Mapped[Created]


class WebhookSecret(Base):
    """The signing key of a webhook. The API writes it and cannot read it; the notifier reads it."""

    __tablename__ = "webhook_secrets"

    id: Mapped[Id]
    destination_id: Mapped[UUID] = mapped_column(
        ForeignKey("destinations.id", ondelete="CASCADE"), index=True
    )
    secret: Mapped[str]
    created_at: Mapped[Created]
    expires_at: Mapped[datetime | None]
    """Until when it signs alongside its replacement; None: the current one."""


class Delivery(Base):
    """The delivery of one inbox item to one destination. Created by the notifier; a test delivery by the API."""

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
    """Sent to the receiver, the same at every attempt."""
    destination_id: Mapped[UUID] = mapped_column(ForeignKey("destinations.id", ondelete="CASCADE"))
    inbox_item_id: Mapped[UUID | None] = mapped_column(
        ForeignKey("inbox_items.id", ondelete="CASCADE"), index=True
    )
    """None: a test delivery."""
    status: Mapped[str] = mapped_column(server_default=DeliveryStatus.PENDING)
    attempts: Mapped[int] = mapped_column(server_default="0")
    """Since it was created, or its retry was requested."""
    next_attempt_at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    """While pending: when it may be claimed; while claimed: when the lease expires."""
    give_up_at: Mapped[datetime]
    """The first attempt that fails after this time is the last."""
    lease_owner: Mapped[str | None]
    epoch: Mapped[int] = mapped_column(server_default="0")
    status_code: Mapped[int | None]
    """HTTP status of the receiver's last response."""
    error: Mapped[str | None]
    created_at: Mapped[Created]
    ended_at: Mapped[datetime | None]
    retry_requested_at: Mapped[datetime | None]
    """A user's request to retry a failed delivery; the notifier fulfils it."""
