"""Graph construction: from a document to nodes and edges, and their embeddings."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

from services.researcher.acquisition import Acquired, QueryContext, Sentence, headings
from services.researcher.prompts import CONSTRUCTION_RULES, construction_message, facts_message
from shared.billing.embedding_cache import Vector
from shared.database.transaction import Transaction
from shared.enums import Phase
from shared.graph.provenance.numbered_pages import NumberedPage
from shared.graph.retrieval import EmbeddingSearch
from shared.graph.retrieval.embedding_backlog import EmbeddingBatch, plan_step_batches, plan_sweep
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.tools import GraphTools
from shared.graph.tools.write_tools import AddGraphEdge, AddGraphNode
from shared.llm.embeddings import EmbeddingOutcome, Embeddings
from shared.llm.messages import wrap_section
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model
from shared.llm.structured_output import (
    UnusableAnswerError,
    request_structured_answer,
    response_format,
)
from shared.llm.tool_loop import ToolLoop
from shared.llm.toolset import Calls, ToolUse
from shared.tools import Json, ToolRefusalError

MAX_FACTS: Final = 5
_SENTENCES_BESIDE: Final = 2
NAME: Final = "facts"
"""The name of the structured answer."""


class Fact(BaseModel):
    model_config = ConfigDict(extra="forbid")

    sentence: int = Field(description="The number of the sentence.")
    name: str = Field(description="The name of the one thing that the sentence is about.")
    type: str = Field(description="The node type of that thing.")


class Facts(BaseModel):
    model_config = ConfigDict(extra="forbid")

    facts: list[Fact] = Field(max_length=MAX_FACTS)


@dataclass(frozen=True)
class SentenceFacts:
    """A `Fallback` of graph construction. Needed if nothing was written although there are sentences to quote."""

    query_context: QueryContext
    sentences: Sequence[Sentence]
    urls: Sequence[str]
    """Addresses of the pages, by number."""
    repair: str = (
        "Construction had written nothing, so the model chose facts by the numbers of sentences."
    )

    @classmethod
    def of(cls, query_context: QueryContext, acquired: Acquired) -> "SentenceFacts | None":
        """None if there is nothing to choose from."""
        if not acquired.sentences or not query_context.survey.own_types:
            return None
        return cls(query_context, acquired.sentences, [page.url for page in acquired.pages])

    def is_needed(self, loop: ToolLoop) -> bool:
        return not loop.results_of("addGraphNode") and not loop.results_of("addGraphEdge")

    async def find_calls(self, run: PhaseRun) -> Calls:
        message = facts_message(
            self.query_context.agent.mission,
            self.query_context.query,
            self._pages(),
            self.query_context.survey.own_types,
        )
        request = run.fresh_request(message, response_format(Facts, NAME))
        try:
            facts, _ = await request_structured_answer(run, request, Facts, name=NAME)
        except UnusableAnswerError:
            return []
        return [
            ("addGraphNode", self._node(fact))
            for fact in facts.facts
            if 1 <= fact.sentence <= len(self.sentences) and fact.name.strip()
            if self._node_type(fact.type) is not None
            if self._url(self.sentences[fact.sentence - 1]) not in run.left_out
        ]

    def _pages(self) -> dict[str, list[str]]:
        """Lines with the sentences and their numbers, by address of their page."""
        pages: dict[str, list[str]] = {}
        for number, sentence in enumerate(self.sentences, start=1):
            pages.setdefault(self._url(sentence), []).append(f"{number}. {sentence.text}")
        return pages

    def _url(self, sentence: Sentence) -> str:
        return self.urls[sentence.page - 1]

    def _node(self, fact: Fact) -> Json:
        sentence = self.sentences[fact.sentence - 1]
        return {
            "type": self._node_type(fact.type),
            "name": fact.name,
            "properties": {"summary": sentence.text},
            "sentences": [f"{sentence.page}.{sentence.number}"],
        }

    def _node_type(self, name: str) -> str | None:
        """The type of that name in any capitals; None if there is none."""
        by_name = {known.casefold(): known for known in self.query_context.survey.own_types}
        return by_name.get(name.strip().casefold())


@dataclass(frozen=True)
class WrittenElements:
    """The distinct nodes and edges that were created or updated."""

    nodes: Sequence[UUID]
    edges: Sequence[UUID]
    repairs: int = 0
    """Repairs of the model's tool calls by code."""
    notes: Sequence[str] = ()
    """Notes for the owner, such as pages that were left out of the run."""
    is_rescued: bool = False
    """Whether they are the facts that the model chose after it had written nothing."""


