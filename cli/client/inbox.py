"""What reaches people: the inbox, and where else it is sent."""

from collections.abc import Iterable
from uuid import UUID

from cli.client.connection import Connection
from shared.store.reading.destination_shapes import (
    CreatedDestination,
    DeliveryView,
    DestinationDetails,
    DestinationView,
    NewSecret,
)
from shared.store.reading.shapes import (
    InboxItemView,
)
from shared.store.reading.work_shapes import Marked


class Inbox(Connection):
    def inbox(
        self, *, unread: bool, agent_id: UUID | None = None, limit: int | None = 50
    ) -> Iterable[InboxItemView]:
        return self._pages(InboxItemView, "/inbox", limit, unread=unread, agent_id=agent_id)

    def inbox_item(self, item_id: UUID) -> InboxItemView:
        return self._ask(InboxItemView, "GET", f"/inbox/{item_id}")

    def mark(self, item_id: UUID, *, read: bool) -> InboxItemView:
        order = "read" if read else "unread"
        return self._ask(InboxItemView, "POST", f"/inbox/{item_id}/{order}")

    def mark_all_read(self) -> Marked:
        return self._ask(Marked, "POST", "/inbox/read")

    def destinations(self) -> list[DestinationView]:
        return list(self._pages(DestinationView, "/destinations", None))

    def destination(self, destination_id: UUID) -> DestinationDetails:
        return self._ask(DestinationDetails, "GET", _destination(destination_id))

    def create_destination(
        self, kind: str, address: str, *, agent: str | None = None
    ) -> CreatedDestination:
        given = {"kind": kind, "address": address, "agent": agent}
        return self._ask(CreatedDestination, "POST", "/destinations", json=given)

    def activate_destination(self, destination_id: UUID, *, active: bool) -> DestinationDetails:
        path = _destination(destination_id)
        return self._ask(DestinationDetails, "PATCH", path, json={"active": active})

    def rotate_secret(self, destination_id: UUID) -> NewSecret:
        return self._ask(NewSecret, "POST", f"{_destination(destination_id)}/rotate-secret")

    def test_destination(self, destination_id: UUID) -> DeliveryView:
        return self._ask(DeliveryView, "POST", f"{_destination(destination_id)}/test")

    def delete_destination(self, destination_id: UUID) -> None:
        self._send("DELETE", _destination(destination_id))

    def delivery(self, known: DeliveryView) -> DeliveryView:
        """As it is now."""
        return self._ask(DeliveryView, "GET", _delivery(known))

    def failed_deliveries(self, destination_id: UUID) -> list[DeliveryView]:
        path = f"{_destination(destination_id)}/deliveries"
        return list(self._pages(DeliveryView, path, None, status="failed"))

    def retry_delivery(self, known: DeliveryView) -> DeliveryView:
        return self._ask(DeliveryView, "POST", f"{_delivery(known)}/retry")


def _destination(destination_id: UUID) -> str:
    return f"/destinations/{destination_id}"


def _delivery(known: DeliveryView) -> str:
    return f"{_destination(known.destination_id)}/deliveries/{known.id}"
