"""Quantities in a text, with scale, unit or currency; what the name of a property says of its unit; conversion. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from itertools import pairwise
from typing import Any, Final, NamedTuple

from babel.numbers import is_currency
from text_to_num import alpha2digit  # type: ignore[import-untyped]

from shared.graph.grounding.dates import Date, find_dates
from shared.graph.grounding.words import (
    LANGUAGES,
    MAIN_CURRENCIES,
    PER_MILLE,
    PERCENT,
    POINTS,
    Lexicon,
    alternatives,
    bound_blanks,
    by_word,
    fold,
    fold_in_place,
    lexicon,
    name_parts,
    pattern_of,
    phrases,
    table,
    word_set,
)


class Quantity(NamedTuple):
    """A number in a text.

    `values` are its readings: one, unless nothing tells whether "1.234" is a thousand. `unit` is "" for a bare number; a
    CLDR name such as "length-meter"; "percent", "percentage points"; or "currency". `scale` is the power of ten that a
    word such as "million" gives it, which `values` include.
    """

    values: tuple[Decimal, ...]
    unit: str = ""
    currencies: frozenset[str] = frozenset()
    scale: int = 0
    start: int = 0
    end: int = 0
    is_written_out: bool = False
    """Whether it stands there in words, such as "four"."""
    is_label: bool = False
    """Whether it only names something, as in "ISO 9001", "p. 12" and "[3]"."""

    def scaled(self, power: int) -> "Quantity":
        values = tuple(each * Decimal(10) ** power for each in self.values)
        return self._replace(values=values, scale=self.scale + power)

    def written_in(self, text: str) -> str:
        """The number as its text writes it, with the currency before it."""
        before = text[: self.start].rstrip()
        signs = (*sorted(self.currencies), *"$€£¥") if self.currencies else ()
        sign = next((each for each in signs if before.endswith(each)), "")
        space = " " if sign.isalpha() else ""
        return f"{sign}{space}{text[self.start : self.end].strip(' .,;:')}"


FRACTION: Final = "fraction"
PERCENT_PER: Final = {PERCENT: Decimal(1), FRACTION: Decimal(100), PER_MILLE: Decimal("0.1")}
"""Per cent in one of the units for a part of a whole."""
_GROUPING: Final = " \u00a0\u202f\u2009'’"
_NUMBER: Final = re.compile(
    r"(?<![\w.,])(?P<sign>[-−–+])?(?P<number>"
    rf"\d{{1,3}}(?:[{_GROUPING}]\d{{3}})+(?:[.,]\d+)?(?!\d)"
    r"|\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:\.\d{3})+,\d+"
    r"|\d{1,3}(?:(?P<twice>[.,])\d{3})(?:(?P=twice)\d{3})+(?!\d)"
    r"|\d{1,2}(?:,\d{2})+,\d{3}(?!\d)"
    r"|\d+(?:[.,]\d+)?)(?![.,]?\d)"
)
_AMBIGUOUS: Final = re.compile(r"[1-9]\d{0,2}([.,])\d{3}")
_MINUS_BEFORE: Final = re.compile(rf"(?:{alternatives(word_set('minus'))})\s+$")
_ACCOUNT_BEFORE: Final = re.compile(r"\((?:[A-Z]{0,3}[$€£]|[A-Z]{3})?\s?$")
_ORDINAL: Final = re.compile(r"(?:st|nd|rd|th|s|er|[eº°ªª]|ème|eme|ª|º)(?!\w)")
_NEAR_CHARS: Final = 12
"""Before a number, in which a currency or the sign of a label stands."""


def find_quantities(
    text: str,
    language: str | None,
    decimal_sign: str | None,
    dates: Sequence[Date] | None = None,
    *,
    is_english_first: bool = False,
) -> list[Quantity]:
    """The quantities in `text`, in their order, without the numbers that are parts of `dates`.

    `decimal_sign` is that of its page. A year without a month may be a number too, and is one of the quantities.
    """
    words, text = lexicon(language, is_english_first=is_english_first), bound_blanks(text)
    known_dates = find_dates(text, language) if dates is None else dates
    numerals = list(_numerals(text, words, decimal_sign, known_dates))
    return [
        *_with_ranges(text, numerals),
        *_fractions(text),
        *_idioms(text, words),
        *_number_words(text, language, words, known_dates),
    ]


def _numerals(
    text: str, words: Lexicon, decimal_sign: str | None, dates: Sequence[Date]
) -> Iterator[Quantity]:
    longer_dates = [date for date in dates if date.month or date.quarter or date.day]
    in_dates = {place for date in longer_dates for place in range(date.start, date.end)}
    for match in _NUMBER.finditer(text):
        start, end = match.span("number")
        if start in in_dates:
            continue
        sign, near = match["sign"], text[max(0, start - _NEAR_CHARS) : start]
        is_range_end = (
            sign in ("-", "–") and match.start() > 0 and text[match.start() - 1].isalnum()
        )
        values = read_number(match["number"], decimal_sign)
        if (sign and sign != "+" and not is_range_end) or _MINUS_BEFORE.search(fold(near)):
            values = tuple(-value for value in values)
        if _ACCOUNT_BEFORE.search(near) and text[end : end + 2].lstrip("%").startswith(")"):
            # "(1,234)" is negative in an account, and only an addition elsewhere.
            values = tuple(factor * value for value in values for factor in (1, -1))
        quantity = _read_quantity(values, start, end, text, words)
        if _ORDINAL.match(text, end):
            quantity = quantity._replace(unit="", is_label=True)
        elif not quantity.unit and not quantity.scale and pattern_of("label").search(near):
            quantity = quantity._replace(is_label=True)
        yield quantity


def read_number(number: str, decimal_sign: str | None) -> tuple[Decimal, ...]:
    """The readings of a number, one or two."""
    for character in _GROUPING:
        number = number.replace(character, "")
    separators = {character for character in number if character in ".,"}
    if len(separators) == 2:
        decimal = number[max(number.rfind("."), number.rfind(","))]
        return (Decimal(number.replace("," if decimal == "." else ".", "").replace(decimal, ".")),)
    if not separators:
        return (Decimal(number),)
    separator = separators.pop()
    grouped = Decimal(number.replace(separator, ""))
    if number.count(separator) > 1:
        return (grouped,)
    fraction = Decimal(number.replace(separator, "."))
    if not _AMBIGUOUS.fullmatch(number) or separator == decimal_sign:
        return (fraction,)
    return (grouped,) if decimal_sign else (grouped, fraction)


_WORDS_AFTER: Final = re.compile(
    r"[\s\u00a0\u202f-]*(?:(?:of|de|di|del)\s+|d['’])?([^\s\u00a0\u202f,;:()\[\]]{1,60})"
)
_MAX_WORDS: Final = 4
_SIGNS_AFTER: Final = ".,;:!?)"
_CURRENCY_BEFORE: Final = re.compile(r"(?P<word>[^\s\d(]{1,5})[\s\u00a0\u202f]?$")
_MONEY_SCALES: Final = table("money_scales")
_SCALED_CURRENCY: Final = re.compile(
    rf"({'|'.join(sorted(_MONEY_SCALES, key=len, reverse=True))})(?:[€$£]|(?:{'|'.join(MAIN_CURRENCIES)})\b)"
)
"""Such as "M€" and "MCHF"."""
_SCALES_BEFORE: Final = table("scales_before")
_SCALE_BEFORE: Final = re.compile(
    r"(?<!\w)(?P<scale>T|(?:Mio|mn|million|M|Mrd|bn|billion)(?=\.?\s?))\.?\s?(?P<code>EUR|CHF|USD|GBP|€|\$)\s?$"
)
"""Such as "TEUR" and "Mio. EUR"."""
_HALF: Final = Decimal("0.5")
_AND_A_HALF_WORDS: Final = (
    rf"(?:\s?½|\s(?:{alternatives(frozenset(phrases(table('and_a_half')['all'])))}))(?![\w-])"
)
_AND_A_HALF: Final = re.compile(
    rf"{_AND_A_HALF_WORDS}(?!\s(?:{alternatives(word_set('collective_numbers'))})(?!\w))"
)
_AND_A_HALF_AT_END: Final = re.compile(
    rf"{_AND_A_HALF_WORDS}(?=\s*(?:[.,;:)!?]|$)|\sd['’]|\s(?:of|de|del|di|da|do|ago|later|old|long|fa)\s)"
)
"""After a scale or unit, where a noun can follow that is halved: "20 acres and a half mile"."""
_MAX_DIGITS: Final = 20
"""Before the decimal sign, of numbers that are taken apart."""


class _Phrase(NamedTuple):
    written: str
    end: int
    """The position after it."""
    folded: str


def _read_quantity(
    values: tuple[Decimal, ...], start: int, end: int, text: str, words: Lexicon
) -> Quantity:
    position = end
    if more := _AND_A_HALF.match(text, position):
        values = _with_half(values)
        position = more.end()
    near = text[max(0, start - _NEAR_CHARS) : start]
    scaled_before = _SCALE_BEFORE.search(near)
    currencies = _currency_before(near, words)
    if scaled_before:
        currencies = words.currencies.get(fold(scaled_before["code"]), frozenset())
    scale = 0
    phrase = _phrase(text, position, words)
    # "dreitausend Millionen": a second word of scale multiplies.
    while scale < _MAX_DIGITS and (found := _scale_of(phrase, words.scales, text, currencies)):
        scale, position = scale + found[0], found[1]
        phrase = _phrase(text, position, words)
    if scale and (more := _AND_A_HALF_AT_END.match(text, position)):
        # "2 millones y medio de euros".
        values = _with_half(values)
        position = more.end()
        phrase = _phrase(text, position, words)
    if scaled_before and not scale:
        scale = _SCALES_BEFORE[scaled_before["scale"]]
    unit = "currency" if currencies else ""
    for written, phrase_end, folded in phrase if not unit else ():
        exact = written.rstrip(_SIGNS_AFTER)
        names = (fold(exact), folded)
        codes = [words.currencies[name] for name in names if name in words.currencies]
        units = [words.units[name] for name in names if name in words.units]
        if exact in words.symbols:
            units.insert(0, words.symbols[exact])
        is_plural = exact == "s" and text[end : end + 1] == "s"  # "the 1990s"
        if codes or (units and not is_plural):
            unit, currencies = ("currency", codes[0]) if codes else (units[0], currencies)
            position = phrase_end
            break
    if more := _AND_A_HALF_AT_END.match(text, position):
        # "tre anni e mezzo".
        values = _with_half(values)
        position = more.end()
    if scale:
        values = tuple(value * Decimal(10) ** scale for value in values)
    return Quantity(values, unit, currencies, scale, start, position)


def _currency_before(near: str, words: Lexicon) -> frozenset[str]:
    match = _CURRENCY_BEFORE.search(near.rstrip("-−–"))
    word = fold(match["word"].lstrip("(\"'«„“")) if match else ""
    return words.currencies.get(word, frozenset())


def _with_half(values: tuple[Decimal, ...]) -> tuple[Decimal, ...]:
    """The values with "and a half": of a million, if they are millions, as in "dos millones y medio"."""
    zeros = (int(value.normalize().as_tuple().exponent) for value in values)
    halves = (_HALF.scaleb(9 if each >= 9 else 6 if each >= 6 else 0) for each in zeros)
    return tuple(value + half.copy_sign(value) for value, half in zip(values, halves, strict=True))


def _phrase(text: str, position: int, words: Lexicon) -> list[_Phrase]:
    """One to four words after `position`, the longest phrase first; one if it begins no phrase of `words`."""
    phrases: list[_Phrase] = []
    written = ""
    while len(phrases) < _MAX_WORDS and (match := _WORDS_AFTER.match(text, position)):
        written = f"{written} {match[1]}" if written else match[1]
        position = match.end()
        phrases.insert(0, _Phrase(written, position, fold(written)))
        if len(phrases) == 1 and phrases[0].folded not in words.first_words:
            break
    return phrases


def _scale_of(
    phrase: list[_Phrase], scales: Mapping[str, int], text: str, currencies: frozenset[str]
) -> tuple[int, int] | None:
    for written, end, folded in phrase:
        word = folded.rstrip(_SIGNS_AFTER)
        if len(word) > 1 and (scale := scales.get(word)) is not None:
            return scale, end
        start = end - len(written)
        is_joined = not currencies and start > 0 and text[start - 1].isdigit()
        # "12k" and "1.2m people", but not "12m high".
        if (
            is_joined
            and word in ("k", "m")
            and (written[0] in "kKM" or pattern_of("many").match(text, end))
        ):
            return (3 if word == "k" else 6), end
        if match := _SCALED_CURRENCY.match(written):
            return _MONEY_SCALES[match[1]], start + len(match[1])
        if currencies and (scale := _MONEY_SCALES.get(written.rstrip(_SIGNS_AFTER))) is not None:
            return scale, end
    return None


_BLANKS: Final = r"[\s\u00a0\u202f]*"
_RANGE: Final = re.compile(
    rf"{_BLANKS}(?:[-–—/]|{alternatives(frozenset(table('ranges')['all'].split()))}){_BLANKS}(?:the )?(?:[$€£¥]|US\$)?-?"
)
_ALSO_LISTS: Final = frozenset(("and", "or", "und", "oder", "et", "ou", "y", "o", "e", "ed"))
"""Words between the numbers of a range, and between the items of a list."""
_BETWEEN: Final = re.compile(r"\b(?:between|zwischen|entre|tra|fra)\s\W*$", re.IGNORECASE)
_BETWEEN_CHARS: Final = 14


def _with_ranges(text: str, quantities: Sequence[Quantity]) -> list[Quantity]:
    """In "3.1 to 3.3 billion euros", the first number has the scale and unit of the second one too."""
    found = list(quantities)
    for place, (first, last) in enumerate(pairwise(quantities)):
        between = text[first.end : last.start]
        if not _RANGE.fullmatch(between):
            continue
        if first.currencies and last.scale and not last.unit:
            found[place + 1] = last._replace(unit=first.unit, currencies=first.currencies)
        is_sure = between.strip() not in _ALSO_LISTS or bool(
            _BETWEEN.search(text[max(0, first.start - _BETWEEN_CHARS) : first.start])
        )
        currencies = last.currencies or first.currencies
        lacks_scale = bool(last.scale and (first.currencies or not first.unit))
        lacks_unit = bool(last.unit and not first.unit)
        if first.scale and last.scale and lacks_unit and is_sure:
            # "310 mil y 330 mil toneladas".
            found[place] = first._replace(unit=last.unit, currencies=last.currencies)
        elif (
            not first.scale
            and (not first.currencies or first.currencies & currencies)
            and (lacks_scale or lacks_unit)
        ):
            unit = last.unit or first.unit
            found[place] = first.scaled(last.scale)._replace(unit=unit, currencies=currencies)
    return found


def _numbers_of(name: str) -> dict[str, Decimal]:
    return {
        phrase: Decimal(number.numerator) / number.denominator
        for value, listed in table(name).items()
        for number in [Fraction(value)]
        for phrase in phrases(listed)
    }


_FRACTIONS: Final = _numbers_of("fractions")
_FRACTION: Final = re.compile(rf"(?<!\w)(?:{alternatives(_FRACTIONS)})(?!\w)")
_AND_HALVES: Final = _numbers_of("and_halves")
_AND_HALF: Final = re.compile(rf"(?<!\w)(?:{alternatives(_AND_HALVES)})(?!\w)")
_ONE: Final = (
    r"(?<!\w)(?:(?P<half>half an?|une? demi|medio|mezzo)|an?|one|eine?r?|un[eoa]?|uma?|een)"
)
_HALF_OF_SCALE: Final = re.compile(r"\b(\d{1,9}) ½ (1(?:000){1,4})\b")
_CLAUSE_END: Final = re.compile(r"[,;:.!?()\"«»“”]\s*")
_WITH_DIGIT: Final = re.compile(r"(?<!\S)\S*\d\S*(?:\s+\w+)?|\d\S*(?:\s+\w+)?")
_SCALES_ALONE: Final = frozenset(Decimal(10) ** power for power in (2, 3, 6, 9, 12))
"""The number that a word such as "million" means alone."""


def _fractions(text: str) -> Iterator[Quantity]:
    folded = fold_in_place(text)
    for match in _FRACTION.finditer(folded):
        if pattern_of("no_fraction_after").match(folded, match.end()) or (
            match[0] == "half"
            and pattern_of("no_fraction_before").search(folded[: match.start()][-8:])
        ):
            continue
        value = (_FRACTIONS[match[0]],)
        yield Quantity(value, FRACTION, frozenset(), 0, *match.span(), is_written_out=True)


def _idioms(text: str, words: Lexicon) -> Iterator[Quantity]:
    """Numbers such as "a million", "half a million", "a dozen", "one and a half" and, in German, "zweieinhalb"."""
    folded = fold_in_place(text)
    found = [(_AND_HALVES[match[0]], *match.span()) for match in _AND_HALF.finditer(folded)]
    for match in _round_pattern(words.language).finditer(folded):
        scale = words.scales.get(match["scale"] or match["alone"])
        value = Decimal(12) if scale is None else Decimal(10) ** scale
        found.append((value * _HALF if match["half"] else value, *match.span()))
    for value, start, end in found:
        yield _written_out(_read_quantity((value,), start, end, text, words))


def _written_out(quantity: Quantity) -> Quantity:
    return quantity._replace(start=0, end=0, is_written_out=True)


@cache
def _round_pattern(language: str) -> re.Pattern[str]:
    scales = {word for word in lexicon(language).scales if len(word) > 3} | word_set("dozens")
    return re.compile(
        rf"{_ONE}\s(?P<scale>{alternatives(frozenset(scales))})(?!\w)|(?<![\w.,])(?<!\d )(?P<alone>tausend|hundert)(?!\w)"
    )


@cache
def _number_stems(language: str) -> re.Pattern[str]:
    """In German and Dutch, a number word can begin with any other: "einundzwanzig"."""
    stems = "|".join(table("number_stems")[language].split())
    return re.compile(stems if language in ("de", "nl") else rf"(?<!\w)(?:{stems})")


def _number_words(
    text: str, language: str | None, words: Lexicon, dates: Sequence[Date]
) -> Iterator[Quantity]:
    if language not in LANGUAGES:
        return
    text = _without(text, ((date.start, date.end) for date in dates))
    text = _AND_A_HALF.sub(" ½", text)
    text = _without(text, (match.span() for match in _FRACTION.finditer(fold_in_place(text))))
    if not _number_stems(language).search(fold_in_place(text)):
        return
    for clause in _CLAUSE_END.split(text):
        converted = alpha2digit(_WITH_DIGIT.sub(".", clause), language, threshold=2)
        if converted == clause:
            continue
        # "two and a half million".
        converted = _HALF_OF_SCALE.sub(
            lambda match: str(int(match[1]) * int(match[2]) + int(match[2]) // 2), converted
        )
        for match in _NUMBER.finditer(converted):
            if not match["number"].isdigit():
                continue
            start, end = match.span("number")
            if (value := Decimal(match["number"])) in _SCALES_ALONE:
                continue
            found = _written_out(_read_quantity((value,), start, end, converted, words))
            is_ordinal = _ORDINAL.match(converted, end)
            yield found._replace(unit="", is_label=True) if is_ordinal else found


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    characters = list(text)
    for start, end in spans:
        characters[start:end] = "." * (end - start)
    return "".join(characters)


SHARE: Final = "share"


@dataclass(frozen=True)
class Hint:
    """Unit, currency and scale of a property's values; empty and zero where its name does not say."""

    unit: str = ""
    """A unit of `Lexicon.units`; "share" for a part of one or a percentage."""
    currency: str = ""
    scale: int = 0
    """The power of ten in which they are given, such as 6 for `revenue_million_usd`."""
    is_year: bool = False
    is_result: bool = False
    """Whether a loss makes them negative, as a decrease does if `is_change`."""
    is_money: bool = False
    is_measure: bool = False
    """Whether they have some currency, or some unit of measurement."""
    is_rank: bool = False
    """Whether they are ordinals, such as 3 for "third largest"."""
    is_kind: bool = False
    """Whether its texts say of what kind something is, and are no names even with capitals."""
    is_change: bool = False


