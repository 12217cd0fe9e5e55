"""Planning one iteration."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from services.observer.history import Past, look_back
from services.observer.planning import Resolved, resolved
from services.observer.prompts import (
    EMPTY_PLAN,
    ObserverPlan,
    again_message,
    first_query,
    read_plan,
    user_message,
)
from shared.agents import agents, memories
from shared.database.tables import Step
from shared.enums import Phase
from shared.graph import context, system_types
from shared.graph.prompt_format import within
from shared.graph.scope import Scope
from shared.llm.messages import ChatRequest
from shared.llm.phase_run import Model, PhaseRun
from shared.llm.repair import Repairs
from shared.llm.structured_output import UnusableAnswerError, response_format, structured_answer
from shared.runtime.step_runner import Outcome
from shared.workflow import investigations, iterations, steps
from shared.workflow.leases import Lease, leased_transaction

PLAN = "observer_plan"
MEMORIES_TOKENS = 1_000
"""Of what the owner has told; the newest come first."""


@dataclass(frozen=True)
class Observe:
    model: Model
    context_tokens: int

    async def __call__(self, lease: Lease, step: Step) -> Outcome:
        """Asks for a plan; its steps are written in the transaction that ends the observe step."""
        async with leased_transaction(self.model.database, lease) as session:
            agent = await agents.read(session, lease.agent_id)
            scope = Scope(agent.owner_id, agent.id, lease.iteration_id, lease.step_id)
            await system_types.ensure(session, agent.id)
            graph_context = await context.build(session, scope, token_budget=self.context_tokens)
            kept = await memories.active(session, agent.id)
            iteration = await steps.iteration_of(session, step)
            past = await look_back(session, scope, iteration)
        told = within(memories.lines(kept), MEMORIES_TOKENS)
        message = user_message(agent.mission, graph_context, told)
        run = PhaseRun(self.model, lease, agent, Phase.OBSERVER, message)
        plan = await self._plan(run, scope, past, agent.mission)

        async def write(session: AsyncSession) -> None:
            run.complete(session)
            await iterations.plan_steps(
                session,
                iteration,
                queries=plan.queries,
                insights=plan.insights,
                plan=plan.stored,
            )
            await investigations.drop_old(session, lease.agent_id, iteration.number)

        return Outcome({**plan.counts, **run.repairs_told}, write)

    async def _plan(self, run: PhaseRun, scope: Scope, past: Past, mission: str) -> Resolved:
        """What repeats, or tells instructions, is told once, and asked to be planned anew; what still does is left out.

        An agent that knows nothing and plans nothing is told once, too; then its mission is its first query. The run is
        not complete before that is known, so it is completed where the step ends.
        """
        request = await run.begin(response_format=response_format(ObserverPlan, PLAN))
        try:
            plan, request = await self._asked(run, request, scope, past)
            if plan.repeats or plan.telling:
                told = again_message(plan.repeats, plan.telling)
                plan, request = await self._asked(run, _told(request, told), scope, past)
            if plan.is_empty and past.graph_is_empty:
                plan, request = await self._asked(run, _told(request, EMPTY_PLAN), scope, past)
        except UnusableAnswerError:
            if not past.graph_is_empty:
                raise
            plan = Resolved()
        if not plan.is_empty or not past.graph_is_empty:
            return plan
        repairs = Repairs(
            ["Nothing was planned for an empty graph; the mission is the first query."]
        )
        await run.note_repairs("plan", repairs, key="first_query")
        first = ObserverPlan(queries=[first_query(mission)], insights=[])
        return await self._resolved(run, scope, past, first)

    async def _asked(
        self, run: PhaseRun, request: ChatRequest, scope: Scope, past: Past
    ) -> tuple[Resolved, ChatRequest]:
        plan, conversation = await structured_answer(
            run, request, ObserverPlan, name=PLAN, ends=False, read=read_plan, subject="plan"
        )
        return await self._resolved(run, scope, past, plan), conversation

    async def _resolved(
        self, run: PhaseRun, scope: Scope, past: Past, plan: ObserverPlan
    ) -> Resolved:
        async with run.transaction() as session:
            return await resolved(session, scope, past, plan, run.secret)


def _told(request: ChatRequest, message: str) -> ChatRequest:
    return request.following({"role": "user", "content": message})
