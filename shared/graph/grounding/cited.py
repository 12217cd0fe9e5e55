"""The passages that a claim cites, with what rules read in them. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from functools import cache, cached_property, lru_cache
from typing import Any, Final, NamedTuple

from shared.graph.grounding.dates import Date, find_dates
from shared.graph.grounding.findings import instead, to_decimal
from shared.graph.grounding.names import (
    beginning_of,
    find_mentions,
    find_names,
    is_named_literally,
    is_noun_form,
    is_place,
    name_words,
    tokenize,
    translate_place,
)
from shared.graph.grounding.quantities import Quantity, find_quantities
from shared.graph.grounding.units import hint_of
from shared.graph.grounding.words import (
    LANGUAGES,
    alternatives,
    fold,
    fold_in_place,
    lexicon,
    table,
    table_scale,
    word_pattern,
    word_set,
)


class Passage(NamedTuple):
    """A quote and what surrounds it."""

    quote: str
    language: str | None
    decimal_sign: str | None
    """See `find_decimal_sign`."""
    title: str = ""
    """Of the page."""
    heading: str = ""
    """The nearest one above the quote."""
    years: frozenset[int] = frozenset()
    """In which the page can be written without saying so: see `years_of_page`."""

    @property
    def surroundings(self) -> list[str]:
        return [text for text in (self.title, self.heading) if text]


def years_of_page(published: datetime | None, fetched_at: datetime) -> frozenset[int]:
    """The years that a page means by "this year", "last year" and "now"."""
    written = (published or fetched_at).year
    return frozenset((written - 1, written, fetched_at.year))


class Claimed(NamedTuple):
    """A node or edge as it is claimed."""

    ends: Sequence[Sequence[str]]
    """The known names of the node, or of each end of the edge; the first is the one to show."""
    properties: Mapping[str, Any]
    is_edge: bool = False


@dataclass(frozen=True)
class Reading:
    """A passage, and what the rules read in its quote when they need it: an edge has no numbers."""

    passage: Passage

    @cached_property
    def dates(self) -> Sequence[Date]:
        return find_dates(self.passage.quote, self.passage.language)

    @cached_property
    def _quantities(self) -> Sequence[Quantity]:
        passage = self.passage
        return find_quantities(passage.quote, passage.language, passage.decimal_sign, self.dates)

    @cached_property
    def quantities(self) -> Sequence[Quantity]:
        return [each for each in self._quantities if not each.is_label]

    @cached_property
    def labels(self) -> frozenset[Decimal]:
        """Numbers that only name something, as in "ISO 9001"."""
        return frozenset(
            value for each in self._quantities if each.is_label for value in each.values
        )

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(token.word for token in tokenize(self.passage.quote))

    @property
    def begins_with_pronoun(self) -> bool:
        tokens = tokenize(self.passage.quote)
        pronouns = table("pronouns").get(self.passage.language or "", "").split()
        return bool(tokens) and tokens[0].word in pronouns

    def has_unit(self, unit: str) -> bool:
        words, symbols = _unit_patterns(self.passage.language, unit)
        return bool(words.search(self.folded) or symbols.search(self.passage.quote))

    def places_of(self, word: str) -> list[int]:
        """Where the quote has the word in some form: numbers of its words, from 0."""
        alike = self._places.get(beginning_of(word), ())
        return [place for place, quoted in alike if is_noun_form(word, quoted)]

    @cached_property
    def _places(self) -> Mapping[str, Sequence[tuple[int, str]]]:
        """The words of the quote with their places, by what all forms of a word have in common."""
        places: dict[str, list[tuple[int, str]]] = {}
        for place, token in enumerate(tokenize(self.passage.quote)):
            places.setdefault(beginning_of(token.word), []).append((place, token.word))
        return places

    @cached_property
    def folded(self) -> str:
        return fold_in_place(self.passage.quote)


@cache
def _unit_patterns(language: str | None, unit: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """For the words of the unit, in folded text, and its symbols."""
    known = lexicon(language)
    words = frozenset(word for word, meaning in known.units.items() if meaning == unit)
    symbols = frozenset(symbol for symbol, meaning in known.symbols.items() if meaning == unit)
    return (
        re.compile(rf"(?<!\w)(?:{alternatives(words) or '(?!)'})(?!\w)"),
        re.compile(rf"(?<![^\W\d])(?:{alternatives(symbols) or '(?!)'})(?!\w)"),
    )


_read: Final = lru_cache(maxsize=256)(Reading)


_YEARS: Final = range(1000, 3000)
_DIGITS: Final = re.compile(r"\d{1,9}")
_LATIN: Final = re.compile(r"[A-Za-z\u00c0-\u024f]")
_OTHER_SCRIPT: Final = re.compile(r"[^\W\d_A-Za-z\u00c0-\u024f]")
_CONTRACTED_NOT: Final = re.compile(r"n['’]t\b", re.IGNORECASE)
_MAX_DEPTH: Final = 20
_STEM: Final = 5
"""Letters by which the word of a name and its translation are taken for the same: "European", "Europäische"."""


class CitedPassages:
    """The passages that the claims of one element cite."""

    def __init__(self, claimed: Claimed, passages: Sequence[Passage]) -> None:
        self.claimed = claimed
        self.readings = [_read(passage) for passage in passages]
        self.quotes = [passage.quote for passage in passages]
        self.surroundings = [text for passage in passages for text in passage.surroundings]
        self.names = [name for names in claimed.ends for name in names]

    # ---- What is claimed

    @cached_property
    def claimed_numbers(self) -> set[Decimal]:
        """Without sign, with the scale of their property."""
        found: set[Decimal] = set()
        for name, value in self.claimed.properties.items():
            for each in value if isinstance(value, list) else [value]:
                is_number = isinstance(each, int | float) and not isinstance(each, bool)
                if is_number and (number := to_decimal(each)) is not None:
                    found.add(abs(number.scaleb(hint_of(name).scale)))
        return found

    @cached_property
    def claimed_years(self) -> set[int]:
        years = {int(each) for each in self.claimed_numbers if is_year(each)}
        for text in self.claimed_texts:
            years |= {date.year for date in find_dates(text, None) if date.year}
        return years

    @cached_property
    def claimed_texts(self) -> list[str]:
        return list(_texts(self.claimed.properties))

    @cached_property
    def numbers_of_names(self) -> set[Decimal]:
        """Numbers in the element's own names, such as 737 of "Boeing 737"."""
        return {Decimal(digits) for name in self.names for digits in _DIGITS.findall(name)}

    # ---- What is quoted

    @cached_property
    def quantities(self) -> list[Quantity]:
        return [each for reading in self.readings for each in reading.quantities]

    @cached_property
    def dates(self) -> list[Date]:
        return [each for reading in self.readings for each in reading.dates]

    @property
    def years(self) -> set[int]:
        return {date.year for date in self.dates if date.year}

    @cached_property
    def words(self) -> frozenset[str]:
        none: frozenset[str] = frozenset()
        return none.union(*[reading.words for reading in self.readings])

    @cached_property
    def is_negated(self) -> bool:
        return bool(self.words & word_set("negations")) or any(
            _CONTRACTED_NOT.search(quote) for quote in self.quotes
        )

    @property
    def is_in_known_language(self) -> bool:
        return all(reading.passage.language in LANGUAGES for reading in self.readings)

    @cached_property
    def is_foreign(self) -> bool:
        """Whether a quote is in a known language other than English."""
        return any(reading.passage.language not in ("en", None) for reading in self.readings)

    @cached_property
    def is_in_other_script(self) -> bool:
        """Whether all quotes are mostly in a script other than Latin, whose words of scale the rules do not know."""
        return bool(self.quotes) and all(
            len(_OTHER_SCRIPT.findall(quote)) > len(_LATIN.findall(quote)) for quote in self.quotes
        )

    @cached_property
    def table_scale(self) -> int:
        """The power of ten that a quote or its heading gives for all numbers, as in "(in thousands)"."""
        found = (table_scale(text) for text in [*self.quotes, *self.surroundings])
        return next((power for power in found if power), 0)

    @property
    def numbers_instead(self) -> str:
        """The end of a reason: the numbers of the quotes as written."""
        return instead(
            each.written_in(reading.passage.quote)
            for reading in self.readings
            for each in reading.quantities
            if each.end
        )

    def speaks_of(self, table: str) -> bool:
        """Whether a quote has a word of the table, such as "losses"."""
        return any(word_pattern(table).search(reading.folded) for reading in self.readings)

    def is_year_of_date(self, quantity: Quantity) -> bool:
        return not quantity.unit and any(date.year == quantity.values[0] for date in self.dates)

    def contain(self, written: str) -> bool:
        """Whether a quote has `written`, not as a part of a longer word or number."""
        return contains(written, self.quotes)

    def know(self, written: str) -> bool:
        """Whether it is a part of the element's names, or of a title or heading."""
        return contains(written, [*self.surroundings, *self.names])

    # ---- Names

    def mention(self, name: str) -> bool:
        """Whether a quote has the name, or the name of the place in its language, such as "Wien" for "Vienna"."""
        return is_mentioned(name, self.quotes) or any(
            is_mentioned(other, [reading.passage.quote])
            for reading in self.readings
            for other in translate_place(name, reading.passage.language)
        )

    def may_translate(self, name: str) -> bool:
        """Whether a quote may have `name` in another language or script.

        Rules know institutions by words such as "bank": the other words must be in the quote in some form.
        """
        if self.is_in_other_script:
            return _LATIN.search(name) is not None
        if not self.is_foreign:
            return False
        words = [word for word in name_words(name) if word not in word_set("particles")]
        generic = word_set("generic")
        own = [word for word in words if word not in generic]
        if len(own) == len(words):
            return False
        if not own:
            return any(word in quoted for word in words for quoted in self.words)
        return all(self.mention(word) or self._has_stem(word) for word in own)

    def have_all_words(self, name: str) -> bool:
        """Whether quotes, title and heading have each word of a name of several: "Werk in Ulm" has those of "Werk Ulm"."""
        words = [word for word in name_words(name) if word not in word_set("particles")]
        around = {token.word for text in self.surroundings for token in tokenize(text)}
        known = self.words | around
        return len(words) > 1 and all(
            any(is_noun_form(word, each) for each in known) for word in words
        )

    @property
    def name_after_pronoun(self) -> bool:
        """Whether the quotes that name the element begin with a word such as "its", which may mean something else."""
        naming = [each for each in self.readings if self._is_named_in(each.passage.quote)]
        return bool(naming) and all(each.begins_with_pronoun for each in naming)

    def _is_named_in(self, quote: str) -> bool:
        return any(is_mentioned(name, [quote]) for name in self.names)

    def have_unit(self, unit: str) -> bool:
        """Whether the quotes have the unit, with a number or without: "a litre"."""
        return any(reading.has_unit(unit) for reading in self.readings)

    def share_surname(self, name: str) -> bool:
        """Whether a quote names two people of one surname, of whom `name` is the first: "Niall and Conor Whelan"."""
        first, _, last = name.partition(" ")
        quotes = [quote for quote in self.quotes if last and first in quote and last in quote]
        if not quotes:
            return False
        joint = "|".join(sorted(word_set("joint_names")))
        others = r"(?:, [^\W\d]\w+)*"
        pattern = rf"\b{re.escape(first)}{others},? (?:{joint}|&) [^\W\d]\w+ {re.escape(last)}\b"
        return any(re.search(pattern, quote) for quote in quotes)

    def have_adjective_of(self, name: str) -> bool:
        """Whether a quote has what may be the adjective of a city, such as "grenobloise" of "Grenoble"."""
        if not name[:1].isupper() or not name.isalpha():
            return False
        folded = fold(name)
        stems = [stem for cut in range(3) if len(stem := folded[: len(folded) - cut]) >= _STEM - 1]
        endings = table("demonyms")
        return any(
            stem + ending in reading.words
            for reading in self.readings
            for ending in endings.get(reading.passage.language or "", "").split()
            for stem in stems
        )

    def _has_stem(self, word: str) -> bool:
        return len(word) >= _STEM and any(each.startswith(word[:_STEM]) for each in self.words)

    def is_own_name(self, name: str) -> bool:
        """Whether it is a part of a name of the element, or the other way round."""
        return any(is_mentioned(name, [own]) or is_mentioned(own, [name]) for own in self.names)

    @cached_property
    def other_names(self) -> list[str]:
        """Proper names in the quotes that are none of the element's, and no value of its properties."""
        known = {word for name in self.names for word in name_words(name)}
        known |= {token.word for text in self.claimed_texts for token in tokenize(text)}
        others = []
        for reading in self.readings:
            quote = reading.passage.quote
            for name in find_names(quote, reading.passage.language):
                words = [word for word in name_words(name.text) if len(word) > 1]
                is_known = any(is_noun_form(word, each) for word in words for each in known)
                is_name = name.is_certain or not name.start or is_place(quote, name)
                if words and is_name and not is_known:
                    others.append(name.text)
        return others


