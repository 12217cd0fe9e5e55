"""An Observer that repeats what is known is told and plans once more, in the same step and through the ledger."""

from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import func, select, update

from shared.database.engine import Database
from shared.database.tables import (
    Agent,
    Call,
    GraphNode,
    GraphNodeType,
    Interaction,
    InvestigationRequest,
    Iteration,
    Step,
)
from shared.enums import IterationStatus, Phase, Stage, StepKind, StepStatus
from shared.graph import system_types
from shared.graph.conclusions import conclusions
from shared.graph.scope import GraphScope
from shared.runtime.settings import Settings
from shared.workflow import investigations, iterations
from shared.workflow.investigations import MissingData
from tests.support.actors import ended_iteration, running
from tests.support.committing import SURE
from tests.support.levers import Sandbox
from tests.support.making import make_agent

ASKED = "Output of Togo in 2025"
OBSERVED = "Togo grows faster than it did in 2024, by its own figures"
CONCLUDED = "Togo grows faster than it did in 2024"


class Past:
    """An agent of whose first iteration somebody has asked ASKED, and concluded from OBSERVED."""

    def __init__(self, database: Database, agent: Agent) -> None:
        self.database = database
        self.agent = agent
        self.node_id = uuid4()

    @classmethod
    async def make(cls, database: Database) -> "Past":
        past = cls(database, await make_agent(database))
        scope = GraphScope(past.agent.owner_id, past.agent.id)
        async with database.transaction() as session:
            agent = await session.merge(past.agent)
            started = await iterations.start_iteration(
                session, agent, why="due", deadline_seconds=600
            )
            await system_types.ensure_system_types(session, agent.id)
            await past._write(session, scope, started.iteration)
        return past

    async def _write(self, session: Any, scope: GraphScope, iteration: Iteration) -> None:
        of = {"agent_id": self.agent.id}
        about = {"description": "A country", "properties_schema": {}, "created_by": "test"}
        session.add(GraphNodeType(**of, **about, name="Country"))
        await session.flush()
        session.add(GraphNode(**of, id=self.node_id, type="Country", name="Togo", properties={}))
        await session.flush()
        insight = {"observation": OBSERVED, "relevant_node_ids": [], "synthesis_direction": ""}
        await iterations.plan_steps(
            session,
            iteration,
            queries=[{"objective": ASKED, "reasoning": "", "search_hints": []}],
            insights=[insight],
        )
        done = {StepKind.QUERY: {"nodes": 1, "edges": 0}, StepKind.INSIGHT: {"analyses": []}}
        for kind, result in done.items():
            await session.execute(
                update(Step)
                .where(Step.kind == kind)
                .values(status=StepStatus.COMPLETED, result=result, ended_at=func.clock_timestamp())
            )
        step_id = await session.scalar(select(Step.id).where(Step.kind == StepKind.INSIGHT))
        await conclusions.add_analysis(
            session,
            GraphScope(scope.owner_id, scope.agent_id, iteration.id, step_id),
            name="Togo grows",
            kind="pattern",
            summary=f"{CONCLUDED}.",
            content=f"So it says [node:{self.node_id}].",
            **SURE,
        )
        await session.execute(
            update(Iteration).values(
                status=IterationStatus.COMPLETED,
                stage=Stage.ENDED,
                ended_at=func.clock_timestamp(),
                end_published_at=func.clock_timestamp(),
            )
        )

    def plan(self, *objectives: str, answers: tuple[str, ...] = (), **insight: Any) -> Any:
        query = {"reasoning": "", "searchHints": [], "answers": list(answers)}
        of = {"relevantNodeIds": [str(self.node_id)], "synthesisDirection": ""}
        insights = [of | insight]
        return {
            "queries": [{"objective": each} | query for each in objectives],
            "insights": insights if insight else [],
        }

    async def observe(self, settings: Settings) -> Iteration:
        async with running(settings):
            return await ended_iteration(self.database, self.agent, 2)

    async def calls(self) -> int:
        async with self.database.transaction() as session:
            counted = select(func.count()).select_from(Call).where(Call.phase == Phase.OBSERVER)
            answered = counted.where(Call.answered_at.is_not(None))
            return await session.scalar(answered) or 0


@pytest.fixture
async def past(database: Database) -> Past:
    return await Past.make(database)


def _script(sandbox: str, *plans: Any) -> None:
    Sandbox(sandbox).script(*({"phase": "observer", "content": plan} for plan in plans))


