"""Planning one iteration."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from services.observer.prompts import ObserverPlan, user_message
from shared.graph import context, seed_types
from shared.graph.layout import within
from shared.graph.scope import Scope
from shared.llm.phase import Model, PhaseRun
from shared.llm.structured import structured
from shared.runtime.work import Outcome
from shared.store import agents, iterations, memories
from shared.store.leases import Lease, leased_transaction
from shared.store.tables import Iteration, Step
from shared.store.words import Phase

MAX_PLAN_ITEMS = 20
"""A plan is asked to be short; one that is not is cut here, so that it cannot cost without bound."""


MEMORIES_TOKENS = 1_000
"""Of what the owner has told; the newest come first."""


@dataclass(frozen=True)
class Observe:
    model: Model
    context_tokens: int

    async def __call__(self, lease: Lease, step: Step) -> Outcome:
        """Asks for a plan; its steps are written in the transaction that ends the observe step."""
        async with leased_transaction(self.model.database, lease) as session:
            agent = await agents.get(session, lease.agent_id)
            scope = Scope(agent.owner_id, agent.id, lease.iteration_id, lease.step_id)
            await seed_types.ensure(session, agent.id)
            graph_context = await context.build(session, scope, token_budget=self.context_tokens)
            kept = await memories.active(session, agent.id)
        told = within(memories.lines(kept), MEMORIES_TOKENS)
        message = user_message(agent.mission, graph_context, told)
        run = PhaseRun(self.model, lease, agent, Phase.OBSERVER, message)
        plan = await structured(run, ObserverPlan, name="observer_plan")
        async with self.model.database.transaction() as session:
            queries, insights, dropped = await _resolved(session, scope, plan)

        async def write(session: AsyncSession) -> None:
            iteration = await session.get_one(Iteration, lease.iteration_id)
            iteration.observer_plan = {"queries": queries, "insights": insights}
            await iterations.plan_steps(session, iteration, queries=queries, insights=insights)

        return Outcome(
            {"queries": len(queries), "insights": len(insights), "dropped_references": dropped},
            write,
        )


async def _resolved(
    session: AsyncSession, scope: Scope, plan: ObserverPlan
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]:
    """The plan as steps' inputs; references to nodes become ids, and those that name none are dropped and told."""
    queries = [query.model_dump() for query in plan.queries][:MAX_PLAN_ITEMS]
    insights: list[dict[str, Any]] = []
    dropped: list[str] = []
    for insight in plan.insights[: MAX_PLAN_ITEMS - len(queries)]:
        node_ids, unknown = await context.resolve(session, scope, insight.relevant_node_ids)
        dropped += unknown
        insights.append(
            insight.model_dump() | {"relevant_node_ids": [str(node_id) for node_id in node_ids]}
        )
    return queries, insights, dropped
