"""Notifiers share the work, a slow receiver holds up itself alone, and who lost a lease writes nothing."""

import asyncio

import pytest

from services.notifier import dispatcher
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.enums import DeliveryStatus
from shared.notifications import deliveries
from shared.notifications.deliveries import DeliveryLostError
from shared.runtime.settings import Settings
from tests.support.actors import BUILDERS, running
from tests.support.notifier.rows import (
    delivered,
    deliveries_of,
    due_now,
    make_items,
    make_webhook,
)
from tests.support.receiver import HANG, Receiver, ids
from tests.support.waiting import until

NOTIFIER = ("notifier",)
ITEMS = 60


async def test_two_notifiers_deliver_each_item_once(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    paths = ("/a", "/b", "/c")
    for path in paths:
        await make_webhook(database, agent, receiver.url(path))
    async with running(notifier, NOTIFIER):
        others = [asyncio.create_task(BUILDERS["notifier"](notifier).run()) for _ in range(2)]
        for _ in range(3):
            await make_items(database, agent, ITEMS // 3)
        await delivered(database, ITEMS * len(paths))
        for other in others:
            other.cancel()
        await asyncio.gather(*others, return_exceptions=True)
    for path in paths:
        assert len(receiver.of(path)) == len(ids(receiver.of(path))) == ITEMS


async def test_dispatching_side_by_side_makes_each_delivery_once(
    database: Database, agent: Agent, receiver: Receiver
) -> None:
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent, 50)

    async def dispatch() -> None:
        more = 1
        while more:
            async with database.transaction() as session:
                more = await deliveries.dispatch(session, 7)

    await asyncio.gather(*(dispatch() for _ in range(4)))
    async with database.transaction() as session:
        assert await deliveries.dispatch(session, 7) == 0
    assert len(await deliveries_of(database)) == 50


async def test_a_slow_receiver_holds_up_nobody_else(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    receiver.says(HANG, path="/slow")
    slow = await make_webhook(database, agent, receiver.url("/slow"))
    quick = await make_webhook(database, agent, receiver.url("/quick"))
    await make_items(database, agent, 30)
    few = notifier.model_copy(update={"slots": 4})
    async with running(few, NOTIFIER):
        await until(receiver.hit(30, "/quick"), what="the quick one to have everything")
        waiting = await deliveries_of(database, slow)
        assert {each.status for each in waiting} == {DeliveryStatus.PENDING}
        receiver.released.set()
        await delivered(database, 60)
    assert receiver.most_hanging == dispatcher.SLOTS_PER_DESTINATION
    assert len(receiver.of("/slow")) == len(ids(receiver.of("/slow"))) == 30
    assert {each.attempts for each in await deliveries_of(database, quick)} == {1}


async def test_who_was_overtaken_writes_nothing(
    database: Database, agent: Agent, receiver: Receiver
) -> None:
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    async with database.transaction() as session:
        await deliveries.dispatch(session, 10)
    first = await _claimed(database, "first")
    assert await _claim(database, "second") == []
    await due_now(database)  # the first one's lease has lapsed
    second = await _claimed(database, "second")
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
    await due_now(database)
    assert await _claim(database, "third") == []
    (done,) = await deliveries_of(database)
    assert (done.status, done.attempts) == (DeliveryStatus.DELIVERED, 1)


async def _claim(database: Database, worker: str) -> list[deliveries.DeliveryLease]:
    async with database.transaction() as session:
        claimed = await deliveries.claim(
            session, worker, seconds=60, limit=10, per_destination=2, running_by_destination={}
        )
    return list(claimed)


async def _claimed(database: Database, worker: str) -> deliveries.DeliveryLease:
    (lease,) = await _claim(database, worker)
    return lease


async def test_a_notifier_that_stops_lets_what_is_under_way_end(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    receiver.says(HANG)
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    task = asyncio.create_task(BUILDERS["notifier"](notifier).run())
    await until(receiver.hit(), what="the attempt to begin")
    task.cancel()
    receiver.released.set()
    await asyncio.gather(task, return_exceptions=True)
    (done,) = await deliveries_of(database)
    assert (done.status, len(receiver.hits)) == (DeliveryStatus.DELIVERED, 1)


async def test_what_cannot_end_in_time_is_handed_over_at_once(
    notifier: Settings, database: Database, agent: Agent, receiver: Receiver
) -> None:
    receiver.says(HANG)
    await make_webhook(database, agent, receiver.url())
    await make_items(database, agent)
    hasty = notifier.model_copy(update={"drain_seconds": 0.1})
    task = asyncio.create_task(BUILDERS["notifier"](hasty).run())
    await until(receiver.hit(), what="the attempt to begin")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    (left,) = await deliveries_of(database)
    assert (left.status, left.attempts, left.lease_owner) == (DeliveryStatus.PENDING, 0, None)
    receiver.released.set()
    async with running(notifier, NOTIFIER):
        (done,) = await delivered(database)
    assert ids(receiver.hits) == {str(done.id)}
