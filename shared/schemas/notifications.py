"""Schemas of destinations and deliveries."""

from datetime import datetime
from uuid import UUID

from shared.schemas.base import ResponseModel


class DeliveryResponse(ResponseModel):
    """The delivery of one inbox item to one destination, or a test."""

    id: UUID
    """Sent to the receiver: as `webhook-id`, or in the mail's `Message-ID`."""
    destination_id: UUID
    inbox_item_id: UUID | None
    """None: a test."""
    title: str | None
    status: str
    attempts: int
    next_attempt_at: datetime | None
    """While it is pending and not being delivered."""
    give_up_at: datetime
    status_code: int | None
    error: str | None
    """Why the last attempt failed."""
    created_at: datetime
    ended_at: datetime | None
    retry_requested_at: datetime | None


class DestinationResponse(ResponseModel):
    id: UUID
    kind: str
    address: str
    agent_id: UUID | None
    """None: all agents of the owner."""
    agent_name: str | None
    active: bool
    stop_reason: str | None
    """Why the notifier deactivated it; None if a user did."""
    created_at: datetime
    last_delivery: DeliveryResponse | None


class DestinationDetails(DestinationResponse):
    deliveries: list[DeliveryResponse]
    """The newest few."""


class NewSecret(ResponseModel):
    """A signing secret, shown only once."""

    secret: str
    previous_signs_until: datetime | None
    """Until when deliveries are also signed with the previous secrets."""


class CreatedDestination(DestinationResponse):
    secret: str | None
    """The signing secret of a webhook, shown only once."""
