"""Ranks in a conclusion, such as "second largest of the five": computed again over the cited elements. Pure."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Final

from shared.graph.grounding.known import CitedElement, Known, Value, stems_of
from shared.graph.grounding.names import find_mentions
from shared.graph.grounding.outcomes import MATCHED, Outcome, is_rounded, left_out, unread
from shared.graph.grounding.words import alternatives, fold, phrases, table
from shared.graph.grounding.written import Sentence

_PLACE_WORDS: Final = (
    r"(?:ranks?|ranked|ranking|comes|places?|placed|liegt an|steht an|auf platz|se classe|ocupa el)"
)


@dataclass(frozen=True)
class Rank:
    """A rank that a sentence claims; 1 where it has only a superlative."""

    place: int
    is_highest: bool
    start: int
    end: int
    is_counted: bool
    """Whether the place is written."""


def find_ranks(sentence: Sentence) -> Iterator[Rank]:
    for is_highest, pattern in _patterns():
        for match in pattern.finditer(sentence.folded):
            written = match["place"]
            place = _ordinals()[written.strip("- ")] if written else 1
            yield Rank(place, is_highest, match.start(), match.end(), bool(written))
    for match in _place_pattern().finditer(sentence.folded):
        yield Rank(_ordinals()[match["place"]], True, match.start(), match.end(), True)


def mentions_of(cited: Sequence[CitedElement], sentence: Sentence) -> list[tuple[int, int]]:
    """The cited nodes that the sentence names: where, and which."""
    return sorted(
        (mention.start, place)
        for place, element in enumerate(cited)
        if not element.is_edge
        for name in element.names
        for mention in find_mentions(name, sentence.text)
    )


class RankRules:
    """Checks ranks against the values of the cited elements."""

    def __init__(self, known: Known) -> None:
        self._known = known

    def check(self, sentence: Sentence, rank: Rank) -> Outcome | None:
        """The finding; None if the words make no claim that rules can read."""
        mentions = mentions_of(self._known.cited, sentence)
        subject = self._subject(mentions, rank)
        if subject is None:
            return self._without_values(sentence, rank)
        named = self._properties(sentence, subject)
        if not named and not rank.is_counted:
            return None
        named = named or list(self._own(subject))
        places = {name: self._places(subject, name, rank, sentence, mentions) for name in named}
        found = {name: place for name, place in places.items() if place}
        if not found:
            return self._without_values(sentence, rank)
        if any(rank.place in place for place in found.values()):
            return MATCHED
        is_scoped = len({element for _, element in mentions}) > 1 or _SCOPE.search(sentence.folded)
        if not (rank.is_counted or is_scoped):
            return unread("rules cannot tell what this is ranked among")
        name, place = next(iter(found.items()))
        what = "highest" if rank.is_highest else "lowest"
        own = self._known.cited[subject].names[0]
        shown = " or ".join(map(str, sorted(place)))
        written = sentence.text[rank.start : rank.end].strip()
        return left_out(
            f"{written!r} is wrong: by {name}, {own} is number {shown} of those cited, counted from the {what}"
        )

    def _without_values(self, sentence: Sentence, rank: Rank) -> Outcome | None:
        if not rank.is_counted:
            return None
        written = sentence.text[rank.start : rank.end].strip()
        if self._known.contains(written):
            return MATCHED
        if any(
            "rank" in value.property.lower() and value.number == rank.place
            for value in self._known.values
        ):
            return MATCHED
        if rank.place == 1:
            return unread("rules cannot tell what this is the first of")
        return left_out(f"{written!r} cannot be computed from what is cited")

    def _subject(self, mentions: Sequence[tuple[int, int]], rank: Rank) -> int | None:
        """The element that is named last before the rank, else first after it."""
        before = [element for start, element in mentions if start < rank.start]
        after = [element for start, element in mentions if start > rank.start]
        return before[-1] if before else after[0] if after else None

    def _properties(self, sentence: Sentence, subject: int) -> list[str]:
        """The numeric properties of the subject that the sentence names."""
        words = [token.word for token in sentence.tokens]
        return [
            name
            for name in self._own(subject)
            if any(word.startswith(stems_of(name)) for word in words)
        ]

    def _own(self, subject: int) -> dict[str, None]:
        """The numeric properties of the subject."""
        values = self._known.values
        return dict.fromkeys(value.property for value in values if value.element == subject)

    def _places(
        self,
        subject: int,
        property_name: str,
        rank: Rank,
        sentence: Sentence,
        mentions: Sequence[tuple[int, int]],
    ) -> set[int]:
        """The places that the subject can have among those that are cited, and among those that are named.

        Empty if it is alone. Of elements with several values, those count that the sentence shows.
        """
        values = {
            element: _shown(each, sentence)
            for element, each in self._known.comparable(property_name).items()
        }
        sign = 1 if rank.is_highest else -1
        places: set[int] = set()
        for group in (values.keys(), values.keys() & {element for _, element in mentions}):
            if subject not in group or len(group) < 2:
                continue
            own = [sign * number for number in values[subject]]
            others = [[sign * number for number in values[each]] for each in group - {subject}]
            best = 1 + sum(min(other) > max(own) for other in others)
            worst = 1 + sum(max(other) > min(own) for other in others)
            places |= set(range(best, worst + 1))
        return places


def _shown(values: Sequence[Value], sentence: Sentence) -> list[Decimal]:
    """Those of the values that the sentence has; all of them if it has none."""
    shown = [
        value.number
        for value in values
        for number in sentence.numbers
        for written, step in number.readings
        if is_rounded(abs(written), step, abs(value.number))
    ]
    return shown or [value.number for value in values]


_SCOPE: Final = re.compile(
    r"\b(?:of the|among|of all|der (?:drei|vier|funf|sechs|beiden)|unter den|von den"
    r"|parmi|des (?:deux|trois|quatre|cinq)|de los|de las|entre)\b"
)
"""Words that say among what something has a rank."""


@cache
def _ordinals() -> dict[str, int]:
    return {
        word: int(place)
        for place, listed in table("rank_ordinals").items()
        for word in listed.split()
    }


@cache
def _patterns() -> tuple[tuple[bool, re.Pattern[str]], ...]:
    """By whether the highest comes first."""
    ordinals = alternatives(_ordinals())
    found = []
    for key, words in table("rank_words").items():
        superlatives = {fold(word) for word in words.split()}
        superlatives |= set(phrases(table("rank_phrases")[key]))
        pattern = rf"(?<!\w)(?P<place>(?:{ordinals})[- ]?)?(?:{alternatives(frozenset(superlatives))})(?!\w)"
        found.append((key == "highest", re.compile(pattern)))
    return tuple(found)


@cache
def _place_pattern() -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){_PLACE_WORDS} (?P<place>{alternatives(_ordinals())})(?!\w)")
