"""What a phase was told to be is told to nobody: a page that asks for it is answered without it.

Only what stands there word for word is found, whatever the case, the blanks, the punctuation and what shows nowhere. Who
has the prompt told in other words, or encoded, is not found out: no rule could say what that is.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final
from unicodedata import category
from urllib.parse import unquote_plus

RUN_CHARACTERS: Final = 60
"""Shorter runs are as likely the language's as the prompt's."""
_LEFT_OUT: Final = "[left out: instructions]"


@dataclass(frozen=True)
class Secret:
    """The system prompt of a phase, but for what its first message says too: the mission is in both, and no secret."""

    system_prompt: str
    message: str

    def stands_in(self, *texts: str) -> bool:
        """Whether RUN_CHARACTERS of it do, in a text or in what a URL's escapes spell."""
        told = " ".join(texts)
        return any(bool(self._found(_fold(each).text)) for each in (told, unquote_plus(told)))

    def cut_out(self, text: str) -> str:
        """`text` without such runs."""
        folded = _fold(text)
        kept, end = [], 0
        for first, last in _joined(self._found(folded.text)):
            run = folded.text[first:last]
            start = folded.origins[first + len(run) - len(run.lstrip())]
            kept += [text[end:start], _LEFT_OUT]
            end = folded.origins[first + len(run.rstrip()) - 1] + 1
        return "".join([*kept, text[end:]])

    @cached_property
    def _runs(self) -> frozenset[str]:
        return _runs_of(self.system_prompt) - _runs_of(self.message)

    def _found(self, folded: str) -> list[int]:
        if not self._runs:
            return []
        starts = range(len(folded) - RUN_CHARACTERS + 1)
        return [at for at in starts if folded[at : at + RUN_CHARACTERS] in self._runs]


@dataclass(frozen=True)
class _Folded:
    text: str
    origins: list[int]
    """For each character of `text`, which character it came from."""


def _fold(text: str) -> _Folded:
    """Letters and digits in small, with one blank for whatever shows between them."""
    folded: list[str] = []
    origins: list[int] = []
    for origin, character in enumerate(text):
        if category(character) == "Cf":
            continue
        if not character.isalnum():
            if folded and folded[-1] != " ":
                folded.append(" ")
                origins.append(origin)
            continue
        for each in character.casefold():
            folded.append(each)
            origins.append(origin)
    return _Folded("".join(folded), origins)


def _runs_of(text: str) -> frozenset[str]:
    folded = _fold(text).text
    starts = range(len(folded) - RUN_CHARACTERS + 1)
    return frozenset(folded[at : at + RUN_CHARACTERS] for at in starts)


def _joined(starts: list[int]) -> list[tuple[int, int]]:
    """The runs that begin there, those that touch as one."""
    joined: list[tuple[int, int]] = []
    for start in starts:
        end = start + RUN_CHARACTERS
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], end
        else:
            joined.append((start, end))
    return joined
