"""Evaluates the analyses of one iteration."""

from dataclasses import dataclass
from uuid import UUID

from services.adviser.prompts import rules, user_message
from shared.agents import feedback, memories
from shared.database.statements import Batch
from shared.enums import ADVICE_TYPE, Phase, StepKind
from shared.graph import context
from shared.graph.conclusions import position_store
from shared.graph.conclusions.readings import ConclusionReadings, outcome
from shared.graph.prompt_format import truncate_to_budget
from shared.graph.retrieval import EmbeddingSearch
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.tools import advice_generation
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model
from shared.llm.tool_loop import ToolLoop
from shared.llm.verification import ConclusionReader, Reader
from shared.runtime.step_runner import StepResult
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease

MAX_MEMORIES_TOKENS = 500
"""Token budget of the owner's memories, newest first."""


@dataclass(frozen=True)
class Advise:
    model: Model
    context_tokens: int
    embedding_search: EmbeddingSearch | None = None

    async def __call__(self, lease: Lease, step: StepRow) -> StepResult:
        analysis_ids = [UUID(analysis_id) for analysis_id in step.input["analysis_ids"]]
        scope, agent = GraphScope.of(lease), lease.agent
        batch = Batch()
        analyses = batch.add(context.analyses_query(scope, analysis_ids))
        owner_feedback = batch.add(feedback.list_feedback(lease.agent_id))
        owner_memories = batch.add(memories.list_active(lease.agent_id))
        known_positions = position_store.prepare_open(batch, scope)
        survey = context.prepare_survey(
            batch,
            scope,
            StepKind.ADVISE,
            token_budget=self.context_tokens,
            shown=analysis_ids,
        )
        short_ids = ShortIds(scope)
        async with self.model.database.connection_after(batch) as connection:
            positions, standing_advice = known_positions.value, ""
            if positions is not None:
                standing_advice = await position_store.load_lines(
                    connection, scope, agent.clock, positions
                )
            await short_ids.store_numbers(
                connection, [analyses.value, survey.value, standing_advice]
            )
        if positions is None:
            async with self.model.database.transaction() as transaction:
                positions = await position_store.load_open(transaction, scope)
                standing_advice = await position_store.load_lines(
                    transaction, scope, agent.clock, positions
                )
                await short_ids.store_numbers(transaction, [standing_advice])
        graph_context = short_ids.shorten(survey.value)
        message = user_message(
            agent.mission,
            short_ids.shorten(analyses.value),
            graph_context,
            agent.clock.now,
            truncate_to_budget(
                memories.format_lines(owner_memories.value),
                scope.budget_bytes(MAX_MEMORIES_TOKENS),
            ),
            feedback.format_lines(owner_feedback.value),
            short_ids.shorten(standing_advice),
        )
        run = PhaseRun(
            self.model,
            lease,
            agent,
            Phase.ADVICE_GENERATION,
            message,
            rules=rules(from_one_analysis=agent.advice_from_one_analysis),
            context=graph_context,
        )
        readings, reader = ConclusionReadings(scope), Reader(self.model, run)
        tools = advice_generation(scope, agent.actions, self.embedding_search, short_ids, readings)
        preview = ConclusionReader(reader, readings) if reader.is_on else None
        loop = ToolLoop(run, tools, short_ids=short_ids, preview=preview, correction=lambda _: "")
        reason = await loop.run()
        advice = [
            {"id": result["nodeId"], "action": result["action"]}
            for result in loop.results_of("addAgentAdviceNode")
        ]
        reviewed = loop.results_of("reviewAdvice")
        return StepResult(
            {
                "advice": advice,
                "reason": reason.strip(),
                **({"reviewed": reviewed} if reviewed else {}),
                **outcome(scope, ADVICE_TYPE, loop.all_results),
                **run.repair_summary,
            }
        )
