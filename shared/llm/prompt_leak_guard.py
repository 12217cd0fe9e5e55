"""Prompt leak guard: finds and redacts literal copies of a system prompt in a model's output.

Case, white space, punctuation and invisible characters are ignored. A paraphrase or an encoding of the prompt is not
detected.
"""

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final
from unicodedata import category
from urllib.parse import unquote_plus

RUN_CHARACTERS: Final = 60
"""Shorter runs are too likely to be common phrases."""
_LEFT_OUT: Final = "[left out: instructions]"
_BETWEEN: Final = re.compile(r"[\W_]+")


@dataclass(frozen=True)
class PromptLeakGuard:
    """The system prompt of a phase, except for parts that its first message repeats, such as the mission."""

    system_prompt: str
    message: str

    def leaks(self, *texts: str) -> bool:
        """Whether RUN_CHARACTERS consecutive characters of the prompt are in the texts, also URL-encoded."""
        text = " ".join(texts)
        return any(bool(self._find_runs(_fold_text(form))) for form in {text, unquote_plus(text)})

    def redact(self, text: str) -> str:
        """Replaces such runs in `text`."""
        if not self._find_runs(_fold_text(text)):
            return text
        folded = _fold(text)
        parts, end = [], 0
        for first, last in _merge_runs(self._find_runs(folded.text)):
            run = folded.text[first:last]
            start = folded.origins[first + len(run) - len(run.lstrip())]
            parts += [text[end:start], _LEFT_OUT]
            end = folded.origins[first + len(run.rstrip()) - 1] + 1
        return "".join([*parts, text[end:]])

    @cached_property
    def _runs(self) -> frozenset[str]:
        prompt, message = _prompt(self.system_prompt), _fold_text(self.message)
        return prompt.runs - _windows(message) if prompt.may_stand_in(message) else prompt.runs

    def _find_runs(self, folded: str) -> list[int]:
        if not _prompt(self.system_prompt).may_stand_in(folded) or not self._runs:
            return []
        starts = range(len(folded) - RUN_CHARACTERS + 1)
        return [at for at in starts if folded[at : at + RUN_CHARACTERS] in self._runs]


@dataclass(frozen=True)
class _Prompt:
    runs: frozenset[str]
    chunks: tuple[str, ...]
    """Consecutive pieces of the prompt. Each run contains a whole chunk, so a text without a chunk has no run."""

    def may_stand_in(self, folded: str) -> bool:
        return any(chunk in folded for chunk in self.chunks)


@lru_cache(maxsize=64)
def _prompt(text: str) -> _Prompt:
    """Cached, because many steps have the same prompts."""
    folded, size = _fold_text(text), RUN_CHARACTERS // 2
    starts = range(0, len(folded) - size + 1, size)
    return _Prompt(_windows(folded), tuple(folded[at : at + size] for at in starts))


@dataclass(frozen=True)
class _Folded:
    text: str
    origins: list[int]
    """For each character of `text`, the index of its original character."""


def _fold(text: str) -> _Folded:
    """Folds letters and digits to lower case and replaces all visible characters between them by one blank."""
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
        for lower in character.casefold():
            folded.append(lower)
            origins.append(origin)
    return _Folded("".join(folded), origins)


def _fold_text(text: str) -> str:
    """Returns the text of `_fold`, much faster, without the origins."""
    if not text.isascii():
        text = text.translate({ord(char): None for char in set(text) if category(char) == "Cf"})
    return _BETWEEN.sub(" ", text).lstrip(" ").casefold()


def _windows(folded: str) -> frozenset[str]:
    starts = range(len(folded) - RUN_CHARACTERS + 1)
    return frozenset(folded[at : at + RUN_CHARACTERS] for at in starts)


def _merge_runs(starts: list[int]) -> list[tuple[int, int]]:
    """Returns the (start, end) of the runs at `starts`, and merges those that touch."""
    merged: list[tuple[int, int]] = []
    for start in starts:
        end = start + RUN_CHARACTERS
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], end
        else:
            merged.append((start, end))
    return merged
