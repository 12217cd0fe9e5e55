"""What a phase was told to be is told to nobody: a page that asks for it is answered without it.

Only what stands there word for word is found, whatever the case, the blanks, the punctuation and what shows nowhere. Who
has the prompt told in other words, or encoded, is not found out: no rule could say what that is.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final
from unicodedata import category
from urllib.parse import unquote_plus

RUN_CHARACTERS: Final = 60
"""Shorter runs are as likely the language's as the prompt's."""
_LEFT_OUT: Final = "[left out: instructions]"
_BETWEEN: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class Secret:
    """The system prompt of a phase, but for what its first message says too: the mission is in both, and no secret."""

    system_prompt: str
    message: str

    def stands_in(self, *texts: str) -> bool:
        """Whether RUN_CHARACTERS of it do, in a text or in what a URL's escapes spell."""
        told = " ".join(texts)
        return any(bool(self._found(_folded(each))) for each in {told, unquote_plus(told)})

    def cut_out(self, text: str) -> str:
        """`text` without such runs."""
        if not self._found(_folded(text)):
            return text
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
        prompt, message = _prompt(self.system_prompt), _folded(self.message)
        return prompt.runs - _windows(message) if prompt.may_stand_in(message) else prompt.runs

    def _found(self, folded: str) -> list[int]:
        if not _prompt(self.system_prompt).may_stand_in(folded) or not self._runs:
            return []
        starts = range(len(folded) - RUN_CHARACTERS + 1)
        return [at for at in starts if folded[at : at + RUN_CHARACTERS] in self._runs]


@dataclass(frozen=True)
class _Prompt:
    runs: frozenset[str]
    chunks: tuple[str, ...]
    """One after another: every run holds one of them whole, so that a text without any of them has no run."""

    def may_stand_in(self, folded: str) -> bool:
        return any(chunk in folded for chunk in self.chunks)


@lru_cache(maxsize=64)
def _prompt(text: str) -> _Prompt:
    """An agent's prompts are the same for many steps."""
    folded, size = _folded(text), RUN_CHARACTERS // 2
    starts = range(0, len(folded) - size + 1, size)
    return _Prompt(_windows(folded), tuple(folded[at : at + size] for at in starts))


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


def _folded(text: str) -> str:
    """The text of `_fold`, without where it came from, which takes much longer."""
    if not text.isascii():
        text = text.translate({ord(each): None for each in set(text) if category(each) == "Cf"})
    return _BETWEEN.sub(" ", text).lstrip(" ").casefold()


def _windows(folded: str) -> frozenset[str]:
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