async def construct(
    model: Model,
    query_context: QueryContext,
    acquired: Acquired,
    tools: GraphTools,
    short_ids: ShortIds | None = None,
) -> tuple[PhaseRun, Embeddings | None, WrittenElements]:
    """Runs the construction phase. Also returns its run, and the embeddings client; None if embedding search is off."""
    message = construction_message(
        query_context.agent.mission,
        query_context.query,
        acquired.document,
        acquired.sources,
        query_context.survey.text,
        acquired.known_nodes,
        query_context.now,
    )
    run = PhaseRun(
        model,
        query_context.lease,
        query_context.agent,
        Phase.GRAPH_CONSTRUCTION,
        message,
        rules=CONSTRUCTION_RULES,
        # Acquisition has pinned it.
        context=query_context.survey.text,
    )
    loop = ToolLoop(
        run,
        tools,
        must_act=True,
        fallback=SentenceFacts.of(query_context, acquired),
        short_ids=short_ids,
        correction=partial(cited_passages, acquired.pages),
    )
    await loop.run()
    written = WrittenElements(
        nodes=_distinct_ids(loop.results_of("addGraphNode"), "nodeId"),
        edges=_distinct_ids(loop.results_of("addGraphEdge"), "edgeId"),
        repairs=run.repair_count,
        notes=run.notes,
        is_rescued=loop.has_fallen_back and bool(loop.results_of("addGraphNode")),
    )
    return run, loop.embeddings, written


def cited_passages(pages: Sequence[NumberedPage], uses: Sequence[ToolUse]) -> str:
    """The sentences that refused calls cite, with those beside them, in the form of a document; empty without any."""
    numbers: dict[int, set[int]] = {}
    for use in uses:
        if not isinstance(use.arguments, AddGraphNode | AddGraphEdge):
            continue
        with suppress(ToolRefusalError):  # Evidence that cannot be read has no sentences to show.
            for entry in use.arguments.all_evidence:
                if entry.page is not None and 1 <= entry.page <= len(pages):
                    for number in entry.sentences or ():
                        beside = range(number - _SENTENCES_BESIDE, number + _SENTENCES_BESIDE + 1)
                        numbers.setdefault(entry.page, set()).update(beside)
    headed = headings(pages)
    blocks = [
        "\n".join([headed[page - 1], "", *lines])
        for page in sorted(numbers)
        if (lines := _numbered_lines(pages[page - 1], page, sorted(numbers[page])))
    ]
    return wrap_section("document", "\n\n".join(blocks)) if blocks else ""


def _numbered_lines(page: NumberedPage, number: int, sentences: Sequence[int]) -> list[str]:
    found = ((each, page.find(each)) for each in sentences)
    return [
        f"[{number}.{each}] {sentence.text}" for each, sentence in found if sentence is not None
    ]


def _distinct_ids(results: Sequence[Json], key: str) -> list[UUID]:
    return [UUID(element_id) for element_id in dict.fromkeys(result[key] for result in results)]


StoreVectors = Callable[[EmbeddingBatch, Transaction, Sequence[Vector]], Awaitable[None]]


async def embed_nodes(
    embeddings: Embeddings | None,
    scope: GraphScope,
    embedding_search: EmbeddingSearch | None,
    node_ids: Sequence[UUID],
    *,
    sweeps: bool,
) -> None:
    """Embeds the nodes `node_ids` of this step, and if `sweeps`, other nodes without an embedding.

    Does nothing if embeddings are not configured; after a failure, a later step embeds the same nodes.
    """
    if embedding_search is None or embeddings is None:
        return
    async with embeddings.run.unit.transaction() as transaction:
        batches = await plan_step_batches(transaction, scope, embedding_search, node_ids)
    await _embed(embeddings, batches, EmbeddingBatch.store)
    if sweeps:
        await _sweep(embeddings, scope, embedding_search)


async def _sweep(
    embeddings: Embeddings, scope: GraphScope, embedding_search: EmbeddingSearch
) -> None:
    async with embeddings.run.unit.transaction() as transaction:
        sweep_result = await plan_sweep(transaction, scope, embedding_search)
    if sweep_result is not None and await _embed(
        embeddings, sweep_result.batches, sweep_result.store
    ):
        await embeddings.run.record_in_transaction(sweep_result.end)


async def _embed(
    embeddings: Embeddings, batches: Sequence[EmbeddingBatch], store: StoreVectors
) -> bool:
    """Embeds the batches in order; whether all were handled.

    A rejected text is skipped, unless every text is rejected: then the cause is not the texts.
    """
    remaining, has_stored, was_refused = deque(batches), False, False
    while remaining:
        batch = remaining.popleft()
        match await embeddings.fetch_and_store(batch.request, partial(store, batch)):
            case EmbeddingOutcome.STORED:
                has_stored = True
            case EmbeddingOutcome.REFUSED:
                was_refused = True
                remaining.extendleft(reversed(batch.halves))
            case EmbeddingOutcome.FAILED:
                return False
    return has_stored or not was_refused
