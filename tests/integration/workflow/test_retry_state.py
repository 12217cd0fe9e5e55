"""A requested retry: it is not lost, no other step is claimed, and no end is published twice."""

import json
from functools import partial

import pytest

from services.aggregator.handler import Aggregate
from services.scheduler.dead_letter_retries import Retrier
from services.scheduler.reconciler import Reconciler
from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Iteration
from shared.enums import StepStatus
from shared.errors import TransientError
from shared.events.models import QueryRequested
from shared.events.topology import STREAM
from shared.runtime.bus import Bus
from shared.runtime.provision import provision_stream
from shared.runtime.settings import Settings
from shared.runtime.step_runner import MAX_CLAIMS
from shared.workflow import dead_letters, steps
from shared.workflow.iterations import StepRow
from shared.workflow.leases import AlreadyEnded
from tests.support.claims import Claimed
from tests.support.failing_steps import (
    ago,
    change,
    claim_step,
    failed_query,
    request_retry,
    researcher,
    succeed,
)
from tests.support.running_services import running_services
from tests.support.steps import reload_step, running_service, status_is
from tests.support.stored_dead_letters import rows, stream_payloads
from tests.support.waiting import wait_until

GRACE_SECONDS = 15.0


async def test_a_retry_whose_publish_fails_is_repeated(
    settings: Settings, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    await request_retry(database)
    retrier = Retrier(database, bus)
    (letter_id,) = await retrier.list_requests()
    await bus.jetstream.delete_stream(STREAM)
    with pytest.raises(TransientError, match=r"did not store query\.requested"):
        await retrier.publish(letter_id)
    assert await retrier.list_requests() == [letter_id]
    await provision_stream(settings)
    await retrier.publish(letter_id)
    assert (await retrier.list_requests(), await rows(database)) == ([], [])
    (payload,) = await stream_payloads(bus, "query.requested")
    assert json.loads(payload)["step_id"] == str(query.id)


async def test_a_kill_between_publishing_and_deleting_publishes_once_more(
    settings: Settings, database: Database, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = await failed_query(database, bus, settings)
    await request_retry(database)
    retrier = Retrier(database, bus)
    (letter_id,) = await retrier.list_requests()

    async def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(dead_letters, "delete_republished", kill)
        with pytest.raises(KeyboardInterrupt):
            await retrier.publish(letter_id)
    assert len(await rows(database)) == 1
    await retrier.publish(letter_id)
    assert await rows(database) == []
    async with running_service(researcher(settings, succeed)):
        await wait_until(
            partial(status_is, database, query, StepStatus.COMPLETED), what="the query"
        )
    assert (await reload_step(database, query)).epoch == 2


async def test_a_failure_before_the_dead_letter_is_deleted_is_not_lost(
    settings: Settings, database: Database, bus: Bus
) -> None:
    await failed_query(database, bus, settings)
    await request_retry(database)
    (dead_letter,) = await rows(database)
    assert dead_letter.retry_requested_at is not None
    async with database.transaction() as session:
        await dead_letters.store(
            session,
            service=dead_letter.service,
            subject=dead_letter.subject,
            payload=dead_letter.payload,
            code="another",
            error="failed again",
            attempts=7,
            step_id=dead_letter.step_id,
        )
    async with database.transaction() as session:
        await dead_letters.delete_republished(
            session, dead_letter.id, dead_letter.retry_requested_at
        )
        assert await dead_letters.list_retry_requests(10).execute(session) == []
    (row,) = await rows(database)
    assert (row.code, row.error, row.attempts) == ("another", "failed again", 7)


async def test_a_failed_step_is_claimed_only_after_a_retry_request(
    settings: Settings, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    assert isinstance(await claim_step(database, query), AlreadyEnded)
    await request_retry(database)
    claim = await claim_step(database, query)
    assert isinstance(claim, Claimed)
    assert (claim.step.attempts, claim.step.error) == (0, None)
    assert (await reload_step(database, query)).retry_at is None
    assert (claim.step.ended_at, claim.lease.epoch) == (None, 2)
    async with database.transaction() as session:
        await steps.fail(session, claim.lease, "no better", attempts=1)
    second_claim = await claim_step(database, query)
    assert isinstance(second_claim, AlreadyEnded)
    assert second_claim.step.error == "no better"


async def test_claims_before_a_retry_do_not_count(
    settings: Settings, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    await change(database, query, epoch=MAX_CLAIMS + 1)
    await request_retry(database)
    async with (
        running_service(researcher(settings, succeed)),
        running_services(settings, ["scheduler"]),
    ):
        await wait_until(
            partial(status_is, database, query, StepStatus.COMPLETED), what="the query"
        )


async def test_a_retry_lost_by_the_bus_is_republished(
    settings: Settings, database: Database, bus: Bus
) -> None:
    query = await failed_query(database, bus, settings)
    reconciler = Reconciler(database, resend_after_seconds=GRACE_SECONDS)
    await change(database, query, requested_at=ago(3600), ended_at=ago(3500))
    assert await reconciler.find_missed() == [], "no retry is requested"
    await request_retry(database)
    assert await reconciler.find_missed() == [], "the request is too recent"
    await change(database, query, retry_requested_at=ago(GRACE_SECONDS + 1))
    (row,) = await reconciler.find_missed()
    (event,) = await reconciler.events(row)
    assert isinstance(event, QueryRequested)
    assert (event.step_id, row.number) == (query.id, 1)
    await reconciler.count(row)
    assert await reconciler.find_missed() == []
    claim = await claim_step(database, query)
    assert isinstance(claim, Claimed)
    await change(database, query, requested_at=ago(3600))
    assert await reconciler.find_missed() == [], "its lease runs"
    await change(database, query, lease_until=ago(5))
    (second_row,) = await reconciler.find_missed()
    assert await reconciler.events(second_row) == [event]


async def test_the_end_of_a_retried_step_does_not_change_its_iteration(
    settings: Settings, database: Database, bus: Bus
) -> None:
    aggregate = Aggregate(database)
    query = await failed_query(database, bus, settings)
    async with database.transaction() as session:
        (failure,) = await derived_events.events_after_step(
            session, await steps.get_step(session, query.id)
        )
    subjects = [event.subject for event in await aggregate(failure)]
    assert subjects == ["iteration.failed"], "a redelivered event gives the same end"
    await request_retry(database)
    claim = await claim_step(database, query)
    assert isinstance(claim, Claimed)
    assert [event.subject for event in await aggregate(failure)] == subjects, "during the retry too"
    async with database.transaction() as session:
        completed = await steps.end(session, claim.lease, {"nodes": 1, "edges": 0})
        (success,) = await derived_events.events_after_step(session, completed)
    before = await _iteration(database, query)
    assert await aggregate(success) == []
    after = await _iteration(database, query)
    assert (after.status, after.stage, after.errors) == (before.status, before.stage, before.errors)


async def _iteration(database: Database, step: StepRow) -> Iteration:
    async with database.transaction() as session:
        return await session.get_one(Iteration, step.iteration_id)
