"""The outcomes of numbers, amounts and computations that a write claims. Pure."""

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from babel.numbers import is_currency

from shared.graph.grounding.date_rules import DateRules, clause_around, name_parts
from shared.graph.grounding.dates import find_dates
from shared.graph.grounding.names import (
    contains,
    tokenize,
)
from shared.graph.grounding.outcomes import (
    MATCHED,
    Match,
    Outcome,
    instead,
    is_next,
    is_same,
    left_out,
    listed,
    match_number,
    unread,
)
from shared.graph.grounding.passages import (
    Reading,
    Write,
)
from shared.graph.grounding.quantities import FRACTION, Quantity, find_quantities, read_number
from shared.graph.grounding.units import SHARE, Hint, hint_of
from shared.graph.grounding.words import (
    PER_MILLE,
    PERCENT,
    fold,
    is_function_word,
    lexicon,
    role_stems,
    table_scale,
    word_pattern,
    word_set,
)

_LIKELY_YEARS: Final = range(1900, 2101)
_MAX_IN_WORDS: Final = 3
_PARTS: Final = frozenset((PERCENT, PER_MILLE, FRACTION, SHARE))
_AGE: Final = re.compile(
    r"(?:aged|age of|at|alter von|ans|anos|anni|jahre|jahren|year-old|years old|-jahrig|,)\s*\(?\d"
    r"|\d\s*(?:,|\)|ans|anos|anni|jahr|-year|years)"
)
_LIMIT: Final = re.compile(
    r"(?:fewer than|less than|more than|over|under|below|above|up to|at most|at least|weniger als|mehr als|unter|uber|bis zu"
    r"|hochstens|mindestens|moins de|plus de|jusqu'a|menos de|mas de|hasta|meno di|piu di|fino a|mais de)\s?[$€£]?$"
)
_BY: Final = re.compile(r"(?<!\w)(?:by|um)(?: rund| about| etwa| nearly| fast)? [$€£]?$")
_COUNTED_IN_WORDS: Final = re.compile(
    r"(?<!\w)(?:once|twice|thrice|pair|both|beide\w*|\w{3,}mal|fois|veces|volte|vezes|zweite\w*|folgt|second|third|erste\w*|deuxieme"
    r"|segund[oa]|second[oa]|double|doppelt\w*|brace|couple|hat-trick|hattrick)(?!\w)"
)
_RESULT_NAMES: Final = {
    "+": frozenset(["total", "sum", "all", "cast", "together", "combined"]),
    "-": frozenset(["difference", "margin", "gap", "lead"]),
    "/": frozenset(["share", "ratio", "rate", "quota"]),
}
_CHANGE_NAMES: Final = re.compile(
    r"change|growth|wachstum|anderung|aenderung|variation|variaci|variac|variazion|crescita|evolution|croissance|crecimiento|increase|decrease"
)
_UP: Final = re.compile(
    r"(?<!\w)(?:more|up|dearer|higher|teurer|verteuert\w*|plus|mas|piu|mais|encarec\w+|rincar\w+)(?!\w)"
)


_ANY_NUMBER: Final = re.compile(r"\d[\d.,' \u00a0\u202f’]*")


def _has_digits(value: Decimal, texts: Sequence[str]) -> bool:
    """Whether a text has a number with the digits of `value`, but for zeros at the end and the decimal sign."""
    wanted = "".join(map(str, value.normalize().as_tuple().digits)).strip("0")
    found = {
        re.sub(r"\D", "", match).strip("0") for text in texts for match in _ANY_NUMBER.findall(text)
    }
    return wanted in found


