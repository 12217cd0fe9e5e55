"""Steps that begin on the same graph are shown the same survey, which is kept once."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from services.api.queries import transcripts as reading
from shared.database.engine import Database
from shared.database.tables import Agent, Context, Interaction, Iteration, Step
from shared.enums import Phase, StepKind
from shared.errors import TransientError
from shared.graph import context
from shared.graph.context import cache as sharing
from shared.graph.scope import GraphScope
from shared.graph.validation import Validators
from shared.llm.phase_run import Model, PhaseRun
from shared.runtime.providers import create_model
from shared.runtime.settings import Settings
from shared.workflow import iterations, leases
from shared.workflow.leases import Claimed, Lease
from tests.support.graph.world import World, make_world
from tests.support.making import make_agent, make_iteration

PHASES = {
    StepKind.QUERY: Phase.KNOWLEDGE_ACQUISITION,
    StepKind.INSIGHT: Phase.ANALYSIS_GENERATION,
}


@dataclass
class Counting:
    """Makes surveys, each with other words, and counts them."""

    made: int = 0
    fails: int = 0
    """So many of the first fail."""
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)
    may_end: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, session: AsyncSession, scope: GraphScope, *, token_budget: int) -> str:
        self.made += 1
        number = self.made
        self.has_begun.set()
        await self.may_end.wait()
        if number <= self.fails:
            raise TransientError("PostgreSQL is away")
        return f"survey {number}"


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counting = Counting()
    counting.may_end.set()
    monkeypatch.setattr(sharing, "build_survey", counting)
    return counting


@dataclass
class Plan:
    database: Database
    model: Model
    agent: Agent
    iteration: Iteration
    steps: Mapping[tuple[str, int], Step]

    @property
    def queries(self) -> Sequence[Step]:
        return [step for (kind, _), step in sorted(self.steps.items()) if kind == StepKind.QUERY]

    @property
    def scope(self) -> GraphScope:
        return GraphScope(self.agent.owner_id, self.agent.id, self.iteration.id)

    async def shown(self, shared: context.SharedSurvey, step: Step) -> str:
        async with self.database.transaction() as session:
            scope = replace(self.scope, step_id=step.id)
            return await shared.of(session, scope, step, token_budget=1_000)

    async def begins(self, shared: context.SharedSurvey, step: Step) -> str:
        """What the step is shown, and keeps as its run's first request."""
        told = await self.shown(shared, step)
        await self.run(step, f"Before {told} after", told).begin()
        return told

    def run(self, step: Step, message: str, told: str, phase: Phase | None = None) -> PhaseRun:
        phase = phase or PHASES[StepKind(step.kind)]
        lease = Lease(step.id, step.iteration_id, step.agent_id, step.epoch, "test", 60)
        return PhaseRun(self.model, lease, self.agent, phase, message, context=told)

    async def kept(self) -> Sequence[str]:
        async with self.database.transaction() as session:
            return list(await session.scalars(select(Context.text).order_by(Context.text)))


@pytest.fixture
async def plan(database: Database, sandbox_settings: Settings) -> Plan:
    agent = await make_agent(database)
    made = await make_iteration(database, agent)
    given: dict[str, Any] = {"objective": "x"}
    async with database.transaction() as session:
        iteration = await session.get_one(Iteration, made.iteration.id)
        await iterations.plan_steps(
            session,
            iteration,
            queries=[given, given, given, given | {"round": 1}],
            insights=[given],
        )
        await session.execute(text("update steps set status = 'pending' where status = 'planned'"))
        ids = list(await session.scalars(select(Step.id).where(Step.kind != StepKind.OBSERVE)))
    steps = {}
    for step_id in ids:
        async with database.transaction() as session:
            claim = await leases.claim(session, step_id, "test", seconds=600)
        assert isinstance(claim, Claimed)
        steps[claim.step.kind, claim.step.index] = claim.step
    return Plan(database, create_model(sandbox_settings, database), agent, made.iteration, steps)


async def test_who_begins_together_shares_one_survey(plan: Plan, counting: Counting) -> None:
    shared = context.SharedSurvey()
    shown = await asyncio.gather(*[plan.begins(shared, step) for step in plan.queries[:3]])
    assert shown == ["survey 1"] * 3
    assert (counting.made, await plan.kept()) == (1, ["survey 1"])


async def test_another_process_takes_the_words_that_were_kept(
    plan: Plan, counting: Counting
) -> None:
    first, second, third, _ = plan.queries
    await plan.begins(context.SharedSurvey(), first)
    assert await plan.begins(context.SharedSurvey(), second) == "survey 1"
    async with plan.database.transaction() as session:
        await session.execute(text("update contexts set created_at = created_at - interval '1 h'"))
    assert await plan.begins(context.SharedSurvey(), third) == "survey 2", "the first is too old"
    assert await plan.kept() == ["survey 1", "survey 2"]


async def test_another_kind_and_another_round_have_their_own(
    plan: Plan, counting: Counting
) -> None:
    shared = context.SharedSurvey()
    first, *_, later = plan.queries
    wanted = [first, later, plan.steps[StepKind.INSIGHT, 0]]
    assert len(set(await asyncio.gather(*[plan.begins(shared, step) for step in wanted]))) == 3
    assert counting.made == 3


