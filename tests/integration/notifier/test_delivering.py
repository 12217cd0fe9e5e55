"""What comes into the inbox goes to its owner's destinations: signed, once, and nothing else."""

from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import update

from services.notifier import dispatcher
from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import Agent, Destination, User
from shared.events.models import AdviceProduced
from shared.notifications import deliveries, destinations
from shared.notifications.webhooks import new_secret
from shared.runtime.bus import Bus
from shared.runtime.settings import Settings
from tests.support.actors import running
from tests.support.contracts.samples import samples
from tests.support.making import make_agent
from tests.support.notifier.rows import (
    delivered,
    deliveries_of,
    make_items,
    make_mail,
    make_webhook,
)
from tests.support.postbox import open_postbox
from tests.support.receiver import Receiver
from tests.support.waiting import until

NOTIFIER = ("notifier",)


async def test_advice_arrives_signed_and_whole(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    secret = new_secret()
    webhook = await make_webhook(database, agent, receiver.url(), secret=secret)
    (item,) = await make_items(database, agent)
    async with running(notifier, NOTIFIER):
        (delivery,) = await delivered(database)
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
        "link": f"https://vigil.example.org/api/v1/inbox/{item}",
    }
    assert UUID(hit.message["data"]["advice_id"])
    assert (delivery.attempts, delivery.status_code, delivery.error) == (1, 200, None)


async def test_a_mail_is_sent_for_each_item(
    notifier: Settings, database: Database, agent: Agent
) -> None:
    await make_mail(database, agent, "you@example.org")
    await make_items(database, agent, 2)
    async with open_postbox() as box:
        by = {"smtp_url": f"smtp://{box.address}", "mail_from": "vigil@example.org"}
        settings = Settings.model_validate({**notifier.model_dump(), **by})
        async with running(settings, NOTIFIER):
            found = await delivered(database, 2)
    assert {mail.message["Message-ID"] for mail in box.mails} == {
        f"<{delivery.id}@example.org>" for delivery in found
    }
    mail = box.mails[0]
    assert mail.recipients == ["you@example.org"]
    assert mail.message["Subject"] == "[Battery watch] HOLD: Wait for Müller"
    assert "Nothing changed" in mail.text
    assert "Confidence: 80%" in mail.text
    assert "Holds until: 2026-04-30" in mail.text
    assert "What would prove it wrong: Orders that fall by a tenth." in mail.text
    assert "https://vigil.example.org/api/v1/inbox/" in mail.text


async def test_each_destination_gets_what_is_for_it(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    other = await make_agent(database, name="Other watch")
    for path, whose, all_agents in (
        ("/all", agent, True),
        ("/one", agent, False),
        ("/other", other, False),
    ):
        await make_webhook(database, whose, receiver.url(path), all_agents=all_agents)
    (mine,) = await make_items(database, agent)
    (others,) = await make_items(database, other)
    async with running(notifier, NOTIFIER):
        await delivered(database, 4)
    told = {
        path: {hit.message["data"]["inbox_item_id"] for hit in receiver.of(path)}
        for path in ("/all", "/one", "/other")
    }
    assert told == {
        "/all": {str(mine), str(others)},
        "/one": {str(mine)},
        "/other": {str(others)},
    }


async def test_what_is_anothers_or_older_or_comes_while_it_is_stopped_is_not_delivered(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    await make_items(database, agent)
    late = await make_webhook(database, agent, receiver.url("/late"))
    stopped = await make_webhook(database, agent, receiver.url("/stopped"))
    strangers = await make_webhook(database, agent, receiver.url("/stranger"))
    async with database.transaction() as session:
        await destinations.set_active(session, stopped, active=False)
        stranger = User(id=late, name="stranger")
        session.add(stranger)
        await session.flush()
        await session.execute(
            update(Destination).where(Destination.id == strangers).values(owner_id=stranger.id)
        )
    (item,) = await make_items(database, agent)
    async with running(notifier, NOTIFIER):
        await delivered(database)
        async with database.transaction() as session:
            await destinations.set_active(session, stopped, active=True)
        await make_items(database, agent)
        await delivered(database, 3)
    assert receiver.of("/stranger") == []
    assert len(receiver.of("/stopped")) == 1
    first, _second = receiver.of("/late")
    assert first.message["data"]["inbox_item_id"] == str(item)


async def test_without_destinations_items_are_passed_over_for_good(
    notifier: Settings, database: Database, agent: Agent
) -> None:
    await make_items(database, agent, 3)
    async with database.transaction() as session:
        assert await deliveries.dispatch(session, 2) == 2
        assert await deliveries.dispatch(session, 2) == 1
        assert await deliveries.dispatch(session, 2) == 0
    assert await deliveries_of(database) == []


async def test_a_test_says_that_it_is_one_and_is_tried_once(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    secret = new_secret()
    webhook = await make_webhook(database, agent, receiver.url(), secret=secret)
    async with database.transaction() as session:
        await deliveries.create_test(session, webhook)
    async with running(notifier, NOTIFIER):
        await delivered(database)
    (hit,) = receiver.hits
    assert hit.signed_by(secret)
    assert hit.message["type"] == "destination.test"
    assert hit.message["data"]["destination_id"] == str(webhook)


async def test_the_event_is_a_hint_that_wakes_it(
    settings: Settings,
    notifier: Settings,
    database: Database,
    agent: Agent,
    receiver: Receiver,
    bus: Bus,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dispatcher, "POLL_SECONDS", 3600.0)
    webhook = await make_webhook(database, agent, receiver.url())
    async with database.transaction() as session:
        await deliveries.create_test(session, webhook)
    async with running(notifier, NOTIFIER):
        await delivered(database)  # its first look is over
        await make_items(database, agent)
        (told,) = [each for each in samples() if isinstance(each, AdviceProduced)]
        await bus.publish(told)
        await until(receiver.hit(2), what="the notifier to wake")


async def test_while_a_secret_is_replaced_both_sign(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    first, second, third = new_secret(), new_secret(), new_secret()
    webhook = await make_webhook(database, agent, receiver.url(), secret=first)
    for secret, overlap, count in ((second, timedelta(days=1), 1), (third, timedelta(0), 2)):
        async with database.transaction() as session:
            await destinations.rotate_secret(session, webhook, secret, overlap=overlap)
        await make_items(database, agent)
        async with running(notifier, NOTIFIER):
            await delivered(database, count)
    before, after = receiver.hits
    assert [before.signed_by(each) for each in (first, second, third)] == [True, True, False]
    assert [after.signed_by(each) for each in (first, second, third)] == [True, False, True]
