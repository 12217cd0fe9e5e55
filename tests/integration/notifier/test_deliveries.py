"""Every inbox item goes to its owner's destinations: signed, once, and nothing else."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import update

from services.notifier import dispatcher
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import Agent, Destination, GraphNode, InboxItem, User
from shared.enums import ANALYSIS_TYPE
from shared.events.models import AdviceProduced
from shared.notifications import deliveries, destinations
from shared.notifications.webhooks import new_secret
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.contracts.samples import samples
from tests.support.factories import make_agent
from tests.support.notifier.rows import (
    list_deliveries,
    make_items,
    make_mail,
    make_webhook,
    wait_until_delivered,
)
from tests.support.observability.scraping import Counting
from tests.support.running_services import running_services
from tests.support.smtp_server import run_smtp_server
from tests.support.table_rows import add, change
from tests.support.waiting import wait_until
from tests.support.webhook_server import WebhookReceiver

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


async def test_messages_have_names_in_place_of_ids(
    notifier: Settings, database: Database, agent: Agent, receiver: WebhookReceiver
) -> None:
    await make_webhook(database, agent, receiver.url())
    await make_mail(database, agent, "you@example.org")
    cited, gone = uuid4(), uuid4()
    text = f"Rising [node:{cited}], [edge:{cited.hex}] and [NODE:{gone}]."
    (item,) = await make_items(database, agent)
    async with database.transaction() as session:
        row = await session.get_one(InboxItem, item)
        row = await change(session, row, summary=text)
        advice = await session.get_one(GraphNode, row.node_id)
        advice = await change(
            session, advice, properties={**advice.properties, "content": text, "invalidation": text}
        )
        values = {"id": cited, "type": ANALYSIS_TYPE, "name": "Lithium in Chile", "properties": {}}
        await session.insert(GraphNode, agent_id=agent.id, **values)
    async with run_smtp_server() as box:
        smtp = {"smtp_url": f"smtp://{box.address}", "mail_from": "vigil@example.org"}
        settings = Settings.model_validate({**notifier.model_dump(), **smtp})
        async with running_services(settings, NOTIFIER):
            await wait_until_delivered(database, 2)
    [hit], [mail] = receiver.hits, box.mails
    shown = [hit.message["data"][key] for key in ("summary", "content", "invalidation")]
    for each in (*shown, mail.text):
        assert "Rising [Lithium in Chile]" in each
        assert "[no longer in the graph]" in each
        assert str(cited) not in each
        assert str(gone) not in each


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
