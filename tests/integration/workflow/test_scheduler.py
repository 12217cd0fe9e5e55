"""The clock and the order book: what is due starts once, what stands still is said again, what is slow is left alone."""

import asyncio
from datetime import datetime, timedelta

from sqlalchemy import func, select, update

from services.scheduler.scheduler import Ticker
from shared.database.engine import Database
from shared.database.tables import Agent, Iteration, Step
from shared.enums import IterationStatus, StepKind, StepStatus
from shared.events.models import IterationStarted, QueryCompleted
from shared.workflow import iterations, leases, steps
from shared.workflow.leases import Claimed
from tests.support.making import make_agent, make_iteration
from tests.support.scheduling import GRACE_SECONDS, ago, change, said_again


def ticker(database: Database) -> Ticker:
    return Ticker(database, deadline_seconds=600)


async def fresh(database: Database, agent: Agent) -> Agent:
    async with database.transaction() as session:
        return await session.get_one(Agent, agent.id)


async def now(database: Database) -> datetime:
    async with database.transaction() as session:
        found: datetime = await iterations.database_time(session)
        return found


async def end_running(database: Database) -> None:
    async with database.transaction() as session:
        await session.execute(update(Iteration).values(status=IterationStatus.COMPLETED))


async def test_a_due_agent_starts_once_whatever_the_number_of_schedulers(
    database: Database,
) -> None:
    await make_agent(database)
    told = await asyncio.gather(*(ticker(database).tick() for _ in range(6)))
    [event] = [event for events in told for event in events]
    assert isinstance(event, IterationStarted)
    assert (event.number, event.why) == (1, "due")
    assert await ticker(database).tick() == []


async def test_missed_ticks_collapse_into_one_and_the_rhythm_is_kept(database: Database) -> None:
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


async def test_a_paused_agent_runs_only_when_asked(database: Database) -> None:
    agent = await make_agent(database)
    await change(database, agent, active=False)
    assert await ticker(database).tick() == []
    before = (await fresh(database, agent)).next_run_at
    await change(database, agent, next_run_at=before + timedelta(days=1), run_requested_at=ago(1))
    assert len(await ticker(database).tick()) == 1
    after = await fresh(database, agent)
    assert after.run_requested_at is None
    assert after.next_run_at == before + timedelta(days=1), "an extra run does not move the rhythm"


async def test_a_lost_request_is_said_again_with_a_new_id_and_ever_more_patience(
    database: Database,
) -> None:
    made = await make_iteration(database, await make_agent(database))
    assert await said_again(database) == []
    await change(database, made.observe, requested_at=ago(GRACE_SECONDS + 1))
    [(first, number)] = await said_again(database)
    assert isinstance(first, IterationStarted)
    assert (first.step_id, number) == (made.observe.id, 1)
    assert await said_again(database) == []
    await change(database, made.observe, requested_at=ago(GRACE_SECONDS + 1))
    assert await said_again(database) == [], "patience doubles"
    await change(database, made.observe, requested_at=ago(2 * GRACE_SECONDS + 1))
    assert await said_again(database) == [(first, 2)]


async def test_a_dead_workers_step_is_offered_and_a_living_ones_is_not(database: Database) -> None:
    made = await make_iteration(database, await make_agent(database))
    async with database.transaction() as session:
        assert isinstance(await leases.claim(session, made.observe.id, "worker"), Claimed)
    await change(database, made.observe, requested_at=ago(3600))
    assert await said_again(database) == [], "its lease runs"
    await change(database, made.observe, lease_until=ago(1))
    assert len(await said_again(database)) == 1


async def test_a_resting_step_is_left_to_rest(database: Database) -> None:
    made = await make_iteration(database, await make_agent(database))
    await change(
        database,
        made.observe,
        requested_at=ago(3600),
        retry_at=func.clock_timestamp() + timedelta(seconds=60),
    )
    assert await said_again(database) == []


async def test_a_join_that_heard_nothing_is_told_of_the_last_end_again(database: Database) -> None:
    agent = await make_agent(database)
    made = await make_iteration(database, agent)
    async with database.transaction() as session:
        iteration = await session.get_one(Iteration, made.iteration.id)
        query = {"objective": "a", "reasoning": "b", "search_hints": []}
        await iterations.plan_steps(session, iteration, queries=[query, query], insights=[])
        queries = await steps.list_steps(session, iteration.id, StepKind.QUERY)
    result = {"nodes": 1, "edges": 0}
    for age, step in zip((40, 30), queries, strict=True):
        await change(database, step, status=StepStatus.COMPLETED, result=result, ended_at=ago(age))
    await change(database, made.observe, status=StepStatus.COMPLETED, ended_at=ago(50))
    for step in queries:
        await change(database, step, requested_at=ago(60))
    [(event, _)] = await said_again(database)
    assert isinstance(event, QueryCompleted)
    assert event.step_id == queries[1].id
    assert await said_again(database) == []


async def test_an_ended_iteration_is_at_rest(database: Database) -> None:
    made = await make_iteration(database, await make_agent(database))
    await change(database, made.observe, requested_at=ago(3600))
    await end_running(database)
    assert await said_again(database) == []


async def test_a_start_leaves_a_whole_iteration_behind(database: Database) -> None:
    await make_agent(database)
    await ticker(database).tick()
    async with database.transaction() as session:
        iteration = (await session.scalars(select(Iteration))).one()
        step = (await session.scalars(select(Step))).one()
    assert (iteration.deadline_at - iteration.started_at) == timedelta(seconds=600)
    assert (step.kind, step.status) == (StepKind.OBSERVE, StepStatus.PENDING)
    assert step.requested_at is not None
    assert step.requested_at <= await now(database)
