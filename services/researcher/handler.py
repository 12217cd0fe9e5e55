"""Answers one query: acquisition, then construction."""

from dataclasses import dataclass, field
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.researcher.acquisition import acquire
from services.researcher.construction import construct, embed_nodes
from services.researcher.query_context import QueryContext
from shared.agents import agents
from shared.database.statements import Executor
from shared.database.tables import Step
from shared.enums import Phase
from shared.events.models import Query
from shared.graph import context, types
from shared.graph.entity_resolution.candidates import DUPLICATE_THRESHOLD
from shared.graph.retrieval import EmbeddingSearch
from shared.graph.scope import GraphScope
from shared.graph.tools import graph_construction
from shared.graph.validation import Validators
from shared.llm.phase_run import Model
from shared.runtime.step_runner import StepResult
from shared.tools import Json
from shared.web_search.client import SearchClient
from shared.workflow import investigations
from shared.workflow.leases import Lease


@dataclass(frozen=True)
class Research:
    model: Model
    search: SearchClient
    context_tokens: int
    duplicate_threshold: float = DUPLICATE_THRESHOLD
    validators: Validators = field(default_factory=Validators)
    embedding_search: EmbeddingSearch | None = None
    shared: context.SharedSurvey = field(default_factory=context.SharedSurvey)

    async def __call__(self, lease: Lease, step: Step) -> StepResult:
        """Acquires a document, then builds the graph from it, if there are pages. An interrupted phase is resumed."""
        query_context = await self._load_context(lease, step)
        acquired = await acquire(self.model, self.search, query_context)
        if not acquired.sources:
            # Evidence can only cite pages, so construction could write nothing.
            return StepResult(_result(0, 0, repairs=acquired.repairs))
        tools = graph_construction(
            query_context.scope, self.validators, self.duplicate_threshold, self.embedding_search
        )
        embeddings, written = await construct(self.model, query_context, acquired, tools)
        await embed_nodes(
            embeddings,
            query_context.scope,
            self.embedding_search,
            written.nodes,
            sweeps=step.index == 0,
        )
        result = _result(
            len(written.nodes), len(written.edges), repairs=acquired.repairs + written.repairs
        )
        answers = [UUID(request_id) for request_id in step.input.get("answers", [])]

        async def answer_requests(session: AsyncSession) -> None:
            await investigations.mark_answered(session, lease.agent_id, answers, by=lease.step_id)

        has_answered = answers and (written.nodes or written.edges)
        return StepResult(result, answer_requests if has_answered else None)

    async def _load_context(self, lease: Lease, step: Step) -> QueryContext:
        async with self.model.database.connection() as connection:
            agent = await agents.load_agent(connection, lease.agent_id)
            scope = GraphScope(agent.owner_id, agent.id, lease.iteration_id, lease.step_id)
            survey = await self.shared.of(connection, scope, step, token_budget=self.context_tokens)
            node_types = await _own_node_types(connection, scope)
        return QueryContext(lease, agent, scope, Query(**step.input), survey, node_types)


def _result(nodes: int, edges: int, *, repairs: int) -> Json:
    counts = {"nodes": nodes, "edges": edges}
    return {**counts, "repairs": repairs} if repairs else counts


async def _own_node_types(session: Executor, scope: GraphScope) -> list[str]:
    """The names of the types that configuration or the owner created."""
    return [
        node_type.name
        for node_type in await types.list_node_types(session, scope)
        if node_type.created_by != Phase.GRAPH_CONSTRUCTION
        and node_type.name not in types.RESERVED_TYPES
    ]
