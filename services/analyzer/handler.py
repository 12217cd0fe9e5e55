"""One insight: analyses, or what they would have needed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from sqlalchemy.ext.asyncio import AsyncSession

from services.analyzer.prompts import missing_data, named_missing, user_message
from shared.agents import agents
from shared.database.tables import Step
from shared.enums import Phase
from shared.events.models import Insight
from shared.graph import context
from shared.graph.retrieval import Meaning
from shared.graph.scope import Scope
from shared.graph.tools import analysis_generation
from shared.graph.validation import Validators
from shared.llm.phase_run import Model, PhaseRun
from shared.llm.tool_loop import ToolLoop
from shared.runtime.step_runner import Outcome
from shared.workflow import investigations
from shared.workflow.leases import Lease, leased_transaction


@dataclass(frozen=True)
class Analyze:
    model: Model
    context_tokens: int
    validators: Validators = field(default_factory=Validators)
    meaning: Meaning | None = None
    shared: context.Shared = field(default_factory=context.Shared)

    async def __call__(self, lease: Lease, step: Step) -> Outcome:
        """The context is built now, when every query of the iteration has ended: it is the enriched graph."""
        insight = Insight(**step.input)
        async with leased_transaction(self.model.database, lease) as session:
            agent = await agents.read(session, lease.agent_id)
            scope = Scope(agent.owner_id, agent.id, lease.iteration_id, lease.step_id)
            nodes = await context.describe_nodes(session, scope, insight.relevant_node_ids)
            graph_context = await self.shared.of(
                session, scope, step, token_budget=self.context_tokens
            )
        answered = [each["objective"] for each in step.input.get("answered", [])]
        message = user_message(agent.mission, insight, nodes, graph_context, answered)
        run = PhaseRun(
            self.model,
            lease,
            agent,
            Phase.ANALYSIS_GENERATION,
            message,
            context=graph_context,
        )
        loop = ToolLoop(run, analysis_generation(scope, self.validators, self.meaning))
        last_words = await loop.last_words()
        analyses = [result["nodeId"] for result in loop.results_of("addAgentAnalysisNode")]
        asked_for = loop.results_of("requestInvestigation")
        missing = missing_data(last_words, concluded=bool(analyses or asked_for))
        told = list(dict.fromkeys([*(each["objective"] for each in asked_for), *missing]))
        return Outcome(
            {"analyses": analyses, "missing": told, **run.repairs_told},
            partial(_request, lease, insight, named_missing(last_words)),
        )


async def _request(
    lease: Lease, insight: Insight, named: Sequence[str], session: AsyncSession
) -> None:
    """For what was named in lines of the last words; what the tool asked for is written already."""
    assert lease.iteration_id is not None, "an insight is an iteration's"
    for line in named:
        wanted = investigations.Wanted(line, f"An analysis lacks it: {insight.observation}")
        await investigations.make(
            session, lease.agent_id, lease.iteration_id, lease.step_id, wanted
        )
