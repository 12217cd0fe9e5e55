"""The join against the real state: under concurrency, redelivery, and time."""

import asyncio
from uuid import UUID, uuid4

import pytest
from sqlalchemy import update

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
from shared.workflow.leases import Claimed, LeaseLostError
from tests.support.joins import now, planned, subjects, told


async def end(database: Database, iteration: Iteration, kind: StepKind, **result: object) -> None:
    """Every step of that kind ends with `result`, as far as the state is concerned."""
    async with database.transaction() as session:
        for step in await steps.list_steps(session, iteration.id, kind):
            claim = await leases.claim(session, step.id, "worker")
            assert isinstance(claim, Claimed)
            await steps.end(session, claim.lease, dict(result))


async def test_twenty_parts_that_end_together_join_once(database: Database) -> None:
    aggregate = Aggregate(database)
    iteration = await planned(database, queries=20, insights=1)
    await end(database, iteration, StepKind.QUERY, nodes=1, edges=0)
    parts = await told(database, iteration, StepKind.QUERY)
    following = await asyncio.gather(*(aggregate(part) for part in parts))
    ids = {event.event_id for events in following for event in events}
    assert len(ids) == 1, "however often it is said, it is one request"
    assert (await now(database, iteration)).stage == Stage.ANALYZING


async def test_a_plan_with_queries_leaves_nothing_to_say(database: Database) -> None:
    iteration = await planned(database, queries=1, insights=1)
    [plan] = await told(database, iteration, StepKind.OBSERVE)
    assert list(await Aggregate(database)(plan)) == []
    assert (await now(database, iteration)).stage == Stage.RESEARCHING


async def test_a_redelivered_event_says_the_same_again(database: Database) -> None:
    aggregate = Aggregate(database)
    iteration = await planned(database)
    [plan] = await told(database, iteration, StepKind.OBSERVE)
    first, again = [list(await aggregate(plan)) for _ in range(2)]
    assert subjects(first) == ["iteration.completed"]
    assert first == again


async def test_the_adviser_is_woken_with_every_analysis_and_ends_the_iteration(
    database: Database,
) -> None:
    aggregate = Aggregate(database)
    iteration = await planned(database, insights=2)
    [plan] = await told(database, iteration, StepKind.OBSERVE)
    assert subjects(list(await aggregate(plan))) == ["insight.requested"] * 2
    analysis_id = str(uuid4())
    await end(database, iteration, StepKind.INSIGHT, analyses=[analysis_id], missing=[])
    parts = await told(database, iteration, StepKind.INSIGHT)
    [woken] = [event for part in parts for event in await aggregate(part)][:1]
    assert woken.subject == "analysis.produced"
    assert woken.analysis_ids == [UUID(analysis_id)] * 2  # type: ignore[attr-defined]
    await end(database, iteration, StepKind.ADVISE, advice=[], reason="")
    [advised] = await told(database, iteration, StepKind.ADVISE)
    [ended] = await aggregate(advised)
    assert ended.subject == "iteration.completed"
    done = await now(database, iteration)
    assert (done.status, done.stage) == (IterationStatus.COMPLETED, Stage.ENDED)


async def test_word_of_an_end_that_is_not_in_the_state_is_not_believed(database: Database) -> None:
    iteration = await planned(database, queries=1)
    async with database.transaction() as session:
        [query] = await steps.list_steps(session, iteration.id, StepKind.QUERY)
    lie = QueryCompleted.of(
        agent_id=query.agent_id,
        iteration_id=iteration.id,
        step_id=query.id,
        occurred_at=iteration.started_at,
        nodes=1,
        edges=1,
    )
    with pytest.raises(TransientError, match="has not"):
        await Aggregate(database)(lie)


async def test_the_deadline_ends_the_iteration_and_refuses_its_workers(
    database: Database, bus: Bus
) -> None:
    iteration = await planned(database, queries=1)
    async with database.transaction() as session:
        [query] = await steps.list_steps(session, iteration.id, StepKind.QUERY)
        claim = await leases.claim(session, query.id, "slow worker")
        assert isinstance(claim, Claimed)
        await session.execute(update(Iteration).values(deadline_at=Iteration.started_at))
    await Deadlines(database, bus, Aggregate(database), 0.0).end_stalled()
    done = await now(database, iteration)
    assert done.status == IterationStatus.FAILED
    [error] = done.errors
    assert error.startswith("no progress for 0 s while researching: no step ended and no call")
    assert "VIGIL_ITERATION_DEADLINE_SECONDS" in error
    with pytest.raises(LeaseLostError):
        async with leases.leased_transaction(database, claim.lease):
            pass
    async with database.transaction() as session:
        assert (await session.get_one(Step, query.id)).status == StepStatus.FAILED
        event = await derived_events.iteration_ended_event(session, done)
    assert isinstance(event, IterationFailed)
