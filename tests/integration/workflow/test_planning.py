"""How a plan is made, repeated and stored, and what it is shown of a large graph and of news."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select, text, update

from sandbox.http.pages import FEED_URL
from services.observer.handler import look_up
from services.observer.news import store_query
from services.observer.news_items import Item, StoredItem
from services.observer.quiescence import situation_query
from shared import derived_events
from shared.agents import agents
from shared.database.engine import Database
from shared.database.tables import (
    Agent,
    Call,
    GraphNode,
    GraphNodeType,
    Interaction,
    InvestigationRequest,
    Iteration,
    NewsItem,
    Step,
)
from shared.enums import (
    IterationStatus,
    NewsKind,
    NewsState,
    Phase,
    RequestState,
    Stage,
    StepKind,
    StepStatus,
)
from shared.errors import TransientError
from shared.graph import context, system_types
from shared.graph.conclusions import conclusions
from shared.graph.prompt_format import byte_length
from shared.graph.scope import GraphScope
from shared.runtime.providers import SANDBOX_FEED
from shared.runtime.settings import Settings
from shared.workflow import investigations, iterations, steps
from shared.workflow.investigations import Answer, MissingData
from shared.workflow.iterations import IterationRow, StartedIteration
from tests.support import claims
from tests.support.factories import make_agent, make_iteration, make_node
from tests.support.forecast_terms import ANALYSIS_TERMS
from tests.support.lock_probe import has_lock_waiter
from tests.support.running_services import ended_iteration, running_services
from tests.support.sandbox_control import Sandbox
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
        claim = await claims.claimed(session, started.observe.id, "worker")
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


NODES = 10_000
TOKENS = 6_000
_FILL = """
insert into graph_nodes (id, agent_id, type, name, properties, seal)
select gen_random_uuid(), :agent, 'Metal', initcap(translate(md5(number::text), '0123456789', 'ghijklmnop')),
  jsonb_build_object('summary', 'The metal of number ' || number), ''
from generate_series(1, :nodes) as number
"""


_TYPES = """
with kinds as (
  insert into graph_node_types (agent_id, name, description, properties_schema, created_by)
  select :agent, name, 'A kind', '{}', 'test' from unnest(array['Company', 'Person', 'Place']) as name
)
insert into graph_edge_types (agent_id, name, description, source_types, target_types, created_by)
values (:agent, 'knows', 'who knows whom', '[]', '[]', 'test')
"""
_GROW = """
insert into graph_nodes (id, agent_id, type, name, properties, seal, created_at, updated_at)
select gen_random_uuid(), :agent, (array['Company', 'Person', 'Place'])[1 + number % 3], {name},
  jsonb_build_object('summary', 'What is known of number ' || number || '.', 'size', number), '',
  clock_timestamp(), clock_timestamp()
