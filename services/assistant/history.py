"""Conversation history: the turns that fit the prompt, and summaries of older ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from services.assistant.prompts.conversation import (
    SUMMARY_CHARACTERS,
    SUMMARY_RULES,
    summary_message,
)
from shared.agents import conversations
from shared.agents.conversations import Turn
from shared.database.engine import Database
from shared.database.tables import Conversation
from shared.errors import PermanentError
from shared.graph.prompt_format import byte_length
from shared.graph.short_ids import ShortIds
from shared.llm.ledgered_model import read_last_answer
from shared.llm.messages import ChatRequest
from shared.llm.phase_run import PhaseRun

MAX_PART_CHARS: Final = 6_000
"""Maximum length of a question or answer in the prompt; longer ones are cut there, never in the database."""
FULL_TURNS_SHARE: Final = 0.5
"""The share of the budget that remains for full turns after a summary, so that not every further turn triggers one."""


@dataclass(frozen=True)
class SummaryBatch:
    """Turns to add to the summary."""

    turns: tuple[Turn, ...]

    @property
    def through(self) -> int:
        return self.turns[-1].number


def format_recent_turns(turns: Sequence[Turn], budget_bytes: int) -> str:
    """Formats the newest turns that fit the budget, in order, and says how many are left out."""
    shown_count = _count_newest(turns, budget_bytes)
    lines = [format_turn(turn) for turn in turns[len(turns) - shown_count :]]
    left_out = len(turns) - shown_count
    if left_out:
        lines.insert(0, f"({left_out} earlier turns are left out for their length)")
    return "\n\n".join(lines)


def select_turns_to_summarize(turns: Sequence[Turn], budget_bytes: int) -> SummaryBatch | None:
    """Returns the turns to summarize, of `turns`, which are all unsummarized ones; None while they fit the budget."""
    if _count_newest(turns, budget_bytes) == len(turns):
        return None
    older = turns[: len(turns) - _count_newest(turns, int(budget_bytes * FULL_TURNS_SHARE))]
    # At most what the model can read at once; the rest is summarized next time.
    count, bytes_left = 0, budget_bytes * 2
    for turn in older:
        bytes_left -= byte_length(format_turn(turn))
        if count and bytes_left < 0:
            break
        count += 1
    return SummaryBatch(tuple(older[:count])) if count else None


def format_turn(turn: Turn) -> str:
    answer = "(no answer was given)" if turn.answer is None else _cut(turn.answer)
    return f"Owner: {_cut(turn.question)}\nAgent: {answer}"


def _count_newest(turns: Sequence[Turn], budget_bytes: int) -> int:
    """Returns how many of the newest turns fit the budget."""
    bytes_left = budget_bytes
    for count, turn in enumerate(reversed(turns)):
        bytes_left -= byte_length(format_turn(turn)) + 2
        if bytes_left < 0:
            return count
    return len(turns)


def _cut(text: str) -> str:
    if len(text) <= MAX_PART_CHARS:
        return text
    return f"{text[:MAX_PART_CHARS]}… (cut here: {len(text)} characters in all)"


@dataclass(frozen=True)
class NewSummary:
    """A new summary, to replace that of `conversation`."""

    conversation: Conversation
    summary: str
    through: int
    """The number of the last turn that it covers."""


@dataclass(frozen=True)
class ConversationSummarizer:
    """Summarizes older turns. The call belongs to `run`, the phase run of the preceding answer.

    Its input is fixed by then, so a resumed step makes the same request and pays it once.
    """

    run: PhaseRun
    database: Database
    budget_bytes: int
    short_ids: ShortIds

    async def __call__(self, agent_id: UUID, turn: int) -> NewSummary | None:
        """Returns None while the unsummarized turns up to `turn` fit the budget."""
        async with self.database.transaction() as transaction:
            conversation = await conversations.get_conversation(transaction, agent_id)
            turns = await conversations.list_turns(
                transaction, agent_id, after=conversation.summarized_turns, before=turn + 1
            )
        fold = select_turns_to_summarize(turns, self.budget_bytes)
        if fold is None:
            return None
        older = "\n\n".join(format_turn(item) for item in fold.turns)
        message = summary_message(conversation.summary, older)
        async with self.database.transaction() as transaction:
            await self.short_ids.store_numbers(transaction, [message])
        summary = await self._summary(self.short_ids.shorten(message))
        return NewSummary(conversation, self.short_ids.expand(summary), fold.through)

    async def _summary(self, message: str) -> str:
        request = ChatRequest(
            self.run.stored.model,
            (
                {"role": "system", "content": SUMMARY_RULES},
                {"role": "user", "content": message},
            ),
        )
        answer = (await self.run.model.answer(request, read_last_answer)).answer
        if not answer.text.strip():
            raise PermanentError(
                "empty_answer", "the model's summary of the conversation was empty"
            )
        return answer.text.strip()[:SUMMARY_CHARACTERS]
