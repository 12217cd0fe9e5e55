"""Evaluates the analyses of one iteration."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from services.adviser.prompts import rules, user_message
from shared.agents import feedback, memories
from shared.database.statements import Batch
from shared.enums import Phase, StepKind
from shared.graph import context
from shared.graph.conclusions import position_store
from shared.graph.prompt_format import truncate_to_budget
from shared.graph.provenance import entailment
from shared.graph.retrieval import EmbeddingSearch
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.tools import advice_generation
from shared.llm.entailment import check_entailment, is_on
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model
from shared.llm.tool_loop import ToolLoop
from shared.runtime.step_runner import StepResult
from shared.tools import Json
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
        known_positions = position_store.prepare_lines(batch, scope, agent.clock)
        survey = context.prepare_survey(
            batch,
            scope,
            StepKind.ADVISE,
            token_budget=self.context_tokens,
            shown=analysis_ids,
        )
        short_ids = ShortIds(scope)
        async with self.model.database.connection_after(batch) as connection:
            standing_advice = known_positions.value
            shown = [analyses.value, survey.value, standing_advice or ""]
            await short_ids.store_numbers(connection, shown)
        if standing_advice is None:
            async with self.model.database.transaction() as transaction:
                standing_advice = await position_store.load_lines(transaction, scope, agent.clock)
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
        tools = advice_generation(scope, agent.actions, self.embedding_search, short_ids)
        loop = ToolLoop(run, tools, short_ids=short_ids)
        reason = await loop.run()
        advice = [
            {"id": result["nodeId"], "action": result["action"]}
            for result in loop.results_of("addAgentAdviceNode")
        ]
        result = {"advice": advice, "reason": reason.strip(), **run.repair_summary}
        if reviewed := loop.results_of("reviewAdvice"):
            result["reviewed"] = reviewed
        if advice and is_on(agent):
            result |= await self._check_evidence(lease, scope, advice)
        return StepResult(result)

    async def _check_evidence(
        self, lease: Lease, scope: GraphScope, advice: Sequence[Json]
    ) -> Json:
        """Checks all that the advice rests on."""
        evidence = entailment.evidence_below(scope, [UUID(each["id"]) for each in advice])
        store = partial(entailment.store_verdict, scope)
        checks = await check_entailment(self.model, lease, evidence, store)
        return {"checks": checks} if checks else {}
