"""Steps that are requested together share one survey, which is stored once and pinned."""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sqlalchemy import delete, func, select, text

from services.api.resources.iterations import transcripts
from shared.agents.contexts import StepGroup, UnreadableContextError, load_texts
from shared.database.engine import Database
from shared.database.pipelined import BoundStatement, PipelinedConnection, Result
from shared.database.statements import Batch, Executor, PendingResult
from shared.database.tables import Agent, Context, Interaction, Step
from shared.database.unit_of_work import UnitOfWork
from shared.enums import Phase, StepKind
from shared.errors import RetrySoonError, TransientError
from shared.graph.context import PinnedSurveys, Survey
from shared.graph.context import survey as pinned_module
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.llm.phase_run import PhaseRun
from shared.llm.phase_run_store import NewInteraction
from shared.llm.provider import Model
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.workflow import iterations
from shared.workflow.iterations import IterationRow, StepRow
from shared.workflow.leases import Lease
from tests.support import claims
from tests.support.api.access import owner_access
from tests.support.claims import AGENT_ROW, Claimed
from tests.support.factories import make_agent, make_iteration
from tests.support.fences import EVERYONE
from tests.support.graph.agent_graph import AgentGraph, make_agent_graph
from tests.support.table_rows import remove

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

    def __call__(
        self, batch: Batch, scope: GraphScope, kind: StepKind, *, token_budget: int
    ) -> PendingResult[str]:
        self.built += 1
        text = f"survey {self.built}"
        return batch.then(lambda: text)


@dataclass
class GatedExecutor:
    """Executes the statements of surveys when the builder allows it."""

    builder: CountingBuilder
    connection: PipelinedConnection

    async def run_together(self, statements: Sequence[BoundStatement]) -> list[Result]:
        self.builder.has_begun.set()
        await self.builder.may_end.wait()
        if self.builder.built <= self.builder.fails:
            raise TransientError("PostgreSQL is away")
        return await self.connection.run_together(statements)


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> CountingBuilder:
    builder = CountingBuilder()
    builder.may_end.set()
    monkeypatch.setattr(pinned_module, "prepare_survey", builder)
    return builder


@dataclass
class Plan:
    database: Database
    model: Model
    agent: Agent
    iteration: IterationRow
    steps: Mapping[tuple[str, int], StepRow]

    @property
    def queries(self) -> Sequence[StepRow]:
        return [step for (kind, _), step in sorted(self.steps.items()) if kind == StepKind.QUERY]

    @property
    def scope(self) -> GraphScope:
        return GraphScope(self.agent.owner_id, self.agent.id, self.iteration.id)

    async def load(
        self, surveys: PinnedSurveys, step: StepRow, database: Database | None = None
    ) -> Survey:
        """Load the step's survey; each database object stands for a process."""
        database = database or self.database
        async with database.connection() as connection:
            return await self._load(surveys, step, database, connection)

    async def load_together(
        self,
        builder: CountingBuilder,
        surveys: PinnedSurveys,
        steps: Sequence[StepRow],
        cancelled: Collection[int] = (),
    ) -> Sequence[Survey | BaseException]:
        """Load the surveys of steps that all wait for the first one; the tasks at `cancelled` are cancelled then."""
        builder.may_end.clear()
        async with AsyncExitStack() as stack:
            tasks = []
            for step in steps:
                connection = await stack.enter_async_context(self.database.connection())
                executor = GatedExecutor(builder, connection)
                tasks.append(self._load(surveys, step, self.database, executor))
            running = [asyncio.create_task(task) for task in tasks]
            await builder.has_begun.wait()
            for place in cancelled:
                running[place].cancel()
            builder.may_end.set()
            return await asyncio.gather(*running, return_exceptions=True)

    async def _load(
        self,
        surveys: PinnedSurveys,
        step: StepRow,
        database: Database,
        executor: Executor,
    ) -> Survey:
        scope = replace(self.scope, step_id=step.id)
        return await surveys.load(
            database, executor, scope, step, Batch(), token_budget=1_000, is_first=True
        )

    async def start_run(
        self, surveys: PinnedSurveys, step: StepRow, database: Database | None = None
    ) -> str:
        """Return the step's survey, and store it with its run's first request."""
        survey = await self.load(surveys, step, database)
        await self.begin(step, survey)
        return survey.text

    async def begin(self, step: StepRow, survey: Survey) -> None:
        message = f"Before {survey.text} after"
        await self.run(step, message, survey.text, pinned_for=survey.pinned_for).begin()

    def run(
        self,
        step: StepRow,
        message: str,
        survey: str,
        phase: Phase | None = None,
        pinned_for: StepGroup | None = None,
    ) -> PhaseRun:
        phase = phase or PHASES[StepKind(step.kind)]
        lease = Lease(
            step.id,
            step.iteration_id,
            step.agent_id,
            self.agent.owner_id,
            1,
            "test",
            60,
            AGENT_ROW,
        )
        return PhaseRun(
            self.model, lease, self.agent, phase, message, context=survey, pinned_for=pinned_for
        )

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
        await iterations.plan_steps(
            result.iteration,
            queries=[step_input, step_input, step_input, step_input | {"round": 1}],
            insights=[step_input],
        ).execute(session)
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
    steps = plan.queries[:3]
    for step, survey in zip(
        steps, await plan.load_together(builder, PinnedSurveys(), steps), strict=True
    ):
        assert isinstance(survey, Survey)
        assert survey.text == "survey 1"
        await plan.begin(step, survey)
    assert (builder.built, await plan.stored_surveys()) == (1, ["survey 1"])


