"""Rounds of feedback against the real state: what Analyzers lacked is looked for, and they are asked again, once."""

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
from shared.database.tables import Agent, InvestigationRequest, Iteration, Step
from shared.enums import IterationStatus, Stage, StepKind, StepStatus
from shared.events.envelope import Event
from shared.events.models import StepEvent
from shared.runtime.bus import Bus
from shared.workflow import investigations, leases, steps
from shared.workflow.investigations import MissingData
from shared.workflow.leases import Claimed
from tests.support.joins import now, planned, subjects, told

ANALYSIS = "00000000-0000-0000-0000-000000000001"


class Loop:
    """One iteration whose workers do as they are told, and whose aggregator hears of it."""

    def __init__(self, database: Database, iteration: Iteration) -> None:
        self.database = database
        self.iteration = iteration
        self.aggregate = Aggregate(database)

    @classmethod
    async def begin(cls, database: Database, *, rounds: int, insights: int = 1) -> "Loop":
        loop = cls(database, await planned(database, insights=insights))
        await loop.set_agent(feedback_rounds=rounds)
        [plan] = await told(database, loop.iteration, StepKind.OBSERVE)
        await loop.aggregate(plan)
        return loop

    async def set_agent(self, **values: Any) -> None:
        async with self.database.transaction() as session:
            await session.execute(update(Agent).values(**values))

    async def open(self, kind: StepKind) -> list[Step]:
        async with self.database.transaction() as session:
            rows = await steps.list_steps(session, self.iteration.id, kind)
        return [row for row in rows if row.status == StepStatus.PENDING]

    async def end(self, step: Step, *, lacks: Sequence[str] = (), **result: Any) -> Event:
        """Ends it with `result`; the event that tells of it, which nobody has heard yet."""
        async with self.database.transaction() as session:
            claim = await leases.claim(session, step.id, "worker")
            assert isinstance(claim, Claimed)
            for objective in lacks:
                wanted = MissingData(objective, "It is lacking.", (objective,))
                await investigations.create_request(
                    session, step.agent_id, self.iteration.id, step.id, wanted
                )
            if step.kind == StepKind.QUERY and (result["nodes"] or result["edges"]):
                ids = [UUID(request_id) for request_id in step.input["answers"]]
                await investigations.mark_answered(session, step.agent_id, ids, by=step.id)
            ended = await steps.end(session, claim.lease, result)
            return (await derived_events.events_after_step(session, ended))[0]

    async def lack(self, *objectives: str, analyses: Sequence[str] = ()) -> list[Event]:
        """The first open insight ends, lacking these; what follows."""
        insight = (await self.open(StepKind.INSIGHT))[0]
        result = {"analyses": list(analyses), "missing": list(objectives)}
        return list(await self.aggregate(await self.end(insight, lacks=objectives, **result)))

    async def find(self, nodes: int = 1) -> list[Event]:
        """Every open query ends, having written so much; what follows the last of them."""
        following: list[Event] = []
        for query in await self.open(StepKind.QUERY):
            following = list(await self.aggregate(await self.end(query, nodes=nodes, edges=0)))
        return following


async def test_what_is_lacking_is_looked_for_and_the_analyzer_is_asked_again(
    database: Database,
) -> None:
    loop = await Loop.begin(database, rounds=1)
    assert subjects(await loop.lack("output of Togo in 2025")) == ["query.requested"]
    [query] = await loop.open(StepKind.QUERY)
    assert query.input["objective"] == "output of Togo in 2025"
    assert query.input["search_hints"] == ["output of Togo in 2025"]
    assert (await now(database, loop.iteration)).stage == Stage.RESEARCHING
    assert subjects(await loop.find()) == ["insight.requested"]
    [again] = await loop.open(StepKind.INSIGHT)
    assert [each["objective"] for each in again.input["answered"]] == ["output of Togo in 2025"]
    assert (again.input["observation"], again.input["round"]) == ("a", 1)
    [advise] = await loop.lack("more of it", analyses=[ANALYSIS])
    assert advise.subject == "analysis.produced"
    async with database.transaction() as session:
        requests = list(await session.scalars(select(InvestigationRequest)))
    by = {each.objective: each.answered_by for each in requests}
    assert by == {"output of Togo in 2025": query.id, "more of it": None}


