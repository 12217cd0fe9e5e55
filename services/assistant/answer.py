"""One answer in a conversation: the situation, the tools, the citations."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from services.assistant import history
from services.assistant.history import Compact, Compacted
from services.assistant.memory_tool import remember
from services.assistant.prompts.conversation import Shown, user_message
from services.assistant.streaming_answer import Draft, Writer
from shared.agents import agents, conversations, memories
from shared.database.tables import Agent, Iteration, Message, Step
from shared.enums import ADVICE_TYPE, IterationStatus, Phase, StepKind, StepStatus
from shared.errors import PermanentError
from shared.graph import context
from shared.graph.conclusions import citation_index, citations, queries
from shared.graph.prompt_format import node_line, short, utc, within
from shared.graph.retrieval import Meaning
from shared.graph.scope import Scope
from shared.graph.tools import query_graph
from shared.graph.validation import one_line
from shared.llm.phase_run import Model, PhaseRun
from shared.llm.tool_loop import ToolLoop
from shared.runtime.step_runner import Outcome
from shared.schemas.base import Wanted
from shared.tools import Json, Tool
from shared.web_search.client import SearchClient
from shared.web_search.tools import conversation_search
from shared.workflow import steps
from shared.workflow.leases import Lease

_PLURALS = {
    StepKind.OBSERVE: "plans",
    StepKind.QUERY: "queries",
    StepKind.INSIGHT: "insights",
    StepKind.ADVISE: "decisions on advice",
}
_ERRORS_TOLD = 3


async def current_state(session: AsyncSession, agent: Agent) -> str:
    """The iteration that runs, with its plan; the one that ended last; and when the next is due."""
    newest = await session.scalars(
        select(Iteration)
        .where(Iteration.agent_id == agent.id)
        .order_by(Iteration.number.desc())
        .limit(2)
    )
    lines = [f"You are called {agent.name}; an iteration begins every {agent.interval_seconds} s."]
    for iteration in newest:
        running = iteration.status == IterationStatus.RUNNING
        lines += await (_running(session, iteration) if running else _ended(session, iteration))
        if not running:
            break
    lines.append(_next(agent))
    return "\n".join(lines)


async def _running(session: AsyncSession, iteration: Iteration) -> list[str]:
    work = await steps.of_iteration(session, iteration.id)
    return [
        f"Iteration {iteration.number} runs since {utc(iteration.started_at)}"
        f" and is {iteration.stage}: {_progress(work)}.",
        *_plan(iteration),
    ]


async def _ended(session: AsyncSession, iteration: Iteration) -> list[str]:
    assert iteration.ended_at is not None
    work = await steps.of_iteration(session, iteration.id)
    results = [step.result or {} for step in work]
    analyses = sum(len(result.get("analyses", [])) for result in results)
    advice = sum(len(result.get("advice", [])) for result in results)
    told = [
        f"Iteration {iteration.number} ended as {iteration.status} at {utc(iteration.ended_at)}:"
        f" {_progress(work)}; {analyses} new analyses, {advice} new advice.",
        *_plan(iteration),
    ]
    told += [
        f"It had trouble: {short(one_line(error))}" for error in iteration.errors[:_ERRORS_TOLD]
    ]
    return told


def _next(agent: Agent) -> str:
    if agent.run_requested_at is not None:
        return "Another iteration was asked for and begins as soon as it can."
    if not agent.active:
        return "You are paused: no iteration begins by itself."
    return f"The next iteration is due at {utc(agent.next_run_at)}."


def _plan(iteration: Iteration) -> list[str]:
    plan = iteration.observer_plan or {}
    queries = [short(one_line(each.get("objective", ""))) for each in plan.get("queries", [])]
    insights = [short(one_line(each.get("observation", ""))) for each in plan.get("insights", [])]
    return [
        *(f"- query of iteration {iteration.number}: {text}" for text in queries),
        *(f"- insight of iteration {iteration.number}: {text}" for text in insights),
    ]


def _progress(work: Sequence[Step]) -> str:
    """`2 of 3 queries done, 1 failed`, for each kind of step that it has."""
    told = []
    for kind, plural in _PLURALS.items():
        counts = Counter(step.status for step in work if step.kind == kind)
        if counts:
            failed = counts[StepStatus.FAILED]
            done = f"{counts[StepStatus.COMPLETED]} of {counts.total()} {plural} done"
            told.append(f"{done}, {failed} failed" if failed else done)
    return "; ".join(told) or "nothing is done yet"


RECENT_ADVICE = 3
ADVICE_TOKENS = 800
MEMORIES_TOKENS = 1_000


@dataclass(frozen=True)
class Situation:
    agent: Agent
    scope: Scope
    turn: int
    question_id: UUID
    question: str
    answer_id: UUID
    user_message: str


async def look(
    session: AsyncSession,
    lease: Lease,
    step: Step,
    *,
    context_tokens: int,
    conversation_tokens: int,
) -> Situation:
    """Raises TransientError where the agent was deleted meanwhile."""
    agent = await agents.get(session, lease.agent_id)
    scope = Scope(agent.owner_id, agent.id, None, lease.step_id)
    question = await session.get_one(Message, UUID(step.input["question_id"]))
    conversation = await conversations.of_agent(session, agent.id)
    turns = await conversations.turns(
        session, agent.id, after=conversation.summarized_turns, before=step.index
    )
    kept = await memories.active(session, agent.id)
    shown = Shown(
        mission=agent.mission,
        current_state=await current_state(session, agent),
        graph_context=await context.build(session, scope, token_budget=context_tokens),
        recent_advice=await _recent_advice(session, scope),
        memories=within(memories.lines(kept), MEMORIES_TOKENS),
        conversation_summary=conversation.summary,
        recent_turns=history.shown(turns, conversation_tokens),
    )
    return Situation(
        agent=agent,
        scope=scope,
        turn=step.index,
        question_id=question.id,
        question=question.content,
        answer_id=UUID(step.input["answer_id"]),
        user_message=user_message(shown, question.content),
    )


async def _recent_advice(session: AsyncSession, scope: Scope) -> str:
    advice = (await queries.page(session, scope, ADVICE_TYPE, Wanted(RECENT_ADVICE))).items
    lines = [
        node_line(
            each.id,
            ADVICE_TYPE,
            each.name,
            {
                "action": each.word,
                "summary": each.summary,
                "content": each.content,
                "generatedAt": each.generated_at,
            },
        )
        for each in advice
    ]
    return within(lines, ADVICE_TOKENS)


@dataclass(frozen=True)
class Converse:
    model: Model
    search: SearchClient
    context_tokens: int
    conversation_tokens: int
    meaning: Meaning | None = None

    async def __call__(self, lease: Lease, step: Step) -> Outcome:
        """Answers one question, and makes room for the next where the conversation has grown long.

        The answer is complete, and seen to be, before the summary is begun.
        """
        async with self.model.database.transaction() as session:
            situation = await look(
                session,
                lease,
                step,
                context_tokens=self.context_tokens,
                conversation_tokens=self.conversation_tokens,
            )
        run = PhaseRun(
            self.model, lease, situation.agent, Phase.CONVERSATION, situation.user_message
        )
        loop = await self._answered(run, lease, situation)
        compacted = await Compact(run, self.model.database, self.conversation_tokens)(
            situation.agent.id, situation.turn
        )
        result = {
            "remembered": len(loop.results_of("remember")),
            "summarized": compacted is not None,
            **run.repairs_told,
        }
        return Outcome(result, partial(_end, step, compacted))

    async def _answered(self, run: PhaseRun, lease: Lease, situation: Situation) -> ToolLoop:
        """Has the answer made, written while it is, and completed."""
        writer = await self._writer(lease, situation.answer_id)
        loop = ToolLoop(run, self._tools(situation), writer)
        text = await loop.last_words()
        if not text.strip():
            raise PermanentError(
                "empty_answer", "the model answered with no word; put the question in other words"
            )
        citations_told = await self._cited(situation, text)

        async def write(session: AsyncSession) -> None:
            draft = writer.draft
            await conversations.write(
                session,
                situation.answer_id,
                draft=draft.number,
                content=draft.content,
                looked=draft.looked,
            )
            await conversations.complete(session, situation.answer_id, citations_told)

        await run.record(write)
        return loop

    async def _writer(self, lease: Lease, answer_id: UUID) -> Writer:
        async with self.model.database.transaction() as session:
            begun = await session.get_one(Message, answer_id)
        draft = Draft(begun.draft, begun.content, tuple(begun.looked))
        return Writer(self.model.database, lease, answer_id, draft, time.monotonic)

    def _tools(self, situation: Situation) -> list[Tool]:
        return [
            query_graph(situation.scope, self.meaning),
            conversation_search(self.search),
            remember(situation.agent.id, situation.question_id, situation.question),
        ]

    async def _cited(self, situation: Situation, text: str) -> list[Json]:
        """What `text` cites, each thing once; without type and name where there is no such thing in this graph.

        The text stays as the model wrote it: whoever shows it can tell by this which of its citations hold.
        """
        found = citations.parse(text).citations
        async with self.model.database.transaction() as session:
            names = await citation_index.named(session, situation.scope, found)
        return [
            {
                "kind": each.kind.value,
                "id": str(each.id),
                "type": named.type if (named := names.get(each)) else None,
                "name": named.name if named else None,
            }
            for each in found
        ]


async def _end(step: Step, compacted: Compacted | None, session: AsyncSession) -> None:
    if compacted is not None:
        await conversations.summarize(
            session, compacted.conversation, compacted.summary, compacted.through
        )
    await conversations.ask_for_next(session, step)


async def ask_for_next(session: AsyncSession, step: Step, _: str) -> None:
    """What follows from an answer that failed for good: the conversation goes on without it."""
    await conversations.ask_for_next(session, step)
