"""A delivery that a receiver rejects is retried, reported and finally given up; it is never lost."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from cli.local.ports import free_port
from services.notifier import channels, retry_schedule
from services.notifier.channels import UNREACHED
from shared.database.engine import Database
from shared.database.tables import Agent, Delivery
from shared.enums import DeliveryStatus
from shared.notifications import deliveries, destinations
from shared.runtime.settings import Settings
from tests.support.notifier.rows import (
    expire_deliveries,
    list_deliveries,
    load_destination,
    make_due,
    make_items,
    make_mail,
    make_webhook,
    request_retry,
    wait_for_attempts,
    wait_until_delivered,
    wait_until_ended,
)
from tests.support.observability.scraping import Counting
from tests.support.running_services import running_services
from tests.support.smtp_server import SmtpServer, run_smtp_server
from tests.support.waiting import wait_until
from tests.support.webhook_server import DROP, HANG, WebhookReceiver, answer, ids

NOTIFIER = ("notifier",)


@pytest.mark.parametrize(
    ("response", "words"),
    [
        (answer(500), "500 Internal Server Error"),
        (answer(404), "404 Not Found"),
        (answer(429, "retry-after: 0"), "429 Too Many Requests"),
        (answer(302, "location: /elsewhere"), "redirects are not followed"),
        (DROP, UNREACHED),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", UNREACHED),
    ],
)
async def test_a_rejected_delivery_is_repeated_with_the_same_id(
    notifier: Settings,
    database: Database,
    agent: Agent,
    receiver: WebhookReceiver,
    response: bytes | str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry_schedule, "BACKOFF_SECONDS", (3600,))
    receiver.respond_with(response, response, answer(204))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running_services(notifier, NOTIFIER):
        for times in (1, 2):
            delivery = await wait_for_attempts(database, times)
            assert (delivery.status, delivery.attempts) == (DeliveryStatus.PENDING, times)
            assert words in (delivery.error or "")
            await make_due(database)
        (delivered,) = await wait_until_delivered(database)
    assert len(receiver.hits) == 3
    assert ids(receiver.hits) == {str(delivered.id)}
    assert receiver.of("/elsewhere") == []
    assert (delivered.attempts, delivered.status_code, delivered.error) == (3, 204, None)


async def test_the_delay_that_a_receiver_asks_for_is_respected(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    receiver.respond_with(answer(503, "retry-after: 7200"))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running_services(notifier, NOTIFIER):
        delivery = await wait_for_attempts(database)
    delay_seconds = (delivery.next_attempt_at - delivery.created_at).total_seconds()
    assert 7200 <= delay_seconds < 7200 * (1 + retry_schedule.JITTER) + 60
    assert delivery.status_code == 503


async def test_an_expired_delivery_fails_with_the_reason_and_can_be_retried(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    receiver.respond_with(answer(500))
    webhook = await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running_services(notifier, NOTIFIER):
        delivery = await wait_for_attempts(database)
        days = (delivery.give_up_at - delivery.created_at).total_seconds() / 86_400
        assert days == pytest.approx(3, abs=0.01)
        assert not await request_retry(database, delivery.id)
        await expire_deliveries(database)
        (failed,) = await wait_until_ended(database)
        assert (failed.status, failed.status_code) == (DeliveryStatus.FAILED, 500)
        assert "500 Internal Server Error" in (failed.error or "")
        assert (await load_destination(database, webhook)).active
        receiver.respond_with(answer(200))
        assert await request_retry(database, failed.id)
        (retried,) = await wait_until(
            lambda: _list_delivered(database), what="the retry to succeed"
        )
    assert (retried.attempts, retried.retry_requested_at) == (1, None)
    assert ids(receiver.hits) == {str(failed.id)}


async def _list_delivered(database: Database) -> list[Delivery]:
    rows = await list_deliveries(database)
    return [row for row in rows if row.status == DeliveryStatus.DELIVERED]


@pytest.mark.parametrize("retry_after", ["31536000", "1e400", "9" * 5_000])
async def test_a_receiver_can_ask_for_a_delay_of_a_day_at_most(
    notifier: Settings,
    database: Database,
    agent: Agent,
    receiver: WebhookReceiver,
    retry_after: str,
) -> None:
    receiver.respond_with(answer(503, f"retry-after: {retry_after}"))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running_services(notifier, NOTIFIER):
        delivery = await wait_for_attempts(database)
    delay_seconds = (delivery.next_attempt_at - delivery.created_at).total_seconds()
    assert 86_400 <= delay_seconds < 86_400 * (1 + retry_schedule.JITTER) + 60


async def test_the_last_attempt_is_made_at_the_end_of_the_retry_period(
    notifier: Settings,
    database: Database,
    agent: Agent,
    receiver: WebhookReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deliveries, "RETRY_PERIOD", timedelta(hours=1))
    receiver.respond_with(answer(503, "retry-after: 86400"))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running_services(notifier, NOTIFIER):
        delivery = await wait_for_attempts(database)
    assert delivery.next_attempt_at == delivery.give_up_at


async def test_a_destination_that_answers_410_is_stopped(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    receiver.respond_with(answer(500), answer(410))
    webhook = await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    counting = Counting()
    async with running_services(notifier, NOTIFIER):
        await wait_until_ended(database)
        destination = await load_destination(database, webhook)
        assert not destination.active
        assert "410 Gone" in (destination.stop_reason or "")
        await make_items(database, agent)
        (failed,) = await wait_until_ended(database)
        receiver.respond_with(answer(200))
        await request_retry(database, failed.id)
        await wait_until(
            lambda: _any_error_contains(database, "not active"), what="the retry to be refused"
        )
        async with database.transaction() as session:
            await destinations.set_active(session, webhook, active=True)
        await request_retry(database, failed.id)
        await wait_until(lambda: _list_delivered(database), what="the retry to succeed")
    assert len(receiver.hits) == 3
    assert (await load_destination(database, webhook)).stop_reason is None
    # An error 500, a 410, a retry while the destination is not active, and a delivery.
    counted = {("retried",): 1, ("failed",): 2, ("delivered",): 1}
    assert counting.gains("vigil_deliveries_total") == counted


async def _any_error_contains(database: Database, words: str) -> bool:
    rows = await list_deliveries(database)
    return any(words in (row.error or "") for row in rows)


async def test_an_attempt_without_an_answer_times_out_and_is_repeated(
    notifier: Settings,
    database: Database,
    agent: Agent,
    receiver: WebhookReceiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channels, "ANSWER_SECONDS", 0.3)
    receiver.respond_with(HANG, answer(200))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running_services(notifier, NOTIFIER):
        (delivery,) = await wait_until_delivered(database)
    assert delivery.attempts == 2
    assert len(receiver.hits) == 2


async def test_an_unreachable_destination_is_tried_again(
    notifier: Settings, database: Database, agent: Agent
) -> None:
    await make_webhook(database, agent, f"http://127.0.0.1:{free_port()}/hook")
    await make_items(database, agent)
    async with running_services(notifier, NOTIFIER):
        assert (await wait_for_attempts(database, 3)).error == UNREACHED


async def test_delivery_errors_do_not_reveal_open_ports_or_existing_hosts(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    """The operator's log has the reason; the owner sees one text for every attempt without an HTTP answer."""
    receiver.respond_with(b"220 mail.internal ESMTP\r\n", path="/speaks-another-protocol")
    receiver.respond_with(DROP, path="/hangs-up")
    urls = (
        f"http://127.0.0.1:{free_port()}/closed",
        receiver.url("/speaks-another-protocol"),
        receiver.url("/hangs-up"),
        f"https://127.0.0.1:{receiver.port}/no-tls",
        "http://no-such-host.invalid/",
        f"http://{'a' * 64}.example/",
        "http://169.254.169.254/latest/meta-data/",
    )
    for url in urls:
        webhook = await make_webhook(database, agent, url)
        async with database.transaction() as session:
            await deliveries.create_test(session, webhook)
    with capture_logs() as lines:
        async with running_services(notifier, NOTIFIER):
            failed = await wait_until_ended(database, len(urls))
    assert {(delivery.error, delivery.status_code) for delivery in failed} == {(UNREACHED, None)}
    reasons = {line["why"] for line in lines if line["event"].startswith("not delivered")}
    assert len(reasons) >= 5, reasons
    assert any("169.254.169.254" in reason for reason in reasons)


