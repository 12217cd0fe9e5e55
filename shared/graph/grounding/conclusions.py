"""Decides whether the numbers, dates and names of a conclusion follow from what it cites. Pure.

Each must be in the cited elements, or be computed from numbers of the same paragraph that are known themselves.
What is computed is computed again and compared. Reasoning is not checked.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Final

from shared.graph.grounding.arithmetic import is_reversed
from shared.graph.grounding.conclusion_numbers import ConclusionNumbers, ConclusionText
from shared.graph.grounding.dates import Date
from shared.graph.grounding.known import CitedElement, Known
from shared.graph.grounding.names import (
    Name,
    find_names,
    is_mentioned,
    is_noun_form,
    is_place,
    is_place_name,
    name_words,
    tokenize,
    translate_place,
)
from shared.graph.grounding.outcomes import MATCHED, Outcome, left_out, unread
from shared.graph.grounding.ranks import RankRules, find_ranks
from shared.graph.grounding.words import (
    LANGUAGES,
    find_decimal_sign,
    find_language,
    fold,
    is_function_word,
    lexicon,
    likely_languages,
    word_set,
)
from shared.graph.grounding.written import Sentence, as_digits, read_sentences, strip_markup

_CODE: Final = re.compile(r"(?<![\w.,])(?=\w*\d)(?=\w*[^\W\d_])[\w-]{2,}(?!\w)")
_PERIOD: Final = re.compile(
    r"[QTH][1-4]|[1-4][QTH](?:\d\d|\d{4})?|FY(?:\d{2}(?:\d\d)?)?|\d{3}0s|\d{3}0er|\d{1,3}(?:st|nd|rd|th|er|e)",
    re.IGNORECASE,
)
_PARTICLES: Final = re.compile(r"\s(?:der|des|von|van|und|für|zu|zum|im|de|of|the|la|le|l|d)\s")
_IN: Final = re.compile(r"\b(?:in|aus)\s+$", re.IGNORECASE)
_ADJECTIVE: Final = re.compile(r"e[rsnm]?$")
_NOUN: Final = re.compile(r"(?:ung|ungen|heit|keit|tion|tionen|tat|schaft|ismus|nis|enz|anz)$")
_LABEL: Final = re.compile(r"\s{0,8}(?::|–|—|\s-\s)")
_MIN_STEM: Final = 4
_TITLE_PART: Final = 0.6
"""Part of the words of a title with capitals from which on these tell nothing."""


class NameRules:
    """Checks the names of a conclusion's texts."""

    def __init__(self, known: Known, owner_texts: Sequence[str], language: str | None) -> None:
        self._texts = [*known.texts, *owner_texts]
        self._words = {token.word for text in self._texts for token in tokenize(text)}
        self._names = known.names
        self._language = language

    def check(
        self, sentences: Sequence[Sentence], *, is_title: bool = False
    ) -> Iterator[tuple[str, Outcome]]:
        """Each name of the sentences, once, with its finding."""
        found: dict[str, Outcome] = {}
        certain = {
            fold(name.text)
            for sentence in sentences
            for name in find_names(sentence.text, self._language)
            if name.is_certain and " " not in name.text
        }
        for sentence in sentences:
            is_headline = (is_title or sentence.is_heading) and _is_headline(sentence)
            for name in find_names(sentence.text, self._language):
                if _is_read(sentence, name.start, name.end) or _PERIOD.fullmatch(name.text):
                    continue
                finding = self._name(sentence, name, certain, is_headline=is_headline)
                if finding is not None:
                    found.setdefault(name.text, finding)
            for code, finding in self._codes(sentence):
                found.setdefault(code, finding)
        yield from found.items()

    def _name(
        self, sentence: Sentence, name: Name, certain: set[str], *, is_headline: bool
    ) -> Outcome | None:
        unknown = [word for word in self._units(sentence, name) if not self._is_known(word)]
        if is_mentioned(name.text, self._texts):
            return MATCHED
        if not unknown:
            return MATCHED if " " not in name.text else unread("its words are cited separately")
        if self._has_other_form(name.text):
            return unread("what is cited has a different form of it")
        if all(word_set("no_names").issuperset([fold(word)]) for word in unknown):
            return None
        places = [word for word in (*unknown, name.text) if is_place_name(word, self._language)]
        is_label = bool(_LABEL.match(sentence.text, name.end)) and not name.start
        if places:
            return _refuse(places[0])
        if self._language not in LANGUAGES:
            return unread("rules do not know names in this language")
        if is_headline or is_label:
            return None
        if self._is_certain(sentence, name, unknown) or fold(name.text) in certain:
            return _refuse(name.text)
        # It may be a common noun.
        return None

    def _is_certain(self, sentence: Sentence, name: Name, unknown: Sequence[str]) -> bool:
        written = sentence.text[name.start : name.end]
        if any(fold(word.strip(".")) in word_set("legal_forms") for word in written.split()[1:]):
            return True
        if not name.is_certain:
            return self._language == "de" and _is_german_place(sentence.text, name)
        if any(word.isupper() and len(word) > 1 for word in unknown):
            return True
        if self._language == "de":
            # "Bevölkerung Ghanas" is a noun with a name, "Länder der Region" are two nouns.
            first = written.split()[0] if name.start == sentence.tokens[0].start else ""
            left = [word for word in unknown if word != first or not _ADJECTIVE.search(word)]
            parts = _PARTICLES.split(written)
            return any(sum(word in part.split() for word in left) > 1 for part in parts)
        # "Production of Lithium", at the beginning.
        starts = name.start == sentence.tokens[0].start
        return not (
            starts and len(unknown) == 1 and written.startswith(unknown[0]) and " " in written
        )

    def _units(self, sentence: Sentence, name: Name) -> list[str]:
        """The words of the name that can be unknown; in German, what hyphens join is one."""
        text = sentence.text[name.start : name.end]
        parts = text.split() if self._language == "de" else re.split(r"[\s\-–/]+", text)
        words = [part.strip(".,'’&") for part in parts if _is_telling(part)]
        return [word for word in words if as_digits(word.lower(), self._language) == word.lower()]

    def _is_known(self, word: str) -> bool:
        folded = fold(word)
        if is_mentioned(word, self._texts) or folded in word_set("no_names"):
            return True
        parts = [token.word for token in tokenize(word)]
        if not parts:
            return True
        if len(parts) > 1 and self._language == "de":
            # "Lithium-Produktion", and "Pro-Kopf-Einkommen", which is no name.
            return any(part in self._words for part in parts) or not parts[0].isdigit()
        return all(
            part in word_set("no_names")
            or any(is_noun_form(part, each) for each in self._words if each[:1] == part[:1])
            for part in parts
        )

    def _has_other_form(self, name: str) -> bool:
        """Whether a known name is the initials, the adjective or the translation of `name`."""
        folded = fold(name)
        if len(folded) > 1 and any(folded in _initials(each) for each in self._texts):
            return True
        acronym = "".join(word[0] for word in name_words(name))
        if len(acronym) > 1 and acronym in self._words:
            return True
        if any(
            is_mentioned(other, self._texts)
            for language in LANGUAGES
            for other in translate_place(name, language)
        ):
            return True
        return self._is_adjective(folded)

    def _is_adjective(self, word: str) -> bool:
        """Whether it may be the adjective of a known name, such as "Ghanaian"."""
        if len(word) <= _MIN_STEM or " " in word or "-" in word:
            return False
        stems = {
            part[:_MIN_STEM]
            for name in self._names
            for part in name_words(name)
            if len(part) >= _MIN_STEM
        }
        stems |= {each[: _MIN_STEM + 1] for each in self._words if len(each) > _MIN_STEM}
        return any(word.startswith(stem) for stem in stems)

    def _codes(self, sentence: Sentence) -> Iterator[tuple[str, Outcome]]:
        """Words of letters and digits, such as "X200"."""
        known = lexicon(self._language)
        for match in _CODE.finditer(sentence.text):
            code = match[0]
            is_unit = code in known.symbols or fold(code) in known.units
            if _is_read(sentence, *match.span()) or is_unit or _PERIOD.fullmatch(code):
                continue
            if fold(code) in word_set("no_names"):
                continue
            if is_mentioned(code, self._texts):
                yield code, MATCHED
            elif not any(part.isdigit() for part in code.split("-")):
                yield code, _refuse(code)
            else:
                yield code, unread("rules cannot check this")


