"""One answer in a conversation."""

import time
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.concierge.compact import Compact, Compacted
from services.concierge.draft import Draft
from services.concierge.remember import remember
from services.concierge.situation import Situation, look
from services.concierge.writing import Writer
from shared.errors import PermanentError
from shared.graph import citations, cited
from shared.graph.meaning import Meaning
from shared.graph.tools import query_graph
from shared.llm.phase import Model, PhaseRun
from shared.llm.tool_loop import ToolLoop
from shared.runtime.work import Outcome
from shared.search.client import SearchClient
from shared.search.tools import conversation_search
from shared.store import conversations
from shared.store.leases import Lease
from shared.store.tables import Message, Step
from shared.store.words import Phase
from shared.tools import Json, Tool


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
            names = await cited.named(session, situation.scope, found)
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
