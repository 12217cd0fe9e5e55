"""Answers one query: acquisition, then construction."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from uuid import UUID

from services.researcher.acquisition import Acquired, acquire
from services.researcher.construction import WrittenElements, construct, embed_nodes
from services.researcher.not_found import by_request
from services.researcher.query_context import QueryContext
from shared.agents import agents
from shared.database.statements import BoundQuery, RoundTrip
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
from shared.llm.phase_run import Model, summary
from shared.runtime.step_runner import StepResult
from shared.tools import Json
from shared.urls import normalize_url, urls_in
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
            nothing = WrittenElements((), ())
            result = _result(acquired, nothing, query_context.query)
            return StepResult(result, await self._close_requests(step, acquired, nothing))
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
        result = _result(acquired, written, query_context.query)
        result |= await self._check_evidence(query_context)
        return StepResult(result, await self._close_requests(step, acquired, written))

    async def _close_requests(
        self, step: StepRow, acquired: Acquired, written: WrittenElements
    ) -> list[BoundQuery[None]]:
        """Returns the writes that record the outcome of the query's requests.

        A request is answered by what was written; if the document also says what it lacks, in part. It was not found
        if nothing was written.
        """
        requests = [UUID(request_id) for request_id in step.input.get("answers", [])]
        if not requests:
            return []
        not_found: dict[UUID, str | None] = {}
        if not (written.nodes or written.edges):
            not_found = dict.fromkeys(requests)
        if acquired.not_found:
            objectives = investigations.objectives_of(step.agent_id, requests)
            not_found |= by_request(acquired.not_found, await self.model.database.run(objectives))
        if not (written.nodes or written.edges):
            return [investigations.mark_not_found(step.agent_id, not_found)]
        return [
            investigations.mark_answered(
                step.agent_id,
                requests,
                by=step.id,
                nodes=written.nodes,
                edges=written.edges,
                not_found=not_found,
            )
        ]

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


def _result(acquired: Acquired, written: WrittenElements, query: Query) -> Json:
    """The result of the step. `read` lists the addresses in the objective whose pages were read."""
    result: Json = {"nodes": len(written.nodes), "edges": len(written.edges)}
    result |= summary(acquired.repairs + written.repairs, [*acquired.notes, *written.notes])
    if acquired.not_found:
        result["not_found"] = acquired.not_found
    pages = {normalize_url(page.url) for page in acquired.pages}
    if read := [url for url in urls_in(query.objective) if normalize_url(url) in pages]:
        result["read"] = read
    return result


def _own_type_names(node_types: Sequence[NodeType]) -> list[str]:
    """The names of the types that configuration or the owner created."""
    return [
        node_type.name
        for node_type in node_types
        if node_type.created_by != Phase.GRAPH_CONSTRUCTION
        and node_type.name not in types.RESERVED_TYPES
    ]