def is_year(value: Decimal) -> bool:
    return value == value.to_integral_value() and int(value) in _YEARS


def _texts(value: Any, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list) and depth <= _MAX_DEPTH:
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _texts(each, depth + 1)


def is_mentioned(name: str, texts: Sequence[str]) -> bool:
    for text in texts:
        if is_named_literally(name, text) or find_mentions(name, text):
            return True
    if name.isascii():
        return False
    # Chinese and other scripts have no blanks between words.
    has_no_blanks = any(each >= "\u2e80" or "\u0e00" <= each < "\u1000" for each in name)
    return has_no_blanks and any(fold(name) in fold(text) for text in texts)


_PART_BEFORE: Final = re.compile(r"(?:\w|\d[.,'’])$")
_PART_AFTER: Final = re.compile(r"\w|[.,'’]\d")
_folded: Final = lru_cache(maxsize=256)(fold)


def contains(written: str, texts: Sequence[str]) -> bool:
    """Whether one of the texts has `written`, not as a part of a longer word or number."""
    wanted = fold(written)
    return any(_stands_alone(wanted, _folded(text)) for text in texts)


def _stands_alone(wanted: str, text: str) -> bool:
    start = text.find(wanted)
    while start >= 0:
        end = start + len(wanted)
        before = _PART_BEFORE.search(text[max(0, start - 2) : start])
        if not before and not _PART_AFTER.match(text, end):
            return True
        start = text.find(wanted, start + 1)
    return False