async def test_a_later_step_is_given_the_pinned_survey_whatever_has_changed(
    plan: Plan, builder: CountingBuilder, database_url: str
) -> None:
    first, second, third, _ = plan.queries
    await plan.start_run(PinnedSurveys(), first)
    graph = AgentGraph(plan.database, plan.scope, Validators())
    await graph.store_search_results()
    await graph.node_type("Country")
    await graph.node("Togo")
    assert await plan.start_run(PinnedSurveys(), second) == "survey 1"
    other_process = Database(database_url, name="another process")
    try:
        assert await plan.start_run(PinnedSurveys(), third, other_process) == "survey 1"
    finally:
        await other_process.close()
    assert await plan.stored_surveys() == ["survey 1"]


async def test_of_two_surveys_that_are_built_at_once_one_is_pinned(
    plan: Plan, builder: CountingBuilder
) -> None:
    first, second, *_ = plan.queries
    surveys = [await plan.load(PinnedSurveys(), step) for step in (first, second)]
    assert [survey.text for survey in surveys] == ["survey 1", "survey 2"]
    await plan.begin(first, surveys[0])
    with pytest.raises(RetrySoonError, match="pinned a different context"):
        await plan.begin(second, surveys[1])
    assert await plan.stored_surveys() == ["survey 1"]
    assert await plan.start_run(PinnedSurveys(), second) == "survey 1"


async def test_a_pipelined_run_is_not_committed_with_a_survey_that_is_not_pinned(
    plan: Plan, builder: CountingBuilder
) -> None:
    first, second, *_ = plan.queries
    surveys = [await plan.load(PinnedSurveys(), step) for step in (first, second)]
    await plan.begin(first, surveys[0])
    lease = Lease(
        second.id, second.iteration_id, second.agent_id, plan.agent.owner_id, 1, "t", 60, AGENT_ROW
    )
    run = NewInteraction(
        plan.database,
        lease,
        Phase.KNOWLEDGE_ACQUISITION,
        model="m",
        system_prompt="",
        request={"messages": [{"role": "user", "content": "x"}], "tools": []},
        context=surveys[1].text,
        pinned_for=surveys[1].pinned_for,
    )
    unit = UnitOfWork(plan.database, EVERYONE)
    run.write_with(unit)
    with pytest.raises(RetrySoonError, match="pinned a different context"):
        await unit.commit()
    assert await plan.stored_surveys() == ["survey 1"]
    async with plan.database.transaction() as session:
        steps = list(await session.scalars(select(Interaction.step_id)))
    assert steps == [first.id]


async def test_a_pinned_survey_is_read_from_the_last_one_that_the_process_remembers(
    plan: Plan, builder: CountingBuilder, database_url: str
) -> None:
    first, *_, later = plan.queries
    insight = plan.steps[StepKind.INSIGHT, 0]
    texts = [await plan.start_run(PinnedSurveys(), step) for step in (first, later, insight)]
    assert texts == ["survey 1", "survey 2", "survey 3"]
    steps = (first, later, insight)
    expected = {step.id: text for step, text in zip(steps, texts, strict=True)}
    for order in ((later, insight, first, first), (first, later, later, insight)):
        process = Database(database_url, name="another process")
        try:
            read = [(await plan.load(PinnedSurveys(), step, process)).text for step in order]
        finally:
            await process.close()
        assert read == [expected[step.id] for step in order]


async def test_a_missing_text_of_a_pin_is_reported(plan: Plan, builder: CountingBuilder) -> None:
    await plan.start_run(PinnedSurveys(), plan.queries[0])
    async with plan.database.transaction() as session:
        await session.execute(delete(Context))
    with pytest.raises(UnreadableContextError):
        await plan.load(PinnedSurveys(), plan.queries[1])