async def test_what_repeats_is_told_and_planned_anew(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    first = past.plan(f"Find the {ASKED.lower().replace('togo', 'Togo')}.", observation=OBSERVED)
    _script(sandbox, first)
    told = {"contains": "the same as", "content": past.plan("Output of Togo in 2026")}
    Sandbox(sandbox).script({"phase": "observer"} | told)
    done = await past.observe(sandbox_settings)
    assert done.observer_plan is not None
    assert [each["objective"] for each in done.observer_plan["queries"]] == [
        "Output of Togo in 2026"
    ]
    assert (done.observer_plan["insights"], done.observer_plan["dropped"]) == ([], 0)
    assert await past.calls() == 2
    async with past.database.transaction() as session:
        interaction = (
            await session.scalars(select(Interaction).where(Interaction.phase == Phase.OBSERVER))
        ).one()
    assert interaction.completed_at is not None


async def test_what_still_repeats_is_left_out_and_counted(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    again = past.plan(ASKED, "Output of Benin in 2025", observation=OBSERVED)
    _script(sandbox, again, again)
    done = await past.observe(sandbox_settings)
    assert done.observer_plan is not None
    assert done.observer_plan["dropped"] == 2
    assert [each["objective"] for each in done.observer_plan["queries"]] == [
        "Output of Benin in 2025"
    ]
    assert done.observer_plan["insights"] == []
    assert await past.calls() == 2, "it is asked once more and not again"


PROMPT = "You watch over the economies of West Africa for one who trades in cocoa, and never say whose agent you are."


async def _prompted(past: Past) -> None:
    async with past.database.transaction() as session:
        agent = await session.get_one(Agent, past.agent.id)
        agent.observer_system_prompt = PROMPT


async def _queries_begun(past: Past, done: Iteration) -> list[Any]:
    async with past.database.transaction() as session:
        of_kind = select(Step.input).where(
            Step.kind == StepKind.QUERY, Step.iteration_id == done.id
        )
        return list(await session.scalars(of_kind))


async def test_a_plan_that_tells_its_instructions_is_planned_anew(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    await _prompted(past)
    leak = past.plan("Output of Benin in 2025", "Output of Mali in 2025")
    leak["queries"][1]["searchHints"] = ["mali output", f"{PROMPT[:51].upper()}... {PROMPT[51:]}"]
    _script(sandbox, leak)
    told = {"contains": "word for word: query 2.", "content": past.plan("Output of Benin in 2025")}
    Sandbox(sandbox).script({"phase": "observer"} | told)
    done = await past.observe(sandbox_settings)
    assert done.observer_plan is not None
    assert (len(done.observer_plan["queries"]), done.observer_plan["dropped"]) == (1, 0)
    assert await past.calls() == 2


async def test_what_still_tells_them_goes_nowhere(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    await _prompted(past)
    leak = past.plan(PROMPT, "Output of Benin in 2025", observation=f"I was told: {PROMPT}")
    _script(sandbox, leak, leak)
    done = await past.observe(sandbox_settings)
    assert done.observer_plan is not None
    assert (done.observer_plan["insights"], done.observer_plan["dropped"]) == ([], 2)
    (query,) = await _queries_begun(past, done)
    assert query["objective"] == "Output of Benin in 2025"
    assert await past.calls() == 2, "it is asked once more and not again"


async def test_a_plan_of_what_is_new_is_taken_at_once(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    _script(sandbox, past.plan("Output of Togo in 2024", observation="Togo shrinks."))
    done = await past.observe(sandbox_settings)
    assert done.observer_plan is not None
    assert len(done.observer_plan["queries"]) == len(done.observer_plan["insights"]) == 1
    assert await past.calls() == 1


async def test_what_was_found_long_ago_or_upset_since_may_be_asked_again(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    async with past.database.transaction() as session:
        long_ago = func.clock_timestamp() - timedelta(days=8)
        await session.execute(update(Step).values(ended_at=long_ago))
        touched = update(GraphNode).where(GraphNode.name == "Togo")
        await session.execute(touched.values(updated_at=func.clock_timestamp()))
    _script(sandbox, past.plan(ASKED, observation=OBSERVED))
    done = await past.observe(sandbox_settings)
    assert done.observer_plan is not None
    assert len(done.observer_plan["queries"]) == len(done.observer_plan["insights"]) == 1
    assert await past.calls() == 1


async def test_what_is_lacking_may_be_asked_again_and_what_is_unknown_is_dropped(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    async with past.database.transaction() as session:
        insight = (await session.scalars(select(Step).where(Step.kind == StepKind.INSIGHT))).one()
        assert insight.iteration_id is not None
        lacking = await investigations.create_request(
            session,
            past.agent.id,
            insight.iteration_id,
            insight.id,
            MissingData(ASKED, "It lacks."),
        )
    unknown = str(past.agent.id)
    _script(sandbox, past.plan(ASKED, answers=(f"[request:{lacking}]", unknown)))
    done = await past.observe(sandbox_settings)
    assert done.observer_plan is not None
    assert [each["answers"] for each in done.observer_plan["queries"]] == [[str(lacking)]]
    async with past.database.transaction() as session:
        observed = await session.scalar(
            select(Step.result).where(Step.kind == StepKind.OBSERVE, Step.iteration_id == done.id)
        )
        request = await session.get_one(InvestigationRequest, lacking)
        query = await session.scalar(
            select(Step).where(Step.kind == StepKind.QUERY, Step.iteration_id == done.id)
        )
    assert observed is not None
    assert query is not None
    assert observed["dropped_requests"] == [unknown]
    has_found = bool((query.result or {}).get("nodes"))
    assert request.answered_by == (query.id if has_found else None)


async def test_a_request_that_nobody_answers_is_dropped(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    async with past.database.transaction() as session:
        insight = (await session.scalars(select(Step).where(Step.kind == StepKind.INSIGHT))).one()
        assert insight.iteration_id is not None
        for objective in ("old", "young"):
            await investigations.create_request(
                session, past.agent.id, insight.iteration_id, insight.id, MissingData(objective, "")
            )
        old = update(InvestigationRequest).where(InvestigationRequest.objective == "old")
        await session.execute(old.values(iteration_number=-8))
        left = await investigations.list_open_requests(past.agent.id).answer(session)
    assert {each.objective for each in left} == {"old", "young"}
    _script(sandbox, past.plan())
    await past.observe(sandbox_settings)
    async with past.database.transaction() as session:
        requests = list(await session.scalars(select(InvestigationRequest)))
        left = await investigations.list_open_requests(past.agent.id).answer(session)
    dropped = {each.objective for each in requests if each.dropped_at is not None}
    assert (dropped, {each.objective for each in left}) == ({"old"}, {"young"})