@cache
def _words(key: str) -> frozenset[str]:
    return frozenset(table("properties")[key].split())


@lru_cache(maxsize=4096)
def hint_of(name: str) -> Hint:
    """The hint in the name of a property, such as `area_km2`, `revenueMillionUsd` or `market_share_percent`."""
    words = name_parts(name)
    has = frozenset(words)
    unit, currency = _unit_of(words, has)
    return Hint(
        unit,
        currency,
        _scale_of_name(words, currency),
        is_year="per" not in has and bool(has & _words("year")),
        is_result=bool(has & _words("result")) and not has & (_words("loss") | _words("change")),
        is_kind=bool(has & _words("kind")) and not has & {"name", "by", "of"},
        is_money=bool(has & _words("money")),
        is_measure=bool(has & _words("measure"))
        and not has & {"count", "number"}
        and words[-1] not in _words("unknown_unit"),
        is_rank=bool(has & {"rank", "ranking", "position", "place"}),
        is_change=bool(has & _words("change")) and not has & _words("loss"),
    )


def _scale_of_name(words: list[str], currency: str) -> int:
    scales = by_word("property_scales")
    found = [
        int(scales[word])
        for word in words[1:]
        if word in scales and (word != "k" or word is words[-1])
    ]
    if not found and currency and words[-1] in table("scale_letters"):
        found = [table("scale_letters")[words[-1]]]
    return max(found, default=0)


