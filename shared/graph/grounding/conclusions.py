"""Decides whether the numbers, dates and names of a conclusion follow from what it cites. Pure.

Each must be in the cited elements, or be computed from numbers of the same paragraph that are known themselves.
What is computed is computed again and compared. Reasoning is not checked.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from shared.graph.grounding.arithmetic import is_reversed
from shared.graph.grounding.conclusion_names import NameRules
from shared.graph.grounding.conclusion_numbers import ConclusionNumbers, ConclusionText
from shared.graph.grounding.dates import Date
from shared.graph.grounding.findings import SUPPORTED, Finding, refused, unverified
from shared.graph.grounding.known import CitedElement, Known
from shared.graph.grounding.language import find_decimal_sign, find_language, likely_languages
from shared.graph.grounding.ranks import RankRules, find_ranks
from shared.graph.grounding.written import Sentence, read_sentences, strip_markup

CONCLUSION_RULES: Final = 3
"""Version of these rules. A conclusion is stored with the version that accepted it."""
FORECAST: Final = "invalidation"
"""The text whose numbers and dates are thresholds of a forecast, and free."""
_ORDER: Final = ("content", "summary", "name", FORECAST)
"""What one text computes, the texts after it may repeat."""
_POSSESSIVE: Final = re.compile(r"['’]s\b")
_LETTERS: Final = re.compile(r"[A-Za-z\u00c0-\u024f]")
_OTHER_SCRIPT: Final = re.compile(r"[^\W\d_A-Za-z\u00c0-\u024f]")
_MAX_SHORT_WORDS: Final = 25


@dataclass(frozen=True)
class ConclusionFinding:
    """What the rules say of one number, date, rank or name."""

    text: str
    """The text that has it: `name`, `summary`, `content` or `invalidation`."""
    written: str
    finding: Finding


def check_conclusion(
    texts: Mapping[str, str],
    cited: Sequence[CitedElement],
    *,
    owner_texts: Sequence[str] = (),
    terms: Mapping[str, Any] | None = None,
) -> list[ConclusionFinding]:
    """A finding for each number, date, rank and name of `texts`.

    The names in `owner_texts`, such as the mission, are allowed. `terms` are known besides: the conclusion's own confidence,
    horizon and time.
    """
    own = CitedElement("", (), tuple((terms or {}).items()))
    return _ConclusionCheck(texts, cited, own, owner_texts).findings()


class _ConclusionCheck:
    def __init__(
        self,
        texts: Mapping[str, str],
        cited: Sequence[CitedElement],
        own: CitedElement,
        owner_texts: Sequence[str],
    ) -> None:
        everything = strip_markup("\n".join(texts.values()))
        # "s" is a word in French.
        language = find_language(_POSSESSIVE.sub("", everything))
        sign = find_decimal_sign(everything, language)
        self._texts = [
            ConclusionText(key, read_sentences(texts[key], language, sign))
            for key in _ORDER
            if key in texts
        ]
        self._known, self._terms = Known(cited), Known([own])
        self._ranks = RankRules(self._known)
        named_in = language or _language_of_short(everything)
        self._names = NameRules(self._known, owner_texts, named_in)
        letters = len(_LETTERS.findall(everything))
        self._numbers = ConclusionNumbers(
            [text for text in self._texts if text.key != FORECAST],
            self._known,
            self._terms,
            language,
            is_other_script=len(_OTHER_SCRIPT.findall(everything)) > letters,
        )

    def findings(self) -> list[ConclusionFinding]:
        found = [ConclusionFinding(*number) for number in self._numbers.check()]
        for text in self._texts:
            for place, sentence in enumerate(text.sentences):
                if text.key != FORECAST:
                    found += self._dates_and_ranks(text, place, sentence)
            names = self._names.check(text.sentences, is_title=text.key == "name")
            found += [ConclusionFinding(text.key, *name) for name in names]
        return found

    # ---- Dates and ranks

    def _dates_and_ranks(
        self, text: ConclusionText, place: int, sentence: Sentence
    ) -> Iterator[ConclusionFinding]:
        for date in sentence.dates:
            written = sentence.text[date.start : date.end]
            yield ConclusionFinding(text.key, written, self._date(date, written))
        for rank in find_ranks(sentence):
            if (finding := self._ranks.check(sentence, rank)) is not None:
                written = sentence.text[rank.start : rank.end].strip()
                yield ConclusionFinding(text.key, written, finding)
        operands = text.operands.get(place, [])
        for first, second in pairwise(operands):
            change = is_reversed(first, second, sentence)
            stated = sentence.last_trend(first.start)
            if change and stated and change != stated and first.is_like(second):
                way = "a rise" if change > 0 else "a fall"
                yield ConclusionFinding(
                    text.key,
                    second.written,
                    refused(f"from {first.written} to {second.written} is {way}"),
                )

    def _date(self, date: Date, written: str) -> Finding:
        if self._known.has_date(date) or self._terms.has_date(date):
            return SUPPORTED
        is_year = date.year and date.month is None and date.quarter is None
        if is_year and any(value.number == date.year for value in self._known.values):
            return SUPPORTED
        if date.is_ambiguous or date.year is None:
            return unverified("rules cannot tell which date this is")
        return refused(f"the date {written!r} is not in anything that is cited")


def _language_of_short(text: str) -> str | None:
    """The likely language of a text that is too short to tell; None if it is long, and so in none that is known."""
    if len(text.split()) > _MAX_SHORT_WORDS:
        return None
    likely = likely_languages(text)
    # German is the most careful choice: capitals tell little in it.
    return "de" if "de" in likely or not likely else likely[0]
