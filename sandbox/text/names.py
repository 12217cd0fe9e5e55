"""Proper names in running text."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.text.name_words import (
    ACTOR_VERBS,
    CALENDAR,
    CONNECTORS,
    DIRECTIONS,
    GENERIC_BODY,
    HONORIFICS,
    NAME_HEADS,
    NOT_NAMES,
    PAIRED_WORDS,
    is_adjective,
)
from sandbox.text.sentences import sentences
from sandbox.text.words import GENERIC_WORDS, STOP_WORDS

TOKEN = re.compile(r"[^\W_]+(?:[-'’&][^\W_]+)*|&")
CAPITAL = re.compile(r"^(?:[A-ZÀ-ÖØ-Þ]|(?:d|l|al|el)['’-][A-ZÀ-ÖØ-Þ])")
ABBREVIATED = re.compile(r"^(?:St|Mt|Lt|Dr|Mr|Mrs|Ms|Prof|Gen|Col|Gov|Sen|[A-Z])$")
POSSESSIVE = re.compile(r"['’]s$|(?<=s)['’]$")
ADDRESS = re.compile(r"https?://\S+")
EXPLAINED = re.compile(r"(?:\b\d{1,3}|[.,]\d+|\b(?:thousand|million|billion|trillion)) $|\($")
"""Capitals behind a number are its unit, as in `5.1 million TEU`, and those in a bracket are short for what precedes."""
MAX_NAME_WORDS = 6


@dataclass(frozen=True, slots=True)
class Name:
    """A name as it stands at `start` in its sentence. `titled`: a title of office or courtesy stood before it."""

    text: str
    start: int
    titled: bool = False

    @property
    def end(self) -> int:
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class NameFinder:
    """Finds names with what a whole text shows: which words it also writes small, which it capitalises mid-sentence."""

    def __init__(self, texts: Iterable[str], known: Iterable[str] = ()) -> None:
        self._small: set[str] = set()
        self._known = frozenset(known)
        self._capitalised: set[str] = {word for name in self._known for word in name.split()}
        for text in texts:
            for sentence in sentences(ADDRESS.sub("", text)):
                self._learn(sentence)

    def find(self, sentence: str) -> list[Name]:
        """The names in `sentence` from left to right; none in a heading written all in capitals."""
        if _is_heading(sentence):
            return []
        return [name for run in _runs(sentence) if (name := self._name(sentence, run))]

    def _learn(self, sentence: str) -> None:
        if _is_heading(sentence):
            return
        for token in TOKEN.finditer(sentence):
            word = POSSESSIVE.sub("", token.group())
            if word[:1].islower():
                self._small.add(word)
            elif not _starts_clause(sentence, token.start()):
                self._capitalised.add(word)

    def _name(self, sentence: str, run: list[_Token]) -> Name | None:
        run, titled = _without_titles(run)
        while run and _trails(run):
            run = run[:-1]
        while run and self._is_ordinary_start(sentence, run):
            run = run[1:]
        while run and (run[0].text in CONNECTORS or run[0].text == "&"):
            run = run[1:]
        if not run or len(run) > MAX_NAME_WORDS:
            return None
        text = sentence[run[0].start : run[-1].end]
        if text.isupper() and EXPLAINED.search(sentence[: run[0].start]):
            return None
        return None if _is_no_name(text, run) else Name(text, run[0].start, titled)

    def _is_ordinary_start(self, sentence: str, run: list[_Token]) -> bool:
        word = run[0].text
        if any(sentence.startswith(name, run[0].start) for name in self._known if " " in name):
            return False
        if word.lower() in STOP_WORDS and not (word == "The" and run[0].start and len(run) > 1):
            return True
        if (
            not _starts_clause(sentence, run[0].start)
            or word.isupper()
            or word[1:] != word[1:].lower()
        ):
            return False
        if len(run) > 2 and run[1].text == "of":
            return word not in NAME_HEADS
        if word.lower() in GENERIC_WORDS or word.lower() in self._small:
            return True
        return len(run) == 1 and word not in self._capitalised and not _acts(sentence, run[0].end)


def _starts_clause(sentence: str, position: int) -> bool:
    before = sentence[:position].rstrip(" \"'“‘([*")
    return not before or before[-1] in ".!?:;—–•"


def _acts(sentence: str, position: int) -> bool:
    """Whether a verb of actors or a possessive ending follows."""
    rest = sentence[position:]
    return rest.startswith(("'s ", "’s ")) or rest.lstrip().partition(" ")[0] in ACTOR_VERBS


def _runs(sentence: str) -> list[list[_Token]]:
    """Neighbouring capitalised words, small connecting words between them included."""
    runs: list[list[_Token]] = []
    run: list[_Token] = []
    for match in TOKEN.finditer(sentence):
        token = _Token(POSSESSIVE.sub("", match.group()), match.start())
        joins = run and _joins(sentence, run[-1], token)
        if run and not joins:
            runs.append(run)
            run = []
        if CAPITAL.match(token.text) or (run and _connects(run[-1].text, token.text)):
            run.append(token)
        elif run:
            runs.append(run)
            run = []
    return [*runs, run] if run else runs


def _connects(before: str, word: str) -> bool:
    """`of` belongs to a name only behind a word such as Bank or Gulf."""
    if word == "of":
        return before in NAME_HEADS
    return before in PAIRED_WORDS if word == "and" else word in CONNECTORS or word == "&"


def _joins(sentence: str, last: _Token, token: _Token) -> bool:
    gap = sentence[last.end : token.start]
    return gap == " " or (gap == ". " and ABBREVIATED.match(last.text) is not None)


def _without_titles(run: list[_Token]) -> tuple[list[_Token], bool]:
    titled = False
    if len(run) > 2 and is_adjective(run[0].text) and run[1].text in HONORIFICS:
        run = run[1:]
    while run and run[0].text in HONORIFICS and len(run) > 1:
        run = run[1:]
        titled = True
    if run and run[0].text in CONNECTORS:
        return run, False
    return run, titled


def _trails(run: list[_Token]) -> bool:
    last = run[-1].text
    return last in CONNECTORS or last in {"&", "and"} or last in STOP_WORDS


def _is_no_name(text: str, run: list[_Token]) -> bool:
    words = [token.text for token in run]
    if len(text) < 2 or all(word in CALENDAR or word.isdigit() for word in words):
        return True
    if len(words) == 1:
        return (
            text in NOT_NAMES
            or text in NAME_HEADS
            or text in HONORIFICS
            or text in GENERIC_BODY
            or is_adjective(text)
            or text.lower() in STOP_WORDS
        )
    return is_adjective(words[-1]) or words[-1] in DIRECTIONS or GENERIC_BODY.issuperset(words)


def _is_heading(sentence: str) -> bool:
    words: list[str] = [word for word in TOKEN.findall(sentence) if word[0].isalpha()]
    if len(words) < 4 or sentence.rstrip()[-1:] in ".!?;," or ": " in sentence:
        return False
    weighty = [word for word in words if word.lower() not in STOP_WORDS]
    return sum(word[0].isupper() for word in weighty) > len(weighty) * 0.8
