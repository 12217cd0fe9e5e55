"""Destinations in a terminal: creation, state, deliveries, and a secret that is shown once."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from cli.render import notifications as show
from shared.schemas.notifications import (
    CreatedDestination,
    DeliveryResponse,
    DestinationDetails,
    NewSecret,
)
from tests.support.cli.console import printed

ID = UUID("a1b2c3d4-0000-4000-8000-000000000001")
CREATED_AT = datetime(2026, 1, 31, 12, tzinfo=UTC)


def delivery(**values: Any) -> DeliveryResponse:
    defaults: dict[str, Any] = {
        "id": ID,
        "destination_id": ID,
        "inbox_item_id": ID,
        "title": "HOLD: Wait [/]",
        "status": "delivered",
        "attempts": 1,
        "next_attempt_at": None,
        "give_up_at": CREATED_AT,
        "status_code": 204,
        "error": None,
        "created_at": CREATED_AT,
        "ended_at": CREATED_AT,
        "retry_requested_at": None,
    }
    return DeliveryResponse(**(defaults | values))


def destination(**values: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {
        "id": ID,
        "kind": "webhook",
        "address": "https://example.org/[bold]",
        "agent_id": None,
        "agent_name": None,
        "active": True,
        "stop_reason": None,
        "created_at": CREATED_AT,
        "last_delivery": None,
    }
    return defaults | values


def test_a_secret_is_shown_at_creation() -> None:
    webhook = CreatedDestination(**destination(), secret="whsec_abc")
    output = printed(show.show_created, webhook)
    for words in ("https://example.org/[bold]", "from all agents", "whsec_abc", "only once"):
        assert words in output
    assert "vigil destination test a1b2c3d4" in output
    mail = CreatedDestination(**destination(kind="mail"), secret=None)
    assert "Secret" not in printed(show.show_created, mail)
    new_secret = NewSecret(secret="whsec_def", previous_signs_until=CREATED_AT)
    assert "The previous secret stays valid until" in printed(show.show_secret, new_secret)


def test_the_list_shows_the_state_of_each_destination() -> None:
    destinations = [
        DestinationDetails(**destination(last_delivery=delivery()), deliveries=[]),
        DestinationDetails(
            **destination(active=False, stop_reason="the receiver answered 410 Gone"),
            deliveries=[],
        ),
        DestinationDetails(**destination(active=False, agent_name="Lithium"), deliveries=[]),
    ]
    lines = printed(show.show_destinations, destinations).splitlines()
    assert "delivered (204)" in lines[1]
    assert "stopped: the receiver answered 410 Gone" in lines[2]
    assert "Lithium" in lines[3]
    assert "paused" in lines[3]
    assert "vigil destination add" in printed(show.show_destinations, [])


def test_a_destination_is_shown_with_its_deliveries() -> None:
    pending = delivery(
        status="pending",
        error="no answer",
        status_code=None,
        next_attempt_at=CREATED_AT,
        title=None,
    )
    details = DestinationDetails(**destination(), deliveries=[pending, delivery()])
    output = printed(show.show_destination, details)
    for words in (
        str(ID)[:8],
        "active",
        "a test",
        "pending: no answer; next attempt",
        "HOLD: Wait [/]",
    ):
        assert words in output
    assert "There are no deliveries" in printed(
        show.show_destination, DestinationDetails(**destination(), deliveries=[])
    )


def test_the_outcome_of_a_test_delivery_is_shown() -> None:
    assert "delivered (204)" in printed(show.show_outcome, delivery())
    failure = delivery(status="failed", error="the receiver answered 500")
    assert "failed: the receiver answered 500" in printed(show.show_outcome, failure)
    assert "notifier" in printed(show.show_outcome, delivery(status="pending"))