class FigureRules:
    """Checks numbers, amounts and computations."""

    def __init__(self, write: Write, dates: DateRules) -> None:
        self._write = write
        self._dates = dates

    def number(self, name: str, value: Decimal) -> Outcome:
        hint = hint_of(name)
        passages = self._write.passages
        if not passages.is_readable:
            is_latin = not any(
                each.isalpha() and each > "\u024f" for text in passages.sentences for each in text
            )
            if is_latin and not _has_digits(value, passages.sentences):
                return left_out(f"{value:f} is not in the cited sentences")
            return unread("rules do not know the language of the page")
        if value == value.to_integral_value() and int(value) in _LIKELY_YEARS and not hint.unit:
            years = [
                (r, each)
                for r, each in self._dates.moments
                if int(value) in (each.first.year, each.last.year)
            ]
            written = [(r, each) for r, each in years if not each.is_completed] or years
            if written:
                return self._dates.year(name, int(value), written)
            around = "\n".join(self._write.passages.around)
            if any(int(value) == each.year for each in find_dates(around, None)):
                return unread(f"only the title or heading has {value:f}")
            if hint.is_year and not self._candidates(name, hint, value):
                stands = instead(
                    each.first.year for _, each in self._dates.moments if each.first.year
                )
                return left_out(f"the year {value:f} is not in the cited sentences{stands}")
        return self._figure(name, hint, value, f"{value:f}")

    def _candidates(
        self, name: str, hint: Hint, value: Decimal
    ) -> list[tuple[Reading, Quantity, Match]]:
        scaled = abs(value.scaleb(hint.scale))
        found: list[tuple[Reading, Quantity, Match]] = []
        for reading in self._write.passages.readings:
            for each in reading.quantities:
                match = max(match_number(hint, scaled, each), match_number(hint, -scaled, each))
                if match is Match.WEAK and not hint.unit and self._has_unit(name, reading, each):
                    match = Match.EXACT if scaled in map(abs, each.values) else match
                if match is not Match.NONE:
                    found.append((reading, each, match))
        return found

    def _has_unit(self, name: str, reading: Reading, quantity: Quantity) -> bool:
        """Whether a word of the property's name is the unit of the quantity."""
        units = lexicon(reading.language).units
        parts = name_parts(name)
        phrases = (
            " ".join(parts[first:last])
            for first in range(len(parts))
            for last in range(first + 1, first + 3)
        )
        named = {units[phrase] for phrase in phrases if phrase in units}
        is_percent = quantity.unit == PERCENT and any(
            part.startswith(("prozent", "pourcent", "porcent", "percent")) for part in parts
        )
        return quantity.unit in named or is_percent

    def _figure(self, name: str, hint: Hint, value: Decimal, shown: str) -> Outcome:
        """The outcome of a number or amount. `value` is as it is claimed, `shown` as it is written."""
        found = self._candidates(name, hint, value)
        if not found:
            return self._missing_figure(name, value, shown)
        best = max(match for _, _, match in found)
        matched = [(reading, each) for reading, each, match in found if match is best]
        if (sign := self._sign(name, hint, value, matched)) is not None:
            return sign
        if best is Match.WEAK:
            return unread(f"the sentences do not say that {shown} is in this unit")
        return self._role(name, hint, value, matched)

    def _sign(
        self, name: str, hint: Hint, value: Decimal, matched: Sequence[tuple[Reading, Quantity]]
    ) -> Outcome | None:
        """Left out if a verb gives the number the other sign, unread if the sign is not clear; None if it is right."""
        if _is_change(name, hint):
            signs = {direction(reading, each) for reading, each in matched}
            stated = next(iter(signs)) if len(signs) == 1 else None
            if stated is None:
                return unread("the direction of the change is not clear")
            if stated and (value < 0) != (stated < 0):
                way = "a decrease" if stated < 0 else "an increase"
                return left_out(f"the sentence says {way}, so it is {-value:f}")
            if not stated:
                return unread("the direction of the change is not clear")
            return None
        is_negative = any(each.values[0] < 0 for _, each in matched)
        if value < 0 and not is_negative:
            return unread("the sentence has the number without a sign")
        if (
            value > 0
            and hint.is_result
            and any(word_pattern("losses").search(r.folded) for r, _ in matched)
        ):
            return unread("the sentence speaks of a loss")
        if value > 0 and is_negative and not any(each.values[0] > 0 for _, each in matched):
            return left_out(f"the sentence has {matched[0][1].values[0]:f}")
        return None

    def _role(
        self, name: str, hint: Hint, value: Decimal, matched: Sequence[tuple[Reading, Quantity]]
    ) -> Outcome:
        """Matched, unless the sentences can say the number of something else."""
        kind = _kind(matched[0][1])
        values = {each.values for _, each in matched}
        others = [
            each
            for reading in self._write.passages.readings
            for each in reading.quantities
            if _kind(each) == kind and each.values not in values
        ]
        if others and not self._is_counted(name, matched, others):
            return unread(
                f"the sentences have other values of this kind: {listed(f'{o.values[0]:f}' for o in others)}"
            )
        if any(len(each.values) > 1 for _, each in matched):
            return unread("the number can be read in two ways")
        if all(
            self._dates.is_of_other(reading)
            or (each.end and self._dates.is_nearer_to_other(reading, each.start))
            for reading, each in matched
        ):
            return unread("the sentence names others")
        if any(
            table_scale(text)
            for text in (*self._write.passages.sentences, *self._write.passages.around)
        ):
            return unread("the sentences or their heading give a scale for a table")
        if not all(reading.is_plain for reading, _ in matched):
            return unread("the sentence is no plain statement")
        if (
            not _is_change(name, hint)
            and "difference" not in fold(name)
            and any(_gives_change(reading, each) for reading, each in matched)
        ):
            return unread("the sentence gives a change")
        if any(
            _LIMIT.search(reading.folded[max(0, each.start - 24) : each.start])
            for reading, each in matched
        ):
            return unread("the sentence gives only a limit")
        if not self._fits_figure(name, hint, matched):
            return unread(f"the sentences have no word for {name}")
        return MATCHED

    def _is_counted(
        self, name: str, matched: Sequence[tuple[Reading, Quantity]], others: Sequence[Quantity]
    ) -> bool:
        """Whether the noun after the number says what the property's name says: "3,900 people at seven mills"."""
        parts = _telling_parts(name, "")
        if len(parts) != 1 or any(each.unit for _, each in matched):
            return False
        if not all(_has_own_noun(each, self._write.passages.readings) for each in others):
            return False
        for reading, each in matched:
            following = tokenize(reading.text[each.end :])[:1] if each.end else ()
            if following and following[0].word.startswith(role_stems(parts[0])):
                return True
        return False

    def _fits_figure(
        self, name: str, hint: Hint, matched: Sequence[tuple[Reading, Quantity]]
    ) -> bool:
        """Whether the sentence has a word for each telling part of the property's name."""
        unit = matched[0][1].unit
        parts = _telling_parts(name, unit)
        if not parts:
            return bool(unit) or any(
                word.startswith(role_stems(name)) for r, _ in matched for word in r.words
            )
        return any(
            all(self._has_part(part, reading, each) for part in parts)
            and not (
                word_set("scopes") & set(name_parts(name))
                or (word_set("scopes") & reading.words and word_set("scopes") & set(parts))
            )
            for reading, each in matched
        )

    def _has_part(self, part: str, reading: Reading, quantity: Quantity) -> bool:
        if part == "age":
            near = reading.folded[max(0, quantity.start - 24) : quantity.end + 24]
            return bool(_AGE.search(near))
        if part.isdigit():
            years = {each.first.year for each in reading.moments}
            return years == {int(part)}
        if len(part) < 4:
            return part in reading.words
        return any(word.startswith(role_stems(part)) for word in reading.words)

    def _missing_figure(self, name: str, value: Decimal, shown: str) -> Outcome:
        passages = self._write.passages
        if passages.words & word_set("factors") and any(
            abs(value) in (each.values[0] * factor, each.values[0] / factor)
            for reading in passages.readings
            for each in reading.quantities
            for factor in (2, 3, 4, 10)
        ):
            return unread("it may follow from a multiple")
        if value == 0:
            return unread("the sentences can say zero in other words")
        hint = hint_of(name)
        if hint.unit in (PERCENT, SHARE) and passages.words & word_set("fraction_words"):
            return unread("the sentences have a part in words")
        if any(table_scale(text) for text in (*passages.sentences, *passages.around)):
            return unread("the sentences or their heading give a scale for a table")
        if hint.unit and any(
            each.unit.partition("-")[0] == hint.unit.partition("-")[0] == "duration"
            or (hint.unit.startswith("mass") and "GBP" in each.currencies)
            for reading in passages.readings
            for each in reading.quantities
        ):
            return unread("rules cannot convert the unit")
        if passages.words & word_set("factors") and (
            hint.unit in (PERCENT, SHARE) or hint.is_change
        ):
            return unread("it may follow from a multiple")
        if any(value == each for reading in passages.readings for each in reading.labels):
            return unread("the number names something in the sentences")
        if passages.words & word_set("parts_in_words"):
            return unread("the sentences have a part in words")
        if value <= _MAX_IN_WORDS and any(
            _COUNTED_IN_WORDS.search(each.folded) for each in passages.readings
        ):
            return unread("the sentences may count it in words")
        if value == 1 and passages.words & (word_set("ones") | {"a", "an"}):
            return unread("an article may stand for one")
        if value <= 4 and hint.is_rank and passages.words & word_set("ranks"):
            return unread("the sentences have words that may be this rank")
        is_measured = any(
            each.unit and abs(value) in (abs(one), abs(one).scaleb(-each.scale))
            for reading in passages.readings
            for each in reading.quantities
            for one in each.values
        )
        if not is_measured and contains(shown, passages.sentences):
            return unread("the number names something in the sentences")
        if value == value.to_integral_value() and 2 <= value <= 5 and self._lists(int(value)):
            return unread("it may count what the sentences list")
        numbers = (
            each.written_in(reading.text)
            for reading in passages.readings
            for each in reading.quantities
            if each.end
        )
        return left_out(f"{shown} is not in the cited sentences{instead(numbers)}")

    def _lists(self, count: int) -> bool:
        item = r"[A-ZÀ-Þ][\w'’.-]*(?: [A-ZÀ-Þ][\w'’.-]*)*"
        more = rf"(?:, {item}){{{count - 2}}}"
        pattern = rf"{item}{more},? (?:and|und|et|y|e|&) {item}"
        return any(re.search(pattern, sentence) for sentence in self._write.passages.sentences)

    def read_amount(self, text: str) -> Quantity | None:
        """The amount that the whole text is, such as "38,000 pounds", "-14 %" and "9,000 units a month"."""
        for reading in self._write.passages.readings:
            for sign in dict.fromkeys((reading.cited.page.decimal_sign, ".")):
                found = find_quantities(text, reading.language, sign, is_english_first=True)
                if len(found) != 1:
                    continue
                [amount] = found
                is_there = any(
                    is_same(amount, each)
                    for r in self._write.passages.readings
                    for each in r.quantities
                )
                if not is_there and sign != ".":
                    continue
                if not amount.end:
                    return amount if contains(text, self._write.passages.sentences) else None
                rest = tokenize(f"{text[: amount.start]} {text[amount.end :]}")
                known = (
                    self._write.passages.words
                    | word_set("amount_words")
                    | {code.lower() for code in amount.currencies}
                )
                if all(token.word in known or is_function_word(token.word) for token in rest):
                    return amount
        return None

    def currency(self, text: str) -> Outcome | None:
        """The outcome of the code of a currency, such as "USD"; None if `text` is none, or the sentences have no amount."""
        if not (text.isupper() and len(text) == 3 and is_currency(text)):
            return None
        found = [
            each
            for reading in self._write.passages.readings
            for each in reading.quantities
            if each.currencies
        ]
        if not found or contains(text, self._write.passages.sentences):
            return None
        if not any(text in each.currencies for each in found):
            return left_out(f"the sentences have no amount in {text}")
        is_sure = all(
            {text} == set(each.currencies) or (text == "USD" and text in each.currencies)
            for each in found
        )
        return MATCHED if is_sure else unread("the sentences have other currencies")

    def amount(self, name: str, amount: Quantity, text: str) -> Outcome:
        if not self._write.passages.is_readable:
            return unread("rules do not know the language of the page")
        matched = [
            (reading, each)
            for reading in self._write.passages.readings
            for each in reading.quantities
            if is_same(amount, each) or _is_same_part(amount, each)
        ]
        value = amount.values[0]
        if text.lstrip().startswith(("-", "−", "–")):
            value = -abs(value)
        if not matched:
            quoted = [
                each for reading in self._write.passages.readings for each in reading.quantities
            ]
            if any(not each.unit and each.values == amount.values for each in quoted):
                return unread(f"the sentences do not state the unit of {text!r}")
            return self._missing_figure(name, abs(value), text)
        hint = hint_of(name)
        if (sign := self._sign(name, hint, value, matched)) is not None:
            return sign
        if all(_kind(amount) != _kind(each) for _, each in matched):
            return unread(f"the sentences do not state the unit of {text!r}")
        return self._role(name, hint, value, matched)

    def computation(self, name: str, text: str) -> Outcome | None:
        """The outcome of a result with its arithmetic, as in "35 = 12 + 23"; None if the text is no arithmetic."""
        written, _, terms = text.partition("=")
        language = self._write.passages.readings[0].language
        result = find_quantities(written, language, ".", is_english_first=True)
        operands = read_arithmetic(terms, language)
        if len(result) != 1 or operands is None:
            return None
        computed, numbers, signs = operands
        [shown] = result
        value = shown.values[0].scaleb(-shown.scale)
        places = value.as_tuple().exponent
        step = Decimal((0, (5,), places - 1)) if isinstance(places, int) else Decimal(0)
        exact = (
            computed,
            computed * 100,
            computed.scaleb(-shown.scale),
            shown.values[0] and computed,
        )
        if not any(abs(abs(each) - abs(value)) <= step for each in exact):
            return left_out(f"{text} is computed wrongly")
        quantities = [
            each for reading in self._write.passages.readings for each in reading.quantities
        ]

        def numbers_of(quantity: Quantity) -> set[Decimal]:
            return {
                abs(each.scaleb(-scale))
                for each in quantity.values
                for scale in (0, quantity.scale)
            }

        figures = {number for each in quantities for number in numbers_of(each)}
        if not numbers <= figures:
            return unread("the cited sentences do not have all that it is computed from")
        kinds = {_kind(each) for each in quantities if numbers & numbers_of(each)}
        alike = [each for each in quantities if _kind(each) in kinds]
        is_named = (
            bool(_RESULT_NAMES[signs] & set(name_parts(name))) if signs in _RESULT_NAMES else False
        )
        is_all = all(numbers & numbers_of(each) for each in alike)
        return MATCHED if is_all and is_named else unread("the sentences have other figures")