async def test_a_huge_response_body_is_not_read(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    receiver.respond_with(
        b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n" + b"x" * 1_000_000
    )
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running_services(notifier, NOTIFIER):
        (delivery,) = await wait_until_delivered(database)
    assert delivery.attempts == 1


async def test_a_failed_test_delivery_is_not_repeated(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    receiver.respond_with(answer(500))
    webhook = await make_webhook(database, agent, receiver.url())
    async with database.transaction() as session:
        await deliveries.create_test(session, webhook)
    async with running_services(notifier, NOTIFIER):
        (delivery,) = await wait_until_ended(database)
    assert (delivery.status, delivery.attempts) == (DeliveryStatus.FAILED, 1)
    assert len(receiver.hits) == 1


async def test_logs_have_the_failure_but_no_address_or_secret(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    receiver.respond_with(answer(500), DROP, answer(200))
    await make_webhook(database, agent, receiver.url("/hook?token=hidden"), secret="whsec_aGlkZGVu")
    receiver.respond_with(answer(500), DROP, answer(200), path="/hook?token=hidden")
    await make_items(database, agent)
    with capture_logs() as lines:
        async with running_services(notifier, NOTIFIER):
            await wait_until_delivered(database)
    log = repr(lines)
    assert "500 Internal Server Error" in log
    assert "hidden" not in log
    assert "aGlkZGVu" not in log


@asynccontextmanager
async def mailing(notifier: Settings) -> AsyncIterator[tuple[SmtpServer, Settings]]:
    async with run_smtp_server() as box:
        smtp = {"smtp_url": f"smtp://{box.address}", "mail_from": "vigil@example.org"}
        yield box, Settings.model_validate({**notifier.model_dump(), **smtp})


async def test_a_permanently_refused_mail_fails_at_once(
    notifier: Settings, database: Database, agent: Agent
) -> None:
    await make_mail(database, agent, "you@example.org")
    await make_items(database, agent)
    async with mailing(notifier) as (box, settings):
        box.answer_to_recipient = "550 5.1.1 nobody here"
        async with running_services(settings, NOTIFIER):
            (delivery,) = await wait_until_ended(database)
    assert (delivery.status, delivery.attempts) == (DeliveryStatus.FAILED, 1)
    assert "nobody here" in (delivery.error or "")


async def test_a_mail_is_retried_while_the_server_fails_or_is_not_configured(
    notifier: Settings, database: Database, agent: Agent
) -> None:
    await make_mail(database, agent, "you@example.org")
    await make_items(database, agent)
    async with running_services(notifier, NOTIFIER):
        assert "VIGIL_SMTP_URL" in ((await wait_for_attempts(database, 2)).error or "")
    async with mailing(notifier) as (box, settings):
        box.answer_to_text = "451 4.3.0 later"
        async with running_services(settings, NOTIFIER):
            await wait_until(
                lambda: _any_error_contains(database, "451"), what="the server's answer to be noted"
            )
            box.answer_to_text = "250 OK"
            await wait_until_delivered(database)
        assert len(box.mails) == 1
