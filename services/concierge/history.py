"""What of a conversation the model is shown, and what is folded into its summary, pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from shared.graph.layout import CHARACTERS_PER_TOKEN
from shared.store.conversations import Turn

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