def _has_own_noun(quantity: Quantity, readings: Sequence[Reading]) -> bool:
    """Whether a noun of its own follows the number, so that it does not count what another number counts."""
    for reading in readings:
        if any(quantity is each for each in reading.quantities):
            following = tokenize(reading.text[quantity.end :])[:1] if quantity.end else ()
            return not quantity.end or bool(following and not is_function_word(following[0].word))
    return False


def _is_change(name: str, hint: Hint) -> bool:
    """Whether the property is the change of something, which has a sign."""
    return hint.is_change or bool(_CHANGE_NAMES.search(fold(name)))


def _gives_change(reading: Reading, quantity: Quantity) -> bool:
    """Whether the sentence says by how much something rose or fell, and not how much it is."""
    before = reading.folded[max(0, quantity.start - 12) : quantity.start]
    if _BY.search(before):
        return direction(reading, quantity) != 0
    is_part = quantity.unit in _PARTS or quantity.unit == "percentage points"
    return is_part and (
        is_next("decreases", reading.folded, quantity)
        or is_next("increases", reading.folded, quantity)
    )


def _is_same_part(claimed: Quantity, quoted: Quantity) -> bool:
    """Whether a percentage is a part that the sentence has in words, such as "a fifth"."""
    factor = {PERCENT: Decimal(1), FRACTION: Decimal(100), PER_MILLE: Decimal("0.1")}
    if claimed.unit != PERCENT or quoted.unit not in factor:
        return False
    return any(
        abs(one) == abs(other) * factor[quoted.unit]
        for one in claimed.values
        for other in quoted.values
    )


