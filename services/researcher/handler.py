"""Answers one query: acquisition, then construction."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from uuid import UUID

from services.researcher.acquisition import acquire
from services.researcher.construction import construct, embed_nodes
from services.researcher.query_context import QueryContext
from shared.agents import agents
from shared.database.statements import RoundTrip
from shared.enums import Phase
from shared.events.models import Query
from shared.graph import context, types
from shared.graph.entity_resolution.candidates import DUPLICATE_THRESHOLD
from shared.graph.provenance import entailment
from shared.graph.retrieval import EmbeddingSearch
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.tools import graph_construction
from shared.graph.types import NodeType
from shared.graph.validation import Validators
from shared.llm.entailment import check_entailment, is_on
from shared.llm.phase_run import Model
from shared.runtime.step_runner import StepResult
from shared.tools import Json
from shared.web_search.client import SearchClient
from shared.web_search.memory import SearchMemory
from shared.workflow import investigations, iterations
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease


@dataclass(frozen=True)
class Research:
    model: Model
    search: SearchClient
    context_tokens: int
    duplicate_threshold: float = DUPLICATE_THRESHOLD
    validators: Validators = field(default_factory=Validators)
    embedding_search: EmbeddingSearch | None = None
    surveys: context.PinnedSurveys = field(default_factory=context.PinnedSurveys)
    search_ttl: timedelta = timedelta()
    """How long an answer of the search service holds; 0: every search is made."""
    shares_searches: bool = False
    """Answers to other agents hold too."""

    async def __call__(self, lease: Lease, step: StepRow) -> StepResult:
        """Acquires a document, then builds the graph from it, if there are pages. An interrupted phase is resumed."""
        query_context = await self._load_context(lease, step)
        acquired = await acquire(
            self.model, self.search, query_context, self._memory(lease.agent_id)
        )
        if not acquired.pages:
            # Evidence can only cite pages, so construction could write nothing.
            return StepResult(_result(0, 0, repairs=acquired.repairs))
        short_ids = ShortIds(query_context.scope)
        tools = graph_construction(
            query_context.scope,
            self.validators,
            self.duplicate_threshold,
            self.embedding_search,
            acquired.pages,
            short_ids,
        )
        embeddings, written = await construct(self.model, query_context, acquired, tools, short_ids)
        await embed_nodes(
            embeddings,
            query_context.scope,
            self.embedding_search,
            written.nodes,
            sweeps=step.index == 0,
        )
        result = _result(
            len(written.nodes), len(written.edges), repairs=acquired.repairs + written.repairs
        ) | await self._check_evidence(query_context)
        answers = [UUID(request_id) for request_id in step.input.get("answers", [])]

        if not answers or not (written.nodes or written.edges):
            return StepResult(result)
        answering = investigations.mark_answered(lease.agent_id, answers, by=lease.step_id)
        return StepResult(result, [answering])

    def _memory(self, agent_id: UUID) -> SearchMemory | None:
        if not self.search_ttl:
            return None
        return SearchMemory(
            self.model.database, agent_id, self.search_ttl, is_shared=self.shares_searches
        )

    async def _check_evidence(self, query_context: QueryContext) -> Json:
        """Checks a sample of what the step has written, if the owner has given that a budget."""
        agent, scope = query_context.agent, query_context.scope
        if not is_on(agent):
            return {}
        sample = entailment.new_evidence(scope, agent.entailment_share)
        store = partial(entailment.store_verdict, scope)
        checks = await check_entailment(self.model, query_context.lease, agent, sample, store)
        return {"checks": checks} if checks else {}

    async def _load_context(self, lease: Lease, step: StepRow) -> QueryContext:
        scope = GraphScope.of(lease)
        trip = RoundTrip()
        agent = trip.ask(agents.agent_query(lease.agent_id))
        node_types = trip.ask(types.node_types_query(scope))
        now = trip.ask(iterations.CLOCK)
        async with self.model.database.connection() as connection:
            survey = await self.surveys.load(
                self.model.database, connection, scope, step, trip, token_budget=self.context_tokens
            )
        own_types = _own_type_names(node_types.value)
        return QueryContext(
            lease, agent.value, scope, Query(**step.input), survey, now.value, own_types
        )


def _result(nodes: int, edges: int, *, repairs: int) -> Json:
    counts = {"nodes": nodes, "edges": edges}
    return {**counts, "repairs": repairs} if repairs else counts


def _own_type_names(node_types: Sequence[NodeType]) -> list[str]:
    """The names of the types that configuration or the owner created."""
    return [
        node_type.name
        for node_type in node_types
        if node_type.created_by != Phase.GRAPH_CONSTRUCTION
        and node_type.name not in types.RESERVED_TYPES
    ]
