"""Evaluates the analyses of one iteration."""

from dataclasses import dataclass
from uuid import UUID

from services.adviser.prompts import user_message
from shared.agents import agents
from shared.database.tables import Step
from shared.enums import Phase
from shared.graph import context
from shared.graph.retrieval import EmbeddingSearch
from shared.graph.scope import GraphScope
from shared.graph.tools import advice_generation
from shared.llm.phase_run import Model, PhaseRun
from shared.llm.tool_loop import ToolLoop
from shared.runtime.step_runner import StepResult
from shared.workflow.leases import Lease


@dataclass(frozen=True)
class Advise:
    model: Model
    context_tokens: int
    embedding_search: EmbeddingSearch | None = None

    async def __call__(self, lease: Lease, step: Step) -> StepResult:
        analysis_ids = [UUID(analysis_id) for analysis_id in step.input["analysis_ids"]]
        async with self.model.database.connection() as connection:
            agent = await agents.load_agent(connection, lease.agent_id)
            scope = GraphScope(agent.owner_id, agent.id, lease.iteration_id, lease.step_id)
            analyses = await context.describe_analyses(connection, scope, analysis_ids)
            graph_context = await context.build_survey(
                connection, scope, token_budget=self.context_tokens
            )
        message = user_message(agent.mission, analyses, graph_context)
        run = PhaseRun(
            self.model, lease, agent, Phase.ADVICE_GENERATION, message, context=graph_context
        )
        loop = ToolLoop(run, advice_generation(scope, self.embedding_search))
        reason = await loop.run()
        advice = [
            {"id": result["nodeId"], "action": result["action"]}
            for result in loop.results_of("addAgentAdviceNode")
        ]
        return StepResult({"advice": advice, "reason": reason.strip(), **run.repair_summary})