def _unit_of(words: list[str], has: frozenset[str]) -> tuple[str, str]:
    if "percentage points" in " ".join(words) or "pp" in has:
        return POINTS, ""
    may_be_code = not has & {"percent", "pct", "prozent"}
    for word in reversed(words if len(words) > 1 else words[1:]):
        is_code = (
            may_be_code
            and len(word) == 3
            and word not in _words("no_currency")
            and is_currency(word.upper())
        )
        if code := by_word("property_currencies").get(word, word.upper() if is_code else ""):
            return "currency", code
    if has >= {"per", "share"} or (has & _words("no_share") and has & {"rate", "share", "ratio"}):
        return "", ""
    if "per" in has:
        return _rate_of(words), ""
    for power, length in pairwise(words):
        if power in table("powers") and (unit := by_word("lengths").get(length)):
            return f"{table('powers')[power]}-{unit}", ""
    for word in reversed(words):
        if len(word) == 1 and word is not words[-1]:
            continue  # `series_c_amount`
        if (unit := by_word("property_units").get(word)) and (len(word) > 2 or len(words) > 1):
            return unit, ""
        if (
            len(words) > 1
            and word not in _words("no_unit")
            and (unit := lexicon(None).units.get(word))
        ):
            return unit, ""
    return "", ""


