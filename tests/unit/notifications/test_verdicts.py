"""What a receiver's answer means, and when what failed is tried again."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from uuid import uuid4

import httpx
import pytest

from services.notifier.channels import classify_response, subject, text
from services.notifier.delivery import Never, NotNow, Taken
from services.notifier.payload import build_message
from services.notifier.retry_schedule import BACKOFF_SECONDS, JITTER, delay_seconds
from shared.database.tables import InboxItem


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_success_is_taken(status: int) -> None:
    assert classify_response(status, httpx.Headers()) == Taken(status)


def test_gone_is_for_good_and_stops_the_destination() -> None:
    verdict = classify_response(410, httpx.Headers())
    assert isinstance(verdict, Never)
    assert verdict.stops
    assert "410 Gone" in verdict.why


@pytest.mark.parametrize(
    "status", [100, 301, 302, 307, 400, 401, 404, 408, 418, 429, 500, 503, 599]
)
def test_everything_else_is_tried_again(status: int) -> None:
    verdict = classify_response(status, httpx.Headers())
    assert isinstance(verdict, NotNow)
    assert verdict.status_code == status
    assert str(status) in verdict.why
    assert ("redirects are not followed" in verdict.why) is (300 <= status < 400)


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("120", 120.0),
        ("0", 0.0),
        ("-5", 0.0),
        ("1.5", 1.5),
        ("soon", None),
        ("", None),
        ("inf", 86_400.0),
        ("1e400", 86_400.0),
        ("-1e400", 0.0),
        ("31536000", 86_400.0),
        ("9" * 10_000, 86_400.0),
        ("-" + "9" * 10_000, 0.0),
        ("nan", None),
        ("1,5", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400.0),
        ("Fri, 31 Dec 9999 23:59:59 -2359", 86_400.0),
        ("Mon, 01 Jan 0001 00:00:00 +2359", 0.0),
        ("Wed, 21 Oct 99999 07:28:00 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 +" + "9" * 30, None),
        ("Wed, 21 Oct 2015 07:28:00 +" + "9" * 5000, 0.0),
        ("Wed, 32 Oct " + "9" * 5000 + " 07:28:00 GMT", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
    ],
)
def test_the_wait_that_is_asked_for_is_read(said: str, seconds: float | None) -> None:
    verdict = classify_response(503, httpx.Headers({"retry-after": said}))
    assert isinstance(verdict, NotNow)
    assert verdict.asked_seconds == seconds


def test_the_wait_may_be_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    verdict = classify_response(429, httpx.Headers({"retry-after": date}))
    assert isinstance(verdict, NotNow)
    assert verdict.asked_seconds == pytest.approx(3600, abs=60)


def test_rests_grow_and_are_never_shorter_than_asked_for() -> None:
    usual = [delay_seconds(failures, asked_seconds=None, luck=0) for failures in range(1, 20)]
    assert usual == sorted(usual)
    assert (usual[0], usual[-1]) == (BACKOFF_SECONDS[0], BACKOFF_SECONDS[-1])
    assert delay_seconds(1, asked_seconds=7200, luck=0) == 7200
    assert delay_seconds(9, asked_seconds=1, luck=0) == BACKOFF_SECONDS[-1]
    assert delay_seconds(1, asked_seconds=None, luck=1) == BACKOFF_SECONDS[0] * (1 + JITTER)


def test_a_notice_says_what_it_can() -> None:
    item = InboxItem(
        id=uuid4(),
        owner_id=uuid4(),
        agent_id=uuid4(),
        title="The day's budget is spent",
        summary="It rests until tomorrow.",
        created_at=datetime(2026, 1, 31, tzinfo=UTC),
    )
    message = build_message(item, "Lithium", None, None)
    assert message.type == "notice.created"
    told = message.data.model_dump(exclude_none=True)
    assert set(told) == {"inbox_item_id", "agent_id", "agent_name", "title", "summary"}
    assert subject(message.data) == "[Lithium] The day's budget is spent"
    assert text(message.data).splitlines()[0] == "It rests until tomorrow."
    assert "vigil inbox" in text(message.data)
