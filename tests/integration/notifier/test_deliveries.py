"""Every inbox item goes to its owner's destinations once, also with several notifiers and kills."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final
from uuid import UUID, uuid4

import pytest
from sqlalchemy import update

from services.notifier import dispatcher
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import Agent, Destination, GraphNode, InboxItem, User
from shared.enums import ANALYSIS_TYPE, DeliveryStatus
from shared.events.models import AdviceProduced
from shared.failpoints import DIRECTORY, Failpoint
from shared.notifications import deliveries, destinations
from shared.notifications.deliveries import DeliveryLostError
from shared.notifications.webhooks import new_secret
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.contracts.samples import samples
from tests.support.factories import make_agent
from tests.support.failpoints import arm
from tests.support.notifier.rows import (
    list_deliveries,
    make_due,
    make_items,
    make_mail,
    make_webhook,
    wait_until_delivered,
)
from tests.support.observability.scraping import Counting
from tests.support.running_services import BUILDERS, running_services
from tests.support.smtp_server import run_smtp_server
from tests.support.table_rows import add, change
from tests.support.waiting import wait_until
from tests.support.warm_processes import WarmProcess, start_python
from tests.support.webhook_server import HANG, WebhookReceiver, answer
from tests.support.webhook_server import ids as ids_of

NOTIFIER = ("notifier",)


async def test_advice_arrives_signed_and_complete(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    secret = new_secret()
    webhook = await make_webhook(database, agent, receiver.url(), secret=secret)
    (item,) = await make_items(database, agent)
    counting = Counting()
    async with running_services(notifier, NOTIFIER):
        (delivery,) = await wait_until_delivered(database)
    assert counting.gains("vigil_deliveries_total") == {("delivered",): 1}
    (hit,) = receiver.hits
    assert hit.signed_by(secret)
    assert not hit.signed_by(new_secret())
    assert hit.id == str(delivery.id) == str(ids.delivery_id(webhook, item))
    assert hit.headers["content-type"] == "application/json"
    assert hit.headers["user-agent"].startswith("Vigil/")
    assert hit.message["type"] == "advice.created"
    assert hit.message["timestamp"]
    assert {**hit.message["data"], "advice_id": "some"} == {
        "inbox_item_id": str(item),
        "agent_id": str(agent.id),
        "agent_name": "Battery watch",
        "title": "HOLD: Wait for Müller",
        "summary": "Wait.",
        "action": "HOLD",
        "confidence": 0.8,
        "horizon": "2026-04-30",
        "invalidation": "Orders that fall by a tenth.",
        "advice_id": "some",
        "content": "Nothing changed (0).",
        "link": f"https://vigil.example.org/inbox?item={item}",
        # Written without the Adviser, as by an earlier version.
        "position": None,
        "checked": None,
    }
    assert UUID(hit.message["data"]["advice_id"])
    assert (delivery.attempts, delivery.status_code, delivery.error) == (1, 200, None)


async def test_a_mail_is_sent_for_each_item(
    notifier: Settings, database: Database, agent: Agent
) -> None:
    await make_mail(database, agent, "you@example.org")
    await make_items(database, agent, 2)
    async with run_smtp_server() as box:
        smtp = {"smtp_url": f"smtp://{box.address}", "mail_from": "vigil@example.org"}
        settings = Settings.model_validate({**notifier.model_dump(), **smtp})
        async with running_services(settings, NOTIFIER):
            rows = await wait_until_delivered(database, 2)
    assert {mail.message["Message-ID"] for mail in box.mails} == {
        f"<{delivery.id}@example.org>" for delivery in rows
    }
    mail = box.mails[0]
    assert mail.recipients == ["you@example.org"]
    assert mail.message["Subject"] == "[Battery watch] HOLD: Wait for Müller"
    assert "Nothing changed" in mail.text
    assert "Confidence: 80%" in mail.text
    assert "Holds until: 2026-04-30" in mail.text
    assert "What would prove it wrong: Orders that fall by a tenth." in mail.text
    assert "https://vigil.example.org/inbox?item=" in mail.text


async def test_messages_have_no_citations_and_no_names_in_their_place(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    await make_webhook(database, agent, receiver.url())
    await make_mail(database, agent, "you@example.org")
    cited, gone = uuid4(), uuid4()
    text = f"It is rising [node:{cited}], and early [NODE:{gone}]."
    (item,) = await make_items(database, agent)
    async with database.transaction() as session:
        row = await session.get_one(InboxItem, item)
        row = await change(session, row, summary=text)
        advice = await session.get_one(GraphNode, row.node_id)
        advice = await change(
            session, advice, properties={**advice.properties, "content": text, "invalidation": text}
        )
        values = {"id": cited, "type": ANALYSIS_TYPE, "name": "not", "properties": {}}
        await session.insert(GraphNode, agent_id=agent.id, **values)
    async with run_smtp_server() as box:
        smtp = {"smtp_url": f"smtp://{box.address}", "mail_from": "vigil@example.org"}
        settings = Settings.model_validate({**notifier.model_dump(), **smtp})
        async with running_services(settings, NOTIFIER):
            await wait_until_delivered(database, 2)
    [hit], [mail] = receiver.hits, box.mails
    shown = [hit.message["data"][key] for key in ("summary", "content", "invalidation")]
    for each in (*shown, mail.text):
        assert "It is rising, and early." in each


async def test_each_destination_gets_the_items_of_its_agents(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    other = await make_agent(database, name="Other watch")
    for path, destination_agent, all_agents in (
        ("/all", agent, True),
        ("/one", agent, False),
        ("/other", other, False),
    ):
        await make_webhook(database, destination_agent, receiver.url(path), all_agents=all_agents)
    (own_item,) = await make_items(database, agent)
    (other_item,) = await make_items(database, other)
    async with running_services(notifier, NOTIFIER):
        await wait_until_delivered(database, 4)
    item_ids_by_path = {
        path: {hit.message["data"]["inbox_item_id"] for hit in receiver.of(path)}
        for path in ("/all", "/one", "/other")
    }
    assert item_ids_by_path == {
        "/all": {str(own_item), str(other_item)},
        "/one": {str(own_item)},
        "/other": {str(other_item)},
    }


async def test_items_of_others_older_items_and_items_while_stopped_are_not_delivered(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    await make_items(database, agent)
    late_id = await make_webhook(database, agent, receiver.url("/late"))
    stopped_id = await make_webhook(database, agent, receiver.url("/stopped"))
    strangers_id = await make_webhook(database, agent, receiver.url("/stranger"))
    async with database.transaction() as session:
        await destinations.set_active(session, stopped_id, active=False)
        stranger = User(id=late_id, name="stranger")
        await add(session, stranger)
        await session.execute(
            update(Destination).where(Destination.id == strangers_id).values(owner_id=stranger.id)
        )
    (item,) = await make_items(database, agent)
    async with running_services(notifier, NOTIFIER):
        await wait_until_delivered(database)
        async with database.transaction() as session:
            await destinations.set_active(session, stopped_id, active=True)
        await make_items(database, agent)
        await wait_until_delivered(database, 3)
    assert receiver.of("/stranger") == []
    assert len(receiver.of("/stopped")) == 1
    first, _second = receiver.of("/late")
    assert first.message["data"]["inbox_item_id"] == str(item)


async def test_items_dispatched_without_destinations_are_never_delivered(
    notifier: Settings, database: Database, agent: Agent
) -> None:
    await make_items(database, agent, 3)
    async with database.transaction() as session:
        assert await deliveries.dispatch(session, 2) == 2
        assert await deliveries.dispatch(session, 2) == 1
        assert await deliveries.dispatch(session, 2) == 0
    assert await list_deliveries(database) == []


async def test_a_test_delivery_is_marked_as_one_and_tried_once(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    secret = new_secret()
    webhook = await make_webhook(database, agent, receiver.url(), secret=secret)
    async with database.transaction() as session:
        await deliveries.create_test(session, webhook)
    async with running_services(notifier, NOTIFIER):
        await wait_until_delivered(database)
    (hit,) = receiver.hits
    assert hit.signed_by(secret)
    assert hit.message["type"] == "destination.test"
    assert hit.message["data"]["destination_id"] == str(webhook)


async def test_an_advice_event_wakes_the_notifier(
    settings: Settings,
    notifier: Settings,
    database: Database,
    agent: Agent,
    receiver: WebhookReceiver,
    bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatcher, "POLL_SECONDS", 3600.0)
    webhook = await make_webhook(database, agent, receiver.url())
    async with database.transaction() as session:
        await deliveries.create_test(session, webhook)
    async with running_services(notifier, NOTIFIER):
        await wait_until_delivered(database)  # its first poll is over
        await make_items(database, agent)
        (event,) = [sample for sample in samples() if isinstance(sample, AdviceProduced)]
        await bus.publish(event)
        await wait_until(receiver.hit(2), what="the notifier to wake")


async def test_during_secret_rotation_both_secrets_sign(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    first, second, third = new_secret(), new_secret(), new_secret()
    webhook = await make_webhook(database, agent, receiver.url(), secret=first)
    for secret, overlap, count in ((second, timedelta(days=1), 1), (third, timedelta(0), 2)):
        async with database.transaction() as session:
            await destinations.rotate_secret(session, webhook, secret, overlap=overlap)
        await make_items(database, agent)
        async with running_services(notifier, NOTIFIER):
            await wait_until_delivered(database, count)
    before, after = receiver.hits
    assert [before.signed_by(key) for key in (first, second, third)] == [True, True, False]
    assert [after.signed_by(key) for key in (first, second, third)] == [True, False, True]


ITEMS = 60


async def test_two_notifiers_deliver_each_item_once(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    paths = ("/a", "/b", "/c")
    for path in paths:
        await make_webhook(database, agent, receiver.url(path))
    async with running_services(notifier, NOTIFIER):
        others = [asyncio.create_task(BUILDERS["notifier"](notifier).run()) for _ in range(2)]
        for _ in range(3):
            await make_items(database, agent, ITEMS // 3)
        await wait_until_delivered(database, ITEMS * len(paths))
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
    for path in paths:
        assert len(receiver.of(path)) == len(ids_of(receiver.of(path))) == ITEMS


async def test_concurrent_dispatch_makes_each_delivery_once(
    database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent, 50)

    async def dispatch() -> None:
        dispatched = 1
        while dispatched:
            async with database.transaction() as session:
                dispatched = await deliveries.dispatch(session, 7)

    await asyncio.gather(*(dispatch() for _ in range(4)))
    async with database.transaction() as session:
        assert await deliveries.dispatch(session, 7) == 0
    assert len(await list_deliveries(database)) == 50


async def test_a_slow_receiver_does_not_delay_other_receivers(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    receiver.respond_with(HANG, path="/slow")
    slow = await make_webhook(database, agent, receiver.url("/slow"))
    quick = await make_webhook(database, agent, receiver.url("/quick"))
    await make_items(database, agent, 30)
    low_concurrency = notifier.model_copy(update={"concurrency": 4})
    async with running_services(low_concurrency, NOTIFIER):
        await wait_until(receiver.hit(30, "/quick"), what="the quick one to have everything")
        waiting = await list_deliveries(database, slow)
        assert {delivery.status for delivery in waiting} == {DeliveryStatus.PENDING}
        receiver.released.set()
        await wait_until_delivered(database, 60)
    assert receiver.max_hanging == dispatcher.SLOTS_PER_DESTINATION
    assert len(receiver.of("/slow")) == len(ids_of(receiver.of("/slow"))) == 30
    assert {delivery.attempts for delivery in await list_deliveries(database, quick)} == {1}


async def test_a_notifier_whose_lease_was_taken_over_writes_nothing(
    database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with database.transaction() as session:
        await deliveries.dispatch(session, 10)
    first = await _claim_one(database, "first")
    assert await _claim(database, "second") == []
    await make_due(database)  # the first one's lease has lapsed
    second = await _claim_one(database, "second")
    assert (first.epoch, second.epoch) == (1, 2)
    for write in (
        lambda session: deliveries.record_delivered(session, first, 200),
        lambda session: deliveries.record_failed(session, first, "late", None),
        lambda session: deliveries.record_failed_attempt(
            session, first, "late", None, delay_seconds=1
        ),
    ):
        with pytest.raises(DeliveryLostError):
            async with database.transaction() as session:
                await write(session)
    async with database.transaction() as session:
        assert not await deliveries.release(session, first)
        await deliveries.record_delivered(session, second, 200)
    await make_due(database)
    assert await _claim(database, "third") == []
    (delivery,) = await list_deliveries(database)
    assert (delivery.status, delivery.attempts) == (DeliveryStatus.DELIVERED, 1)


async def _claim(database: Database, worker: str) -> list[deliveries.DeliveryLease]:
    async with database.transaction() as session:
        leases = await deliveries.claim(
            session, worker, seconds=60, limit=10, per_destination=2, running_by_destination={}
        )
    return list(leases)


async def _claim_one(database: Database, worker: str) -> deliveries.DeliveryLease:
    (lease,) = await _claim(database, worker)
    return lease


async def test_a_stopping_notifier_finishes_the_delivery_in_progress(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    receiver.respond_with(HANG)
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    task = asyncio.create_task(BUILDERS["notifier"](notifier).run())
    await wait_until(receiver.hit(), what="the attempt to begin")
    task.cancel()
    receiver.released.set()
    await asyncio.gather(task, return_exceptions=True)
    (delivery,) = await list_deliveries(database)
    assert (delivery.status, len(receiver.hits)) == (DeliveryStatus.DELIVERED, 1)


async def test_a_delivery_that_cannot_finish_in_time_is_released_at_once(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    receiver.respond_with(HANG)
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    impatient = notifier.model_copy(update={"drain_seconds": 0.1})
    task = asyncio.create_task(BUILDERS["notifier"](impatient).run())
    await wait_until(receiver.hit(), what="the attempt to begin")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (released,) = await list_deliveries(database)
    assert (released.status, released.attempts, released.lease_owner) == (
        DeliveryStatus.PENDING,
        0,
        None,
    )
    receiver.released.set()
    async with running_services(notifier, NOTIFIER):
        (delivery,) = await wait_until_delivered(database)
    assert ids_of(receiver.hits) == {str(delivery.id)}


FEW_ITEMS: Final = 3
KILL_SECONDS: Final = 30


@asynccontextmanager
async def notifier_process(
    settings: Settings, crashes: Path, log: Path
) -> AsyncIterator[WarmProcess]:
    variables = {
        "VIGIL_DATABASE_URL": settings.database_url,
        "VIGIL_NATS_URL": settings.nats_url,
        "VIGIL_WEBHOOK_PRIVATE": "true",
        DIRECTORY: str(crashes),
    }
    with log.open("ab") as output:
        process = await start_python(
            *("-m", "services.notifier"),
            env={**os.environ, **variables},
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def wait_until_killed(process: WarmProcess) -> None:
    async with asyncio.timeout(KILL_SECONDS):
        assert await process.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("point", "skip", "repeated"),
    [
        pytest.param(Failpoint.STATE_WRITTEN, 0, 0, marks=pytest.mark.slow),
        (Failpoint.STATE_COMMITTED, 0, 0),
        pytest.param(Failpoint.LEASE_TAKEN, 0, 0, marks=pytest.mark.slow),
        (Failpoint.DELIVERY_ANSWERED, 0, 1),
        pytest.param(Failpoint.DELIVERY_ANSWERED, 2, 1, marks=pytest.mark.slow),
        (Failpoint.DELIVERY_RECORDED, 0, 0),
        pytest.param(Failpoint.DELIVERY_RECORDED, 1, 0, marks=pytest.mark.slow),
    ],
)
async def test_a_kill_loses_no_delivery_and_repeats_only_unrecorded_ones(
    settings: Settings,
    database: Database,
    agent: Agent,
    receiver: WebhookReceiver,
    tmp_path: Path,
    point: Failpoint,
    skip: int,
    repeated: int,
) -> None:
    crashes, log = tmp_path / "crash", tmp_path / "notifier.log"
    crashes.mkdir()
    arm(crashes, point, skip=skip)
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent, FEW_ITEMS)
    async with notifier_process(settings, crashes, log) as first:
        await wait_until_killed(first)
    recorded_ids = {
        str(row.id)
        for row in await list_deliveries(database)
        if row.status == DeliveryStatus.DELIVERED
    }
    await make_due(database)  # the leases of the killed process lapse
    async with notifier_process(settings, crashes, log):
        deliveries = await wait_until_delivered(database, FEW_ITEMS)
    assert ids_of(receiver.hits) == {str(delivery.id) for delivery in deliveries}
    assert all(len(receiver.with_id(delivery_id)) == 1 for delivery_id in recorded_ids)
    # Two deliveries run at a time: besides the one at the kill point, another may have been in progress.
    assert FEW_ITEMS + repeated <= len(receiver.hits) <= FEW_ITEMS + 2


async def test_a_delivery_in_progress_at_a_kill_is_repeated_with_the_same_id(
    settings: Settings, database: Database, agent: Agent, receiver: WebhookReceiver, tmp_path: Path
) -> None:
    receiver.respond_with(HANG, answer(200))
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with notifier_process(settings, tmp_path, tmp_path / "notifier.log") as first:
        await wait_until(receiver.hit(), what="the attempt to begin")
        first.kill()
        await wait_until_killed(first)
    await make_due(database)
    async with notifier_process(settings, tmp_path, tmp_path / "notifier.log"):
        (delivery,) = await wait_until_delivered(database)
    assert [hit.id for hit in receiver.hits] == [str(delivery.id)] * 2


async def test_a_recorded_delivery_is_never_repeated(
    settings: Settings, database: Database, agent: Agent, receiver: WebhookReceiver, tmp_path: Path
) -> None:
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent, FEW_ITEMS)
    for _ in range(2):
        async with notifier_process(settings, tmp_path, tmp_path / "notifier.log") as process:
            await wait_until_delivered(database, FEW_ITEMS)
            process.kill()
            await wait_until_killed(process)
        await make_due(database)
    await make_items(database, agent)
    async with notifier_process(settings, tmp_path, tmp_path / "notifier.log"):
        await wait_until_delivered(database, FEW_ITEMS + 1)
    assert len(receiver.hits) == FEW_ITEMS + 1
