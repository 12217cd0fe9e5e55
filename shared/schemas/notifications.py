"""What people get to see of destinations and deliveries, as frozen models."""

from datetime import datetime
from uuid import UUID

from shared.schemas.base import View


class DeliveryView(View):
    """One inbox item on its way to one destination, or a test of it."""

    id: UUID
    """The receiver sees it: as `webhook-id`, or in the mail's `Message-ID`."""
    destination_id: UUID
    inbox_item_id: UUID | None
    """None is a test."""
    title: str | None
    status: str
    attempts: int
    next_attempt_at: datetime | None
    """While it is pending and nobody is at it."""
    give_up_at: datetime
    status_code: int | None
    error: str | None
    """Why the last attempt failed."""
    created_at: datetime
    ended_at: datetime | None
    retry_requested_at: datetime | None


class DestinationView(View):
    id: UUID
    kind: str
    address: str
    agent_id: UUID | None
    """None is all of the owner's agents."""
    agent_name: str | None
    active: bool
    stopped_because: str | None
    """Why the notifier stopped it; None where a person did."""
    created_at: datetime
    last_delivery: DeliveryView | None


class DestinationDetails(DestinationView):
    deliveries: list[DeliveryView]
    """The newest few."""


class NewSecret(View):
    """The only time that a secret is told."""

    secret: str
    previous_signs_until: datetime | None
    """Until then deliveries are signed with the secrets before it too."""


class CreatedDestination(DestinationView):
    secret: str | None
    """Of a webhook: what its deliveries are signed with. It is told here once."""
