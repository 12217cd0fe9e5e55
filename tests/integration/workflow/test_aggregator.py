"""The join against the real state: under concurrency, redelivery, and time."""

import asyncio
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, update

from services.aggregator.deadlines import Deadlines
from services.aggregator.handler import Aggregate
from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Iteration, Step
from shared.enums import IterationStatus, Stage, StepKind, StepStatus
from shared.errors import TransientError
from shared.events.models import IterationFailed, QueryCompleted
from shared.runtime.bus import Bus
from shared.workflow import leases, steps
from shared.workflow.leases import LeaseLostError
from tests.support import claims, table_rows
from tests.support.claims import Claimed
from tests.support.joins import end_events, plan_iteration, reload_iteration, subjects


async def end(database: Database, iteration: Iteration, kind: StepKind, **result: object) -> None:
    """Ends every step of that kind with `result`, in the state only."""
    async with database.transaction() as session:
        for step in await steps.list_steps(session, iteration.id, kind):
            claim = await claims.claim(session, step.id, "worker")
            assert isinstance(claim, Claimed)
            await steps.end(session, claim.lease, dict(result))


async def test_twenty_steps_that_end_together_join_once(database: Database) -> None:
    aggregate = Aggregate(database)
    iteration = await plan_iteration(database, queries=20, insights=1)
    await end(database, iteration, StepKind.QUERY, nodes=1, edges=0)
    ends = await end_events(database, iteration, StepKind.QUERY)
    event_lists = await asyncio.gather(*(aggregate(end_event) for end_event in ends))
    ids = {event.event_id for events in event_lists for event in events}
    assert len(ids) == 1, "repeated publishing makes one request"
    assert (await reload_iteration(database, iteration)).stage == Stage.ANALYZING


async def test_an_end_that_changes_nothing_waits_for_no_lock(database: Database) -> None:
    iteration = await plan_iteration(database, queries=2, insights=1)
    async with database.transaction() as session:
        [first, _] = await steps.list_steps(session, iteration.id, StepKind.QUERY)
        claim = await claims.claim(session, first.id, "worker")
        assert isinstance(claim, Claimed)
        ended = await steps.end(session, claim.lease, {"nodes": 1, "edges": 0})
        [end_event] = await derived_events.events_after_step(session, ended)
    async with database.transaction() as other_session:
        locked = select(Iteration).where(Iteration.id == iteration.id).with_for_update()
        assert await other_session.scalar(locked)
        async with asyncio.timeout(10):
            assert list(await Aggregate(database)(end_event)) == []
    assert (await reload_iteration(database, iteration)).stage == Stage.RESEARCHING


async def test_a_plan_with_queries_causes_no_event(database: Database) -> None:
    iteration = await plan_iteration(database, queries=1, insights=1)
    [plan] = await end_events(database, iteration, StepKind.OBSERVE)
    assert list(await Aggregate(database)(plan)) == []
    assert (await reload_iteration(database, iteration)).stage == Stage.RESEARCHING


async def test_a_redelivered_event_causes_the_same_events(database: Database) -> None:
    aggregate = Aggregate(database)
    iteration = await plan_iteration(database)
    [plan] = await end_events(database, iteration, StepKind.OBSERVE)
    first, again = [list(await aggregate(plan)) for _ in range(2)]
    assert subjects(first) == ["iteration.completed"]
    assert first == again


async def test_the_adviser_gets_every_analysis_and_its_end_completes_the_iteration(
    database: Database,
) -> None:
    aggregate = Aggregate(database)
    iteration = await plan_iteration(database, insights=2)
    [plan] = await end_events(database, iteration, StepKind.OBSERVE)
    assert subjects(list(await aggregate(plan))) == ["insight.requested"] * 2
    analysis_id = str(uuid4())
    await end(database, iteration, StepKind.INSIGHT, analyses=[analysis_id], missing=[])
    ends = await end_events(database, iteration, StepKind.INSIGHT)
    [request] = [event for end_event in ends for event in await aggregate(end_event)][:1]
    assert request.subject == "analysis.produced"
    assert request.analysis_ids == [UUID(analysis_id)] * 2  # type: ignore[attr-defined]
    await end(database, iteration, StepKind.ADVISE, advice=[], reason="")
    [advise_end] = await end_events(database, iteration, StepKind.ADVISE)
    [completed] = await aggregate(advise_end)
    assert completed.subject == "iteration.completed"
    row = await reload_iteration(database, iteration)
    assert (row.status, row.stage) == (IterationStatus.COMPLETED, Stage.ENDED)


async def test_an_end_event_that_contradicts_the_state_is_refused(database: Database) -> None:
    iteration = await plan_iteration(database, queries=1)
    async with database.transaction() as session:
        [query] = await steps.list_steps(session, iteration.id, StepKind.QUERY)
    false_end = QueryCompleted.of(
        agent_id=query.agent_id,
        iteration_id=iteration.id,
        step_id=query.id,
        occurred_at=iteration.started_at,
        nodes=1,
        edges=1,
    )
    with pytest.raises(TransientError, match="has not"):
        await Aggregate(database)(false_end)


async def test_the_deadline_ends_the_iteration_and_revokes_its_leases(
    database: Database, bus: Bus
) -> None:
    iteration = await plan_iteration(database, queries=1)
    async with database.transaction() as session:
        [query] = await steps.list_steps(session, iteration.id, StepKind.QUERY)
        claim = await claims.claim(session, query.id, "slow worker")
        assert isinstance(claim, Claimed)
        await session.execute(update(Iteration).values(deadline_at=Iteration.started_at))
    await Deadlines(database, bus, Aggregate(database), 0.0).end_stalled()
    row = await reload_iteration(database, iteration)
    assert row.status == IterationStatus.FAILED
    [error] = row.errors
    assert error.startswith("no progress for 0 s while researching: no step ended and no call")
    assert "VIGIL_ITERATION_DEADLINE_SECONDS" in error
    with pytest.raises(LeaseLostError):
        async with leases.leased_transaction(database, claim.lease):
            pass
    async with database.transaction() as session:
        assert (await session.get_one(Step, query.id)).status == StepStatus.FAILED
        its_steps = await steps.list_steps(session, row.id)
        event = await derived_events.iteration_ended_event(
            session, table_rows.as_iteration(row), its_steps
        )
    assert isinstance(event, IterationFailed)
