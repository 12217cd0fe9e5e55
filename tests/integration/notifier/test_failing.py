"""What a receiver does not take is tried again, told, and in the end given up: never lost, never silent."""

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
from tests.support.actors import running
from tests.support.notifier.rows import (
    ask_for_retry,
    attempted,
    delivered,
    deliveries_of,
    destination_of,
    due_now,
    ended,
    give_up_now,
    make_items,
    make_mail,
    make_webhook,
)
from tests.support.postbox import Postbox, open_postbox
from tests.support.receiver import DROP, HANG, Receiver, answer, ids
from tests.support.waiting import until

NOTIFIER = ("notifier",)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (answer(500), "500 Internal Server Error"),
        (answer(404), "404 Not Found"),
        (answer(429, "retry-after: 0"), "429 Too Many Requests"),
        (answer(302, "location: /elsewhere"), "redirects are not followed"),
        (DROP, UNREACHED),
        (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", UNREACHED),
    ],
)
async def test_what_is_not_taken_comes_again_with_the_same_id(
    notifier: Settings,
    database: Database,
    agent: Agent,
    receiver: Receiver,
    said: bytes | str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry_schedule, "BACKOFF_SECONDS", (3600,))
    receiver.says(said, said, answer(204))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running(notifier, NOTIFIER):
        for times in (1, 2):
            resting = await attempted(database, times)
            assert (resting.status, resting.attempts) == (DeliveryStatus.PENDING, times)
            assert words in (resting.error or "")
            await due_now(database)
        (done,) = await delivered(database)
    assert len(receiver.hits) == 3
    assert ids(receiver.hits) == {str(done.id)}
    assert receiver.of("/elsewhere") == []
    assert (done.attempts, done.status_code, done.error) == (3, 204, None)


