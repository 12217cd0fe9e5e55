"""Destinations in a terminal: what was made, how it goes, and a secret that is told once."""

import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from rich.console import Console

from cli.render import notifications as show
from cli.render.console import THEME
from shared.schemas.notifications import (
    CreatedDestination,
    DeliveryView,
    DestinationDetails,
    NewSecret,
)

ID = UUID("a1b2c3d4-0000-4000-8000-000000000001")
THEN = datetime(2026, 1, 31, 12, tzinfo=UTC)


def delivery(**values: Any) -> DeliveryView:
    known: dict[str, Any] = {
        "id": ID,
        "destination_id": ID,
        "inbox_item_id": ID,
        "title": "HOLD: Wait [/]",
        "status": "delivered",
        "attempts": 1,
        "next_attempt_at": None,
        "give_up_at": THEN,
        "status_code": 204,
        "error": None,
        "created_at": THEN,
        "ended_at": THEN,
        "retry_requested_at": None,
    }
    return DeliveryView(**(known | values))


def destination(**values: Any) -> dict[str, Any]:
    known: dict[str, Any] = {
        "id": ID,
        "kind": "webhook",
        "address": "https://example.org/[bold]",
        "agent_id": None,
        "agent_name": None,
        "active": True,
        "stop_reason": None,
        "created_at": THEN,
        "last_delivery": None,
    }
    return known | values


def shown(tell: Callable[[Console, Any], None], what: Any) -> str:
    file = io.StringIO()
    tell(Console(file=file, theme=THEME, width=200), what)
    return file.getvalue()


def test_a_secret_is_told_when_it_is_made() -> None:
    made = CreatedDestination(**destination(), secret="whsec_abc")
    told = shown(show.show_created, made)
    for words in ("https://example.org/[bold]", "of all agents", "whsec_abc", "only once"):
        assert words in told
    assert "vigil destination test a1b2c3d4" in told
    mail = CreatedDestination(**destination(kind="mail"), secret=None)
    assert "Secret" not in shown(show.show_created, mail)
    rotated = NewSecret(secret="whsec_def", previous_signs_until=THEN)
    assert "also signs until" in shown(show.show_secret, rotated)


def test_the_list_says_how_each_goes() -> None:
    listed = [
        DestinationDetails(**destination(last_delivery=delivery()), deliveries=[]),
        DestinationDetails(
            **destination(active=False, stop_reason="the receiver answered 410 Gone"),
            deliveries=[],
        ),
        DestinationDetails(**destination(active=False, agent_name="Lithium"), deliveries=[]),
    ]
    told = shown(show.show_destinations, listed).splitlines()
    assert "delivered (204)" in told[1]
    assert "stopped: the receiver answered 410 Gone" in told[2]
    assert "Lithium" in told[3]
    assert "paused" in told[3]
    assert "vigil destination add" in shown(show.show_destinations, [])


def test_one_is_shown_with_its_deliveries() -> None:
    rests = delivery(
        status="pending", error="no answer", status_code=None, next_attempt_at=THEN, title=None
    )
    found = DestinationDetails(**destination(), deliveries=[rests, delivery()])
    told = shown(show.show_destination, found)
    for words in (
        str(ID),
        "active",
        "a test",
        "pending: no answer; next attempt",
        "HOLD: Wait [/]",
    ):
        assert words in told
    assert "No deliveries" in shown(
        show.show_destination, DestinationDetails(**destination(), deliveries=[])
    )


def test_the_outcome_of_a_test_is_told() -> None:
    assert "delivered (204)" in shown(show.show_outcome, delivery())
    failed = delivery(status="failed", error="the receiver answered 500")
    assert "failed: the receiver answered 500" in shown(show.show_outcome, failed)
    assert "notifier" in shown(show.show_outcome, delivery(status="pending"))