def _is_read(sentence: Sentence, start: int, end: int) -> bool:
    """Whether it is a date, or a number with its unit."""
    spans = [(date.start, date.end) for date in sentence.dates]
    spans += [
        (number.start, number.end) for number in sentence.numbers if number.unit or number.is_scaled
    ]
    return any(first < end and start < last for first, last in spans)


def _refuse(name: str) -> Outcome:
    return left_out(f"{name!r} is not named in anything that is cited")


def _is_telling(part: str) -> bool:
    word = fold(part.strip(".,'’&"))
    return (
        len(word) > 1
        and word not in word_set("legal_forms")
        and word not in word_set("titles")
        and word not in word_set("particles")
        and not is_function_word(word)
    )


def _is_german_place(text: str, name: Name) -> bool:
    """As `is_place`, without "nach Bevölkerung" and what else is a common noun by its ending."""
    is_in = _IN.search(text[max(0, name.start - 20) : name.start]) is not None
    return is_in and is_place(text, name) and not _NOUN.search(fold(name.text))


def _is_headline(sentence: Sentence) -> bool:
    words = [
        token for token in sentence.tokens if len(token.word) > 2 and not token.word[0].isdigit()
    ]
    return bool(words) and sum(token.is_capitalized for token in words) >= _TITLE_PART * len(words)


@cache
def _initials(text: str) -> frozenset[str]:
    """The initials of a short text."""
    words = [token.word for token in tokenize(text)]
    if not 1 < len(words) <= 8:
        return frozenset()
    telling = [word for word in words if not is_function_word(word)]
    return frozenset(("".join(word[0] for word in words), "".join(word[0] for word in telling)))


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
    finding: Outcome


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
        language, sign = language_and_sign(everything)
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
                    left_out(f"from {first.written} to {second.written} is {way}"),
                )

    def _date(self, date: Date, written: str) -> Outcome:
        if self._known.has_date(date) or self._terms.has_date(date):
            return MATCHED
        is_year = date.year and date.month is None and date.quarter is None
        if is_year and any(value.number == date.year for value in self._known.values):
            return MATCHED
        if date.is_ambiguous or date.year is None:
            return unread("rules cannot tell which date this is")
        return left_out(f"the date {written!r} is not in anything that is cited")


def language_and_sign(text: str) -> tuple[str | None, str | None]:
    """The language of a conclusion and its decimal sign, where they can be told. `text` is without markup."""
    # "s" is a word in French.
    language = find_language(_POSSESSIVE.sub("", text))
    return language, find_decimal_sign(text, language)


def _language_of_short(text: str) -> str | None:
    """The likely language of a text that is too short to tell; None if it is long, and so in none that is known."""
    if len(text.split()) > _MAX_SHORT_WORDS:
        return None
    likely = likely_languages(text)
    # German is the most careful choice: capitals tell little in it.
    return "de" if "de" in likely or not likely else likely[0]
