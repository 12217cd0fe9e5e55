"""The ticker and the reconciler: due runs start once, stalled steps are republished, slow steps are left alone."""

import asyncio
from datetime import datetime, timedelta

from sqlalchemy import func, select, update

from services.scheduler.scheduler import Ticker
from shared.database.engine import Database
from shared.database.tables import Agent, Iteration, Step
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.events.models import IterationStarted, QueryCompleted
from shared.workflow import iterations, steps
from tests.support import claims
from tests.support.claims import Claimed
from tests.support.factories import make_agent, make_iteration
from tests.support.scheduling import GRACE_SECONDS, ago, change, republished_events


def ticker(database: Database) -> Ticker:
    return Ticker(database, deadline_seconds=600)


async def fresh(database: Database, agent: Agent) -> Agent:
    async with database.transaction() as session:
        return await session.get_one(Agent, agent.id)


async def now(database: Database) -> datetime:
    async with database.transaction() as session:
        database_now: datetime = await iterations.database_time(session)
        return database_now


async def end_running(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(update(Iteration).values(status=IterationStatus.COMPLETED))


async def test_several_schedulers_start_a_due_agent_once(
    database: Database,
) -> None:
    await make_agent(database)
    event_lists = await asyncio.gather(*(ticker(database).tick() for _ in range(6)))
    [event] = [event for events in event_lists for event in events]
    assert isinstance(event, IterationStarted)
    assert (event.number, event.why) == (1, "due")
    assert await ticker(database).tick() == []


async def test_missed_ticks_start_one_run_and_the_schedule_is_kept(database: Database) -> None:
    agent = await make_agent(database, interval_seconds=100)
    await change(database, agent, next_run_at=ago(1050))
    due_at = (await fresh(database, agent)).next_run_at
    assert len(await ticker(database).tick()) == 1
    next_run = (await fresh(database, agent)).next_run_at
    assert (next_run - due_at) == timedelta(seconds=1100)
    await end_running(database)
    assert await ticker(database).tick() == []


async def test_an_agent_never_runs_two_iterations_at_once(database: Database) -> None:
    agent = await make_agent(database)
    await ticker(database).tick()
    await change(database, agent, next_run_at=ago(5), run_requested_at=ago(1))
    assert await ticker(database).tick() == []
    await end_running(database)
    [event] = await ticker(database).tick()
    assert isinstance(event, IterationStarted)
    assert (event.number, event.why) == (2, "run_now")


async def test_a_paused_agent_runs_only_on_request(database: Database) -> None:
    agent = await make_agent(database)
    await change(database, agent, active=False)
    assert await ticker(database).tick() == []
    before = (await fresh(database, agent)).next_run_at
    await change(database, agent, next_run_at=before + timedelta(days=1), run_requested_at=ago(1))
    assert len(await ticker(database).tick()) == 1
    after = await fresh(database, agent)
    assert after.run_requested_at is None
    assert after.next_run_at == before + timedelta(days=1), (
        "an extra run does not move the schedule"
    )


async def test_a_lost_request_is_republished_with_a_new_id_and_growing_delay(
    database: Database,
) -> None:
    started = await make_iteration(database, await make_agent(database))
    assert await republished_events(database) == []
    await change(database, started.observe, requested_at=ago(GRACE_SECONDS + 1))
    [(first, number)] = await republished_events(database)
    assert isinstance(first, IterationStarted)
    assert (first.step_id, number) == (started.observe.id, 1)
    assert await republished_events(database) == []
    await change(database, started.observe, requested_at=ago(GRACE_SECONDS + 1))
    assert await republished_events(database) == [], "the delay doubles"
    await change(database, started.observe, requested_at=ago(2 * GRACE_SECONDS + 1))
    assert await republished_events(database) == [(first, 2)]


async def test_only_a_step_with_a_lapsed_lease_is_republished(database: Database) -> None:
    started = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        assert isinstance(await claims.claim(session, started.observe.id, "worker"), Claimed)
    await change(database, started.observe, requested_at=ago(3600))
    assert await republished_events(database) == [], "its lease runs"
    await change(database, started.observe, lease_until=ago(1))
    assert len(await republished_events(database)) == 1


async def test_a_step_in_backoff_is_not_republished(database: Database) -> None:
    started = await make_iteration(database, await make_agent(database))
    await change(
        database,
        started.observe,
        requested_at=ago(3600),
        retry_at=func.clock_timestamp() + timedelta(seconds=60),
    )
    assert await republished_events(database) == []


async def test_the_last_end_event_is_republished_for_a_stalled_join(database: Database) -> None:
    agent = await make_agent(database)
    started = await make_iteration(database, agent)
    async with database.transaction() as session:
        query = {"objective": "a", "reasoning": "b", "search_hints": []}
        planning = iterations.plan_steps(started.iteration, queries=[query, query], insights=[])
        await planning.execute(session)
        queries = await steps.list_steps(session, started.iteration.id, StepKind.QUERY)
    result = {"nodes": 1, "edges": 0}
    for age, step in zip((40, 30), queries, strict=True):
        await change(database, step, status=StepStatus.COMPLETED, result=result, ended_at=ago(age))
    await change(database, started.observe, status=StepStatus.COMPLETED, ended_at=ago(50))
    for step in queries:
        await change(database, step, requested_at=ago(60))
    [(event, _)] = await republished_events(database)
    assert isinstance(event, QueryCompleted)
    assert event.step_id == queries[1].id
    assert await republished_events(database) == []


async def test_steps_of_an_ended_iteration_are_not_republished(database: Database) -> None:
    started = await make_iteration(database, await make_agent(database))
    await change(database, started.observe, requested_at=ago(3600))
    await end_running(database)
    assert await republished_events(database) == []


async def test_a_start_stores_the_iteration_and_its_observe_step(database: Database) -> None:
    await make_agent(database)
    await ticker(database).tick()
    async with database.transaction() as session:
        iteration = (await session.scalars(select(Iteration))).one()
        step = (await session.scalars(select(Step))).one()
    assert (iteration.deadline_at - iteration.started_at) == timedelta(seconds=600)
    assert (step.kind, step.status) == (StepKind.OBSERVE, StepStatus.PENDING)
    assert step.requested_at is not None
    assert step.requested_at <= await now(database)
