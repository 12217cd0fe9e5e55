"""Whether a claimed text follows from its quotes: its dates, quantities, codes, names and words. Pure."""

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import cached_property
from typing import Final

from shared.graph.grounding.cited import CitedPassages, Reading, is_mentioned, is_year
from shared.graph.grounding.dates import Date, find_dates, parse_date
from shared.graph.grounding.findings import (
    MIN_ROUNDED,
    SUPPORTED,
    Finding,
    Match,
    Verdict,
    instead,
    is_next,
    is_same,
    listed,
    match_number,
    refused,
    unverified,
    worst,
)
from shared.graph.grounding.names import (
    Token,
    find_mentions,
    find_names,
    is_noun_form,
    is_place,
    name_words,
    tokenize,
)
from shared.graph.grounding.quantities import FRACTION, Quantity, find_quantities
from shared.graph.grounding.units import SHARE, Hint, convert
from shared.graph.grounding.words import (
    PER_MILLE,
    PERCENT,
    find_language,
    fold,
    is_function_word,
    lexicon,
    table,
    word_set,
)

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
        shown = first.written_in(text) or written
        return refused(f"{shown!r} is not in the quote{cited.numbers_instead}")

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


_LIKELY_YEARS: Final = range(1900, 2051)
_MAX_RANK: Final = 4
"""Up to which a rank is mostly written as a word."""
_NEGATIVE_AFTER: Final = re.compile(r"\s?°?\s?(?:[SWO]\b|BCE?\b|v\. ?Chr|av\. ?J|a\. ?C)")
"""After a number: a southern or western coordinate, a year before Christ."""
_LIMIT: Final = re.compile(
    r"(?:fewer than|less than|under|below|up to|at most|weniger als|unter|bis zu|hochstens|moins de|jusqu'a"
    r"|menos de|hasta|meno di|fino a)\s?[$€£]?$"
)
"""Before a number that is a limit."""
_LIMIT_CHARS: Final = 24
_NUMBER: Final = re.compile(r"\d[\d.,万萬億亿千百]*")
"""With the words of scale that Chinese and Japanese write between the digits, as in "1万2000"."""
_RELATIVE: Final = re.compile(
    r",? (?:which|that|who|whose|die|der|das|deren|dessen|qui|dont|que|che|cui)\b|, founded|, based"
)
"""After a name: a clause about it."""


