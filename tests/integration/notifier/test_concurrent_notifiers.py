"""Notifiers share the work, a slow receiver delays only itself, and a notifier that lost its lease writes nothing."""

import asyncio

import pytest

from services.notifier import dispatcher
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.enums import DeliveryStatus
from shared.notifications import deliveries
from shared.notifications.deliveries import DeliveryLostError
from shared.runtime.settings import Settings
from tests.support.notifier.rows import (
    list_deliveries,
    make_due,
    make_items,
    make_webhook,
    wait_until_delivered,
)
from tests.support.running_services import BUILDERS, running_services
from tests.support.waiting import wait_until
from tests.support.webhook_server import HANG, WebhookReceiver, ids

NOTIFIER = ("notifier",)
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
        assert len(receiver.of(path)) == len(ids(receiver.of(path))) == ITEMS


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
    assert len(receiver.of("/slow")) == len(ids(receiver.of("/slow"))) == 30
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
    assert ids(receiver.hits) == {str(delivery.id)}