async def test_a_wait_that_is_asked_for_is_kept(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    receiver.says(answer(503, "retry-after: 7200"))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running(notifier, NOTIFIER):
        resting = await attempted(database)
    waits = (resting.next_attempt_at - resting.created_at).total_seconds()
    assert 7200 <= waits < 7200 * (1 + retry_schedule.JITTER) + 60
    assert resting.status_code == 503


async def test_after_its_patience_it_fails_with_the_reason_and_can_be_retried(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    receiver.says(answer(500))
    webhook = await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running(notifier, NOTIFIER):
        trying = await attempted(database)
        days = (trying.give_up_at - trying.created_at).total_seconds() / 86_400
        assert days == pytest.approx(3, abs=0.01)
        assert not await ask_for_retry(database, trying.id)
        await give_up_now(database)
        (failed,) = await ended(database)
        assert (failed.status, failed.status_code) == (DeliveryStatus.FAILED, 500)
        assert "500 Internal Server Error" in (failed.error or "")
        assert (await destination_of(database, webhook)).active
        receiver.says(answer(200))
        assert await ask_for_retry(database, failed.id)
        (done,) = await until(lambda: _delivered(database), what="the retry to succeed")
    assert (done.attempts, done.retry_requested_at) == (1, None)
    assert ids(receiver.hits) == {str(failed.id)}


async def _delivered(database: Database) -> list[Delivery]:
    found = await deliveries_of(database)
    return [each for each in found if each.status == DeliveryStatus.DELIVERED]


@pytest.mark.parametrize("wait", ["31536000", "1e400", "9" * 5_000])
async def test_a_receiver_can_ask_for_a_day_at_most(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver, wait: str
) -> None:
    receiver.says(answer(503, f"retry-after: {wait}"))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running(notifier, NOTIFIER):
        resting = await attempted(database)
    waits = (resting.next_attempt_at - resting.created_at).total_seconds()
    assert 86_400 <= waits < 86_400 * (1 + retry_schedule.JITTER) + 60


async def test_the_last_attempt_is_made_when_patience_ends(
    notifier: Settings,
    database: Database,
    agent: Agent,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(deliveries, "RETRY_PERIOD", timedelta(hours=1))
    receiver.says(answer(503, "retry-after: 86400"))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running(notifier, NOTIFIER):
        resting = await attempted(database)
    assert resting.next_attempt_at == resting.give_up_at


async def test_who_is_gone_is_not_sent_to_any_more(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    receiver.says(answer(500), answer(410))
    webhook = await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running(notifier, NOTIFIER):
        await ended(database)
        stopped = await destination_of(database, webhook)
        assert not stopped.active
        assert "410 Gone" in (stopped.stop_reason or "")
        await make_items(database, agent)
        (failed,) = await ended(database)
        receiver.says(answer(200))
        await ask_for_retry(database, failed.id)
        await until(lambda: _says(database, "not active"), what="the retry to be refused")
        async with database.transaction() as session:
            await destinations.set_active(session, webhook, active=True)
        await ask_for_retry(database, failed.id)
        await until(lambda: _delivered(database), what="the retry to succeed")
    assert len(receiver.hits) == 3
    assert (await destination_of(database, webhook)).stop_reason is None


async def _says(database: Database, words: str) -> bool:
    found = await deliveries_of(database)
    return any(words in (each.error or "") for each in found)


async def test_who_does_not_answer_is_given_up_for_now(
    notifier: Settings,
    database: Database,
    agent: Agent,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(channels, "ANSWER_SECONDS", 0.3)
    receiver.says(HANG, answer(200))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running(notifier, NOTIFIER):
        (done,) = await delivered(database)
    assert done.attempts == 2
    assert len(receiver.hits) == 2


async def test_who_is_away_gets_it_when_back(
    notifier: Settings, database: Database, agent: Agent
) -> None:
    await make_webhook(database, agent, f"http://127.0.0.1:{free_port()}/hook")
    await make_items(database, agent)
    async with running(notifier, NOTIFIER):
        assert (await attempted(database, 3)).error == UNREACHED


async def test_an_owner_cannot_tell_closed_ports_from_open_ones_or_hosts_from_none(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    """The operator's log says what happened; the owner is told the same of everything that gave no HTTP answer."""
    receiver.says(b"220 mail.internal ESMTP\r\n", path="/speaks-another-protocol")
    receiver.says(DROP, path="/hangs-up")
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
        async with running(notifier, NOTIFIER):
            failed = await ended(database, len(urls))
    assert {(each.error, each.status_code) for each in failed} == {(UNREACHED, None)}
    reasons = {line["why"] for line in lines if line["event"].startswith("not delivered")}
    assert len(reasons) >= 5, reasons
    assert any("169.254.169.254" in reason for reason in reasons)


async def test_an_endless_answer_is_not_read(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    receiver.says(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n" + b"x" * 1_000_000)
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with running(notifier, NOTIFIER):
        (done,) = await delivered(database)
    assert done.attempts == 1


async def test_a_test_that_fails_is_not_repeated(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    receiver.says(answer(500))
    webhook = await make_webhook(database, agent, receiver.url())
    async with database.transaction() as session:
        await deliveries.create_test(session, webhook)
    async with running(notifier, NOTIFIER):
        (failed,) = await ended(database)
    assert (failed.status, failed.attempts) == (DeliveryStatus.FAILED, 1)
    assert len(receiver.hits) == 1


async def test_logs_tell_what_failed_and_no_address_or_secret(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    receiver.says(answer(500), DROP, answer(200))
    await make_webhook(database, agent, receiver.url("/hook?token=hidden"), secret="whsec_aGlkZGVu")
    receiver.says(answer(500), DROP, answer(200), path="/hook?token=hidden")
    await make_items(database, agent)
    with capture_logs() as lines:
        async with running(notifier, NOTIFIER):
            await delivered(database)
    said = repr(lines)
    assert "500 Internal Server Error" in said
    assert "hidden" not in said
    assert "aGlkZGVu" not in said


@asynccontextmanager
async def mailing(notifier: Settings) -> AsyncIterator[tuple[Postbox, Settings]]:
    async with open_postbox() as box:
        by = {"smtp_url": f"smtp://{box.address}", "mail_from": "vigil@example.org"}
        yield box, Settings.model_validate({**notifier.model_dump(), **by})


async def test_a_mail_that_is_refused_for_good_fails_at_once(
    notifier: Settings, database: Database, agent: Agent
) -> None:
    await make_mail(database, agent, "you@example.org")
    await make_items(database, agent)
    async with mailing(notifier) as (box, settings):
        box.answer_to_recipient = "550 5.1.1 nobody here"
        async with running(settings, NOTIFIER):
            (failed,) = await ended(database)
    assert (failed.status, failed.attempts) == (DeliveryStatus.FAILED, 1)
    assert "nobody here" in (failed.error or "")


async def test_a_mail_is_tried_again_while_the_server_is_in_trouble_or_not_set(
    notifier: Settings, database: Database, agent: Agent
) -> None:
    await make_mail(database, agent, "you@example.org")
    await make_items(database, agent)
    async with running(notifier, NOTIFIER):
        assert "VIGIL_SMTP_URL" in ((await attempted(database, 2)).error or "")
    async with mailing(notifier) as (box, settings):
        box.answer_to_text = "451 4.3.0 later"
        async with running(settings, NOTIFIER):
            await until(lambda: _says(database, "451"), what="the server's answer to be noted")
            box.answer_to_text = "250 OK"
            await delivered(database)
        assert len(box.mails) == 1
