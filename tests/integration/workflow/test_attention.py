"""An agent whose iterations do not work needs attention, runs less often, and has one notice until one works."""

import asyncio
from datetime import timedelta

import pytest
from sqlalchemy import func, update

from services.scheduler.scheduler import Ticker
from shared.database.engine import Database
from shared.database.statements import Batch
from shared.database.tables import Agent, InboxItem
from shared.enums import StepKind, StepStatus
from shared.workflow import attention, steps
from tests.support.factories import make_agent, make_node
from tests.support.iteration_courses import (
    KEY_ERROR,
    end_step,
    find_attention,
    next_run,
    notices,
    run_course,
    run_courses,
)
from tests.support.scheduling import change

INTERVAL = 600

# The courses of consecutive iterations, and how many of the newest count; None: the agent needs no attention.
COURSES = [
    (["failed"], None),
    (["failed", "failed"], 2),
    (["plan failed", "plan failed"], 2),
    (["plan failed", "failed"], 2),
    (["wrote nodes", "failed", "failed", "failed"], 3),
    (["failed", "wrote nodes", "failed"], None),
    (["failed", "wrote edges", "failed"], None),
    (["failed", "analyzed", "failed"], None),
    (["failed", "failed", "analyzed"], None),
    (["failed", "quiet", "failed"], 2),
    (["failed", "quiet", "quiet"], None),
    (["quiet"] * 4, None),
    (["wrote nothing", "wrote nothing"], None),
    (["wrote nothing"] * 3, 3),
    (["wrote nothing", "quiet", "wrote nothing", "wrote nothing"], 3),
    (["wrote nothing", "lacked data", "wrote nothing"], 3),
    (["failed", "wrote nothing"], None),
    (["failed", "wrote nothing", "failed"], 3),
    (["failed", "failed", "wrote nothing"], 3),
    (["wrote nothing", "wrote nodes", "wrote nothing", "wrote nothing"], None),
    (["over budget"] * 4, None),
    (["failed", "over budget", "failed"], 2),
    (["no plan"] * 3, 3),
]


@pytest.fixture
async def agent(database: Database) -> Agent:
    return await make_agent(database, interval_seconds=INTERVAL)


@pytest.mark.parametrize(("courses", "count"), COURSES)
async def test_what_counts_as_not_working(
    database: Database, agent: Agent, courses: list[str], count: int | None
) -> None:
    await run_courses(database, agent, courses)
    found = await find_attention(database, agent)
    assert (None if found is None else found.iterations) == count
    is_open = [notice.resolved_at is None for notice in await notices(database, agent)]
    assert sum(is_open) == (count is not None)


async def test_a_plan_without_work_is_no_failure_of_an_agent_that_knows_something(
    database: Database, agent: Agent
) -> None:
    await make_node(database, agent)
    await run_courses(database, agent, ["no plan"] * 4)
    assert await find_attention(database, agent) is None


@pytest.mark.parametrize(
    ("courses", "count"),
    [
        (["idle"] * 3, 3),
        (["idle"] * 2, None),
        (["idle", "wrote nothing", "idle"], 3),
        (["idle", "no plan", "idle", "idle"], None),
    ],
)
async def test_a_plan_without_work_is_no_result_while_news_or_requests_wait(
    database: Database, agent: Agent, courses: list[str], count: int | None
) -> None:
    await make_node(database, agent)
    await run_courses(database, agent, courses)
    found = await find_attention(database, agent)
    assert (None if found is None else found.iterations) == count
    if found is not None:
        assert "The last one planned nothing although 4 items wait." in found.reason
        [notice] = await notices(database, agent)
        assert "planned nothing although 4 items wait" in notice.summary


