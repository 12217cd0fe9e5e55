"""What of a conversation the model gets, and what is summarized. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from services.assistant.prompts.conversation import SUMMARY_CHARACTERS, summary_message
from shared.agents import conversations
from shared.agents.conversations import Turn
from shared.database.engine import Database
from shared.database.tables import Conversation
from shared.errors import PermanentError
from shared.graph.prompt_format import CHARACTERS_PER_TOKEN
from shared.llm.messages import ChatRequest
from shared.llm.phase_run import PhaseRun

LONGEST_PART_CHARACTERS: Final = 6_000
"""Of one question or answer; what is longer is cut in what the model is shown, never where it is stored."""
KEPT_SHARE: Final = 0.5
"""Of the budget stays for turns in full when older ones are folded: not every further turn is to fold again."""


@dataclass(frozen=True)
class Fold:
    """Turns that the summary is to take in."""

    turns: tuple[Turn, ...]

    @property
    def through(self) -> int:
        return self.turns[-1].number


def shown(turns: Sequence[Turn], token_budget: int) -> str:
    """The newest turns that the budget holds, in order, and how many it does not."""
    kept = _newest(turns, token_budget)
    lines = [told(turn) for turn in turns[len(turns) - kept :]]
    left_out = len(turns) - kept
    if left_out:
        lines.insert(0, f"({left_out} earlier turns are left out for their length)")
    return "\n\n".join(lines)


def to_fold(turns: Sequence[Turn], token_budget: int) -> Fold | None:
    """Which of `turns`, all that no summary has taken in yet, it is to take in now; None while they fit."""
    if _newest(turns, token_budget) == len(turns):
        return None
    older = turns[: len(turns) - _newest(turns, int(token_budget * KEPT_SHARE))]
    # At most what the model can be expected to read at once; the rest comes next time.
    count, left = 0, token_budget * 2 * CHARACTERS_PER_TOKEN
    for turn in older:
        left -= len(told(turn))
        if count and left < 0:
            break
        count += 1
    return Fold(tuple(older[:count])) if count else None


def told(turn: Turn) -> str:
    answer = "(no answer was given)" if turn.answer is None else _cut(turn.answer)
    return f"Owner: {_cut(turn.question)}\nAgent: {answer}"


def _newest(turns: Sequence[Turn], token_budget: int) -> int:
    """How many of the newest turns the budget holds."""
    left = token_budget * CHARACTERS_PER_TOKEN
    for count, turn in enumerate(reversed(turns)):
        left -= len(told(turn)) + 2
        if left < 0:
            return count
    return len(turns)


def _cut(text: str) -> str:
    if len(text) <= LONGEST_PART_CHARACTERS:
        return text
    return f"{text[:LONGEST_PART_CHARACTERS]}… (cut here: {len(text)} characters in all)"


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
        fold = to_fold(turns, self.token_budget)
        if fold is None:
            return None
        older = "\n\n".join(told(each) for each in fold.turns)
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
