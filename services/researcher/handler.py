"""Answers one query: acquisition, then construction."""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

from services.researcher.acquisition import Acquired, QueryContext, acquire
from services.researcher.construction import WrittenElements, construct, embed_nodes
from services.researcher.not_found import Statement, by_request, stems, wanted_stems
from shared.database.statements import Batch, BoundQuery, CompiledStatement, Row, uuid_array
from shared.events.models import Query
from shared.graph import context
from shared.graph.entity_resolution.relations import DUPLICATE_THRESHOLD
from shared.graph.provenance import readings
from shared.graph.retrieval import EmbeddingSearch
from shared.graph.scope import OWNED_AGENT_ID_SQL, GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.tools import graph_construction
from shared.graph.validation import Validators
from shared.llm.paid_calls import summary
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model
from shared.llm.verification import Reader, read_sample
from shared.runtime.step_runner import StepResult
from shared.tools import Json
from shared.urls import normalize_url, urls_in
from shared.web_search.client import SearchClient
from shared.web_search.memory import SearchMemory
from shared.workflow import investigations
from shared.workflow.investigations import Answer
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease
from shared.workflow.questions import split_words


@dataclass
class RequestOutcomes:
    answers: dict[UUID, Answer] = field(default_factory=dict)
    """For each request, the text that answers it or a part of it."""
    lacking: dict[UUID, str] = field(default_factory=dict)
    """For each request, the part that the document does not answer."""
    not_found: dict[UUID, str | None] = field(default_factory=dict)
    unanswered: list[UUID] = field(default_factory=list)
    """Requests that were not found, and those that stay open because nothing that was written bears on them."""


def settle_requests(
    requests: Mapping[UUID, str],
    mission: str,
    statements: Sequence[Statement],
    written: Answer,
    texts: Mapping[UUID, str],
) -> RequestOutcomes:
    """Compares the objectives of the requests with the `texts` of the elements that were `written`, by id.

    A request is answered by the elements that have a word of it beyond the words of the mission; if the document also
    says what it lacks, in part. If the document says so of the whole request, only elements with all its words answer it.
    It was not found if nothing was written, or if the document says so of this one and not of all requests of the query,
    or if nothing answers it. Otherwise it stays open.
    """
    outcomes = RequestOutcomes(lacking=by_request(statements, requests))
    lacks_all = len(outcomes.lacking) == len(requests)
    written_stems = {element_id: {*stems(text)} for element_id, text in texts.items()}
    for request_id, objective in requests.items():
        lacks = request_id in outcomes.lacking
        lacks_whole = lacks and wanted_stems(objective) <= {*stems(outcomes.lacking[request_id])}
        own = wanted_stems(objective) if lacks_whole else _distinctive(objective, mission)
        bearing = {
            element_id
            for element_id, found in written_stems.items()
            if (own <= found if lacks_whole else own & found)
        }
        answer = Answer(
            [each for each in written.nodes if not own or each in bearing],
            [each for each in written.edges if not own or each in bearing],
        )
        if any(answer) and (lacks_all or not lacks):
            outcomes.answers[request_id] = answer
            continue
        outcomes.unanswered.append(request_id)
        if lacks or not any(written):
            outcomes.not_found[request_id] = outcomes.lacking.get(request_id)
    return outcomes


def _distinctive(objective: str, mission: str) -> set[str]:
    """The stems of the objective's words that the mission lacks; without any, those of its names, or of all its words.

    A figure, such as a year, only counts if there is nothing else. Empty if the objective says nothing that can be
    compared.
    """
    everything = wanted_stems(objective)
    names = everything & {
        stem for word in split_words(objective) if word.is_name for stem in stems(word.text)
    }
    beyond_mission = everything - set(stems(mission))
    for candidates in (beyond_mission, names, everything):
        if texts := {stem for stem in candidates if not stem.isdigit()}:
            return texts
        if candidates:
            return candidates
    return set()


_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
# Evidence that an earlier step stored too keeps the id of that step. Then all that the element has counts.
_TEXTS: Final = CompiledStatement(f"""
with written as (
  select id, 'node' as kind, name, properties from graph_nodes
  where agent_id = {OWNED_AGENT_ID_SQL} and id = any(cast(:ids as uuid[]))
  union all
  select edge.id, 'edge', concat_ws(' ', source.name, edge.type, target.name), edge.properties
  from graph_edges as edge
  join graph_nodes as source on source.id = edge.source_id
  join graph_nodes as target on target.id = edge.target_id
  where (edge.agent_id = {OWNED_AGENT_ID_SQL}) is true and edge.id = any(cast(:ids as uuid[]))
)
select written.id, written.name, written.properties, evidence.claims, evidence.step_id = :of_step as is_own,
  extract(year from evidence.valid_from) as year,
  convert_from(substring(convert_to(sources.text, 'UTF8'), first_byte + 1, end_byte - first_byte), 'UTF8') as quote
from written
left join evidence on case written.kind when 'node' then evidence.node_id else evidence.edge_id end = written.id
left join sources on sources.id = evidence.source_id
""")


