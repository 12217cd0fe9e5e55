"""Quantities in a text: numbers with their scale, unit or currency. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import cache
from itertools import zip_longest
from typing import Final, NamedTuple

from text_to_num import alpha2digit  # type: ignore[import-untyped]

from shared.graph.grounding.dates import Date, find_dates
from shared.graph.grounding.words import (
    LANGUAGES,
    MAIN_CURRENCIES,
    Lexicon,
    alternatives,
    bound_blanks,
    fold,
    fold_in_place,
    lexicon,
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

    def written_in(self, text: str) -> str:
        """The number as its text writes it, with the currency before it."""
        before = text[: self.start].rstrip()
        signs = (*sorted(self.currencies), *"$€£¥") if self.currencies else ()
        sign = next((each for each in signs if before.endswith(each)), "")
        space = " " if sign.isalpha() else ""
        return f"{sign}{space}{text[self.start : self.end].strip(' .,;:')}"


_GROUPING: Final = " \u00a0\u202f\u2009'’"
_NUMBER: Final = re.compile(
    r"(?<![\w.,])(?P<sign>[-−–+])?(?P<number>"
    rf"\d{{1,3}}(?:[{_GROUPING}]\d{{3}})+(?:[.,]\d+)?(?!\d)"
    r"|\d{1,3}(?:,\d{3})+\.\d+|\d{1,3}(?:\.\d{3})+,\d+"
    r"|\d{1,3}(?:(?P<twice>[.,])\d{3})(?:(?P=twice)\d{3})+(?!\d)"
    r"|\d{1,2}(?:,\d{2})+,\d{3}(?!\d)"
    r"|\d+(?:[.,]\d+)?)(?![.,]?\d)"
)
_LABEL: Final = re.compile(
    r"(?:\b[A-Z]{2,}[- ]|\[|§\s?|#|\b(?:p|pp|S|pag|pág|Nr|No|no|nº|n°|N°|Art|Abs|art|fig|Fig|Tab|Kap|ch|vol|Vol)\.?\s?)$"
)
_AMBIGUOUS: Final = re.compile(r"[1-9]\d{0,2}([.,])\d{3}")
_MINUS_WORDS: Final = tuple(word_set("minus"))
_WORDS_AFTER: Final = re.compile(
    r"[\s\u00a0\u202f-]*(?:(?:of|de|di|del)\s+|d['’])?([^\s\u00a0\u202f,;:()\[\]]{1,60})"
)
_MAX_WORDS: Final = 4
_CURRENCY_BEFORE: Final = re.compile(r"(?P<word>[^\s\d(]{1,5})[\s\u00a0\u202f]?$")
_MAX_CURRENCY_CHARS: Final = 12
_SCALE_BEFORE: Final = re.compile(
    r"(?<!\w)(?:(?P<thousand>T(?=EUR|CHF|USD|GBP|€))|(?P<million>(?:Mio|mn|million|M)\.?\s?(?=EUR|CHF|USD|GBP|€|\$))|(?:Mrd|bn|billion)\.?\s?(?=EUR|CHF|USD|GBP|€|\$))"
    r"(?:(?P<code>EUR|CHF|USD|GBP)|(?P<sign>[€$]))\s?$"
)
"""Such as "TEUR" and "Mio. EUR"."""
_CODE_ENDS: Final = frozenset("RFDP€$")
_BLANKS: Final = r"[\s\u00a0\u202f]*"
_RANGE: Final = re.compile(
    rf"{_BLANKS}(?:[-–—/]|{alternatives(frozenset(table('ranges')['all'].split()))}){_BLANKS}(?:the )?(?:[$€£¥]|US\$)?"
)
FRACTION: Final = "fraction"
_FRACTIONS: Final = {
    phrase: Fraction(value)
    for value, listed in table("fractions").items()
    for phrase in phrases(listed)
}
_FRACTION: Final = re.compile(rf"(?<!\w)(?:{alternatives(_FRACTIONS)})(?!\w)")
_NO_FRACTION: Final = re.compile(r"(?:first|second|1st|2nd|fiscal|last|this|a|one) $")
"""Before "half": of a year or a match."""
_NO_FRACTION_AFTER: Final = re.compile(
    r" (?:year|with|plant|site|store|office|factory|local|piso|person|party|earlier|later|ago|hour|mile|million"
    r"|of (?:\d{4}|the (?:year|season|match|game)))\b|-year|-hour"
)
_ORDINAL: Final = re.compile(r"(?:st|nd|rd|th|s|er|[eº°ªª]|ème|eme|ª|º)(?!\w)")
_CLAUSE_END: Final = re.compile(r"[,;:.!?()\"«»“”]\s*")
_WITH_DIGIT: Final = re.compile(r"(?<!\S)\S*\d\S*(?:\s+\w+)?|\d\S*(?:\s+\w+)?")
_SCALES_ALONE: Final = frozenset(Decimal(10) ** power for power in (2, 3, 6, 9, 12))
"""What a word such as "million" alone is read as."""


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
    found = list(_with_ranges(text, list(_numerals(text, words, decimal_sign, known_dates))))
    found += _fractions(text)
    found += _halves(text, words)
    found += _number_words(text, language, words, known_dates)
    found += _round_words(text, words)
    return found


_ONE: Final = (
    r"(?<!\w)(?:(?P<half>half an?|une? demi|medio|mezzo)|an?|one|eine?r?|un[eoa]?|uma?|een)"
)
_DOZENS: Final = frozenset(("dozen", "dutzend", "douzaine", "docena", "dozzina", "duzia", "dozijn"))


def _round_words(text: str, words: Lexicon) -> Iterator[Quantity]:
    """Numbers such as "a million", "half a million" and "a dozen"."""
    for match in _round_pattern(words.language).finditer(fold_in_place(text)):
        scale = words.scales.get(match["scale"] or match["alone"])
        value, end = Decimal(12) if scale is None else Decimal(10) ** scale, match.end()
        if scale is None and (more := _AND_A_HALF.match(text, end)):
            value, end = value + value * _HALF, more.end()
        found = _read_quantity((value,), match.start(), end, text, words)
        if match["half"]:
            found = found._replace(values=tuple(each / 2 for each in found.values))
        yield found._replace(start=0, end=0, is_written_out=True)


_ONE_AND_A_HALF: Final = re.compile(
    rf"(?<!\w)(?:{alternatives(frozenset(phrases(table('one_and_a_half')['all'])))})(?!\w)"
)
_GERMAN_NUMBERS: Final = table("german_numbers")["all"].split()
_GERMAN_HALVES: Final = re.compile(rf"(?<!\w)({'|'.join(_GERMAN_NUMBERS)})einhalb(?!\w)")


def _halves(text: str, words: Lexicon) -> Iterator[Quantity]:
    """Numbers such as "one and a half" and, in German, "zweieinhalb"."""
    folded = fold_in_place(text)
    for match in _ONE_AND_A_HALF.finditer(folded):
        found = _read_quantity((1 + _HALF,), match.start(), match.end(), text, words)
        yield found._replace(start=0, end=0, is_written_out=True)
    for match in _GERMAN_HALVES.finditer(folded) if "einhalb" in folded else ():
        whole = _GERMAN_NUMBERS.index(match[1]) + 1
        found = _read_quantity((whole + _HALF,), match.start(), match.end(), text, words)
        yield found._replace(start=0, end=0, is_written_out=True)


@cache
def _round_pattern(language: str) -> re.Pattern[str]:
    scales = {word for word in lexicon(language).scales if len(word) > 3} | _DOZENS
    return re.compile(
        rf"{_ONE}\s(?P<scale>{alternatives(frozenset(scales))})(?!\w)|(?<![\w.,])(?<!\d )(?P<alone>tausend|hundert)(?!\w)"
    )


def _numerals(
    text: str, words: Lexicon, decimal_sign: str | None, dates: Sequence[Date]
) -> Iterator[Quantity]:
    longer_dates = [date for date in dates if date.month or date.quarter or date.day]
    in_dates = {place for date in longer_dates for place in range(date.start, date.end)}
    for match in _NUMBER.finditer(text):
        start, end = match.span("number")
        if start in in_dates:
            continue
        values = read_number(match["number"], decimal_sign)
        sign = match["sign"]
        is_range_end = (
            sign in ("-", "–") and match.start() > 0 and text[match.start() - 1].isalnum()
        )
        if (sign and sign != "+" and not is_range_end) or _has_minus_before(text, start):
            values = tuple(-value for value in values)
        quantity = _read_quantity(values, start, end, text, words)
        if text[end : end + 2].lstrip("%").startswith(")") and _OPEN.search(
            text[max(0, start - 6) : start]
        ):
            # "(1,234)" is negative in an account, and only an addition elsewhere.
            quantity = quantity._replace(
                values=tuple(sign * each for each in quantity.values for sign in (1, -1))
            )
        if _ORDINAL.match(text, end):
            quantity = quantity._replace(unit="", is_label=True)
        if (
            not quantity.unit
            and not quantity.scale
            and _LABEL.search(text[max(0, start - 12) : start])
            and not _SCALE_BEFORE.search(text[max(0, start - 12) : start])
        ):
            quantity = quantity._replace(is_label=True)
        yield quantity


def _has_minus_before(text: str, start: int) -> bool:
    """Whether a word such as "minus" stands before the number, and a blank."""
    before = text[max(0, start - 9) : start]
    word = before.rstrip()
    return len(word) < len(before) and fold(word).endswith(_MINUS_WORDS)


def read_number(number: str, decimal_sign: str | None) -> tuple[Decimal, ...]:
    """The readings of a number, one or two."""
    for character in _GROUPING:
        number = number.replace(character, "")
    separators = {character for character in number if character in ".,"}
    if len(separators) == 2:
        last = max(number.rfind("."), number.rfind(","))
        decimal = number[last]
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


def _read_quantity(
    values: tuple[Decimal, ...], start: int, end: int, text: str, words: Lexicon
) -> Quantity:
    """The number of these `values`, with the scale and unit that stand around it."""
    position = end
    if more := _AND_A_HALF.match(text, position):
        values = tuple(_enlarge(value, _last_scale(value) * _HALF) for value in values)
        position = more.end()
    near = text[max(0, start - _MAX_CURRENCY_CHARS) : start]
    before = _CURRENCY_BEFORE.search(near.rstrip("-−–"))
    currencies: frozenset[str] = frozenset()
    if before is not None:
        currencies = words.currencies.get(fold(before["word"].lstrip("(\"'«„“")), frozenset())
        if not currencies and before["word"][-1] in "$€£¥₹" and not before["word"][-2:-1].isalpha():
            currencies = words.currencies.get(before["word"][-1], frozenset())
    scale = 0
    # It ends in a code or a sign.
    thousands = _SCALE_BEFORE.search(near) if near.rstrip()[-1:] in _CODE_ENDS else None
    if thousands is not None and (code := thousands["code"] or thousands["sign"]):
        currencies = words.currencies.get(fold(code), frozenset())
    phrase = _phrase(text, position, words)
    if scale_match := _longest(phrase, words.scales, text, currencies):
        scale, position = scale_match
        phrase = _phrase(text, position, words)
        # "dreitausend Millionen": a second word of scale multiplies.
        if second := _longest(phrase, words.scales, text, currencies):
            scale, position = scale + second[0], second[1]
            phrase = _phrase(text, position, words)
        if more := _AND_A_HALF_AT_END.match(text, position):
            # "2 millones y medio de euros".
            values = tuple(_enlarge(value, _HALF) for value in values)
            position = more.end()
            phrase = _phrase(text, position, words)
    if thousands is not None and not scale:
        scale = 3 if thousands["thousand"] else 6 if thousands["million"] else 9
    unit = ""
    for written, phrase_end, folded in phrase:
        exact = written.rstrip(_SIGNS_AFTER)
        exact_folded = folded if exact == written else fold(exact)
        if not currencies and (
            codes := words.currencies.get(exact_folded) or words.currencies.get(folded)
        ):
            currencies, position = codes, phrase_end
            break
        if currencies:
            break
        if exact == "s" and text[end : end + 1] == "s":
            continue  # "the 1990s"
        if (
            known := words.symbols.get(exact)
            or words.units.get(exact_folded)
            or words.units.get(folded)
        ):
            unit, position = known, phrase_end
            break
    if currencies:
        unit = "currency"
    if more := _AND_A_HALF_AT_END.match(text, position):
        # "tre anni e mezzo".
        values = tuple(_enlarge(value, _HALF) for value in values)
        position = more.end()
    if scale:
        factor = Decimal(10) ** scale
        values = tuple(value * factor for value in values)
    return Quantity(values, unit, currencies, scale, start, position)


_HALF: Final = Decimal("0.5")
_IN: Final = alternatives(frozenset(phrases(table("one_in")["all"])))
_ONE_IN: Final = re.compile(
    rf"(?<!\w)(?:one|une?|uno|una|eine?r?|uma?|een) (?:{_IN}) (\d\d?)(?!\w|[.,]\d)"
)
"""Such as "one in 5"."""


@cache
def _number_stems(language: str) -> re.Pattern[str]:
    """In German and Dutch, a number word can begin with any other: "einundzwanzig"."""
    stems = "|".join(table("number_stems")[language].split())
    return re.compile(stems if language in ("de", "nl") else rf"(?<!\w)(?:{stems})")


_HALF_SIGN: Final = " ½"
_HALF_OF_SCALE: Final = re.compile(r"\b(\d{1,9}) ½ (1(?:000){1,4})\b")
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
_LARGE_SCALES: Final = (Decimal(10) ** 9, Decimal(10) ** 6)


def _last_scale(value: Decimal) -> Decimal:
    """What "and a half" is a half of: a million in "dos millones y medio"."""
    if not value or value.adjusted() > _MAX_DIGITS:
        return Decimal(1)
    return next((scale for scale in _LARGE_SCALES if value % scale == 0), Decimal(1))


def _enlarge(value: Decimal, part: Decimal) -> Decimal:
    """`value` further from zero by `part`."""
    return value + part.copy_sign(value)


class _Phrase(NamedTuple):
    written: str
    end: int
    """The position after it."""
    folded: str


_SIGNS_AFTER: Final = ".,;:!?)"


def _phrase(text: str, position: int, words: Lexicon) -> list[_Phrase]:
    """What follows `position`: one to four words, the longest phrase first.

    Only one word if none of more words that begin with it means anything.
    """
    phrases: list[_Phrase] = []
    written = ""
    for _ in range(_MAX_WORDS):
        match = _WORDS_AFTER.match(text, position)
        if match is None:
            break
        written = f"{written} {match[1]}" if written else match[1]
        folded = fold(written)
        position = match.end()
        phrases.append(_Phrase(written, position, folded))
        if written[-1] in ".!?" and len(written) > 5:
            break
        if len(phrases) == 1 and folded not in words.first_words:
            break
    phrases.reverse()
    return phrases


_MANY: Final = re.compile(r"\s(?:people|\w+(?:ers|ors|nts|ees|ions|ads|its|ars|ies|ts|ons))\b")
"""What is counted in millions: "1.2m people", but "100m sprint"."""
_OPEN: Final = re.compile(r"\((?:[A-Z]{0,3}[$€£]|[A-Z]{3})?\s?$")
_MONEY_SCALES: Final = {
    "m": 6,
    "M": 6,
    "b": 9,
    "B": 9,
    "k": 3,
    "K": 3,
    "T": 12,
    "MM": 6,
    "Md": 9,
    "Mds": 9,
    "bn": 9,
    "mn": 6,
}
_MONEY_LETTERS: Final = frozenset(scale[0] for scale in _MONEY_SCALES)
_SCALED_CURRENCY: Final = re.compile(
    rf"({'|'.join(sorted(_MONEY_SCALES, key=len, reverse=True))})(?:[€$£]|(?:{'|'.join(MAIN_CURRENCIES)})\b)"
)
"""Such as "M€" and "MCHF"."""


def _longest(
    phrase: list[_Phrase], scales: Mapping[str, int], text: str, currencies: frozenset[str]
) -> tuple[int, int] | None:
    for written, end, folded in phrase:
        word = folded.rstrip(_SIGNS_AFTER)
        if len(word) > 1 and (scale := scales.get(word)) is not None:
            return scale, end
        start = end - len(written)
        is_joined = not currencies and start > 0 and text[start - 1].isdigit()
        # "12k" and "1.2m people", but not "12m high".
        if is_joined and word in ("k", "m") and (written[0] in "kKM" or _MANY.match(text, end)):
            return (3 if word == "k" else 6), end
        if written[0] in _MONEY_LETTERS and (match := _SCALED_CURRENCY.match(written)):
            return _MONEY_SCALES[match[1]], end - (len(written) - len(match[1]))
        if currencies and (scale := _MONEY_SCALES.get(written.rstrip(_SIGNS_AFTER))) is not None:
            return scale, end
    return None


def _is_range(between: str) -> bool:
    return bool(_RANGE.fullmatch(between) or _RANGE.fullmatch(between.removesuffix("-")))


def _with_ranges(text: str, quantities: list[Quantity]) -> Iterator[Quantity]:
    """In "3.1 to 3.3 billion euros", the first number has the scale and unit of the second one too."""
    previous: Quantity | None = None
    for quantity, following in zip_longest(quantities, quantities[1:]):
        if following is not None and _lacks_unit_of(quantity, following, text):
            yield quantity._replace(unit=following.unit, currencies=following.currencies)
        elif (
            following is not None
            and not quantity.scale
            and (
                (not quantity.unit and (following.unit or following.scale))
                or (quantity.currencies and following.scale)
            )
            and (
                not quantity.currencies
                or not following.currencies
                or quantity.currencies & following.currencies
            )
            and _is_range(text[quantity.end : following.start])
        ):
            factor = Decimal(10) ** following.scale
            yield quantity._replace(
                values=tuple(value * factor for value in quantity.values),
                unit=following.unit or quantity.unit,
                currencies=following.currencies or quantity.currencies,
                scale=following.scale,
            )
        elif (
            previous is not None
            and previous.currencies
            and not quantity.unit
            and quantity.scale
            and _is_range(text[previous.end : quantity.start])
        ):
            yield quantity._replace(unit=previous.unit, currencies=previous.currencies)
        else:
            yield quantity
        previous = quantity


_ALSO_LISTS: Final = frozenset(("and", "or", "und", "oder", "et", "ou", "y", "o", "e", "ed"))
"""Words between the numbers of a range, and between the items of a list."""
_BETWEEN: Final = re.compile(r"\b(?:between|zwischen|entre|tra|fra)\s\W*$", re.IGNORECASE)
_BETWEEN_CHARS: Final = 14


def _lacks_unit_of(quantity: Quantity, following: Quantity, text: str) -> bool:
    """Whether the first number of a range has a scale, and its unit after the second: "310 mil y 330 mil toneladas"."""
    return bool(
        quantity.scale
        and following.scale
        and following.unit
        and not quantity.unit
        and _is_range(between := text[quantity.end : following.start])
        and (
            between.strip() not in _ALSO_LISTS
            or _BETWEEN.search(text[max(0, quantity.start - _BETWEEN_CHARS) : quantity.start])
        )
    )


def _fractions(text: str) -> Iterator[Quantity]:
    folded = fold_in_place(text)
    for match in _FRACTION.finditer(folded):
        if (
            match[0] == "half" and _NO_FRACTION.search(folded[: match.start()][-8:])
        ) or _NO_FRACTION_AFTER.match(folded, match.end()):
            continue
        fraction = _FRACTIONS[match[0]]
        yield Quantity(
            (Decimal(fraction.numerator) / fraction.denominator,),
            FRACTION,
            start=match.start(),
            end=match.end(),
            is_written_out=True,
        )


def _without(text: str, spans: Iterable[tuple[int, int]]) -> str:
    """`text` with dots in place of these parts."""
    characters = list(text)
    for start, end in spans:
        characters[start:end] = "." * (end - start)
    return "".join(characters)


def _number_words(
    text: str, language: str | None, words: Lexicon, dates: Sequence[Date]
) -> Iterator[Quantity]:
    """Numbers that stand there in words, such as "four"."""
    if language not in LANGUAGES:
        return
    text = _without(text, ((date.start, date.end) for date in dates))
    text = _AND_A_HALF.sub(_HALF_SIGN, text)
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
        for match in _ONE_IN.finditer(fold_in_place(converted)):
            if denominator := int(match[1]):
                yield Quantity((1 / Decimal(denominator),), FRACTION, is_written_out=True)
        for match in _NUMBER.finditer(converted):
            if (
                match["number"].isdigit()
                and (value := Decimal(match["number"])) not in _SCALES_ALONE
            ):
                end = match.end("number")
                found = _read_quantity((value,), match.start("number"), end, converted, words)
                if _ORDINAL.match(converted, end):
                    found = found._replace(unit="", is_label=True)
                yield found._replace(start=0, end=0, is_written_out=True)
