"""An Observer whose plan repeats earlier work is asked once more, in the same step and through the call ledger."""

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
from shared.enums import IterationStatus, Phase, RequestState, Stage, StepKind, StepStatus
from shared.graph import system_types
from shared.graph.conclusions import conclusions
from shared.graph.scope import GraphScope
from shared.runtime.settings import Settings
from shared.workflow import investigations, iterations
from shared.workflow.investigations import MissingData
from shared.workflow.iterations import IterationRow
from tests.support.factories import make_agent, make_iteration
from tests.support.forecast_terms import ANALYSIS_TERMS
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox_control import Sandbox

PAST_OBJECTIVE = "Output of Togo in 2025"
PAST_OBSERVATION = "Togo grows faster than it did in 2024, by its own figures"
PAST_CONCLUSION = "Togo grows faster than it did in 2024"


class Past:
    """An agent whose first iteration has researched PAST_OBJECTIVE and concluded from PAST_OBSERVATION."""

    def __init__(self, database: Database, agent: Agent) -> None:
        self.database = database
        self.agent = agent
        self.node_id = uuid4()

    @classmethod
    async def make(cls, database: Database) -> "Past":
        past = cls(database, await make_agent(database))
        scope = GraphScope(past.agent.owner_id, past.agent.id)
        started = await make_iteration(database, past.agent)
        async with database.transaction() as session:
            await system_types.ensure_system_types(session, past.agent.id)
            await past._write(session, scope, started.iteration)
            await session.execute(update(Agent).values(next_run_at=func.now()))
        return past

    async def _write(self, session: Any, scope: GraphScope, iteration: IterationRow) -> None:
        key = {"agent_id": self.agent.id}
        values = {"description": "A country", "properties_schema": {}, "created_by": "test"}
        await session.insert(GraphNodeType, **key, **values, name="Country")
        row = {"id": self.node_id, "type": "Country", "name": "Togo"}
        await session.insert(GraphNode, **key, **row, properties={"growth_2024": 1})
        insight = {
            "observation": PAST_OBSERVATION,
            "relevant_node_ids": [],
            "synthesis_direction": "",
        }
        await iterations.plan_steps(
            iteration,
            queries=[{"objective": PAST_OBJECTIVE, "reasoning": "", "search_hints": []}],
            insights=[insight],
        ).execute(session)
        results = {StepKind.QUERY: {"nodes": 1, "edges": 0}, StepKind.INSIGHT: {"analyses": []}}
        for kind, result in results.items():
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
            summary=f"{PAST_CONCLUSION}.",
            content=f"So it says [node:{self.node_id}].",
            **ANALYSIS_TERMS,
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
        defaults = {"relevantNodeIds": [str(self.node_id)], "synthesisDirection": ""}
        insights = [defaults | insight]
        return {
            "queries": [{"objective": objective} | query for objective in objectives],
            "insights": insights if insight else [],
        }

    async def observe(self, settings: Settings) -> Iteration:
        async with running_services(settings):
            return await ended_iteration(self.database, self.agent, 2)

    async def calls(self) -> int:
        async with self.database.transaction() as session:
            statement = select(func.count()).select_from(Call).where(Call.phase == Phase.OBSERVER)
            answered = statement.where(Call.answered_at.is_not(None))
            return await session.scalar(answered) or 0


@pytest.fixture
async def past(database: Database) -> Past:
    return await Past.make(database)


def _script(sandbox: str, *plans: Any) -> None:
    Sandbox(sandbox).script(*({"phase": "observer", "content": plan} for plan in plans))


