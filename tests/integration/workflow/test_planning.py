"""How a plan is stored, and which investigation requests it drops."""

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
from shared.workflow import investigations, iterations, steps
from shared.workflow.investigations import Answer, MissingData
from shared.workflow.iterations import StartedIteration
from tests.support import claims
from tests.support.claims import Claimed
from tests.support.factories import make_agent, make_iteration
from tests.support.lock_probe import has_lock_waiter
from tests.support.table_rows import replaced
from tests.support.waiting import wait_until

QUERY = {"objective": "a", "reasoning": "b", "search_hints": ["c"]}
INSIGHT = {"observation": "a", "relevant_node_ids": [], "synthesis_direction": "b"}
PLAN = {"queries": [QUERY, QUERY], "insights": [INSIGHT], "dropped": 0}
AGE = investigations.OPEN_FOR_ITERATIONS


_STEPS = select(Step).order_by(Step.kind, Step.index)


@pytest.fixture
async def started(database: Database) -> StartedIteration:
    return await make_iteration(database, await make_agent(database))


async def _plan(database: Database, started: StartedIteration) -> tuple[Iteration, list[Step]]:
    """Plans the iteration; returns it and its steps."""
    async with database.transaction() as session:
        await iterations.plan_steps(
            started.iteration, queries=[QUERY, QUERY], insights=[INSIGHT], plan=PLAN
        ).execute(session)
    async with database.transaction() as session:
        iteration = await session.get_one(Iteration, started.iteration.id)
        return iteration, list(await session.scalars(_STEPS))


async def test_queries_are_requested_at_once_and_insights_wait(
    database: Database, started: StartedIteration
) -> None:
    iteration, all_steps = await _plan(database, started)
    assert iteration.observer_plan == PLAN
    assert iteration.stage_changed_at > started.iteration.stage_changed_at
    planned = [step for step in all_steps if step.kind != StepKind.OBSERVE]
    requested_at = iteration.stage_changed_at
    assert [
        (step.kind, step.index, step.input, step.status, step.requested_at) for step in planned
    ] == [
        (StepKind.INSIGHT, 0, INSIGHT, StepStatus.PLANNED, None),
        (StepKind.QUERY, 0, QUERY, StepStatus.PENDING, requested_at),
        (StepKind.QUERY, 1, QUERY, StepStatus.PENDING, requested_at),
    ]
    assert all(step.first_requested_at == step.requested_at for step in planned)


async def test_a_stored_plan_is_not_changed(database: Database, started: StartedIteration) -> None:
    _, first = await _plan(database, started)
    async with database.transaction() as session:
        await iterations.plan_steps(
            started.iteration, queries=[{**QUERY, "objective": "other"}], insights=[]
        ).execute(session)
    async with database.transaction() as session:
        iteration = await session.get_one(Iteration, started.iteration.id)
        again = list(await session.scalars(_STEPS))
    assert iteration.observer_plan == PLAN, "the second call has no plan"
    before, after = [
        [(step.id, step.input, step.requested_at) for step in planned] for planned in (first, again)
    ]
    assert before == after


@pytest.mark.parametrize(
    ("before", "queries", "after"),
    [
        (Stage.OBSERVING, [QUERY], Stage.RESEARCHING),
        (Stage.OBSERVING, [], Stage.OBSERVING),
        # Planned again by an Observer whose first end came too late.
        (Stage.ANALYZING, [QUERY], Stage.ANALYZING),
        (Stage.ENDED, [QUERY], Stage.ENDED),
    ],
)
async def test_planned_queries_move_an_observed_iteration_to_research(
    database: Database,
    started: StartedIteration,
    before: Stage,
    queries: list[dict[str, object]],
    after: Stage,
) -> None:
    async with database.transaction() as session:
        await session.execute(update(Iteration).values(stage=before))
        await iterations.plan_steps(started.iteration, queries=queries, insights=[INSIGHT]).execute(
            session
        )
    async with database.transaction() as session:
        assert (await session.get_one(Iteration, started.iteration.id)).stage == after


async def test_no_event_is_made_of_a_plan_deleted_with_its_agent(
    database: Database, started: StartedIteration
) -> None:
    await _plan(database, started)
    observe = replaced(started.observe, status=StepStatus.COMPLETED)
    async with database.transaction() as session:
        await agents.delete_agent(session, observe.agent_id)
    async with database.transaction() as session:
        with pytest.raises(TransientError, match="was deleted"):
            await derived_events.events_after_step(session, observe)


async def test_an_agent_can_be_deleted_while_its_plan_is_written(
    database: Database, started: StartedIteration
) -> None:
    async def delete() -> None:
        async with database.transaction() as session:
            await agents.delete_agent(session, started.observe.agent_id)

    async with database.transaction() as session:
        claim = await claims.claim(session, started.observe.id, "worker")
        assert isinstance(claim, Claimed)
        deleting = asyncio.create_task(delete())
        await wait_until(
            lambda: has_lock_waiter(database), what="the deleter to wait for the worker"
        )
        await iterations.plan_steps(
            started.iteration, queries=[QUERY], insights=[], plan=PLAN
        ).execute(session)
        await steps.end(session, claim.lease, {})
    await deleting
    async with database.transaction() as session:
        assert list(await session.scalars(select(Step))) == []


async def _make_requests(database: Database, started: StartedIteration, *objectives: str) -> None:
    async with database.transaction() as session:
        for objective in objectives:
            step = started.observe
            await investigations.create_request(
                step.agent_id, started.iteration.id, step.id, MissingData(objective, "")
            ).execute(session)


async def _dropped_objectives(database: Database) -> set[str]:
    is_dropped = InvestigationRequest.dropped_at.is_not(None)
    async with database.transaction() as session:
        objectives = await session.scalars(select(InvestigationRequest.objective).where(is_dropped))
        return set(objectives)


async def _drop_old(database: Database, started: StartedIteration, number: int) -> None:
    async with database.transaction() as session:
        await investigations.drop_expired(started.iteration.agent_id, number).execute(session)


async def test_only_old_requests_of_the_agent_are_dropped(
    database: Database, started: StartedIteration
) -> None:
    other = await make_iteration(database, await make_agent(database, name="Other"))
    await _make_requests(database, started, "old", "young")
    await _make_requests(database, other, "another's")
    async with database.transaction() as session:
        young = update(InvestigationRequest).where(InvestigationRequest.objective == "young")
        await session.execute(young.values(iteration_number=2))
    await _drop_old(database, started, AGE)
    assert await _dropped_objectives(database) == set()
    await _drop_old(database, started, AGE + 1)
    assert await _dropped_objectives(database) == {"old"}


async def test_a_request_answered_concurrently_is_not_dropped(
    database: Database, started: StartedIteration
) -> None:
    await _make_requests(database, started, "answered", "old")
    async with database.transaction() as session:
        request_id = await session.scalar(
            select(InvestigationRequest.id).where(InvestigationRequest.objective == "answered")
        )
        assert request_id is not None
        step = started.observe
        await investigations.mark_answered(
            step.agent_id, {request_id: Answer()}, by=step.id
        ).execute(session)
        dropping = asyncio.create_task(_drop_old(database, started, AGE + 1))
        await wait_until(partial(has_lock_waiter, database), what="the drop to wait for the answer")
    await dropping
    assert await _dropped_objectives(database) == {"old"}