def written_texts(
    scope: GraphScope, step_id: UUID, element_ids: Collection[UUID]
) -> BoundQuery[Mapping[UUID, str]]:
    """Loads, by id of the node or edge, its name with the values and quotes that the step wrote."""

    def read(rows: list[Row]) -> Mapping[UUID, str]:
        with_own = {row.id for row in rows if row.is_own}
        parts: dict[UUID, list[str]] = {}
        for row in rows:
            texts = parts.setdefault(row.id, [row.name])
            if row.id not in with_own:
                texts += [_words(row.properties), row.quote or ""]
            elif row.is_own:
                texts += [_words(row.claims), row.quote, str(row.year or "")]
        return {element_id: "\n".join(texts) for element_id, texts in parts.items()}

    params = {**scope.sql_params, "of_step": step_id, "ids": uuid_array(element_ids)}
    return BoundQuery(_TEXTS, params, lambda rows: read(list(rows)))


def _words(properties: Mapping[str, Any]) -> str:
    """The properties as text, with the words of their names apart."""
    return "\n".join(
        f"{_HUMP.sub(' ', name)}: {json.dumps(value, ensure_ascii=False)}"
        for name, value in properties.items()
    )


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
            outcome, writes = await self._close_requests(step, query_context, acquired, nothing)
            return StepResult(result | outcome, writes)
        short_ids = ShortIds(query_context.scope)
        tools = graph_construction(
            query_context.scope,
            self.validators,
            self.duplicate_threshold,
            self.embedding_search,
            acquired.pages,
            short_ids,
        )
        run, embeddings, written = await construct(
            self.model, query_context, acquired, tools, short_ids
        )
        await embed_nodes(
            embeddings,
            query_context.scope,
            self.embedding_search,
            written.nodes,
            sweeps=step.index == 0,
        )
        result = _result(acquired, written, query_context.query)
        result |= await self._read_sample(run, query_context)
        outcome, writes = await self._close_requests(step, query_context, acquired, written)
        return StepResult(result | outcome, writes)

    async def _close_requests(
        self,
        step: StepRow,
        query_context: QueryContext,
        acquired: Acquired,
        written: WrittenElements,
    ) -> tuple[Json, list[BoundQuery[None]]]:
        """Returns what the result says of the query's requests, and the writes that record their outcome."""
        if not query_context.requests:
            return {}, []
        elements = [*written.nodes, *written.edges]
        texts: Mapping[UUID, str] = {}
        if elements:
            if query_context.lease.unit is not None:
                await query_context.lease.unit.commit()  # the elements may be waiting for it
            loading = written_texts(query_context.scope, step.id, elements)
            texts = await self.model.database.run(loading)
        outcomes = settle_requests(
            query_context.requests,
            query_context.agent.mission,
            () if written.is_rescued else acquired.not_found,
            Answer(written.nodes, written.edges),
            texts,
        )
        writes = [
            investigations.mark_answered(
                step.agent_id,
                outcomes.answers,
                by=step.id,
                not_found=outcomes.lacking,
                unanswered=outcomes.unanswered,
            ),
            investigations.mark_not_found(step.agent_id, outcomes.not_found),
        ]
        unanswered = [str(each) for each in outcomes.unanswered]
        return {"unanswered": unanswered} if unanswered else {}, writes

    def _memory(self, agent_id: UUID) -> SearchMemory | None:
        if not self.search_ttl:
            return None
        return SearchMemory(
            self.model.database, agent_id, self.search_ttl, is_shared=self.shares_searches
        )

    async def _read_sample(self, run: PhaseRun, query_context: QueryContext) -> Json:
        """Has a model read a sample of what the step has written."""
        scope, share = query_context.scope, query_context.lease.agent.entailment_share
        checks = await read_sample(
            Reader(self.model, run),
            readings.new_evidence(scope, share),
            partial(readings.store_verdicts, scope),
        )
        return {"checks": checks} if checks else {}

    async def _load_context(self, lease: Lease, step: StepRow) -> QueryContext:
        scope = GraphScope.of(lease)
        batch = Batch()
        query = Query(**step.input)
        named = " ".join([query.objective, *query.search_hints])
        known = batch.add(context.known_facts(scope, named))
        request_ids = [UUID(request_id) for request_id in step.input.get("answers", [])]
        requests = (
            batch.add(investigations.objectives_of(lease.agent_id, request_ids))
            if request_ids
            else None
        )
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
        return QueryContext(
            lease,
            scope,
            query,
            survey,
            lease.agent.clock.now,
            known.value,
            requests.value if requests else {},
        )


def _result(acquired: Acquired, written: WrittenElements, query: Query) -> Json:
    """The result of the step. `read` lists the addresses in the objective whose pages were read."""
    result: Json = {"nodes": len(written.nodes), "edges": len(written.edges)}
    result |= summary(acquired.repairs + written.repairs, [*acquired.notes, *written.notes])
    if acquired.not_found and not written.is_rescued:
        result["not_found"] = list(dict.fromkeys(each.text for each in acquired.not_found))
    pages = {normalize_url(page.url) for page in acquired.pages}
    if read := [url for url in urls_in(query.objective) if normalize_url(url) in pages]:
        result["read"] = read
    return result
