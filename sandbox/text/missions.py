"""The topics and names of a mission: runs of its significant words."""

import re
from dataclasses import dataclass

from sandbox.text.tokens import WORD, is_significant, without_possessive

MAX_TERM_WORDS = 6
PAUSE = re.compile(r"[^\s/-]")
"""A character that ends a run of words."""


@dataclass(frozen=True, slots=True)
class Mission:
    """The topics and names of a mission, in its own words."""

    topics: tuple[str, ...]
    """Runs of common nouns, such as `energy supply`."""
    names: tuple[str, ...]
    """Runs that start with a capital, such as `Chile` or `West African economies`."""

    @property
    def terms(self) -> tuple[str, ...]:
        return self.topics + self.names


def parse_mission(text: str) -> Mission:
    """`Watch energy supply and exports of West African economies` has two topics and one name."""
    runs: list[list[str]] = []
    end = -1
    for match in WORD.finditer(text):
        word = without_possessive(match.group())
        starts_sentence = not text[: match.start()].rstrip() or text[
            : match.start()
        ].rstrip().endswith((".", "!", "?"))
        is_part = is_significant(word)
        if is_part and end >= 0 and not PAUSE.search(text[end : match.start()]):
            runs[-1].append(word)
        elif is_part:
            runs.append([word.lower() if starts_sentence and word.istitle() else word])
        end = match.end() if is_part and word == match.group() else -1
    terms = dict.fromkeys(" ".join(run[:MAX_TERM_WORDS]) for run in runs)
    return Mission(
        tuple(term for term in terms if not term[0].isupper()),
        tuple(term for term in terms if term[0].isupper()),
    )
