"""Whether a claimed text follows from its quotes: its dates, quantities, codes, names and words. Pure."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from shared.graph.grounding.cited import CitedPassages, Reading, is_mentioned
from shared.graph.grounding.dates import Date, find_dates, parse_date
from shared.graph.grounding.findings import (
    SUPPORTED,
    Finding,
    Verdict,
    instead,
    listed,
    refused,
    unverified,
    worst,
)
from shared.graph.grounding.language import find_language, is_function_word
from shared.graph.grounding.lexicon import lexicon
from shared.graph.grounding.matching import MIN_ROUNDED, is_same
from shared.graph.grounding.names import (
    Token,
    find_mentions,
    find_names,
    is_noun_form,
    is_place,
    name_words,
    tokenize,
)
from shared.graph.grounding.quantities import Quantity, find_quantities
from shared.graph.grounding.words import fold, table, word_set

_MAX_NAME_WORDS: Final = 5
"""A text of more words is a sentence, in which a capital letter may be no name."""
_SENTENCE_ENDS: Final = (".", "!", "?")
_TWO_READINGS: Final = re.compile(r"\d[.,]\d")
_TIME: Final = re.compile(r"(?<![\d:])([01]?\d|2[0-3]):([0-5]\d)(?::[0-5]\d)?(?![\d:])")
_CODE: Final = re.compile(r"(?<!\w)(?=\w*\d)(?=\w*[^\W\d_])[\w-]{2,}(?!\w)")
_PERIOD: Final = re.compile(
    r"[QTH][1-4]|[1-4][QTH](?:\d\d|\d{4})?|FY(?:\d{2}(?:\d\d)?)?|\d{3}0s|\d{1,3}(?:st|nd|rd|th)",
    re.IGNORECASE,
)
"""A part of a year, a decade or an ordinal, which a quote mostly writes in another way."""
_QUARTER: Final = re.compile(r"[QT][1-4]", re.IGNORECASE)
_YEAR_CHARS: Final = 4
_MAX_MONTH_CHARS: Final = 12
_ADDRESS: Final = re.compile(r"[^\s.@]*+(?:[.@](?![^\W\d])[^\s.@]*+)*+[.@][^\W\d]\S*+")


class TextRules:
    def __init__(self, cited: CitedPassages) -> None:
        self._cited = cited

    def check(self, text: str) -> Finding:
        """The finding about a text of a property."""
        if (day := parse_date(text)) is not None:
            finding = self._date(day, text)
            if finding.verdict is Verdict.SUPPORTED and ":" in text:
                return unverified("rules cannot check times")
            return finding
        of_month = self._month(text)
        if of_month is not None:
            return of_month
        is_long = text.count(" ") >= _MAX_NAME_WORDS
        if is_long and any(_has_sentence(quote, text) for quote in self._cited.quotes):
            return SUPPORTED
        own_language = find_language(text)
        if own_language is not None:
            return self._check_in(own_language, text, is_english_first=False)
        # A short text can be in the language of any of its quotes.
        languages = dict.fromkeys(reading.passage.language for reading in self._cited.readings)
        return min(
            (self._check_in(each, text, is_english_first=True) for each in languages),
            key=lambda finding: finding.verdict,
            default=SUPPORTED,
        )

    def _check_in(self, language: str | None, text: str, *, is_english_first: bool) -> Finding:
        dates = find_dates(text, language)
        signs: set[str | None] = {"."}
        if _TWO_READINGS.search(text):
            signs |= {reading.passage.decimal_sign for reading in self._cited.readings}
        quantities = [
            quantity
            for sign in sorted(signs, key=str)
            for quantity in find_quantities(
                text, language, sign, dates, is_english_first=is_english_first
            )
        ]
        quoted = {value for each in self._cited.quantities for value in each.values}
        if text.strip().isdigit() and dates and dates[0].year in quoted - self._cited.years:
            return unverified(f"{text.strip()} may not be a year in the quote")
        findings = [
            self._date(date, text[date.start : date.end])
            for date in dates
            # "1900" can be a number.
            if not (date.year in quoted and date.month is None and date.quarter is None)
        ]
        findings += self._quantities(text, quantities, dates)
        findings += self._codes(text, quantities)
        measures = [range(each.start, each.end) for each in quantities if each.unit and each.end]
        findings += self._names(text, language, measures)
        finding = worst(findings)
        if finding.verdict is not Verdict.SUPPORTED:
            return finding
        spans = [(each.start, each.end) for each in dates]
        spans += [(each.start, each.end) for each in quantities if each.end]
        return self._words(text, spans)

    # ---- Dates

    def _date(self, date: Date, written: str) -> Finding:
        cited = self._cited
        if any(date.follows_from(each) for each in cited.dates):
            others = [each for each in cited.dates if not date.follows_from(each)]
            if any(
                (each.month and date.month) or (each.year and each.year not in cited.claimed_years)
                for each in others
            ):
                return unverified(f"the quote has other dates: {listed(others)}")
            return SUPPORTED
        for reading in cited.readings:
            around = find_dates("\n".join(reading.passage.surroundings), reading.passage.language)
            # "on 15 September", in a page about 2024.
            completed = [
                Date(other.year, each.month, each.day)
                for each in reading.dates
                for other in [*around, *reading.dates]
                if each.year is None and other.year
            ]
            if any(date.follows_from(each) for each in [*around, *completed]):
                return unverified(f"part of {written} is elsewhere on the page")
            if any(_can_be(each, date, reading.passage.quote) for each in reading.dates):
                return unverified(f"the quote can be read as {written}")
        if cited.is_in_other_script and _has_parts(date, cited.quotes):
            return unverified("rules cannot read dates in this script")
        return refused(f"the date {written} is not in the quote{instead(map(str, cited.dates))}")

    def _month(self, written: str) -> Finding | None:
        """The finding about a text that is the name of a month; None if no quote has another name of a month."""
        cited, month = self._cited, self._month_of(written)
        if month is None or cited.contain(written.strip()):
            return None
        quoted = {each.month for each in cited.dates if each.month} | {
            number
            for reading in cited.readings
            for word in reading.words - word_set("ambiguous_months")
            if (number := lexicon(reading.passage.language).months.get(word))
        }
        if month in quoted:
            return unverified(f"{written!r} has a different form in the quote")
        return refused(f"{written!r} is not in the quote") if quoted else None

    def _month_of(self, text: str) -> int | None:
        """The month that the whole text is the name of, in the language of a quote or in English."""
        word = fold(text.strip().rstrip("."))
        if len(word) > _MAX_MONTH_CHARS:
            return None
        languages = dict.fromkeys(reading.passage.language for reading in self._cited.readings)
        months = (lexicon(each).months.get(word) for each in languages)
        return next((month for month in months if month), None)

    # ---- Quantities and codes

    def _quantities(
        self, text: str, quantities: Sequence[Quantity], dates: Sequence[Date]
    ) -> Iterator[Finding]:
        cited = self._cited
        by_place: dict[int, list[Quantity]] = {}
        for quantity in quantities:
            is_of_name = not quantity.unit and cited.numbers_of_names.intersection(quantity.values)
            is_of_date = any(
                date.start <= quantity.start < date.end
                and not (quantity.unit and date.end - date.start == _YEAR_CHARS)
                for date in dates
            )
            if not is_of_name and not is_of_date:
                by_place.setdefault(quantity.start, []).append(quantity)
        times = {
            place for match in _TIME.finditer(text) for place in (match.start(1), match.start(2))
        }
        for readings in by_place.values():
            finding = self._quantity(text, readings)
            if finding.verdict is Verdict.REFUSED and readings[0].start in times:
                finding = unverified("rules cannot check times")
            yield finding
        units = {quantity.unit for quantity in quantities}
        others = [
            each
            for each in cited.quantities
            if each.unit in units
            and not any(is_same(one, each) for one in quantities)
            and abs(each.values[0]) not in cited.claimed_numbers
            and not cited.is_year_of_date(each)
        ]
        if by_place and others:
            shown = listed(f"{each.values[0]:f}" for each in others)
            yield unverified(f"the quote has other values of this kind: {shown}")

    def _quantity(self, text: str, readings: Sequence[Quantity]) -> Finding:
        """The finding about one quantity of a text, which can be read in several ways."""
        cited, first = self._cited, readings[0]
        written = text[first.start : first.end] or f"{first.values[0]:f}"
        found = [each for each in cited.quantities if any(is_same(one, each) for one in readings)]
        if found:
            return self._found_quantity(text, written, readings, found)
        if first.is_label and any(first.values[0] in reading.labels for reading in cited.readings):
            return SUPPORTED
        is_named = first.is_label and cited.know(written)
        if is_named or (not first.unit and cited.contain(written)):
            return SUPPORTED
        if first.unit == "duration-year" and any(
            word in cited.words
            for word in table("periods").get(f"{first.values[0].normalize():f}", "").split(", ")
        ):
            return unverified(f"{written!r} has a different form in the quote")
        return refused(f"{written!r} is not in the quote{cited.numbers_instead}")

    def _found_quantity(
        self, text: str, written: str, readings: Sequence[Quantity], found: Sequence[Quantity]
    ) -> Finding:
        """The same for one that has the value of `found`."""
        cited, first = self._cited, readings[0]
        quoted = {abs(value) for each in found for value in each.values}
        is_exact = any(abs(one.values[0]) in quoted for one in readings)
        is_bare = not first.unit and not first.scale
        if not is_exact and is_bare and abs(first.values[0]) < MIN_ROUNDED:
            return unverified(f"{written!r} would be rounded")
        if not any(one.unit == each.unit for one in readings for each in found):
            return unverified(f"the quote does not state the unit of {written!r}")
        sign = text[max(0, first.start - 1) : first.start]
        is_range = text[max(0, first.start - 2) : first.start - 1].isalnum()
        if sign in ("+", "-", "−", "–") and first.start and not is_range:
            speaks_of_fall = cited.speaks_of("decreases") or cited.speaks_of("losses")
            if speaks_of_fall == (sign == "+") and not cited.contain(sign + written):
                return unverified("rules cannot check signs in text")
        elif (first.values[0] < 0) != (found[0].values[0] < 0):
            return unverified("the quote has a different sign")
        return SUPPORTED

    def _codes(self, text: str, quantities: Sequence[Quantity]) -> Iterator[Finding]:
        measures = [text[each.start : each.end] for each in quantities if each.unit or each.scale]
        for code in _CODE.findall(text):
            # "67.5bn" is no code.
            if any(each and (each in code or code in each) for each in measures):
                continue
            if self._cited.contain(code) or _QUARTER.fullmatch(code):
                continue
            if _PERIOD.fullmatch(code):
                yield self._period(code)
            elif not self._cited.know(code):
                yield refused(f"{code!r} is not in the quote")

    def _period(self, code: str) -> Finding:
        """The finding about a period such as "FY2024" that no quote has in this form."""
        digits = re.sub(r"\D", "", code)
        # "FY2024" can be "2023/24".
        if len(digits) > 2 and not any(digits[-2:] in quote for quote in self._cited.quotes):
            return refused(f"{code!r} is not in the quote")
        return unverified(f"{code!r} has a different form in the quote")

    # ---- Names and words

    def _names(
        self, text: str, language: str | None, measures: Sequence[range]
    ) -> Iterator[Finding]:
        """`measures` are the places of numbers with their units, which may have a capital: "5 million Swiss francs"."""
        cited = self._cited
        is_sentence = text.rstrip().endswith(_SENTENCE_ENDS)
        is_short = len(tokenize(text)) <= _MAX_NAME_WORDS and not is_sentence
        names = find_names(text, language)
        for name in names:
            if is_mentioned(name.text, cited.quotes) or _PERIOD.fullmatch(name.text):
                continue
            if any(name.start in each and name.end - 1 in each for each in measures):
                continue
            if language == "de" and _has_nouns(name.text, cited.quotes):
                continue
            if (
                cited.mention(name.text)
                or cited.may_translate(name.text)
                or cited.mention(_without_office(name.text))
                or cited.share_surname(name.text)
                or cited.have_adjective_of(name.text)
            ):
                yield unverified(f"{name.text!r} has a different form in the quote")
            elif is_mentioned(name.text, cited.surroundings) or cited.is_own_name(name.text):
                if is_short:
                    yield unverified(f"{name.text!r} is only in the title or heading of the page")
            elif name.is_certain or is_short or is_place(text, name):
                yield refused(f"{name.text!r} is not in the quote")
            else:
                yield unverified(f"{name.text!r} is not in the quote, and may be a name")
        if names and is_short:
            if cited.other_names:
                yield unverified(f"the quote has other names: {listed(cited.other_names)}")
            mentions = (
                mention
                for name in names
                for quote in cited.quotes
                for mention in find_mentions(name.text, quote)
            )
            if any(mention.is_longer for mention in mentions):
                yield unverified("in the quote, it is part of a longer name")

    def _words(self, text: str, read: Sequence[tuple[int, int]]) -> Finding:
        """Supported if each word is in the quotes in some form; else the rules have not read it all.

        `read` are the spans of dates and quantities, which are checked already.
        """
        cited = self._cited
        own = {word for name in cited.names for word in name_words(name)}
        tokens = tokenize(text)
        if not tokens or (_ADDRESS.fullmatch(text.strip()) and not cited.contain(text)):
            return unverified("rules cannot check this")
        for token in tokens:
            word, is_alone = token.word, len(tokens) == 1
            if word in cited.words or (word in own and not is_alone):
                continue
            if word[0].isdigit():
                if not any(start <= token.start < end for start, end in read):
                    return unverified(f"{word!r} is not in the quote")
                continue
            if word in word_set("neutral") and not text[token.start].isupper() and not is_alone:
                continue
            if not any(reading.places_of(word) for reading in cited.readings):
                return unverified(f"{word!r} is not in the quote")
        if not any(_is_in_order(tokens, reading) for reading in cited.readings):
            return unverified("the quote has the words in a different order")
        return SUPPORTED


def _without_office(name: str) -> str:
    """The name of a person without "Mayor" and the like before it."""
    office, _, person = name.partition(" ")
    return person if " " in person and fold(office) in word_set("offices") else name


def _has_sentence(quote: str, text: str) -> bool:
    """Whether `text` is one or more whole sentences of `quote`, and not a part of a sentence such as "if …"."""
    start = quote.find(text)
    if start < 0:
        return False
    before = quote[:start].rstrip(" \"'“”«»([-•")
    after = quote[start + len(text) :].lstrip(" \"'“”«»)]")
    begins = not before or before[-1] in ".!?;\n"
    return begins and (text.rstrip().endswith(_SENTENCE_ENDS) or not after or after[0] in ".!?;\n")


def _can_be(quoted: Date, date: Date, quote: str) -> bool:
    """Whether an ambiguous date of the quote can be read as `date`: "5/3/2024", "10-12 May 2024"."""
    if not (date.month and quoted.is_ambiguous and quoted.year in (date.year, None)):
        return False
    if quoted.month not in (date.month, None):
        return False
    parts = {date.day} if quoted.month else {date.day, date.month}
    return {str(part) for part in parts} <= _numbers_in(quote)


def _has_parts(date: Date, quotes: Sequence[str]) -> bool:
    """Whether one of the quotes has the numbers of the date, of which the month can be a word."""
    parts = {str(part) for part in (date.year, date.day, date.quarter) if part}
    return any(parts <= _numbers_in(quote) for quote in quotes)


def _numbers_in(text: str) -> set[str]:
    return {digits.lstrip("0") for digits in re.findall(r"\d+", text)}


def _has_nouns(name: str, quotes: Sequence[str]) -> bool:
    """Whether forms of the words of `name` stand side by side in one of the quotes."""
    words = name_words(name)
    for quote in quotes:
        tokens = tokenize(quote)
        for first in range(len(tokens) - len(words) + 1):
            following = zip(tokens[first:], words, strict=False)
            if all(is_noun_form(token.word, word) for token, word in following):
                return True
    return False


def _is_in_order(tokens: Sequence[Token], reading: Reading) -> bool:
    """Whether the quote has those of the words that it has in this order."""
    place = 0
    for token in tokens:
        if is_function_word(token.word):
            continue
        places = reading.places_of(token.word)
        following = [at for at in places if at >= place]
        if places and not following:
            return False
        place = following[0] + 1 if following else place
    return True
