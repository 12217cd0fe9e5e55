"""Plans one iteration."""

from dataclasses import dataclass

from services.observer.history import PlanHistory, ask_history
from services.observer.planning import ResolvedPlan, resolve_plan
from services.observer.prompts import (
    EMPTY_PLAN,
    RULES,
    ObserverPlan,
    first_query,
    parse_plan,
    replan_message,
    user_message,
)
from shared.agents import agents, memories
from shared.database.statements import RoundTrip
from shared.enums import Phase, StepKind
from shared.graph import context, system_types
from shared.graph.prompt_format import truncate_to_budget
from shared.graph.scope import GraphScope
from shared.llm.messages import ChatRequest
from shared.llm.phase_run import Model, PhaseRun
from shared.llm.repair import Repairs
from shared.llm.structured_output import (
    UnusableAnswerError,
    request_structured_answer,
    response_format,
)
from shared.runtime.step_runner import StepResult
from shared.workflow import investigations, iterations, steps
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease

PLAN = "observer_plan"
MAX_MEMORIES_TOKENS = 1_000
"""Token budget of the owner's memories, newest first."""


@dataclass(frozen=True)
class Observe:
    model: Model
    context_tokens: int

    async def __call__(self, lease: Lease, step: StepRow) -> StepResult:
        """Requests a plan; its steps are inserted in the transaction that ends the observe step."""
        scope = GraphScope(lease.user_id, lease.agent_id, lease.iteration_id, lease.step_id)
        trip = RoundTrip()
        trip.ask(system_types.ensure_query(lease.agent_id))
        loaded_agent = trip.ask(agents.agent_query(lease.agent_id))
        loaded_iteration = trip.ask(steps.iteration_query(step))
        survey = context.ask_survey(trip, scope, StepKind.OBSERVE, token_budget=self.context_tokens)
        now = trip.ask(iterations.CLOCK)
        owner_memories = trip.ask(memories.list_active(lease.agent_id))
        load_history = ask_history(trip, scope)
        async with self.model.database.connection_after(trip) as connection:
            agent, iteration = loaded_agent.value, loaded_iteration.value
            past = await load_history(connection, iteration)
        memory_lines = truncate_to_budget(
            memories.format_lines(owner_memories.value), MAX_MEMORIES_TOKENS
        )
        message = user_message(agent.mission, survey.value, now.value, memory_lines)
        run = PhaseRun(
            self.model, lease, agent, Phase.OBSERVER, message, rules=RULES, context=survey.value
        )
        plan = await self._plan(run, scope, past, agent.mission)
        run.complete()
        return StepResult(
            {**plan.counts, **run.repair_summary},
            [investigations.drop_expired(lease.agent_id, iteration.number)],
            iterations.plan_steps(
                iteration, queries=plan.queries, insights=plan.insights, plan=plan.as_json
            ),
        )

    async def _plan(
        self, run: PhaseRun, scope: GraphScope, past: PlanHistory, mission: str
    ) -> ResolvedPlan:
        """The plan, after at most one request to replace repeats and one to fill an empty plan.

        What still repeats is dropped. If the graph is empty and nothing was planned, the mission becomes the first
        query. The run is completed in the transaction that ends the step, because until then another request may
        follow.
        """
        request = await run.begin(response_format=response_format(ObserverPlan, PLAN))
        try:
            plan, request = await self._request_plan(run, request, scope, past)
            if plan.repeats:
                message = replan_message(plan.repeats)
                plan, request = await self._request_plan(
                    run, _follow_up(request, message), scope, past
                )
            if plan.is_empty and past.graph_is_empty:
                plan, request = await self._request_plan(
                    run, _follow_up(request, EMPTY_PLAN), scope, past
                )
        except UnusableAnswerError:
            if not past.graph_is_empty:
                raise
            plan = ResolvedPlan()
        if not plan.is_empty or not past.graph_is_empty:
            return plan
        repairs = Repairs(
            ["Nothing was planned for an empty graph; the mission is the first query."]
        )
        await run.record_repairs("plan", repairs, key="first_query")
        first = ObserverPlan(queries=[first_query(mission)], insights=[])
        return await self._resolve(run, scope, past, first)

    async def _request_plan(
        self, run: PhaseRun, request: ChatRequest, scope: GraphScope, past: PlanHistory
    ) -> tuple[ResolvedPlan, ChatRequest]:
        plan, conversation = await request_structured_answer(
            run, request, ObserverPlan, name=PLAN, parse=parse_plan, subject="plan"
        )
        return await self._resolve(run, scope, past, plan), conversation

    async def _resolve(
        self, run: PhaseRun, scope: GraphScope, past: PlanHistory, plan: ObserverPlan
    ) -> ResolvedPlan:
        async with self.model.database.connection() as connection:
            return await resolve_plan(connection, scope, past, plan)


def _follow_up(request: ChatRequest, message: str) -> ChatRequest:
    return request.following({"role": "user", "content": message})