class NumberRules:
    def __init__(self, cited: CitedPassages) -> None:
        self._cited = cited

    def check(self, hint: Hint, value: Decimal) -> Finding:
        """The finding about a number of a property."""
        cited, scaled = self._cited, value.scaleb(hint.scale)
        if self._is_in_scaled_table(hint, value, scaled):
            return unverified("the quote or its heading gives a scale for a table")
        matches = [(each, match_number(hint, scaled, each)) for each in cited.quantities]
        if value < 0 and self._can_be_negative(hint):
            matches += [(each, match_number(hint, -scaled, each)) for each in cited.quantities]
        best = max((match for _, match in matches), default=Match.NONE)
        may_be_year = is_year(value) and not hint.unit and (hint.is_year or best <= Match.WEAK)
        if may_be_year and (finding := self._year(hint, int(value))):
            return finding
        if best is Match.NONE:
            return self._missing(hint, value)
        if best is Match.WEAK:
            unit = hint.currency or hint.unit or "this unit"
            return unverified(f"the quote does not say that {value:f} is in {unit}")
        return self._found(hint, value, [each for each, match in matches if match == best])

    def _found(self, hint: Hint, value: Decimal, matched: Sequence[Quantity]) -> Finding:
        """The finding about a number that `matched` are, which may say it of something else."""
        cited = self._cited
        is_bare_year = not hint.is_year and not hint.unit and value in _LIKELY_YEARS
        if is_bare_year and all(cited.is_year_of_date(each) for each in matched):
            return unverified(f"{value:f} may be a year in the quote")
        if self._is_limit(matched):
            return unverified("the quote gives only a limit")
        if not cited.claimed.is_edge and (other := self._nearer_name(matched)):
            return unverified(f"the quote may say this about {other!r}")
        if sign := self._sign(hint, value, matched):
            return sign
        # "$" is mostly the dollar of the United States; "kr" and "pesos" can be any.
        if hint.currency not in ("", "USD") and all(len(each.currencies) > 1 for each in matched):
            return unverified(f"the quote does not say that the currency is {hint.currency}")
        return self._role(matched)

    def _is_in_scaled_table(self, hint: Hint, value: Decimal, scaled: Decimal) -> bool:
        power = self._cited.table_scale
        if not power or (value % 1 and not hint.scale):
            return False
        return any(
            not each.scale and abs(scaled) in (abs(one), abs(one).scaleb(power))
            for each in self._cited.quantities
            for one in each.values
        )

    def _year(self, hint: Hint, year: int) -> Finding | None:
        """The finding about a number that may be a year; None if it is none."""
        cited = self._cited
        years = {date.year for date in cited.dates if date.year}
        if year not in years:
            if not hint.is_year:
                return None
            around = find_dates("\n".join(cited.surroundings), None)
            if any(date.year == year for date in around):
                return unverified(f"{year} is only in the title or heading of the page")
            if self._has_digits(Decimal(year)):
                return None
            return refused(f"the year {year} is not in the quote{instead(sorted(years))}")
        if not hint.is_year:
            return unverified(f"{year} is a year in the quote")
        if others := years - {year} - cited.claimed_years:
            return unverified(f"the quote has other years: {listed(sorted(others))}")
        return SUPPORTED

    def _missing(self, hint: Hint, value: Decimal) -> Finding:
        cited = self._cited
        has_unit = self._has_unit_of(hint)
        if not has_unit and any(value in reading.labels for reading in cited.readings):
            return unverified(f"in the quote, {value:f} is part of a name")
        if value == 0 and cited.is_negated:
            return unverified("the quote contains a negation and no zero")
        if value <= _MAX_RANK and hint.is_rank and cited.words & word_set("ranks"):
            return unverified("the quote has words that may be this rank")
        if value == 1 and not has_unit and cited.words & word_set("ones"):
            return unverified("the quote has an article that may stand for one")
        if self._has_digits(value):
            return unverified("rules do not know words such as “million” in this script")
        if self._is_scaled_elsewhere(value):
            return unverified(f"the scale of {value:f} is in another property")
        if value < 0 and any(
            abs(value) in each.values and _NEGATIVE_AFTER.match(reading.passage.quote, each.end)
            for reading in cited.readings
            for each in reading.quantities
        ):
            return unverified("rules do not cover south, west and BC")
        unit = hint.currency or hint.unit
        written = f"{value:f} ({unit})" if unit not in ("", SHARE) else f"{value:f}"
        return refused(f"{written} is not in the quote{cited.numbers_instead}")

    def _has_unit_of(self, hint: Hint) -> bool:
        """Whether the quotes have a number in the unit or currency of the property."""
        if hint.currency:
            return any(hint.currency in each.currencies for each in self._cited.quantities)
        if hint.unit in (PERCENT, SHARE):
            return any(_kind(each) == PERCENT for each in self._cited.quantities)
        return bool(hint.unit) and any(
            each.unit and convert(each.values[0], each.unit, hint.unit) is not None
            for each in self._cited.quantities
        )

    def _has_digits(self, value: Decimal) -> bool:
        """Whether a quote in another script has the digits of `value`, as "1.2万" has those of 12,000."""
        if not self._cited.is_in_other_script:
            return False
        digits = "".join(map(str, value.normalize().as_tuple().digits))
        return any(
            re.sub(r"\D", "", number).strip("0") == digits
            for quote in self._cited.quotes
            for number in _NUMBER.findall(quote)
        )

    @cached_property
    def _claimed_powers(self) -> set[int]:
        """The powers of ten of words such as "million" in the texts that are claimed."""
        scales = lexicon("en").scales
        words = {token.word for text in self._cited.claimed_texts for token in tokenize(text)}
        return {scales[word] for word in words & scales.keys()}

    def _is_scaled_elsewhere(self, value: Decimal) -> bool:
        """As in {"amount": 5, "unit": "million"}."""
        return any(
            value.scaleb(power) in each.values
            for power in self._claimed_powers
            for each in self._cited.quantities
        )

    def _is_limit(self, matched: Sequence[Quantity]) -> bool:
        return any(
            _LIMIT.search(reading.folded[max(0, each.start - _LIMIT_CHARS) : each.start])
            for reading in self._cited.readings
            for each in reading.quantities
            if each in matched and each.end
        )

    def _nearer_name(self, matched: Sequence[Quantity]) -> str:
        """Whose the number is by a relative clause, or in a quote without the element; empty if nothing tells."""
        cited = self._cited
        is_named = any(is_mentioned(name, cited.quotes) for name in cited.names)
        for reading in cited.readings:
            quote = reading.passage.quote
            is_elsewhere = is_named and not any(is_mentioned(name, [quote]) for name in cited.names)
            if not is_elsewhere and not _RELATIVE.search(quote):
                continue
            for name in find_names(quote, reading.passage.language):
                if not is_elsewhere and not _RELATIVE.match(quote, name.end):
                    continue
                is_uncertain = not name.is_certain and name.start > 0
                if is_uncertain or cited.is_own_name(name.text) or is_place(quote, name):
                    continue
                if any(each in matched and name.end <= each.start for each in reading.quantities):
                    return name.text
        return ""

    def _can_be_negative(self, hint: Hint) -> bool:
        """Whether words of the quotes can make a number negative."""
        return (hint.is_result and self._cited.speaks_of("losses")) or (
            hint.is_change and self._cited.speaks_of("decreases")
        )

    def _sign(self, hint: Hint, value: Decimal, matched: Sequence[Quantity]) -> Finding | None:
        """The finding if words of the quote make a number negative that is claimed to be positive."""
        if value <= 0 or not self._can_be_negative(hint):
            return None
        what, table = ("a loss", "losses") if hint.is_result else ("a decrease", "decreases")
        for reading in self._cited.readings:
            if any(is_next(table, reading.folded, each) for each in matched):
                return refused(f"the quote mentions {what}, so {value:f} is negative")
        return unverified(f"the quote mentions {what}")

    def _role(self, matched: Sequence[Quantity]) -> Finding:
        """Supported, unless the quotes have another quantity that could be meant."""
        cited = self._cited
        known = cited.claimed_numbers | cited.numbers_of_names
        of_kind = [each for each in cited.quantities if _kind(each) == _kind(matched[0])]
        others = [
            each
            for each in of_kind
            if not any(each.values == one.values for one in matched)
            and not known & {abs(value) for value in each.values}
            and not cited.is_year_of_date(each)
        ]
        if others:
            shown = listed(f"{each.values[0]:f}" for each in others)
            return unverified(f"the quote has other values of this kind: {shown}")
        if len(cited.claimed_numbers) > 1 and len({each.values for each in of_kind}) > 1:
            return unverified("rules cannot tell which of several values is which")
        return SUPPORTED


_PARTS_OF_WHOLE: Final = frozenset((PERCENT, PER_MILLE, FRACTION))


def _kind(quantity: Quantity) -> str:
    """Its unit; the same for all ways to write a part of a whole."""
    return PERCENT if quantity.unit in _PARTS_OF_WHOLE else quantity.unit
