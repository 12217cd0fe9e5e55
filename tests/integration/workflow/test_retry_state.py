"""A retry on its way: nothing is lost, nothing claimed that was not asked for, and no end told twice."""

import json
from functools import partial

import pytest

from services.aggregator.handler import Aggregate
from services.scheduler.dead_letter_retries import Retrier
from services.scheduler.reconciler import Reconciler
from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Iteration, Step
from shared.enums import StepStatus
from shared.errors import TransientError
from shared.events.models import QueryRequested
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from shared.runtime.step_runner import MAX_CLAIMS
from shared.workflow import dead_letters, steps
from shared.workflow.leases import AlreadyEnded, Claimed
from tests.support.actors import running
from tests.support.failing import (
    ago,
    change,
    claimed,
    failed_query,
    researcher,
    wish,
    works,
)
from tests.support.letters import rows, told
from tests.support.steps import running as running_actor
from tests.support.steps import status_is, step_now
from tests.support.waiting import until

GRACE_SECONDS = 15.0


async def test_a_retry_whose_publish_fails_is_repeated(
    settings: Settings, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    await wish(database)
    retrier = Retrier(database, bus)
    (letter_id,) = await retrier.list_requests()
    await bus.jetstream.delete_stream(STREAM)
    with pytest.raises(TransientError, match=r"did not store query\.requested"):
        await retrier.publish(letter_id)
    assert await retrier.list_requests() == [letter_id]
    await provision_stream(settings)
    await retrier.publish(letter_id)
    assert (await retrier.list_requests(), await rows(database)) == ([], [])
    (said,) = await told(bus, "query.requested")
    assert json.loads(said)["step_id"] == str(query.id)


async def test_who_dies_between_publishing_and_deleting_publishes_once_more(
    settings: Settings, database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = await failed_query(database, bus, settings)
    await wish(database)
    retrier = Retrier(database, bus)
    (letter_id,) = await retrier.list_requests()

    async def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(dead_letters, "delete_republished", killed)
        with pytest.raises(KeyboardInterrupt):
            await retrier.publish(letter_id)
    assert len(await rows(database)) == 1
    await retrier.publish(letter_id)
    assert await rows(database) == []
    async with running_actor(researcher(settings, works)):
        await until(partial(status_is, database, query, StepStatus.COMPLETED), what="the query")
    assert (await step_now(database, query)).epoch == 2


async def test_a_failure_that_is_quicker_than_the_scheduler_is_not_lost(
    settings: Settings, database: Database, bus: Bus
) -> None:
    await failed_query(database, bus, settings)
    await wish(database)
    (letter,) = await rows(database)
    assert letter.retry_requested_at is not None
    async with database.transaction() as session:
        await dead_letters.store(
            session,
            actor=letter.actor,
            subject=letter.subject,
            payload=letter.payload,
            code="another",
            error="failed again",
            attempts=7,
            step_id=letter.step_id,
        )
    async with database.transaction() as session:
        await dead_letters.delete_republished(session, letter.id, letter.retry_requested_at)
        assert await dead_letters.list_retry_requests(session, 10) == []
    (kept,) = await rows(database)
    assert (kept.code, kept.error, kept.attempts) == ("another", "failed again", 7)


async def test_a_failed_step_is_claimed_only_where_its_retry_was_asked_for_since(
    settings: Settings, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    assert isinstance(await claimed(database, query), AlreadyEnded)
    await wish(database)
    claim = await claimed(database, query)
    assert isinstance(claim, Claimed)
    assert (claim.step.attempts, claim.step.error, claim.step.retry_at) == (0, None, None)
    assert (claim.step.ended_at, claim.lease.epoch) == (None, 2)
    async with database.transaction() as session:
        await steps.fail(session, claim.lease, "no better", attempts=1)
    ended = await claimed(database, query)
    assert isinstance(ended, AlreadyEnded)
    assert ended.step.error == "no better"


async def test_claims_before_a_retry_are_forgiven(
    settings: Settings, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    await change(database, query, epoch=MAX_CLAIMS + 1)
    await wish(database)
    async with running_actor(researcher(settings, works)), running(settings, ["scheduler"]):
        await until(partial(status_is, database, query, StepStatus.COMPLETED), what="the query")


async def test_a_retry_that_the_bus_has_lost_is_told_again(
    settings: Settings, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    reconciler = Reconciler(database, resend_after_seconds=GRACE_SECONDS)
    await change(database, query, requested_at=ago(3600), ended_at=ago(3500))
    assert await reconciler.find_missed() == [], "nobody has asked"
    await wish(database)
    assert await reconciler.find_missed() == [], "it was asked for just now"
    await change(database, query, retry_requested_at=ago(GRACE_SECONDS + 1))
    (lost,) = await reconciler.find_missed()
    (event,) = await reconciler.events(lost)
    assert isinstance(event, QueryRequested)
    assert (event.step_id, lost.number) == (query.id, 1)
    await reconciler.count(lost)
    assert await reconciler.find_missed() == []
    claim = await claimed(database, query)
    assert isinstance(claim, Claimed)
    await change(database, query, requested_at=ago(3600))
    assert await reconciler.find_missed() == [], "its lease runs"
    await change(database, query, lease_until=ago(5))
    (lost_again,) = await reconciler.find_missed()
    assert await reconciler.events(lost_again) == [event]


async def test_the_end_of_a_retried_step_is_no_news_of_its_iteration(
    settings: Settings, database: Database, bus: Bus
) -> None:
    aggregate = Aggregate(database)
    query = await failed_query(database, bus, settings)
    async with database.transaction() as session:
        (failure,) = await derived_events.events_after_step(
            session, await session.get_one(Step, query.id)
        )
    ends = [event.subject for event in await aggregate(failure)]
    assert ends == ["iteration.failed"], "said again when it is delivered again"
    await wish(database)
    claim = await claimed(database, query)
    assert isinstance(claim, Claimed)
    assert [event.subject for event in await aggregate(failure)] == ends, "in the middle of it too"
    async with database.transaction() as session:
        done = await steps.end(session, claim.lease, {"nodes": 1, "edges": 0})
        (success,) = await derived_events.events_after_step(session, done)
    before = await _iteration(database, query)
    assert await aggregate(success) == []
    after = await _iteration(database, query)
    assert (after.status, after.stage, after.errors) == (before.status, before.stage, before.errors)


async def _iteration(database: Database, step: Step) -> Iteration:
    async with database.transaction() as session:
        return await session.get_one(Iteration, step.iteration_id)