@pytest.mark.parametrize(
    ("courses", "intervals"),
    [
        (["failed"], 1),
        (["failed"] * 2, 2),
        (["failed"] * 3, 4),
        (["failed"] * 4, 8),
        (["failed"] * 12, 86_400 / INTERVAL),
        (["wrote nothing"] * 3, 2),
        (["wrote nothing"] * 4, 4),
        (["failed"] * 3 + ["quiet"], 4),
        (["failed"] * 3 + ["wrote nodes"], 1),
    ],
)
async def test_the_interval_doubles_with_each_further_failure_up_to_a_day(
    database: Database, agent: Agent, courses: list[str], intervals: float
) -> None:
    for course in courses:
        await change(database, agent, next_run_at=func.clock_timestamp())
        await run_course(database, agent, course)
    after = (await next_run(database, agent)).after
    assert after / timedelta(seconds=INTERVAL) == pytest.approx(intervals, abs=0.01)


async def test_an_interval_of_more_than_a_day_stays(database: Database) -> None:
    weekly = await make_agent(database, interval_seconds=7 * 86_400)
    await run_courses(database, weekly, ["failed"] * 5)
    assert (await next_run(database, weekly)).after < timedelta(days=7, minutes=1)


async def test_a_requested_run_that_works_ends_the_backoff(
    database: Database, agent: Agent
) -> None:
    await run_courses(database, agent, ["failed"] * 6)
    await change(database, agent, run_requested_at=func.clock_timestamp())
    assert (await next_run(database, agent)).after > timedelta(seconds=16 * INTERVAL)
    await run_course(database, agent, "wrote nodes")
    assert (await next_run(database, agent)).after < timedelta(seconds=INTERVAL + 30)


async def test_the_scheduler_starts_a_requested_run_at_once(
    database: Database, agent: Agent
) -> None:
    await run_courses(database, agent, ["failed"] * 3)
    ticker = Ticker(database, deadline_seconds=600)
    assert await ticker.tick() == []
    await change(database, agent, run_requested_at=func.clock_timestamp())
    assert len(await ticker.tick()) == 1


async def test_an_episode_has_one_notice_and_the_next_episode_another(
    database: Database, agent: Agent
) -> None:
    await run_courses(database, agent, ["failed"] * 5)
    [notice] = await notices(database, agent)
    assert notice.title == f"{agent.name} needs attention"
    assert KEY_ERROR in notice.summary
    assert notice.summary.startswith("The last 2 iterations failed.")
    async with database.transaction() as session:
        # Reading or dismissing it does not end the episode.
        now = func.clock_timestamp()
        await session.execute(update(InboxItem).values(read_at=now, outcome="dismissed"))
    await run_courses(database, agent, ["failed", "wrote nodes", "failed", "failed"])
    first, second = await notices(database, agent)
    assert (first.resolved_at is None, second.resolved_at is None) == (False, True)


async def record(database: Database, agent: Agent) -> None:
    batch = Batch()
    batch.add(attention.lock_agent(agent.id))
    batch.add(attention.record_end(agent.id, [KEY_ERROR]))
    async with database.begin(batch) as transaction:
        await transaction.connection.execute("commit")


async def test_concurrent_records_write_one_notice(database: Database, agent: Agent) -> None:
    await run_courses(database, agent, ["failed"] * 2)
    async with database.transaction() as session:
        await session.execute(update(InboxItem).values(resolved_at=func.clock_timestamp()))
    before = (await next_run(database, agent)).at
    await asyncio.gather(*(record(database, agent) for _ in range(8)))
    assert [notice.resolved_at is None for notice in await notices(database, agent)] == [
        False,
        True,
    ]
    assert (await next_run(database, agent)).at == before


async def test_a_retried_step_with_a_result_ends_the_episode(
    database: Database, agent: Agent
) -> None:
    await run_course(database, agent, "failed")
    iteration = await run_course(database, agent, "failed")
    async with database.transaction() as session:
        [query] = await steps.list_steps(session, iteration.id, StepKind.QUERY)
    await change(database, query, status=StepStatus.PENDING, ended_at=None)
    await end_step(database, query, {"nodes": 0, "edges": 0})
    assert await find_attention(database, agent) is not None
    await change(database, query, status=StepStatus.PENDING, ended_at=None)
    await end_step(database, query, {"nodes": 1, "edges": 0})
    assert await find_attention(database, agent) is None
    [notice] = await notices(database, agent)
    assert notice.resolved_at is not None
    assert (await next_run(database, agent)).after < timedelta(seconds=INTERVAL + 30)