def _kind(quantity: Quantity) -> str:
    """Its unit; the same for all ways to write a part of a whole."""
    return PERCENT if quantity.unit in (PERCENT, PER_MILLE, FRACTION) else quantity.unit


def _telling_parts(name: str, unit: str) -> list[str]:
    """The words of a property's name that its sentence must have: those that say more than its unit does."""
    measured = unit.rpartition("-")[2]
    parts = [part for part in name_parts(name) if part not in word_set("general_parts")]
    if unit == PERCENT or unit in _PARTS:
        parts = [part for part in parts if part not in ("change", "growth")]
    if measured:
        parts = [
            part
            for part in parts
            if not part.startswith(measured[:4])
            and part not in ("duration", "distance", "length", "time")
        ]
    return parts


def direction(reading: Reading, quantity: Quantity) -> int | None:
    """-1 if the quantity is a decrease by its sentence, 1 for an increase, 0 if nothing tells, None if it is unclear."""
    if quantity.values[0] < 0 or is_next("decreases", reading.folded, quantity):
        return -1
    if not quantity.end:
        clause_start, clause_end = 0, len(reading.folded)
    else:
        clause_start, clause_end = clause_around(reading.folded, quantity.start, quantity.end)
    clause = reading.folded[clause_start:clause_end]
    down = bool(word_pattern("decreases").search(clause)) or bool(
        word_pattern("less").search(clause)
    )
    up = bool(word_pattern("increases").search(clause)) or bool(_UP.search(clause))
    if down and up:
        return None
    if not down and not up and clause != reading.folded:
        down = bool(word_pattern("decreases").search(reading.folded))
        up = bool(word_pattern("increases").search(reading.folded))
        return None if down and up else -1 if down else 1 if up else 0
    return -1 if down else 1 if up else 0


