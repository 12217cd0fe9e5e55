"""Feedback rounds against the real state: missing data is researched, and the Analyzers are asked again once."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import func, select, update

from services.aggregator.deadlines import Deadlines
from services.aggregator.handler import Aggregate
from services.scheduler.reconciler import Reconciler
from shared import derived_events
from shared.database.engine import Database
from shared.database.tables import Agent, InvestigationRequest, Iteration
from shared.enums import IterationStatus, Stage, StepKind, StepStatus
from shared.events.envelope import Event
from shared.events.models import StepEvent
from shared.runtime.bus import Bus
from shared.workflow import investigations, steps
from shared.workflow.investigations import Answer, MissingData
from shared.workflow.iterations import StepRow
from tests.support import claims
from tests.support.joins import end_events, plan_iteration, reload_iteration, subjects

ANALYSIS = "00000000-0000-0000-0000-000000000001"


class Loop:
    """One iteration whose steps the test ends, and whose events it gives to the aggregator."""

    def __init__(self, database: Database, iteration: Iteration) -> None:
        self.database = database
        self.iteration = iteration
        self.aggregate = Aggregate(database)

    @classmethod
    async def begin(cls, database: Database, *, rounds: int, insights: int = 1) -> "Loop":
        loop = cls(database, await plan_iteration(database, insights=insights))
        await loop.set_agent(feedback_rounds=rounds)
        [plan] = await end_events(database, loop.iteration, StepKind.OBSERVE)
        await loop.aggregate(plan)
        return loop

    async def set_agent(self, **values: Any) -> None:
        async with self.database.transaction() as session:
            await session.execute(update(Agent).values(**values))

    async def open(self, kind: StepKind) -> list[StepRow]:
        async with self.database.transaction() as session:
            rows = await steps.list_steps(session, self.iteration.id, kind)
        return [row for row in rows if row.status == StepStatus.PENDING]

    async def end(
        self, step: StepRow, *, missing_objectives: Sequence[str] = (), **result: Any
    ) -> Event:
        """Ends the step with `result`; returns its event, which the aggregator has not received."""
        async with self.database.transaction() as session:
            claim = await claims.claimed(session, step.id, "worker")
            for objective in missing_objectives:
                missing_data = MissingData(objective, "It is lacking.", (objective,))
                request_id = await investigations.create_request(
                    step.agent_id, self.iteration.id, step.id, missing_data
                ).execute(session)
                result.setdefault("requests", []).append(str(request_id))
            if step.kind == StepKind.QUERY and (result["nodes"] or result["edges"]):
                ids = [UUID(request_id) for request_id in step.input["answers"]]
                await investigations.mark_answered(
                    step.agent_id, dict.fromkeys(ids, Answer()), by=step.id
                ).execute(session)
            ended_step = await steps.end(session, claim.lease, result)
            return (await derived_events.events_after_step(session, ended_step))[0]

    async def request(self, step: StepRow, objective: str) -> None:
        missing_data = MissingData(objective, "It is lacking.")
        await self.database.run(
            investigations.create_request(step.agent_id, self.iteration.id, step.id, missing_data)
        )

    async def end_insight(self, *objectives: str, analyses: Sequence[str] = ()) -> list[Event]:
        """Ends the first open insight with these objectives as missing data; returns the following events."""
        insight = (await self.open(StepKind.INSIGHT))[0]
        result = {"analyses": list(analyses), "missing": list(objectives)}
        return list(
            await self.aggregate(await self.end(insight, missing_objectives=objectives, **result))
        )

    async def end_queries(self, nodes: int = 1) -> list[Event]:
        """Ends every open query with so many nodes; returns the events that follow the last one."""
        events: list[Event] = []
        for query in await self.open(StepKind.QUERY):
            events = list(await self.aggregate(await self.end(query, nodes=nodes, edges=0)))
        return events


async def test_missing_data_is_researched_and_the_analyzer_is_asked_again(
    database: Database,
) -> None:
    loop = await Loop.begin(database, rounds=1)
    assert subjects(await loop.end_insight("output of Togo in 2025")) == ["query.requested"]
    [query] = await loop.open(StepKind.QUERY)
    assert query.input["objective"] == "output of Togo in 2025"
    assert query.input["search_hints"] == ["output of Togo in 2025"]
    assert (await reload_iteration(database, loop.iteration)).stage == Stage.RESEARCHING
    assert subjects(await loop.end_queries()) == ["insight.requested"]
    [again] = await loop.open(StepKind.INSIGHT)
    assert [request["objective"] for request in again.input["answered"]] == [
        "output of Togo in 2025"
    ]
    assert (again.input["observation"], again.input["round"]) == ("a", 1)
    [advise] = await loop.end_insight("more of it", analyses=[ANALYSIS])
    assert advise.subject == "analysis.produced"
    async with database.transaction() as session:
        requests = list(await session.scalars(select(InvestigationRequest)))
    answered_by = {request.objective: request.answered_by for request in requests}
    assert answered_by == {"output of Togo in 2025": query.id, "more of it": None}


@pytest.mark.parametrize("outcome", ["answered", "not found"])
async def test_what_an_earlier_iteration_has_settled_is_not_researched_again(
    database: Database, outcome: str
) -> None:
    loop = await Loop.begin(database, rounds=1)
    [insight] = await loop.open(StepKind.INSIGHT)
    request_id = investigations.request_id(insight.agent_id, "output of Togo in 2025")
    await loop.request(insight, "output of Togo in 2025")
    if outcome == "answered":
        settle = investigations.mark_answered(
            insight.agent_id, {request_id: Answer()}, by=insight.id
        )
    else:
        settle = investigations.mark_not_found(insight.agent_id, {request_id: "No page has it."})
    await database.run(settle)
    events = await loop.end_insight("output of Togo in 2025", "output of Mali", analyses=[ANALYSIS])
    assert subjects(events) == ["query.requested"]
    assert [query.input["objective"] for query in await loop.open(StepKind.QUERY)] == [
        "output of Mali"
    ]


@pytest.mark.parametrize(("rounds", "expected"), [(0, 0), (1, 1), (2, 2)])
async def test_the_number_of_rounds_is_the_agents_setting(
    database: Database, rounds: int, expected: int
) -> None:
    loop = await Loop.begin(database, rounds=rounds)
    for number in range(expected):
        assert subjects(await loop.end_insight(f"lack {number}")) == ["query.requested"]
        assert subjects(await loop.end_queries()) == ["insight.requested"]
    assert subjects(await loop.end_insight("the last")) == ["iteration.completed"]
    iteration = await reload_iteration(database, loop.iteration)
    assert (iteration.status, iteration.errors) == (IterationStatus.COMPLETED, [])


async def test_a_round_has_three_queries_and_the_next_has_the_rest(database: Database) -> None:
    loop = await Loop.begin(database, rounds=2)
    lacking = ["one", "two", "Two", "three", "four"]
    assert subjects(await loop.end_insight(*lacking)) == ["query.requested"] * 3
    # No node was found: no Analyzer is asked again, and the remaining data is researched.
    assert subjects(await loop.end_queries(nodes=0)) == ["query.requested"]
    [query] = await loop.open(StepKind.QUERY)
    assert query.input["objective"] == "four"
    assert subjects(await loop.end_queries(nodes=0)) == ["iteration.completed"]


async def test_a_suspended_agent_starts_no_round(database: Database) -> None:
    loop = await Loop.begin(database, rounds=2)
    await loop.set_agent(suspended_until=func.clock_timestamp() + timedelta(hours=1))
    assert subjects(await loop.end_insight("much")) == ["iteration.completed"]


async def test_redelivered_events_request_the_same_steps_and_the_plan_is_unchanged(
    database: Database,
) -> None:
    loop = await Loop.begin(database, rounds=1, insights=2)
    [plan] = await end_events(database, loop.iteration, StepKind.OBSERVE)
    first, second = await loop.open(StepKind.INSIGHT)
    ends = [
        await loop.end(first, missing_objectives=["one"], analyses=[], missing=["one"]),
        await loop.end(
            second, missing_objectives=["One", "two"], analyses=[ANALYSIS], missing=["two"]
        ),
    ]
    following = await asyncio.gather(*(loop.aggregate(end) for end in ends * 3))
    request_ids = {event.event_id for events in following for event in events}
    assert len(request_ids) == 2, "repeated events add no request"
    assert len(await loop.open(StepKind.QUERY)) == 2
    assert [plan] == await end_events(database, loop.iteration, StepKind.OBSERVE)
    assert {event.event_id for event in await loop.aggregate(plan)} == request_ids
    await loop.end_queries()
    assert len(await loop.open(StepKind.INSIGHT)) == 2
    late_events = [await loop.aggregate(end) for end in ends]
    assert [subjects(list(events)) for events in late_events] == [["insight.requested"] * 2] * 2


async def test_the_deadline_ends_a_feedback_round(database: Database, bus: Bus) -> None:
    loop = await Loop.begin(database, rounds=1)
    await loop.end_insight("much")
    async with database.transaction() as session:
        await session.execute(update(Iteration).values(deadline_at=Iteration.started_at))
    await Deadlines(database, bus, loop.aggregate, 0.0).end_stalled()
    iteration = await reload_iteration(database, loop.iteration)
    [error] = iteration.errors
    assert error.startswith("no progress for 0 s while researching: no step ended and no call")
    assert "VIGIL_ITERATION_DEADLINE_SECONDS" in error
    assert await loop.open(StepKind.QUERY) == []


async def test_the_reconciler_republishes_unclaimed_steps_of_a_round(
    database: Database,
) -> None:
    loop = await Loop.begin(database, rounds=1)
    for advance in (partial(loop.end_insight, "much"), loop.end_queries):
        requests = await advance()
        reconciler = Reconciler(database, resend_after_seconds=0.0)
        [republished] = [await reconciler.events(row) for row in await reconciler.find_missed()]
        step_ids = [event.step_id for event in _step_events(republished)]
        assert step_ids == [event.step_id for event in _step_events(requests)]
        assert subjects(list(republished)) == subjects(requests)


def _step_events(events: Sequence[Event]) -> list[StepEvent]:
    return [event for event in events if isinstance(event, StepEvent)]


async def test_a_lost_event_of_the_end_of_a_round_is_republished(
    database: Database,
) -> None:
    loop = await Loop.begin(database, rounds=1)
    await loop.end_insight("much")
    [query] = await loop.open(StepKind.QUERY)
    await loop.end(query, nodes=1, edges=0)
    reconciler = Reconciler(database, resend_after_seconds=0.0)
    [row] = await reconciler.find_missed()
    [event] = await reconciler.events(row)
    assert subjects(list(await loop.aggregate(event))) == ["insight.requested"]