async def test_another_kind_and_another_round_have_their_own_survey(
    plan: Plan, builder: CountingBuilder
) -> None:
    surveys = PinnedSurveys()
    first, *_, later = plan.queries
    steps = [first, later, plan.steps[StepKind.INSIGHT, 0]]
    assert len(set(await asyncio.gather(*[plan.start_run(surveys, step) for step in steps]))) == 3
    assert builder.built == 3


async def test_another_owner_does_not_get_the_survey(plan: Plan, builder: CountingBuilder) -> None:
    await plan.start_run(PinnedSurveys(), plan.queries[0])
    other = await make_agent_graph(plan.database, "other")
    scope = replace(plan.scope, owner_id=other.scope.owner_id)
    async with plan.database.connection() as connection:
        survey = await PinnedSurveys().load(
            plan.database,
            connection,
            scope,
            plan.queries[1],
            Batch(),
            token_budget=1_000,
            is_first=True,
        )
    assert survey.text == "survey 2"


async def test_after_a_failure_the_next_step_builds_the_survey(
    plan: Plan, builder: CountingBuilder
) -> None:
    builder.fails = 1
    surveys = PinnedSurveys()
    failed, *others = await plan.load_together(builder, surveys, plan.queries[:3])
    assert isinstance(failed, TransientError)
    assert [survey.text for survey in others if isinstance(survey, Survey)] == ["survey 2"] * 2


async def test_a_cancelled_step_does_not_cancel_the_survey_for_others(
    plan: Plan, builder: CountingBuilder
) -> None:
    first, second, third = await plan.load_together(
        builder, PinnedSurveys(), plan.queries[:3], cancelled=[1]
    )
    assert isinstance(second, asyncio.CancelledError)
    assert first == third
    assert isinstance(first, Survey)
    assert first.text == "survey 1"


async def test_a_resumed_run_sees_the_same_survey(plan: Plan, builder: CountingBuilder) -> None:
    step = plan.queries[0]
    survey = (await plan.load(PinnedSurveys(), step)).text
    first = await plan.run(step, f"Before {survey} after", survey).begin()
    resumed_run = plan.run(step, "Before another survey after", "another survey")
    resumed = await resumed_run.begin()
    assert resumed.call.hash == first.call.hash
    assert resumed.messages[1]["content"] == "Before survey 1 after"
    assert resumed_run.first_message == "Before survey 1 after"
    assert await plan.stored_surveys() == ["survey 1"], "an unused survey is not stored"


async def test_a_run_with_an_inline_survey_is_resumed_too(plan: Plan) -> None:
    """Runs started before surveys were stored separately have this form."""
    step = plan.queries[0]
    first = await plan.run(step, "Before survey 1 after", "").begin()
    resumed = await plan.run(step, "Before survey 2 after", "survey 2").begin()
    assert resumed.call.hash == first.call.hash
    assert await plan.stored_surveys() == []


async def test_transcripts_contain_the_survey(plan: Plan, builder: CountingBuilder) -> None:
    query, old = plan.queries[:2]
    survey = await plan.start_run(PinnedSurveys(), query)
    await plan.run(query, f"Then {survey}", survey, Phase.GRAPH_CONSTRUCTION).begin()
    await plan.run(old, "As it was", "").begin()
    async with plan.database.transaction() as session:
        stored = await session.scalars(select(Interaction.request).order_by(Interaction.created_at))
        assert ["survey 1" in str(request) for request in stored] == [False, False, False]
        steps = sorted(plan.steps.values(), key=lambda step: step.index)
        iteration_runs = await transcripts.list_interactions(
            session, "iteration_id", plan.iteration.id, [step.id for step in steps]
        )
        step_runs = await transcripts.list_interactions(session, "step_id", query.id)
        single_runs = [
            await transcripts.find_phase_run(owner_access(session, plan.agent.owner_id), run.id)
            for run in iteration_runs
        ]
    contents = [run.request["messages"][0]["content"] for run in iteration_runs]
    assert contents == ["Before survey 1 after", "As it was", "Then survey 1"]
    assert [run.request for run in single_runs] == [run.request for run in iteration_runs]
    assert [run.request for run in step_runs] == [
        iteration_runs[0].request,
        iteration_runs[2].request,
    ]


async def test_surveys_are_deleted_with_their_agent(plan: Plan, builder: CountingBuilder) -> None:
    await plan.start_run(PinnedSurveys(), plan.queries[0])
    async with plan.database.transaction() as session:
        await remove(session, await session.get_one(Agent, plan.agent.id))
    async with plan.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(Context)) == 0


async def test_a_survey_of_the_real_graph_is_stored_once(plan: Plan) -> None:
    surveys = PinnedSurveys()
    texts = [await plan.start_run(surveys, step) for step in plan.queries[:3]]
    assert set(texts) == set(await plan.stored_surveys())
    assert len(set(texts)) == 1
    assert texts[0] == "The graph is empty."