_TERM: Final = re.compile(
    r"\s*(?:(?P<number>\d[\d.,' \u00a0]*\d|\d)(?:\s?[^\W\d_]+|\s?[%$€£¥])*|(?P<sign>[-+−×x*·/÷:()]))"
)
_PERCENT_OF: Final = re.compile(r"(\d)\s?(?:%|percent|Prozent)\s(?:of|von|de|di|del)\s")
_SIGNS: Final = {"−": "-", "×": "*", "x": "*", "·": "*", "÷": "/", ":": "/"}
_MAX_ARITHMETIC_CHARS: Final = 200


def read_arithmetic(text: str, language: str | None) -> tuple[Decimal, set[Decimal], str] | None:
    """The result, the operands and the sign of written arithmetic; None if `text` is none.

    The sign is "" if there are several kinds of operations.
    """
    tokens: list[str | Decimal] = []
    place = 0
    stripped = _PERCENT_OF.sub(r"\1 / 100 * ", text.strip()[:_MAX_ARITHMETIC_CHARS])
    while place < len(stripped):
        match = _TERM.match(stripped, place)
        if match is None:
            return None
        if match["sign"]:
            tokens.append(_SIGNS.get(match["sign"], match["sign"]))
        else:
            number = match["number"].strip()
            sign = "," if language != "en" and "," in number and "." not in number else "."
            tokens.append(read_number(number, sign)[0])
        place = match.end()
    operands = {each for each in tokens if isinstance(each, Decimal)}
    if stripped != text.strip():
        operands.discard(Decimal(100))
    signs = {each for each in tokens if isinstance(each, str) and each in "+-*/"}
    if len(operands) < 2 or not signs:
        return None
    try:
        result, rest = _sum(tokens)
    except (ValueError, IndexError, ZeroDivisionError, ArithmeticError):
        return None
    return None if rest else (result, operands, signs.pop() if len(signs) == 1 else "")


Tokens = Sequence[str | Decimal]


def _sum(tokens: Tokens) -> tuple[Decimal, Tokens]:
    value, tokens = _product(tokens)
    while tokens and tokens[0] in ("+", "-"):
        other, rest = _product(tokens[1:])
        value, tokens = (value + other if tokens[0] == "+" else value - other), rest
    return value, tokens


def _product(tokens: Tokens) -> tuple[Decimal, Tokens]:
    value, tokens = _operand(tokens)
    while tokens and tokens[0] in ("*", "/"):
        other, rest = _operand(tokens[1:])
        value, tokens = (value * other if tokens[0] == "*" else value / other), rest
    return value, tokens


def _operand(tokens: Tokens) -> tuple[Decimal, Tokens]:
    first = tokens[0]
    if isinstance(first, Decimal):
        return first, tokens[1:]
    if first == "(":
        value, rest = _sum(tokens[1:])
        if rest[0] != ")":
            raise ValueError("a bracket is open")
        return value, rest[1:]
    raise ValueError("no operand")
