"""Answers a question in a conversation: context, tool loop, citations, summary."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal
from uuid import UUID

from pydantic import Field
from sqlalchemy import select

from services.assistant import history
from services.assistant.history import ConversationSummarizer, NewSummary
from services.assistant.prompts.conversation import RULES, PromptSections, user_message
from services.assistant.streaming_answer import AnswerWriter, Draft
from shared.agents import agents, conversations, memories
from shared.agents.memories import TooManyMemoriesError
from shared.database.engine import Database
from shared.database.tables import Agent, Iteration, Message
from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE, IterationStatus, MemoryKind, Phase, StepKind, StepStatus
from shared.errors import PermanentError
from shared.graph import context
from shared.graph.conclusions import citation_index, citations, queries
from shared.graph.prompt_format import format_utc, node_line, truncate_text, truncate_to_budget
from shared.graph.provenance.claims import parse_published
from shared.graph.provenance.sources import known_pages
from shared.graph.retrieval import EmbeddingSearch
from shared.graph.scope import GraphScope
from shared.graph.short_ids import ShortIds
from shared.graph.tools import query_graph
from shared.graph.validation import one_line, refuse_unstorable
from shared.llm.messages import now_line
from shared.llm.phase_run import PhaseRun
from shared.llm.provider import Model
from shared.llm.tool_loop import ToolLoop
from shared.runtime.step_runner import StepResult
from shared.schemas.base import PageRequest
from shared.tools import Arguments, Json, StateTool, Tool, ToolRefusalError
from shared.web_search.client import SearchClient
from shared.web_search.tools import Archive, KnownOfPages, conversation_search
from shared.workflow import steps
from shared.workflow.agent_clock import AgentClock, agent_clock
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease

MIN_QUOTE_CHARS = 3


class Remember(Arguments):
    kind: Literal["wish", "fact"] = Field(
        description="wish: what the owner wants you to do or to watch; fact: what the owner says is so"
    )
    content: str = Field(
        min_length=3,
        max_length=memories.MAX_MEMORY_CHARS,
        description="The wish or fact in one sentence that can be understood without the conversation",
    )
    quote: str = Field(
        min_length=MIN_QUOTE_CHARS,
        max_length=2_000,
        description="The owner's own words in this message that say so, letter by letter",
    )


def remember_tool(agent_id: UUID, question_id: UUID, question: str) -> StateTool[Remember]:
    """Stores only what the owner's message contains: the quote is checked against it, so no page or
    node can inject a memory.
    """

    async def run(transaction: Transaction, arguments: Remember) -> Json:
        if _folded(arguments.quote) not in _folded(question):
            raise ToolRefusalError(
                "quote: these words are not in the owner's message. Remember only what the owner says there, and "
                "quote it exactly."
            )
        content = one_line(arguments.content)
        refuse_unstorable(content, "content")
        try:
            memory_id = await memories.remember(
                transaction, agent_id, MemoryKind(arguments.kind), content, message_id=question_id
            )
        except TooManyMemoriesError as error:
            raise ToolRefusalError(
                f"{memories.MAX_ACTIVE} memories are already kept; ask the owner to forget one first"
                " (`vigil memory forget`)."
            ) from error
        return {"remembered": content, "memoryId": str(memory_id)}

    return StateTool(
        "remember",
        "Keeps a lasting wish or a fact that the owner tells you in this message, for your plans to come.",
        Remember,
        run,
    )


def _folded(text: str) -> str:
    return one_line(text).casefold()


_PLURALS = {
    StepKind.OBSERVE: "plans",
    StepKind.QUERY: "queries",
    StepKind.INSIGHT: "insights",
    StepKind.ADVISE: "decisions on advice",
}
_MAX_ERRORS = 3


async def describe_state(transaction: Transaction, agent: Agent) -> str:
    """Describes the time, the running iteration with its plan, the last one that ended, and when the next is due."""
    newest = await transaction.scalars(
        select(Iteration)
        .where(Iteration.agent_id == agent.id)
        .order_by(Iteration.number.desc())
        .limit(2)
    )
    clock = await agent_clock(agent.id).execute(transaction)
    lines = [
        now_line(clock.now),
        *_describe_archive(clock),
        f"You are called {agent.name}; an iteration begins every {agent.interval_seconds} s.",
    ]
    for iteration in newest:
        running = iteration.status == IterationStatus.RUNNING
        lines += await (
            _describe_running(transaction, iteration)
            if running
            else _describe_ended(transaction, iteration)
        )
        if not running:
            break
    lines.append(_describe_next(agent))
    return "\n".join(lines)


def _describe_archive(clock: AgentClock) -> list[str]:
    if clock.archive_date is None:
        return []
    return [
        f"You work as if each day were {clock.archive_date}: what was published later is not known. Only iterations have"
        f" real times; the real time is {format_utc(clock.real)}."
    ]


async def _describe_running(transaction: Transaction, iteration: Iteration) -> list[str]:
    work = await steps.list_steps(transaction, iteration.id)
    return [
        f"Iteration {iteration.number} runs since {format_utc(iteration.started_at)}"
        f" and is {iteration.stage}: {_describe_progress(work)}.",
        *_describe_plan(iteration),
    ]


async def _describe_ended(transaction: Transaction, iteration: Iteration) -> list[str]:
    assert iteration.ended_at is not None
    work = await steps.list_steps(transaction, iteration.id)
    results = [step.result or {} for step in work]
    analyses = sum(len(result.get("analyses", [])) for result in results)
    advice = sum(len(result.get("advice", [])) for result in results)
    lines = [
        f"Iteration {iteration.number} ended as {iteration.status} at {format_utc(iteration.ended_at)}:"
        f" {_describe_progress(work)}; {analyses} new analyses, {advice} new advice.",
        *_describe_plan(iteration),
    ]
    lines += [
        f"It had trouble: {truncate_text(one_line(error))}"
        for error in iteration.errors[:_MAX_ERRORS]
    ]
    return lines


def _describe_next(agent: Agent) -> str:
    if agent.run_requested_at is not None:
        return "Another iteration was asked for and begins as soon as it can."
    if not agent.active:
        return "You are paused: no iteration starts on schedule."
    return f"The next iteration is due at {format_utc(agent.next_run_at)}."


def _describe_plan(iteration: Iteration) -> list[str]:
    plan = iteration.observer_plan or {}
    queries = [
        truncate_text(one_line(item.get("objective", ""))) for item in plan.get("queries", [])
    ]
    insights = [
        truncate_text(one_line(row.get("observation", ""))) for row in plan.get("insights", [])
    ]
    return [
        *(f"- query of iteration {iteration.number}: {text}" for text in queries),
        *(f"- insight of iteration {iteration.number}: {text}" for text in insights),
    ]


def _describe_progress(work: Sequence[StepRow]) -> str:
    """Formats `2 of 3 queries done, 1 failed` for each kind of step."""
    parts = []
    for kind, plural in _PLURALS.items():
        counts = Counter(step.status for step in work if step.kind == kind)
        if counts:
            failed_count = counts[StepStatus.FAILED]
            text = f"{counts[StepStatus.COMPLETED]} of {counts.total()} {plural} done"
            parts.append(f"{text}, {failed_count} failed" if failed_count else text)
    return "; ".join(parts) or "nothing is done yet"


RECENT_ADVICE = 3
ADVICE_TOKENS = 800
BROKE_OFF = "\n\n*(The answer broke off here: it reached its token limit.)*"
"""Ends an answer of which a part is missing."""
MEMORIES_TOKENS = 1_000


@dataclass(frozen=True)
class AnswerContext:
    agent: Agent
    scope: GraphScope
    turn: int
    question_id: UUID
    question: str
    answer_id: UUID
    user_message: str
    graph_context: str
    short_ids: ShortIds


async def load_context(
    transaction: Transaction,
    lease: Lease,
    step: StepRow,
    *,
    context_tokens: int,
    conversation_tokens: int,
) -> AnswerContext:
    """Loads everything that the prompt contains.

    Raises TransientError where the agent was deleted meanwhile.
    """
    agent = await agents.get_agent(transaction, lease.agent_id)
    scope = GraphScope.of(lease)
    question = await transaction.get_one(Message, UUID(step.input["question_id"]))
    conversation = await conversations.get_conversation(transaction, agent.id)
    turns = await conversations.list_turns(
        transaction, agent.id, after=conversation.summarized_turns, before=step.index
    )
    memory_rows = await memories.list_active(agent.id).execute(transaction)
    sections = PromptSections(
        mission=agent.mission,
        current_state=await describe_state(transaction, agent),
        graph_context=await context.build_survey(
            transaction, scope, StepKind.CONVERSE, token_budget=context_tokens
        ),
        recent_advice=await _recent_advice(transaction, scope),
        memories=truncate_to_budget(
            memories.format_lines(memory_rows), scope.budget_bytes(MEMORIES_TOKENS)
        ),
        conversation_summary=conversation.summary,
        recent_turns=history.format_recent_turns(turns, scope.budget_bytes(conversation_tokens)),
    )
    short_ids = ShortIds(scope)
    message = user_message(sections, question.content)
    await short_ids.store_numbers(transaction, [message])
    return AnswerContext(
        agent=agent,
        scope=scope,
        turn=step.index,
        question_id=question.id,
        question=question.content,
        answer_id=UUID(step.input["answer_id"]),
        user_message=short_ids.shorten(message),
        graph_context=sections.graph_context,
        short_ids=short_ids,
    )


async def _recent_advice(transaction: Transaction, scope: GraphScope) -> str:
    advice = (
        await queries.list_conclusions(transaction, scope, ADVICE_TYPE, PageRequest(RECENT_ADVICE))
    ).items
    lines = [
        node_line(
            advice_item.id,
            ADVICE_TYPE,
            advice_item.name,
            {
                "action": advice_item.word,
                "summary": advice_item.summary,
                "content": advice_item.content,
                "generatedAt": advice_item.generated_at,
            },
        )
        for advice_item in advice
    ]
    return truncate_to_budget(lines, scope.budget_bytes(ADVICE_TOKENS))


@dataclass(frozen=True)
class AnswerHandler:
    model: Model
    search: SearchClient
    context_tokens: int
    conversation_tokens: int
    embedding_search: EmbeddingSearch | None = None

    async def __call__(self, lease: Lease, step: StepRow) -> StepResult:
        """Answers one question, then summarizes older turns where the conversation has grown too
        long.

        The answer is complete and visible before the summary starts.
        """
        async with self.model.database.transaction() as transaction:
            situation = await load_context(
                transaction,
                lease,
                step,
                context_tokens=self.context_tokens,
                conversation_tokens=self.conversation_tokens,
            )
        run = PhaseRun(
            self.model,
            lease,
            situation.agent,
            Phase.CONVERSATION,
            situation.user_message,
            rules=RULES,
            context=situation.graph_context,
        )
        loop = await self._run_answer(run, lease, situation)
        compacted = await ConversationSummarizer(
            run,
            self.model.database,
            situation.scope.budget_bytes(self.conversation_tokens),
            situation.short_ids,
        )(situation.agent.id, situation.turn)
        result = {
            "remembered": len(loop.results_of("remember")),
            "summarized": compacted is not None,
            **run.repair_summary,
        }
        return StepResult(result, write=partial(_finish_turn, step, compacted))

    async def _run_answer(self, run: PhaseRun, lease: Lease, situation: AnswerContext) -> ToolLoop:
        """Runs the tool loop, streams the answer into its message, and completes it."""
        writer = await self._writer(lease, situation)
        loop = ToolLoop(run, self._tools(situation), writer, short_ids=situation.short_ids)
        text = situation.short_ids.expand(await loop.run())
        if not text.strip():
            raise PermanentError(
                "empty_answer", "the model's answer was empty; rephrase the question"
            )
        if loop.broke_off:
            await writer.on_message(f"{text}{BROKE_OFF}", ())
        message_citations = await self._cited(situation, text)

        async def write(transaction: Transaction) -> None:
            draft = writer.draft
            await conversations.store_partial_answer(
                transaction,
                situation.answer_id,
                draft=draft.number,
                content=draft.content,
                tool_uses=draft.tool_uses,
            )
            await conversations.complete_answer(transaction, situation.answer_id, message_citations)

        await run.record_in_transaction(write)
        return loop

    async def _writer(self, lease: Lease, situation: AnswerContext) -> AnswerWriter:
        async with self.model.database.transaction() as transaction:
            message = await transaction.get_one(Message, situation.answer_id)
        draft = Draft(message.draft, message.content, tuple(message.tool_uses))
        return AnswerWriter(
            self.model.database,
            lease,
            situation.answer_id,
            draft,
            time.monotonic,
            situation.short_ids.expand,
        )

    def _tools(self, situation: AnswerContext) -> list[Tool]:
        return [
            query_graph(situation.scope, self.embedding_search),
            conversation_search(
                self.search.of_corpus(situation.agent.corpus),
                agents.domain_preferences(situation.agent),
                Archive.of(situation.agent.archive_date, parse_published),
                partial(_look_up, self.model.database, situation.scope),
            ),
            remember_tool(situation.agent.id, situation.question_id, situation.question),
        ]

    async def _cited(self, situation: AnswerContext, text: str) -> list[Json]:
        """Returns the citations in `text`, each once; without type and name where this graph has no
        such element.

        Clients tell by this list which of the text's citations are valid.
        """
        cited = citations.parse_citations(text).citations
        async with self.model.database.transaction() as transaction:
            names = await citation_index.load_cited_labels(transaction, situation.scope, cited)
        return [
            {
                "kind": row.kind.value,
                "id": str(row.id),
                "type": name.type if (name := names.get(row)) else None,
                "name": name.name if name else None,
            }
            for row in cited
        ]


async def _look_up(database: Database, scope: GraphScope, urls: Sequence[str]) -> KnownOfPages:
    known = await database.run(known_pages(scope, urls))
    return KnownOfPages(*known.by_address(urls))


async def _finish_turn(
    step: StepRow, compacted: NewSummary | None, transaction: Transaction
) -> None:
    if compacted is not None:
        await conversations.store_summary(
            transaction, compacted.conversation, compacted.summary, compacted.through
        )
    await conversations.request_next_answer(transaction, step)


async def start_next_answer(transaction: Transaction, step: StepRow, _: str) -> None:
    """Starts the next answer after one that failed permanently."""
    await conversations.request_next_answer(transaction, step)
