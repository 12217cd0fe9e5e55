"""What changed between two texts, for people to read: words within lines, and unchanged passages shortened. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from enum import StrEnum
from typing import Final

CONTEXT_LINES: Final = 2
"""Of what is unchanged, beside each change."""
LEAST_ALIKE: Final = 0.3
"""Share of the words, of two passages of which one became the other; below, one was put in the other's place."""
_WORDS: Final = re.compile(r"\s*\S+|\s+")


class Change(StrEnum):
    SAME = "same"
    GONE = "gone"
    NEW = "new"
    LEFT_OUT = "left out"
    """`text` says how many lines are not shown."""


@dataclass(frozen=True)
class Run:
    change: Change
    text: str


def changes(before: str, after: str) -> list[Run]:
    """From `before` to `after`, in their order; one run of SAME where they are equal."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    runs: list[Run] = []
    for place, (tag, old_from, old_to, new_from, new_to) in enumerate(blocks):
        if tag == "equal":
            is_first, is_last = place == 0, place == len(blocks) - 1
            runs += _shortened(old[old_from:old_to], is_first=is_first, is_last=is_last)
        else:
            runs += _by_words("".join(old[old_from:old_to]), "".join(new[new_from:new_to]))
    return runs


def _shortened(lines: Sequence[str], *, is_first: bool, is_last: bool) -> Iterator[Run]:
    """Only the lines beside a change, of which there is none before the first nor after the last block."""
    head = 0 if is_first else CONTEXT_LINES
    tail = 0 if is_last else CONTEXT_LINES
    left_out = len(lines) - head - tail
    if left_out < 2 or (is_first and is_last):
        yield Run(Change.SAME, "".join(lines))
        return
    if head:
        yield Run(Change.SAME, "".join(lines[:head]))
    yield Run(Change.LEFT_OUT, f"{left_out} lines unchanged")
    if tail:
        yield Run(Change.SAME, "".join(lines[-tail:]))


def _by_words(before: str, after: str) -> Iterator[Run]:
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    matcher = SequenceMatcher(None, old, new)
    is_alike = matcher.ratio() >= LEAST_ALIKE
    blocks = matcher.get_opcodes() if is_alike else [("replace", 0, len(old), 0, len(new))]
    for tag, old_from, old_to, new_from, new_to in blocks:
        if tag == "equal":
            yield Run(Change.SAME, "".join(old[old_from:old_to]))
            continue
        if old_to > old_from:
            yield Run(Change.GONE, "".join(old[old_from:old_to]))
        if new_to > new_from:
            yield Run(Change.NEW, "".join(new[new_from:new_to]))
