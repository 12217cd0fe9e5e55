"""Steps that start on the same graph share one survey, which is stored once."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.queries import transcripts
from shared.agents.contexts import load_texts
from shared.database.engine import Database
from shared.database.tables import Agent, Context, Interaction, Iteration, Step
from shared.enums import Phase, StepKind
from shared.errors import TransientError
from shared.graph import context
from shared.graph.context import cache as cache_module
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.llm.phase_run import Model, PhaseRun
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.workflow import iterations
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.claims import Claimed
from tests.support.factories import make_agent, make_iteration
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph

PHASES = {
    StepKind.QUERY: Phase.KNOWLEDGE_ACQUISITION,
    StepKind.INSIGHT: Phase.ANALYSIS_GENERATION,
}


@dataclass
class CountingBuilder:
    """Builds surveys with distinct texts, and counts them."""

    built: int = 0
    fails: int = 0
    """Number of the first builds that fail."""
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, session: AsyncSession, scope: GraphScope, *, token_budget: int) -> str:
        self.built += 1
        number = self.built
        self.has_begun.set()
        await self.may_end.wait()
        if number <= self.fails:
            raise TransientError("PostgreSQL is away")
        return f"survey {number}"


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> CountingBuilder:
    builder = CountingBuilder()
    builder.may_end.set()
    monkeypatch.setattr(cache_module, "build_survey", builder)
    return builder


@dataclass
class Plan:
    database: Database
    model: Model
    agent: Agent
    iteration: Iteration
    steps: Mapping[tuple[str, int], StepRow]

    @property
    def queries(self) -> Sequence[StepRow]:
        return [step for (kind, _), step in sorted(self.steps.items()) if kind == StepKind.QUERY]

    @property
    def scope(self) -> GraphScope:
        return GraphScope(self.agent.owner_id, self.agent.id, self.iteration.id)

    async def survey_for(self, shared: context.SharedSurvey, step: StepRow) -> str:
        async with self.database.transaction() as session:
            scope = replace(self.scope, step_id=step.id)
            return (await shared.of(session, scope, step, token_budget=1_000)).text

    async def start_run(self, shared: context.SharedSurvey, step: StepRow) -> str:
        """Return the step's survey, and store it with its run's first request."""
        survey = await self.survey_for(shared, step)
        await self.run(step, f"Before {survey} after", survey).begin()
        return survey

    def run(self, step: StepRow, message: str, survey: str, phase: Phase | None = None) -> PhaseRun:
        phase = phase or PHASES[StepKind(step.kind)]
        lease = Lease(
            step.id,
            step.iteration_id,
            step.agent_id,
            self.agent.owner_id,
            1,
            "test",
            60,
        )
        return PhaseRun(self.model, lease, self.agent, phase, message, context=survey)

    async def stored_surveys(self) -> Sequence[str]:
        async with self.database.transaction() as session:
            rows = await session.execute(select(Context.agent_id, Context.sha256))
            keys = [(row.agent_id, row.sha256) for row in rows]
            return sorted((await load_texts(session, keys)).values())


@pytest.fixture
async def plan(database: Database, sandbox_settings: Settings) -> Plan:
    agent = await make_agent(database)
    result = await make_iteration(database, agent)
    step_input: dict[str, Any] = {"objective": "x"}
    async with database.transaction() as session:
        iteration = await session.get_one(Iteration, result.iteration.id)
        await iterations.plan_steps(
            iteration,
            queries=[step_input, step_input, step_input, step_input | {"round": 1}],
            insights=[step_input],
        ).answer(session)
        await session.execute(text("update steps set status = 'pending' where status = 'planned'"))
        ids = list(await session.scalars(select(Step.id).where(Step.kind != StepKind.OBSERVE)))
    steps = {}
    for step_id in ids:
        async with database.transaction() as session:
            claim = await claims.claim(session, step_id, "test", seconds=600)
        assert isinstance(claim, Claimed)
        steps[claim.step.kind, claim.step.index] = claim.step
    return Plan(database, create_model(sandbox_settings, database), agent, result.iteration, steps)


async def test_steps_that_start_together_share_one_survey(
    plan: Plan, builder: CountingBuilder
) -> None:
    shared = context.SharedSurvey()
    surveys = await asyncio.gather(*[plan.start_run(shared, step) for step in plan.queries[:3]])
    assert surveys == ["survey 1"] * 3
    assert (builder.built, await plan.stored_surveys()) == (1, ["survey 1"])


async def test_another_process_reuses_the_stored_survey(
    plan: Plan, builder: CountingBuilder
) -> None:
    first, second, third, _ = plan.queries
    await plan.start_run(context.SharedSurvey(), first)
    assert await plan.start_run(context.SharedSurvey(), second) == "survey 1"
    async with plan.database.transaction() as session:
        await session.execute(text("update contexts set created_at = created_at - interval '1 h'"))
    assert await plan.start_run(context.SharedSurvey(), third) == "survey 2", "the first is too old"
    assert await plan.stored_surveys() == ["survey 1", "survey 2"]


async def test_another_kind_and_another_round_have_their_own_survey(
    plan: Plan, builder: CountingBuilder
) -> None:
    shared = context.SharedSurvey()
    first, *_, later = plan.queries
    steps = [first, later, plan.steps[StepKind.INSIGHT, 0]]
    assert len(set(await asyncio.gather(*[plan.start_run(shared, step) for step in steps]))) == 3
    assert builder.built == 3


async def test_another_owner_does_not_get_the_survey(plan: Plan, builder: CountingBuilder) -> None:
    await plan.start_run(context.SharedSurvey(), plan.queries[0])
    other = await make_agent_graph(plan.database, "other")
    async with plan.database.transaction() as session:
        scope = replace(plan.scope, owner_id=other.scope.owner_id)
        survey = await context.SharedSurvey().of(
            session, scope, plan.queries[1], token_budget=1_000
        )
    assert survey.text == "survey 2"


@pytest.mark.parametrize("table", ["graph_nodes", "graph_edges"])
async def test_a_later_write_leads_to_a_new_survey(
    plan: Plan, builder: CountingBuilder, table: str
) -> None:
    first, second, third, _ = plan.queries
    own, other = (
        AgentGraph(plan.database, plan.scope, Validators()),
        await make_agent_graph(plan.database),
    )
    await own.store_search_results()
    await own.node_type("Country")
    await own.edge_type("borders", source_types=["Country"], target_types=["Country"])
    for agent_graph in (own, other):
        await agent_graph.edge(await agent_graph.node("Togo"), await agent_graph.node("Ghana"))
    await plan.start_run(context.SharedSurvey(), first)
    statement = text(f"update {table} set updated_at = clock_timestamp() where agent_id = :agent")
    async with plan.database.transaction() as session:
        await session.execute(statement, {"agent": other.scope.agent_id})
    assert await plan.start_run(context.SharedSurvey(), second) == "survey 1", (
        "the update was another agent's"
    )
    async with plan.database.transaction() as session:
        await session.execute(statement, {"agent": plan.agent.id})
    assert await plan.start_run(context.SharedSurvey(), third) == "survey 2"


async def test_after_a_failure_the_next_step_builds_the_survey(
    plan: Plan, builder: CountingBuilder
) -> None:
    builder.fails = 1
    shared = context.SharedSurvey()
    surveys = await asyncio.gather(
        *[plan.survey_for(shared, step) for step in plan.queries[:3]], return_exceptions=True
    )
    assert isinstance(surveys[0], TransientError)
    assert surveys[1:] == ["survey 2", "survey 2"]


async def test_a_cancelled_step_does_not_cancel_the_survey_for_others(
    plan: Plan, builder: CountingBuilder
) -> None:
    shared = context.SharedSurvey()
    builder.may_end.clear()

    async def survey_text(session: AsyncSession, step: StepRow) -> str:
        return (await shared.of(session, plan.scope, step, token_budget=1_000)).text

    async with plan.database.transaction() as first, plan.database.transaction() as second:
        tasks = [
            asyncio.create_task(survey_text(session, step))
            for session, step in zip((first, second, second), plan.queries, strict=False)
        ]
        await builder.has_begun.wait()
        tasks[1].cancel()
        builder.may_end.set()
        surveys = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(surveys[1], asyncio.CancelledError)
    assert (surveys[0], surveys[2]) == ("survey 1", "survey 1")


async def test_a_resumed_run_sees_the_same_survey(plan: Plan, builder: CountingBuilder) -> None:
    step = plan.queries[0]
    survey = await plan.survey_for(context.SharedSurvey(), step)
    first = await plan.run(step, f"Before {survey} after", survey).begin()
    resumed_run = plan.run(step, "Before another survey after", "another survey")
    resumed = await resumed_run.begin()
    assert resumed.as_call().hash == first.as_call().hash
    assert resumed.messages[1]["content"] == "Before survey 1 after"
    assert resumed_run.first_message == "Before survey 1 after"
    assert await plan.stored_surveys() == ["survey 1"], "an unused survey is not stored"


async def test_a_run_with_an_inline_survey_is_resumed_too(plan: Plan) -> None:
    """Runs started before surveys were stored separately have this form."""
    step = plan.queries[0]
    first = await plan.run(step, "Before survey 1 after", "").begin()
    resumed = await plan.run(step, "Before survey 2 after", "survey 2").begin()
    assert resumed.as_call().hash == first.as_call().hash
    assert await plan.stored_surveys() == []


async def test_transcripts_contain_the_survey(plan: Plan, builder: CountingBuilder) -> None:
    query, old = plan.queries[:2]
    survey = await plan.start_run(context.SharedSurvey(), query)
    await plan.run(query, f"Then {survey}", survey, Phase.GRAPH_CONSTRUCTION).begin()
    await plan.run(old, "As it was", "").begin()
    async with plan.database.transaction() as session:
        stored = await session.scalars(select(Interaction.request).order_by(Interaction.created_at))
        assert ["survey 1" in str(request) for request in stored] == [False, False, False]
        order = {step.id: step.index for step in plan.steps.values()}
        iteration_runs = await transcripts.interactions_of_iteration(
            session, plan.iteration.id, order
        )
        step_runs = await transcripts.list_phase_runs_of_step(session, query.id)
        single_runs = [
            await transcripts.find_phase_run(session, plan.agent.owner_id, run.id)
            for run in iteration_runs
        ]
    contents = [run.request["messages"][0]["content"] for run in iteration_runs]
    assert contents == ["Before survey 1 after", "As it was", "Then survey 1"]
    assert [run.request for run in single_runs if run] == [run.request for run in iteration_runs]
    assert [run.request for run in step_runs] == [
        iteration_runs[0].request,
        iteration_runs[2].request,
    ]


async def test_surveys_are_deleted_with_their_agent(plan: Plan, builder: CountingBuilder) -> None:
    await plan.start_run(context.SharedSurvey(), plan.queries[0])
    async with plan.database.transaction() as session:
        await session.delete(await session.get_one(Agent, plan.agent.id))
    async with plan.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(Context)) == 0


async def test_a_survey_of_the_real_graph_is_stored_once(plan: Plan) -> None:
    shared = context.SharedSurvey()
    surveys = await asyncio.gather(*[plan.start_run(shared, step) for step in plan.queries[:3]])
    assert set(surveys) == set(await plan.stored_surveys())
    assert len(set(surveys)) == 1
    assert "0 nodes" in surveys[0]