async def test_a_plan_that_repeats_earlier_work_is_requested_once_more(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    first = past.plan(
        f"Find the {PAST_OBJECTIVE.lower().replace('togo', 'Togo')}.", observation=PAST_OBSERVATION
    )
    _script(sandbox, first)
    second = {"contains": "the same as", "content": past.plan("Output of Togo in 2026")}
    Sandbox(sandbox).script({"phase": "observer"} | second)
    iteration = await past.observe(sandbox_settings)
    assert iteration.observer_plan is not None
    assert [query["objective"] for query in iteration.observer_plan["queries"]] == [
        "Output of Togo in 2026"
    ]
    assert (iteration.observer_plan["insights"], iteration.observer_plan["dropped"]) == ([], 0)
    assert await past.calls() == 2
    async with past.database.transaction() as session:
        interaction = (
            await session.scalars(select(Interaction).where(Interaction.phase == Phase.OBSERVER))
        ).one()
    assert interaction.completed_at is not None


async def test_repetitions_in_the_second_plan_are_dropped_and_counted(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    again = past.plan(PAST_OBJECTIVE, "Output of Benin in 2025", observation=PAST_OBSERVATION)
    _script(sandbox, again, again)
    iteration = await past.observe(sandbox_settings)
    assert iteration.observer_plan is not None
    assert iteration.observer_plan["dropped"] == 2
    assert [query["objective"] for query in iteration.observer_plan["queries"]] == [
        "Output of Benin in 2025"
    ]
    assert iteration.observer_plan["insights"] == []
    assert await past.calls() == 2, "the plan is requested once more, not twice"


async def test_a_plan_without_repetitions_is_accepted_at_once(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    _script(sandbox, past.plan("Output of Togo in 2024", observation="Togo shrinks."))
    iteration = await past.observe(sandbox_settings)
    assert iteration.observer_plan is not None
    assert len(iteration.observer_plan["queries"]) == len(iteration.observer_plan["insights"]) == 1
    assert await past.calls() == 1


async def test_old_results_and_changed_nodes_may_be_researched_again(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    async with past.database.transaction() as session:
        long_ago = func.clock_timestamp() - timedelta(days=8)
        await session.execute(update(Step).values(ended_at=long_ago))
        statement = update(GraphNode).where(GraphNode.name == "Togo")
        await session.execute(statement.values(updated_at=func.clock_timestamp()))
    _script(sandbox, past.plan(PAST_OBJECTIVE, observation=PAST_OBSERVATION))
    iteration = await past.observe(sandbox_settings)
    assert iteration.observer_plan is not None
    assert len(iteration.observer_plan["queries"]) == len(iteration.observer_plan["insights"]) == 1
    assert await past.calls() == 1


async def test_a_plan_that_stays_unreadable_fails_after_one_correction(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    _script(sandbox, {"queries": "none", "insights": 5}, {"plan": "nothing"})
    iteration = await past.observe(sandbox_settings)
    assert (iteration.status, await past.calls()) == (IterationStatus.FAILED, 2)


async def test_open_requests_may_be_planned_again_and_unknown_ones_are_dropped(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    objective = "Revenue of Halden Energy in 2025"
    async with past.database.transaction() as session:
        insight = (await session.scalars(select(Step).where(Step.kind == StepKind.INSIGHT))).one()
        assert insight.iteration_id is not None
        request_id = await investigations.create_request(
            past.agent.id,
            insight.iteration_id,
            insight.id,
            MissingData(objective, "It lacks."),
        ).execute(session)
    unknown_id = str(past.agent.id)
    _script(sandbox, past.plan(objective, answers=(f"[request:{request_id}]", unknown_id)))
    iteration = await past.observe(sandbox_settings)
    assert iteration.observer_plan is not None
    assert [planned["answers"] for planned in iteration.observer_plan["queries"]] == [
        [str(request_id)]
    ]
    async with past.database.transaction() as session:
        observed = await session.scalar(
            select(Step.result).where(
                Step.kind == StepKind.OBSERVE, Step.iteration_id == iteration.id
            )
        )
        request = await session.get_one(InvestigationRequest, request_id)
        query = await session.scalar(
            select(Step).where(Step.kind == StepKind.QUERY, Step.iteration_id == iteration.id)
        )
    assert observed is not None
    assert query is not None
    assert (observed["dropped_requests"], observed["repairs"]) == ([unknown_id], 1)
    found_nodes = bool((query.result or {}).get("nodes"))
    assert request.answered_by == (query.id if found_nodes else None)


@pytest.mark.parametrize("form", ["Not found: {}", "**Not found:** {}", "- Not found: {}"])
async def test_a_request_whose_document_says_what_is_missing_is_answered_in_part(
    sandbox_settings: Settings, sandbox: str, past: Past, form: str
) -> None:
    """The nodes that the query wrote are its answer, shown with the sentence."""
    objective, said = "The revenue and welders of Halden in 2031", "the welders of Halden in 2031"
    async with past.database.transaction() as session:
        insight = (await session.scalars(select(Step).where(Step.kind == StepKind.INSIGHT))).one()
        assert insight.iteration_id is not None
        request_id = await investigations.create_request(
            past.agent.id, insight.iteration_id, insight.id, MissingData(objective, "It lacks.")
        ).execute(session)
    _script(sandbox, past.plan(objective, answers=(str(request_id),)))
    # The model makes no call, so it is asked once without demanding one, and again after searches by code.
    for _ in range(3):
        script = {"phase": Phase.KNOWLEDGE_ACQUISITION, "content": form.format(said)}
        Sandbox(sandbox).script(script)
    iteration = await past.observe(sandbox_settings)
    async with past.database.transaction() as session:
        request = await session.get_one(InvestigationRequest, request_id)
        query = await session.scalar(
            select(Step).where(Step.kind == StepKind.QUERY, Step.iteration_id == iteration.id)
        )
    assert query is not None
    assert query.result is not None
    assert (request.state, request.not_found) == (RequestState.ANSWERED, said)
    assert (request.answered_by, query.result["not_found"]) == (query.id, [said])
    answer = (request.answered_with or {})["nodes"]
    assert 0 < len(answer) < query.result["nodes"], "only what bears on it"


@pytest.mark.parametrize(
    ("statements", "states"),
    [
        ((), ("answered", "answered")),
        (("the revenue of Halden in 2031",), ("not_found", "answered")),
        (("the revenue of Kestrel in 2031",), ("answered", "not_found")),
        (
            ("the revenue of Halden in 2031", "the revenue of Kestrel in 2031"),
            ("not_found", "not_found"),
        ),
        (("the revenue in 2031",), ("answered", "answered")),
    ],
)
async def test_a_query_for_several_requests_answers_those_that_it_does_not_lack(
    sandbox_settings: Settings,
    sandbox: str,
    past: Past,
    statements: tuple[str, ...],
    states: tuple[str, str],
) -> None:
    ids = []
    async with past.database.transaction() as session:
        insight = (await session.scalars(select(Step).where(Step.kind == StepKind.INSIGHT))).one()
        assert insight.iteration_id is not None
        for maker in ("Halden", "Kestrel"):
            missing = MissingData(f"The revenue of {maker} in 2031", "It lacks.")
            ids.append(
                await investigations.create_request(
                    past.agent.id, insight.iteration_id, insight.id, missing
                ).execute(session)
            )
    _script(
        sandbox, past.plan("Revenue of Halden and Kestrel in 2031", answers=tuple(map(str, ids)))
    )
    document = "\n".join(f"Not found: {each}" for each in statements) or "Lithium is mined."
    # The model makes no call, so it is asked once without demanding one, and again after searches by code.
    for _ in range(3):
        Sandbox(sandbox).script({"phase": Phase.KNOWLEDGE_ACQUISITION, "content": document})
    iteration = await past.observe(sandbox_settings)
    async with past.database.transaction() as session:
        requests = [await session.get_one(InvestigationRequest, each) for each in ids]
        query = await session.scalar(
            select(Step).where(Step.kind == StepKind.QUERY, Step.iteration_id == iteration.id)
        )
    assert query is not None
    assert query.result is not None
    assert query.result["nodes"] > 0
    assert tuple(request.state for request in requests) == states
    unanswered = [
        str(each) for each, state in zip(ids, states, strict=True) if state == "not_found"
    ]
    assert query.result.get("unanswered", []) == unanswered
    answering = {query.id} if "answered" in states else set()
    assert {each.answered_by for each in requests if each.state == "answered"} == answering


async def test_a_request_that_nothing_written_bears_on_stays_open(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    ids = []
    async with past.database.transaction() as session:
        insight = (await session.scalars(select(Step).where(Step.kind == StepKind.INSIGHT))).one()
        assert insight.iteration_id is not None
        for objective in ("The revenue of Halden", "Welders of the shipyard in Gdynia"):
            missing = MissingData(objective, "It lacks.")
            query = investigations.create_request(
                past.agent.id, insight.iteration_id, insight.id, missing
            )
            ids.append(await query.execute(session))
    _script(
        sandbox, past.plan("Revenue of Halden and Kestrel in 2031", answers=tuple(map(str, ids)))
    )
    iteration = await past.observe(sandbox_settings)
    async with past.database.transaction() as session:
        requests = [await session.get_one(InvestigationRequest, each) for each in ids]
        query_step = await session.scalar(
            select(Step).where(Step.kind == StepKind.QUERY, Step.iteration_id == iteration.id)
        )
    assert query_step is not None
    assert query_step.result is not None
    assert query_step.result["nodes"] > 0
    assert [request.state for request in requests] == [RequestState.ANSWERED, RequestState.OPEN]
    assert query_step.result["unanswered"] == [str(ids[1])]


async def test_an_expired_request_is_dropped(
    sandbox_settings: Settings, sandbox: str, past: Past
) -> None:
    async with past.database.transaction() as session:
        insight = (await session.scalars(select(Step).where(Step.kind == StepKind.INSIGHT))).one()
        assert insight.iteration_id is not None
        for objective in ("old", "young"):
            await investigations.create_request(
                past.agent.id, insight.iteration_id, insight.id, MissingData(objective, "")
            ).execute(session)
        statement = update(InvestigationRequest).where(InvestigationRequest.objective == "old")
        await session.execute(statement.values(iteration_number=-8))
        open_requests = await investigations.list_open_requests(past.agent.id).execute(session)
    assert {request.objective for request in open_requests} == {"old", "young"}
    _script(sandbox, past.plan())
    await past.observe(sandbox_settings)
    async with past.database.transaction() as session:
        requests = list(await session.scalars(select(InvestigationRequest)))
        open_requests = await investigations.list_open_requests(past.agent.id).execute(session)
    dropped = {request.objective for request in requests if request.dropped_at is not None}
    assert (dropped, {request.objective for request in open_requests}) == ({"old"}, {"young"})