@pytest.mark.parametrize(("rounds", "followed"), [(0, 0), (1, 1), (2, 2)])
async def test_there_are_as_many_rounds_as_the_agent_says(
    database: Database, rounds: int, followed: int
) -> None:
    loop = await Loop.begin(database, rounds=rounds)
    for number in range(followed):
        assert subjects(await loop.lack(f"lack {number}")) == ["query.requested"]
        assert subjects(await loop.find()) == ["insight.requested"]
    assert subjects(await loop.lack("the last")) == ["iteration.completed"]
    done = await now(database, loop.iteration)
    assert (done.status, done.errors) == (IterationStatus.COMPLETED, [])


async def test_a_round_has_three_queries_and_the_next_has_the_rest(database: Database) -> None:
    loop = await Loop.begin(database, rounds=2)
    lacking = ["one", "two", "Two", "three", "four"]
    assert subjects(await loop.lack(*lacking)) == ["query.requested"] * 3
    # Nothing was found: nobody is asked again, and what is left is looked for.
    assert subjects(await loop.find(nodes=0)) == ["query.requested"]
    [query] = await loop.open(StepKind.QUERY)
    assert query.input["objective"] == "four"
    assert subjects(await loop.find(nodes=0)) == ["iteration.completed"]


async def test_an_agent_that_rests_begins_no_round(database: Database) -> None:
    loop = await Loop.begin(database, rounds=2)
    await loop.set_agent(suspended_until=func.clock_timestamp() + timedelta(hours=1))
    assert subjects(await loop.lack("much")) == ["iteration.completed"]


async def test_a_redelivered_word_asks_for_the_same_and_the_plan_is_told_as_it_was(
    database: Database,
) -> None:
    loop = await Loop.begin(database, rounds=1, insights=2)
    [plan] = await told(database, loop.iteration, StepKind.OBSERVE)
    first, second = await loop.open(StepKind.INSIGHT)
    heard = [
        await loop.end(first, lacks=["one"], analyses=[], missing=["one"]),
        await loop.end(second, lacks=["One", "two"], analyses=[ANALYSIS], missing=["two"]),
    ]
    following = await asyncio.gather(*(loop.aggregate(each) for each in heard * 3))
    asked = {event.event_id for events in following for event in events}
    assert len(asked) == 2, "however often it is said, they are two requests"
    assert len(await loop.open(StepKind.QUERY)) == 2
    assert [plan] == await told(database, loop.iteration, StepKind.OBSERVE)
    assert {event.event_id for event in await loop.aggregate(plan)} == asked
    await loop.find()
    assert len(await loop.open(StepKind.INSIGHT)) == 2
    late = [await loop.aggregate(each) for each in heard]
    assert [subjects(list(events)) for events in late] == [["insight.requested"] * 2] * 2


async def test_the_deadline_ends_a_round_as_it_ends_all(database: Database, bus: Bus) -> None:
    loop = await Loop.begin(database, rounds=1)
    await loop.lack("much")
    async with database.transaction() as session:
        await session.execute(update(Iteration).values(deadline_at=Iteration.started_at))
    await Deadlines(database, bus, loop.aggregate, 0.0).end_stalled()
    done = await now(database, loop.iteration)
    [error] = done.errors
    assert error.startswith("no progress for 0 s while researching: no step ended and no call")
    assert "VIGIL_ITERATION_DEADLINE_SECONDS" in error
    assert await loop.open(StepKind.QUERY) == []


async def test_the_reconciler_asks_for_the_steps_of_a_round_that_nobody_took(
    database: Database,
) -> None:
    loop = await Loop.begin(database, rounds=1)
    for begin in (partial(loop.lack, "much"), loop.find):
        lost = await begin()
        reconciler = Reconciler(database, resend_after_seconds=0.0)
        [found] = [await reconciler.events(each) for each in await reconciler.find_missed()]
        assert [each.step_id for each in _steps(found)] == [each.step_id for each in _steps(lost)]
        assert subjects(list(found)) == subjects(lost)


def _steps(events: Sequence[Event]) -> list[StepEvent]:
    return [event for event in events if isinstance(event, StepEvent)]


async def test_the_word_of_a_round_s_end_is_said_again_where_it_was_lost(
    database: Database,
) -> None:
    loop = await Loop.begin(database, rounds=1)
    await loop.lack("much")
    [query] = await loop.open(StepKind.QUERY)
    await loop.end(query, nodes=1, edges=0)
    reconciler = Reconciler(database, resend_after_seconds=0.0)
    [lost] = await reconciler.find_missed()
    [again] = await reconciler.events(lost)
    assert subjects(list(await loop.aggregate(again))) == ["insight.requested"]
