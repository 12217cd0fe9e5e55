"""Analyzes one insight."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from services.analyzer.prompts import RULES, missing_data, parse_missing_lines, user_message
from shared.agents import feedback
from shared.database.statements import Batch, BoundQuery
from shared.enums import ANALYSIS_TYPE, Phase
from shared.events.models import Insight
from shared.graph import context
from shared.graph.conclusions.readings import ConclusionReadings, outcome
from shared.graph.retrieval import EmbeddingSearch
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.tools import analysis_generation
from shared.graph.validation import Validators
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model
from shared.llm.tool_loop import ToolLoop
from shared.llm.verification import ConclusionReader, Reader
from shared.runtime.step_runner import StepResult
from shared.workflow import investigations
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease


@dataclass(frozen=True)
class Analyze:
    model: Model
    context_tokens: int
    validators: Validators = field(default_factory=Validators)
    embedding_search: EmbeddingSearch | None = None
    surveys: context.PinnedSurveys = field(default_factory=context.PinnedSurveys)

    async def __call__(self, lease: Lease, step: StepRow) -> StepResult:
        """The context is built when every query of the iteration has ended, so it includes their results."""
        insight = Insight(**step.input)
        scope, agent = GraphScope.of(lease), lease.agent
        batch = Batch()
        owner_feedback = batch.add(feedback.list_feedback(lease.agent_id))
        written = batch.add(context.written_lines(scope))
        short_ids = ShortIds(scope)
        describe_nodes = context.prepare_nodes(batch, scope, insight.relevant_node_ids, short_ids)
        async with self.model.database.connection() as connection:
            survey = await self.surveys.load(
                self.model.database,
                connection,
                scope,
                step,
                batch,
                token_budget=self.context_tokens,
                is_first=lease.is_first,
            )
            nodes = await describe_nodes(connection, [written.value])
            await short_ids.store_numbers(connection, [written.value, nodes])
        objectives = [item["objective"] for item in step.input.get("answered", [])]
        message = user_message(
            agent.mission,
            insight,
            nodes,
            survey.text,
            written.value,
            agent.clock.now,
            objectives,
            shorten=short_ids.shorten,
            owner_feedback=feedback.format_lines(owner_feedback.value),
        )
        run = PhaseRun(
            self.model,
            lease,
            agent,
            Phase.ANALYSIS_GENERATION,
            message,
            rules=RULES,
            context=survey.text,
            pinned_for=survey.pinned_for,
        )
        readings, reader = ConclusionReadings(scope), Reader(self.model, run)
        tools = analysis_generation(
            scope, self.validators, self.embedding_search, short_ids, readings
        )
        preview = ConclusionReader(reader, readings) if reader.is_on else None
        loop = ToolLoop(run, tools, short_ids=short_ids, preview=preview, correction=lambda _: "")
        answer = await loop.run()
        analyses = [result["nodeId"] for result in loop.results_of("addAgentAnalysisNode")]
        requests = loop.results_of("requestInvestigation")
        missing = missing_data(answer, has_concluded=bool(analyses or requests))
        missing_objectives = list(
            dict.fromkeys([*(item["objective"] for item in requests), *missing])
        )
        lines = parse_missing_lines(answer)
        made = [item["requestId"] for item in requests if "state" not in item]
        made += [str(investigations.request_id(lease.agent_id, line)) for line in lines]
        return StepResult(
            {
                "analyses": analyses,
                "missing": missing_objectives,
                "requests": list(dict.fromkeys(made)),
                **outcome(scope, ANALYSIS_TYPE, loop.all_results),
                **run.repair_summary,
            },
            _store_requests(lease, insight, lines),
        )


def _store_requests(
    lease: Lease, insight: Insight, lines: Sequence[str]
) -> Sequence[BoundQuery[UUID]]:
    """Stores requests for `MISSING:` lines; the tool's requests are stored already."""
    assert lease.iteration_id is not None, "an insight step has an iteration"
    reasoning = f"An analysis lacks it: {insight.observation}"
    return [
        investigations.create_request(
            lease.agent_id,
            lease.iteration_id,
            lease.step_id,
            investigations.MissingData(line, reasoning),
        )
        for line in lines
    ]
