"""One query: from what is not known to nodes and edges."""

from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.researcher.acquisition import acquire
from services.researcher.construction import construct, embed_nodes
from services.researcher.query_context import Situation
from shared.agents import agents
from shared.database.tables import Step
from shared.events.models import Query
from shared.graph import context
from shared.graph.entity_resolution.candidates import LIKENESS
from shared.graph.retrieval import Meaning
from shared.graph.scope import Scope
from shared.graph.tools import graph_construction
from shared.graph.validation import Validators
from shared.llm.phase_run import Model
from shared.runtime.step_runner import Outcome
from shared.web_search.client import SearchClient
from shared.workflow import investigations
from shared.workflow.leases import Lease, leased_transaction


@dataclass(frozen=True)
class Research:
    model: Model
    search: SearchClient
    context_tokens: int
    name_likeness: float = LIKENESS
    validators: Validators = field(default_factory=Validators)
    meaning: Meaning | None = None
    shared: context.Shared = field(default_factory=context.Shared)

    async def __call__(self, lease: Lease, step: Step) -> Outcome:
        """Acquires a document, then builds the graph from it. Each phase goes on where it was interrupted."""
        situation = await self._situation(lease, step)
        acquired = await acquire(self.model, self.search, situation)
        tools = graph_construction(
            situation.scope, self.validators, self.name_likeness, self.meaning
        )
        embeddings, written = await construct(self.model, situation, acquired, tools)
        await embed_nodes(
            embeddings, situation.scope, self.meaning, written.nodes, sweeps=step.index == 0
        )
        result = {"nodes": len(written.nodes), "edges": len(written.edges)}
        if repairs := acquired.repairs + written.repairs:
            result["repairs"] = repairs
        answers = [UUID(request_id) for request_id in step.input.get("answers", [])]

        async def answer(session: AsyncSession) -> None:
            await investigations.answer(session, lease.agent_id, answers, by=lease.step_id)

        has_answered = answers and (written.nodes or written.edges)
        return Outcome(result, answer if has_answered else None)

    async def _situation(self, lease: Lease, step: Step) -> Situation:
        async with leased_transaction(self.model.database, lease) as session:
            agent = await agents.read(session, lease.agent_id)
            scope = Scope(agent.owner_id, agent.id, lease.iteration_id, lease.step_id)
            graph_context = await self.shared.of(
                session, scope, step, token_budget=self.context_tokens
            )
        return Situation(lease, agent, scope, Query(**step.input), graph_context)