from generate_series(1 + :before, :nodes) as number
"""
_JOIN = """
insert into graph_edges (id, agent_id, type, source_id, target_id, properties, seal)
select gen_random_uuid(), :agent, 'knows', node.id, next.id, '{}', '' from (
  select id, lead(id) over (order by created_at) as next_id from graph_nodes where agent_id = :agent
) as node join graph_nodes as next on next.id = node.next_id
on conflict do nothing
"""


@pytest.fixture
async def agent(database: Database) -> Agent:
    made = await make_agent(database)
    await make_node(database, made)
    async with database.transaction() as session:
        await session.execute(text(_FILL), {"agent": made.id, "nodes": NODES})
    return made


def scope_of(agent: Agent) -> GraphScope:
    return GraphScope(agent.owner_id, agent.id)


async def names_of(database: Database, agent: Agent) -> list[str]:
    async with database.transaction() as session:
        rows = await session.execute(
            text("select name from graph_nodes where agent_id = :agent order by name"),
            {"agent": agent.id},
        )
        return [row.name for row in rows]


async def test_the_index_is_folded_and_within_the_budget(database: Database, agent: Agent) -> None:
    async with database.connection() as connection:
        survey = await context.build_survey(
            connection, scope_of(agent), StepKind.OBSERVE, token_budget=TOKENS
        )
    assert byte_length(survey) <= scope_of(agent).budget_bytes(TOKENS)
    assert context.FOLDED in survey
    letters = {name[0] for name in await names_of(database, agent)}
    line = survey.partition(context.FOLDED)[2].splitlines()[1]
    assert {part.split()[0] for part in line.removeprefix("- Metal: ").split("), ")} == letters


FILLS = {
    "names": "'Node ' || number",
    "long names": "'The quite long name of a company ' || md5(number::text)",
}


@pytest.mark.parametrize("name", FILLS.values(), ids=FILLS.keys())
@pytest.mark.parametrize("has_edges", [False, True])
async def test_a_larger_graph_is_not_shown_less(
    database: Database, name: str, *, has_edges: bool
) -> None:
    """The text uses its budget from 500 nodes on, and names more of a larger graph until it is used up."""
    agent = await make_agent(database)
    async with database.transaction() as session:
        await session.execute(text(_TYPES), {"agent": agent.id})
    shown, budget = 0, scope_of(agent).budget_bytes(TOKENS)
    for before, nodes in pairwise((0, 50, 100, 250, 350, 500, 1_000, 2_000, 5_000)):
        async with database.transaction() as session:
            params = {"agent": agent.id, "before": before, "nodes": nodes}
            await session.execute(text(_GROW.format(name=name)), params)
            if has_edges:
                await session.execute(text(_JOIN), params)
        async with database.connection() as connection:
            survey = await context.build_survey(
                connection, scope_of(agent), StepKind.OBSERVE, token_budget=TOKENS
            )
        if nodes >= 500:
            assert 0.85 <= byte_length(survey) / budget <= 1, nodes
        named = {each for each in await names_of(database, agent) if f'"{each}"' in survey}
        # Names of new nodes are longer, so that one or two lines fewer fit.
        assert len(named) >= shown * 0.98, nodes
        shown = max(shown, len(named))
    assert shown >= (500 if "Node" in name else 150)
    assert context.FOLDED in survey


async def test_a_small_graph_names_all_its_nodes(database: Database) -> None:
    small = await make_agent(database)
    await make_node(database, small)
    async with database.connection() as connection:
        survey = await context.build_survey(connection, scope_of(small), StepKind.OBSERVE)
    assert context.FOLDED not in survey
    assert '"Lithium"' in survey


async def test_any_node_is_found_by_its_name_and_by_its_group(
    database: Database, agent: Agent
) -> None:
    names = await names_of(database, agent)
    for name in Random(7).sample(names, 20):
        (line,) = await look_up(database, scope_of(agent), [name])
        assert f'"{name}"' in line
    few = [name for name in names if name.startswith("L")][:1]
    lines = await look_up(database, scope_of(agent), [f"Metal: {few[0][0]}"])
    assert f'"{few[0]}"' in lines[0]
    assert await look_up(database, scope_of(agent), ["Nothing of this kind"]) == [
        '- nothing is named "Nothing of this kind"'
    ]


async def test_the_observer_looks_up_what_it_needs_before_it_plans(
    sandbox_settings: Settings, sandbox: str, database: Database, agent: Agent
) -> None:
    name = (await names_of(database, agent))[1234]
    query = {"objective": "Price of it", "reasoning": "", "searchHints": ["x"], "answers": []}
    plans: list[dict[str, Any]] = [
        {"queries": [], "insights": [], "lookUp": [name]},
        {"queries": [query], "insights": [], "lookUp": []},
    ]
    control = Sandbox(sandbox)
    control.script({"phase": Phase.OBSERVER, "content": plans[0]})
    control.script({"phase": Phase.OBSERVER, "contains": f'"{name}"', "content": plans[1]})
    async with running_services(sandbox_settings):
        iteration = await ended_iteration(database, agent, 1)
    assert iteration.status == IterationStatus.COMPLETED
    async with database.transaction() as session:
        inputs = await session.scalars(
            select(Step.input)
            .join(Iteration, Iteration.id == Step.iteration_id)
            .where(Step.kind == StepKind.QUERY, Iteration.number == 1)
        )
        assert [each["objective"] for each in inputs] == ["Price of it"]


URL = "https://example.org/news"
ITEM = Item(UUID(int=1), NewsKind.DOCUMENT, URL, "News", datetime(2026, 11, 28, 9, tzinfo=UTC))


async def _scope(database: Database, started: StartedIteration) -> GraphScope:
    async with database.transaction() as session:
        agent_id = started.iteration.agent_id
        owner_id = await session.scalar(select(Agent.owner_id).where(Agent.id == agent_id))
        assert owner_id is not None
    return GraphScope(owner_id, agent_id, started.iteration.id, started.observe.id)


async def _waiting(database: Database, scope: GraphScope) -> list[StoredItem]:
    return list((await database.run(situation_query(scope))).news)


@pytest.mark.parametrize(
    ("status", "result", "was_read"),
    [
        (StepStatus.COMPLETED, {"nodes": 0, "edges": 0, "read": [URL]}, True),
        (StepStatus.COMPLETED, {"nodes": 3, "edges": 0, "read": ["https://example.org/x"]}, False),
        (StepStatus.COMPLETED, {"nodes": 3, "edges": 0}, False),
        (StepStatus.FAILED, None, False),
    ],
)
async def test_an_item_was_read_if_a_query_of_its_plan_has_read_its_page(
    database: Database,
    started: StartedIteration,
    status: StepStatus,
    result: dict[str, object] | None,
    *,
    was_read: bool,
) -> None:
    scope = await _scope(database, started)
    planned = replace(
        ITEM, state=NewsState.PLANNED, plans=1, offers=1, planned_in=started.iteration.id
    )
    async with database.transaction() as session:
        await session.insert(
            Step,
            id=UUID(int=2),
            iteration_id=started.iteration.id,
            agent_id=scope.agent_id,
            kind=StepKind.QUERY,
            index=0,
            input={"objective": f"Read {URL}."},
            status=status,
            result=result,
            ended_at=func.clock_timestamp(),
        )
    await database.run(store_query(scope, [], [planned]))
    assert await _waiting(database, scope) == [StoredItem(planned, was_read)]


@pytest.mark.parametrize("state", [NewsState.READ, NewsState.SKIPPED, NewsState.EXPIRED])
async def test_a_decision_is_final(
    database: Database, started: StartedIteration, state: NewsState
) -> None:
    scope = await _scope(database, started)
    for item in (ITEM, replace(ITEM, state=state, reason="Because."), replace(ITEM, offers=5)):
        await database.run(store_query(scope, [], [item]))
    assert await _waiting(database, scope) == []
    async with database.transaction() as session:
        stored = await session.get_one(NewsItem, ITEM.id)
        assert (stored.state, stored.reason, stored.offers) == (state, "Because.", 0)
        assert stored.decided_at is not None


async def test_items_of_other_agents_are_not_offered(
    database: Database, started: StartedIteration
) -> None:
    await database.run(store_query(await _scope(database, started), [], [ITEM]))
    other = await make_iteration(database, await make_agent(database, name="Other"))
    assert await _waiting(database, await _scope(database, other)) == []


def test_the_sandbox_serves_the_feed_that_is_watched() -> None:
    assert SANDBOX_FEED == FEED_URL
