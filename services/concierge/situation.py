"""All that an answer is made from, read at its beginning."""

from dataclasses import dataclass
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.concierge import history
from services.concierge.conversation_prompts import Shown, user_message
from services.concierge.state import current_state
from shared.graph import concluded, context
from shared.graph.layout import within
from shared.graph.lines import node_line
from shared.graph.scope import Scope
from shared.store import agents, conversations, memories
from shared.store.leases import Lease
from shared.store.reading.page import Wanted
from shared.store.tables import Agent, Message, Step
from shared.store.words import ADVICE_TYPE

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
    advice = (await concluded.page(session, scope, ADVICE_TYPE, Wanted(RECENT_ADVICE))).items
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
