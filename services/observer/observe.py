"""Planning one iteration."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from services.observer.past import Past, look_back
from services.observer.plan import Resolved, resolved
from services.observer.prompts import ObserverPlan, again_message, user_message
from shared.graph import context, seed_types
from shared.graph.layout import within
from shared.graph.scope import Scope
from shared.llm.phase import Model, PhaseRun
from shared.llm.structured import response_format, structured_answer
from shared.runtime.work import Outcome
from shared.store import agents, investigations, iterations, memories, steps
from shared.store.leases import Lease, leased_transaction
from shared.store.tables import Step
from shared.store.words import Phase

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
            await seed_types.ensure(session, agent.id)
            graph_context = await context.build(session, scope, token_budget=self.context_tokens)
            kept = await memories.active(session, agent.id)
            iteration = await steps.iteration_of(session, step)
            past = await look_back(session, scope, iteration)
        told = within(memories.lines(kept), MEMORIES_TOKENS)
        message = user_message(agent.mission, graph_context, told)
        run = PhaseRun(self.model, lease, agent, Phase.OBSERVER, message)
        plan = await self._plan(run, scope, past)

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

        return Outcome(plan.counts, write)

    async def _plan(self, run: PhaseRun, scope: Scope, past: Past) -> Resolved:
        """What repeats, or tells instructions, is told once, and asked to be planned anew; what still does is left out.

        The run is not complete before that is known, so it is completed where the step ends.
        """
        request = await run.begin(response_format=response_format(ObserverPlan, PLAN))
        given, request = await structured_answer(run, request, ObserverPlan, name=PLAN, ends=False)
        plan = await self._resolved(run, scope, past, given)
        if not plan.repeats and not plan.telling:
            return plan
        told = {"role": "user", "content": again_message(plan.repeats, plan.telling)}
        again, _ = await structured_answer(
            run, request.following(told), ObserverPlan, name=PLAN, ends=False
        )
        return await self._resolved(run, scope, past, again)

    async def _resolved(
        self, run: PhaseRun, scope: Scope, past: Past, plan: ObserverPlan
    ) -> Resolved:
        async with run.transaction() as session:
            return await resolved(session, scope, past, plan, run.secret)
