"""Notifications: addresses of mail servers, signatures, and the classification of responses."""

import base64
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from uuid import uuid4

import httpx
import pytest

from services.notifier.channels import classify_response, subject, text
from services.notifier.delivery import Accepted, PermanentFailure, TemporaryFailure
from services.notifier.payload import build_message
from services.notifier.retry_schedule import BACKOFF_SECONDS, JITTER, delay_seconds
from shared.database.tables import InboxItem
from shared.errors import PermanentError
from shared.notifications.mail_server import MailServer
from shared.notifications.webhooks import new_secret, signature_headers
from shared.runtime.settings import Settings, load_settings
from tests.support.case_files import read_cases

CASES = read_cases(__file__)


@pytest.mark.parametrize(("url", "parts"), CASES["addresses"])
def test_an_address_is_read(url: str, parts: list[str | int | None]) -> None:
    server = MailServer.from_url(url)
    assert [server.host, server.port, server.user, server.password] == parts
    assert "secret" not in server.location


@pytest.mark.parametrize("url", CASES["refused"])
def test_an_address_that_cannot_be_meant_is_refused_without_being_shown(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(PermanentError, match="percent-encode the password") as refusal:
        MailServer.from_url(url)
    assert refusal.value.__cause__ is None
    monkeypatch.setenv("VIGIL_SMTP_URL", url)
    with pytest.raises(Exception, match="percent-encode the password") as unusable:
        load_settings()
    for shown in (str(refusal.value), str(unusable.value)):
        assert "QQ" not in shown
        assert "ZZ" not in shown


@pytest.mark.parametrize(("url", "is_accepted"), CASES["a_public_url_is_an_origin"])
def test_a_public_url_is_an_origin(
    url: str, is_accepted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VIGIL_PUBLIC_URL", url)
    if is_accepted:
        assert load_settings().public_url == url
        return
    with pytest.raises(Exception, match="only scheme, host and port"):
        load_settings()


def test_an_empty_public_url_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIGIL_PUBLIC_URL", "")
    assert Settings().public_url is None


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def test_the_signature_equals_that_of_the_reference_libraries() -> None:
    headers = signature_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}', [SECRET]
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_each_key_signs() -> None:
    signatures = signature_headers("id", 1, b"{}", [SECRET, new_secret()])[
        "webhook-signature"
    ].split(" ")
    assert signatures[0] == signature_headers("id", 1, b"{}", [SECRET])["webhook-signature"]
    assert len(set(signatures)) == 2


def test_secrets_are_long_and_unique() -> None:
    secrets = {new_secret() for _ in range(10)}
    assert len(secrets) == 10
    assert all(secret.startswith("whsec_") for secret in secrets)
    assert {len(base64.b64decode(secret.removeprefix("whsec_"))) for secret in secrets} == {32}


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_status_is_a_success(status: int) -> None:
    assert classify_response(status, httpx.Headers()) == Accepted(status)


def test_410_gone_is_permanent_and_stops_the_destination() -> None:
    verdict = classify_response(410, httpx.Headers())
    assert isinstance(verdict, PermanentFailure)
    assert verdict.stops
    assert "410 Gone" in verdict.why


@pytest.mark.parametrize(
    "status", [100, 301, 302, 307, 400, 401, 404, 408, 418, 429, 500, 503, 599]
)
def test_any_other_status_is_retried(status: int) -> None:
    verdict = classify_response(status, httpx.Headers())
    assert isinstance(verdict, TemporaryFailure)
    assert verdict.status_code == status
    assert str(status) in verdict.why
    assert ("redirects are not followed" in verdict.why) is (300 <= status < 400)


@pytest.mark.parametrize(
    ("retry_after", "seconds"),
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
def test_retry_after_is_parsed(retry_after: str, seconds: float | None) -> None:
    verdict = classify_response(503, httpx.Headers({"retry-after": retry_after}))
    assert isinstance(verdict, TemporaryFailure)
    assert verdict.min_delay_seconds == seconds


def test_retry_after_may_be_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    verdict = classify_response(429, httpx.Headers({"retry-after": date}))
    assert isinstance(verdict, TemporaryFailure)
    assert verdict.min_delay_seconds == pytest.approx(3600, abs=60)


def test_delays_grow_and_are_never_shorter_than_requested() -> None:
    delays = [
        delay_seconds(failures, min_delay_seconds=None, jitter=0) for failures in range(1, 20)
    ]
    assert delays == sorted(delays)
    assert (delays[0], delays[-1]) == (BACKOFF_SECONDS[0], BACKOFF_SECONDS[-1])
    assert delay_seconds(1, min_delay_seconds=7200, jitter=0) == 7200
    assert delay_seconds(9, min_delay_seconds=1, jitter=0) == BACKOFF_SECONDS[-1]
    assert delay_seconds(1, min_delay_seconds=None, jitter=1) == BACKOFF_SECONDS[0] * (1 + JITTER)


def test_a_notice_has_only_the_known_fields() -> None:
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
    fields = message.data.model_dump(exclude_none=True)
    assert set(fields) == {"inbox_item_id", "agent_id", "agent_name", "title", "summary"}
    assert subject(message.data) == "[Lithium] The day's budget is spent"
    assert text(message.data).splitlines()[0] == "It rests until tomorrow."
    assert "vigil inbox" in text(message.data)
