"""A long conversation is summarized by the model; nothing of it is deleted."""

from dataclasses import dataclass
from uuid import UUID

from services.concierge import history
from services.concierge.conversation_prompts import SUMMARY_CHARACTERS, summary_message
from shared.errors import PermanentError
from shared.llm.chat import ChatRequest
from shared.llm.phase import PhaseRun
from shared.store import conversations
from shared.store.database import Database
from shared.store.tables import Conversation


@dataclass(frozen=True)
class Compacted:
    """A summary to be written in place of the one that `conversation` was read with."""

    conversation: Conversation
    summary: str
    through: int
    """Number of the last turn that it takes in."""


@dataclass(frozen=True)
class Compact:
    """`run` is that of the answer before: the summary is one more call of its step, in the same ledger.

    It is made of what no later turn can change, so a step that is resumed makes the same request, and pays it once.
    """

    run: PhaseRun
    database: Database
    token_budget: int

    async def __call__(self, agent_id: UUID, turn: int) -> Compacted | None:
        """None while the turns that no summary has taken in, up to `turn`, fit the budget."""
        async with self.database.transaction() as session:
            conversation = await conversations.of_agent(session, agent_id)
            turns = await conversations.turns(
                session, agent_id, after=conversation.summarized_turns, before=turn + 1
            )
        fold = history.to_fold(turns, self.token_budget)
        if fold is None:
            return None
        older = "\n\n".join(history.told(each) for each in fold.turns)
        summary = await self._summary(summary_message(conversation.summary, older))
        return Compacted(conversation, summary, fold.through)

    async def _summary(self, message: str) -> str:
        interaction = self.run.interaction
        request = ChatRequest(
            interaction.model,
            (
                {"role": "system", "content": interaction.system_prompt},
                {"role": "user", "content": message},
            ),
        )
        _, answer = await self.run.answer_to(request, is_last=lambda _: True)
        if not answer.text.strip():
            raise PermanentError(
                "empty_answer", "the model summarized the conversation with no word"
            )
        return answer.text.strip()[:SUMMARY_CHARACTERS]