def _rate_of(words: list[str]) -> str:
    """The unit of a rate such as `speed_miles_per_hour`. Per year and per head, it is that of the amount."""
    known, end = lexicon(None).units, words.index("per")
    phrases = (
        " ".join(words[start:])
        for start in range(end)
        if words[max(0, start - 1)] not in table("powers")
    )
    if unit := next((known[phrase] for phrase in phrases if phrase in known), ""):
        return unit
    if word_set("short_times") & {*words[end:]}:
        return ""
    return _unit_of(words[:end], frozenset(words[:end]))[0]


def convert(value: Decimal, unit: str, to: str) -> Decimal | None:
    """`value` of `unit` in the unit `to`; None if they do not measure the same."""
    if unit == to:
        return value
    match unit, to:
        case "temperature-fahrenheit", "temperature-celsius":
            return (value - 32) / Decimal("1.8")
        case "temperature-celsius", "temperature-fahrenheit":
            return value * Decimal("1.8") + 32
    factors = table("unit_factors")
    dimensions = {table("dimensions").get(each, each.partition("-")[0]) for each in (unit, to)}
    if unit not in factors or to not in factors or len(dimensions) > 1:
        return None
    return value * Decimal(factors[unit]) / Decimal(factors[to])


_MAX_BITS: Final = 4096


def to_decimal(value: Any) -> Decimal | None:
    """None for NaN, infinity and integers of more digits than Python writes."""
    if isinstance(value, int) and value.bit_length() > _MAX_BITS:
        return None
    number = Decimal(str(value))
    return number if number.is_finite() else None
