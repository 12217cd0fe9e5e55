"""What a plan becomes in the state, and what it lays aside."""

import asyncio
from functools import partial

import pytest
from sqlalchemy import select, update

from shared import derived_events
from shared.agents import agents
from shared.database.engine import Database
from shared.database.tables import InvestigationRequest, Iteration, Step
from shared.enums import Stage, StepKind, StepStatus
from shared.errors import TransientError
from shared.workflow import investigations, iterations, leases, steps
from shared.workflow.investigations import MissingData
from shared.workflow.iterations import StartedIteration
from tests.support.locked import is_waited_for
from tests.support.making import make_agent, make_iteration
from tests.support.waiting import until

QUERY = {"objective": "a", "reasoning": "b", "search_hints": ["c"]}
INSIGHT = {"observation": "a", "relevant_node_ids": [], "synthesis_direction": "b"}
PLAN = {"queries": [QUERY, QUERY], "insights": [INSIGHT], "dropped": 0}
AGE = investigations.OPEN_FOR_ITERATIONS


@pytest.fixture
async def started(database: Database) -> StartedIteration:
    return await make_iteration(database, await make_agent(database))


async def _plan(database: Database, started: StartedIteration) -> tuple[Iteration, list[Step]]:
    """The iteration and its steps, once it is planned."""
    async with database.transaction() as session:
        await iterations.plan_steps(
            session, started.iteration, queries=[QUERY, QUERY], insights=[INSIGHT], plan=PLAN
        )
    async with database.transaction() as session:
        iteration = await session.get_one(Iteration, started.iteration.id)
        return iteration, await steps.list_steps(session, iteration.id)


async def test_queries_are_asked_for_at_once_and_insights_wait(
    database: Database, started: StartedIteration
) -> None:
    iteration, found = await _plan(database, started)
    assert iteration.observer_plan == PLAN
    assert iteration.stage_changed_at > started.iteration.stage_changed_at
    planned = [each for each in found if each.kind != StepKind.OBSERVE]
    at = iteration.stage_changed_at
    assert [
        (each.kind, each.index, each.input, each.status, each.requested_at) for each in planned
    ] == [
        (StepKind.INSIGHT, 0, INSIGHT, StepStatus.PLANNED, None),
        (StepKind.QUERY, 0, QUERY, StepStatus.PENDING, at),
        (StepKind.QUERY, 1, QUERY, StepStatus.PENDING, at),
    ]
    assert all(each.first_requested_at == each.requested_at for each in planned)


async def test_what_is_planned_already_stays_as_it_is(
    database: Database, started: StartedIteration
) -> None:
    _, first = await _plan(database, started)
    async with database.transaction() as session:
        await iterations.plan_steps(
            session, started.iteration, queries=[{**QUERY, "objective": "other"}], insights=[]
        )
    async with database.transaction() as session:
        iteration = await session.get_one(Iteration, started.iteration.id)
        again = await steps.list_steps(session, iteration.id)
    assert iteration.observer_plan == PLAN, "none was given"
    told = [
        [(each.id, each.input, each.requested_at) for each in found] for found in (first, again)
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    ("before", "queries", "after"),
    [
        (Stage.OBSERVING, [QUERY], Stage.RESEARCHING),
        (Stage.OBSERVING, [], Stage.OBSERVING),
        # Planned anew, by an Observer whose first end came too late.
        (Stage.ANALYZING, [QUERY], Stage.ANALYZING),
        (Stage.ENDED, [QUERY], Stage.ENDED),
    ],
)
async def test_queries_move_an_iteration_on_that_was_observed(
    database: Database,
    started: StartedIteration,
    before: Stage,
    queries: list[dict[str, object]],
    after: Stage,
) -> None:
    async with database.transaction() as session:
        await session.execute(update(Iteration).values(stage=before))
        await iterations.plan_steps(session, started.iteration, queries=queries, insights=[INSIGHT])
    async with database.transaction() as session:
        assert (await session.get_one(Iteration, started.iteration.id)).stage == after


async def test_nobody_is_told_of_a_plan_that_was_deleted_with_its_agent(
    database: Database, started: StartedIteration
) -> None:
    await _plan(database, started)
    observe = started.observe
    observe.status = StepStatus.COMPLETED
    async with database.transaction() as session:
        await agents.delete_agent(session, observe.agent_id)
    async with database.transaction() as session:
        with pytest.raises(TransientError, match="was deleted"):
            await derived_events.events_after_step(session, observe)


async def test_an_agent_can_be_deleted_just_as_its_plan_is_written(
    database: Database, started: StartedIteration
) -> None:
    async def delete() -> None:
        async with database.transaction() as session:
            await agents.delete_agent(session, started.observe.agent_id)

    async with database.transaction() as session:
        claim = await leases.claim(session, started.observe.id, "worker")
        assert isinstance(claim, leases.Claimed)
        deleting = asyncio.create_task(delete())
        await until(lambda: is_waited_for(database), what="the deleter to wait for the worker")
        await iterations.plan_steps(
            session, started.iteration, queries=[QUERY], insights=[], plan=PLAN
        )
        await steps.end(session, claim.lease, {})
    await deleting
    async with database.transaction() as session:
        assert list(await session.scalars(select(Step))) == []


async def _requests(database: Database, started: StartedIteration, *objectives: str) -> None:
    async with database.transaction() as session:
        for objective in objectives:
            step = started.observe
            await investigations.create_request(
                session, step.agent_id, started.iteration.id, step.id, MissingData(objective, "")
            )


async def _dropped(database: Database) -> set[str]:
    was_dropped = InvestigationRequest.dropped_at.is_not(None)
    async with database.transaction() as session:
        found = await session.scalars(select(InvestigationRequest.objective).where(was_dropped))
        return set(found)


async def _drop_old(database: Database, started: StartedIteration, number: int) -> None:
    async with database.transaction() as session:
        await investigations.drop_expired(session, started.iteration.agent_id, number)


async def test_requests_are_dropped_when_they_are_old_and_those_of_the_agent_alone(
    database: Database, started: StartedIteration
) -> None:
    other = await make_iteration(database, await make_agent(database, name="Other"))
    await _requests(database, started, "old", "young")
    await _requests(database, other, "another's")
    async with database.transaction() as session:
        young = update(InvestigationRequest).where(InvestigationRequest.objective == "young")
        await session.execute(young.values(iteration_number=2))
    await _drop_old(database, started, AGE)
    assert await _dropped(database) == set()
    await _drop_old(database, started, AGE + 1)
    assert await _dropped(database) == {"old"}


async def test_what_is_answered_just_now_is_not_dropped(
    database: Database, started: StartedIteration
) -> None:
    await _requests(database, started, "answered", "old")
    async with database.transaction() as session:
        answered = await session.scalar(
            select(InvestigationRequest.id).where(InvestigationRequest.objective == "answered")
        )
        assert answered is not None
        step = started.observe
        await investigations.mark_answered(session, step.agent_id, [answered], by=step.id)
        dropping = asyncio.create_task(_drop_old(database, started, AGE + 1))
        await until(partial(is_waited_for, database), what="the drop to wait for the answer")
    await dropping
    assert await _dropped(database) == {"old"}
