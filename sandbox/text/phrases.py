"""Runs of significant words, and how each is led up to."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sandbox.text.names import NameFinder
from sandbox.text.words import WORD, significant, without_possessive

HARD_BREAK = re.compile(r"[.;:!?()\[\]\"“”\n]|\s[—–-]\s")
BREAK = re.compile(rf"{HARD_BREAK.pattern}|,")
HOW_IT_IS = re.compile(r"\bhow \w+ (?=(?:are|is|was|were)\b)", re.IGNORECASE)
WHO_DOES = re.compile(r"\b(?P<who>who|that) [a-z]+s?\b", re.IGNORECASE)
MAX_PHRASE_WORDS = 6
SCOPE_WORDS = frozenset(
    {
        "of",
        "in",
        "among",
        "amongst",
        "across",
        "within",
        "for",
        "from",
        "by",
        "at",
        "between",
        "near",
    }
)
LIST_WORDS = frozenset({"and", "or", "to"})
ARTICLES = frozenset({"the", "all", "both", "a", "an"})


class Link(Enum):
    """How a phrase follows the one before it."""

    NONE = "none"
    LISTED = "listed"
    BOUND = "bound"
    WHICH = "which"


@dataclass(frozen=True, slots=True)
class Phrase:
    """A few neighbouring words that name one thing.

    `lead`: the preposition in front, where there is one, as in `of`. `article`: whether `the` stands before it.
    `adjacent`: whether nothing but such words parts it from the phrase before. `owner`: ended as in `Ghana's`.
    """

    text: str
    link: Link = Link.NONE
    lead: str = ""
    article: bool = False
    adjacent: bool = False
    owner: bool = False

    @property
    def is_name(self) -> bool:
        """Begins and ends with a capital: `Bank of England`, but not `European makers`."""
        words = self.text.split()
        return words[0][0].isupper() and words[-1][0].isupper()

    @property
    def shown(self) -> str:
        """With the article that a name had."""
        return f"the {self.text}" if self.article and self.is_name else self.text


@dataclass(frozen=True, slots=True)
class _Run:
    start: int
    end: int
    owner: bool


def phrases(text: str) -> list[Phrase]:
    """From left to right. The verb of a question, as in `Who supplies …`, names nothing."""
    text = WHO_DOES.sub(lambda match: match["who"], HOW_IT_IS.sub("how ", text))
    found: list[Phrase] = []
    end = 0
    for run in _runs(text):
        phrase = _phrase(text, run, text[end : run.start], is_first=not found)
        if found and found[-1].owner and not phrase.owner:
            phrase = _behind_owners(phrase, found)
        found.append(phrase)
        end = run.end
    return found


def _phrase(text: str, run: _Run, between: str, *, is_first: bool) -> Phrase:
    words = WORD.findall(between.lower())
    article = words[-1:] == ["the"]
    told = [word for word in words if word not in ARTICLES]
    parted = HARD_BREAK.search(between) is not None
    lead = told[-1] if told and told[-1] in SCOPE_WORDS | {"to"} else ""
    rest = told[:-1] if lead else told
    if lead in SCOPE_WORDS and not set(rest) & {"and", "or"}:
        link = Link.BOUND
    elif told[-1:] == ["which"]:
        link = Link.WHICH
    else:
        link = Link.LISTED if set(told) <= LIST_WORDS | SCOPE_WORDS and not parted else Link.NONE
    kept = [without_possessive(word) for word in text[run.start : run.end].split()]
    return Phrase(
        " ".join(kept[:MAX_PHRASE_WORDS]),
        Link.NONE if is_first and link is Link.LISTED else link,
        lead,
        article,
        adjacent=not is_first and not parted and not rest,
        owner=run.owner,
    )


def _behind_owners(phrase: Phrase, found: list[Phrase]) -> Phrase:
    """`aging of Japan's population` binds the population to the aging as if no owner stood between."""
    first = len(found) - 1
    while first and found[first].link is Link.LISTED and found[first - 1].owner:
        first -= 1
    owner = found[first]
    return Phrase(phrase.text, owner.link, owner.lead, False, owner.adjacent)


def _runs(text: str) -> Iterator[_Run]:
    """Neighbouring significant words, names kept whole; ended by a possessive."""
    names = list(_name_places(text))
    start = end = -1
    for match in WORD.finditer(text):
        inside = any(name_start <= match.start() < name_end for name_start, name_end in names)
        kept = inside or significant(match.group())
        if start >= 0 and (not kept or text[end : match.start()].strip("-/ ")):
            yield _Run(start, end, owner=False)
            start = -1
        if not kept:
            continue
        start = match.start() if start < 0 else start
        end = match.end()
        if without_possessive(match.group()) != match.group():
            yield _Run(start, end, owner=True)
            start = -1
    if start >= 0:
        yield _Run(start, end, owner=False)


def _name_places(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for part in BREAK.split(text):
        start = text.index(part, start)
        # The full stop keeps a mission of a few capitalised words from being taken for a heading.
        for name in NameFinder([part]).find(f"{part}."):
            if " " in name.text:
                yield start + name.start, start + name.end
        start += len(part)