async def test_another_owner_is_given_nothing_of_it(plan: Plan, counting: Counting) -> None:
    await plan.begins(context.SharedSurvey(), plan.queries[0])
    other = await make_world(plan.database, "other")
    async with plan.database.transaction() as session:
        scope = replace(plan.scope, owner_id=other.scope.owner_id)
        told = await context.SharedSurvey().of(session, scope, plan.queries[1], token_budget=1_000)
    assert told == "survey 2"


@pytest.mark.parametrize("table", ["graph_nodes", "graph_edges"])
async def test_what_was_written_since_is_seen(plan: Plan, counting: Counting, table: str) -> None:
    first, second, third, _ = plan.queries
    ours, others = World(plan.database, plan.scope, Validators()), await make_world(plan.database)
    await ours.read()
    await ours.node_type("Country")
    await ours.edge_type("borders", source_types=["Country"], target_types=["Country"])
    for world in (ours, others):
        await world.edge(await world.node("Togo"), await world.node("Ghana"))
    await plan.begins(context.SharedSurvey(), first)
    touched = text(f"update {table} set updated_at = clock_timestamp() where agent_id = :agent")
    async with plan.database.transaction() as session:
        await session.execute(touched, {"agent": others.scope.agent_id})
    assert await plan.begins(context.SharedSurvey(), second) == "survey 1", (
        "that was another agent's"
    )
    async with plan.database.transaction() as session:
        await session.execute(touched, {"agent": plan.agent.id})
    assert await plan.begins(context.SharedSurvey(), third) == "survey 2"


async def test_where_it_fails_the_next_makes_it(plan: Plan, counting: Counting) -> None:
    counting.fails = 1
    shared = context.SharedSurvey()
    shown = await asyncio.gather(
        *[plan.shown(shared, step) for step in plan.queries[:3]], return_exceptions=True
    )
    assert isinstance(shown[0], TransientError)
    assert shown[1:] == ["survey 2", "survey 2"]


async def test_who_is_called_off_does_not_call_it_off_for_others(
    plan: Plan, counting: Counting
) -> None:
    shared = context.SharedSurvey()
    counting.may_end.clear()
    async with plan.database.transaction() as first, plan.database.transaction() as second:
        tasks = [
            asyncio.create_task(shared.of(session, plan.scope, step, token_budget=1_000))
            for session, step in zip((first, second, second), plan.queries, strict=False)
        ]
        await counting.has_begun.wait()
        tasks[1].cancel()
        counting.may_end.set()
        shown = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(shown[1], asyncio.CancelledError)
    assert (shown[0], shown[2]) == ("survey 1", "survey 1")


async def test_a_run_that_goes_on_sees_word_for_word_what_it_saw(
    plan: Plan, counting: Counting
) -> None:
    step = plan.queries[0]
    told = await plan.shown(context.SharedSurvey(), step)
    first = await plan.run(step, f"Before {told} after", told).begin()
    again_run = plan.run(step, "Before another survey after", "another survey")
    again = await again_run.begin()
    assert again.as_call().hash == first.as_call().hash
    assert again.messages[1]["content"] == "Before survey 1 after"
    assert again_run.secret.message == "Before survey 1 after"
    assert await plan.kept() == ["survey 1"], "what nobody is shown is not kept"


async def test_a_run_that_holds_its_words_itself_goes_on_too(plan: Plan) -> None:
    """As those do that were begun before words were kept by themselves."""
    step = plan.queries[0]
    first = await plan.run(step, "Before survey 1 after", "").begin()
    again = await plan.run(step, "Before survey 2 after", "survey 2").begin()
    assert again.as_call().hash == first.as_call().hash
    assert await plan.kept() == []


async def test_readers_are_told_the_words(plan: Plan, counting: Counting) -> None:
    query, old = plan.queries[:2]
    told = await plan.begins(context.SharedSurvey(), query)
    await plan.run(query, f"Then {told}", told, Phase.GRAPH_CONSTRUCTION).begin()
    await plan.run(old, "As it was", "").begin()
    async with plan.database.transaction() as session:
        stored = await session.scalars(select(Interaction.request).order_by(Interaction.created_at))
        assert ["survey 1" in str(request) for request in stored] == [False, False, False]
        order = {step.id: step.index for step in plan.steps.values()}
        of_iteration = await reading.interactions_of_iteration(session, plan.iteration.id, order)
        of_step = await reading.list_phase_runs_of_step(session, query.id)
        alone = [
            await reading.find_phase_run(session, plan.agent.owner_id, each.id)
            for each in of_iteration
        ]
    said = [each.request["messages"][0]["content"] for each in of_iteration]
    assert said == ["Before survey 1 after", "As it was", "Then survey 1"]
    assert [each.request for each in alone if each] == [each.request for each in of_iteration]
    assert [each.request for each in of_step] == [of_iteration[0].request, of_iteration[2].request]


async def test_they_go_with_their_agent(plan: Plan, counting: Counting) -> None:
    await plan.begins(context.SharedSurvey(), plan.queries[0])
    async with plan.database.transaction() as session:
        await session.delete(await session.get_one(Agent, plan.agent.id))
    async with plan.database.transaction() as session:
        assert await session.scalar(select(func.count()).select_from(Context)) == 0


async def test_a_survey_of_the_real_graph_is_kept_once(plan: Plan) -> None:
    shared = context.SharedSurvey()
    shown = await asyncio.gather(*[plan.begins(shared, step) for step in plan.queries[:3]])
    assert set(shown) == set(await plan.kept())
    assert len(set(shown)) == 1
    assert "0 nodes" in shown[0]
