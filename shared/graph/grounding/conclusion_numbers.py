"""Whether the numbers of a conclusion are known, or follow from known numbers beside them. Pure."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Final

from shared.graph.grounding.arithmetic import (
    Operand,
    Result,
    derive,
    follows,
    is_called,
    is_reversed,
    is_within,
)
from shared.graph.grounding.known import CURRENCY, Known, Value
from shared.graph.grounding.names import is_noun_form
from shared.graph.grounding.outcomes import MATCHED, Level, Outcome, left_out, unread
from shared.graph.grounding.ranks import mentions_of
from shared.graph.grounding.units import convert
from shared.graph.grounding.words import LANGUAGES, PERCENT, alternatives, fold, phrases, table
from shared.graph.grounding.written import TIMES, Number, Sentence

_MAX_PASSES: Final = 3
_MIN_COUNT: Final = 4
"""Up to which a number may count the conclusion's own things, as in "two reasons"; more if it cites more."""
_DECADE: Final = re.compile(r"(?:s|er)(?!\w)")
_TIME: Final = re.compile(r"\d{1,3}:\d{1,3}")
_CENTURY: Final = re.compile(r"\s?(?:century|centuries|jahrhundert|siecle|siglo|secolo|seculo)")
_DAYS: Final = {
    "duration-day": Decimal(1),
    "duration-week": Decimal(7),
    "duration-month": Decimal("30.4"),
    "duration-year": Decimal("365.25"),
}
_HORIZON_PART: Final = Decimal("0.15")
_DURATION: Final = "duration-"
_AHEAD_CHARS: Final = 30
_MONTHS: Final = 12
_PERIOD_BEFORE: Final = re.compile(
    r"(?<!\w)(?:first|last|past|(?:of|in|over) the|ersten|letzten|premiers|derniers|primeros|ultimos|primi|ultimi"
    r"|primeiros|eerste|laatste) $"
)
_PERIOD_AFTER: Final = re.compile(r"(?:[\s-]months?)? (?:of|to|until|through|ended|ending) ")
"""Before and after a number of months: "the first nine months", "the nine months to September"."""
_NOUN_WORDS: Final = 3
_MAX_NUMBERING: Final = 99
_RATIO: Final = re.compile(r"(?:^|_)(?:ratio|factor|multiple|times|x)(?:$|_)", re.IGNORECASE)
_MAX_GUESS: Final = Decimal("0.6")
"""Part by which a wrong number may differ from the right one that a reason gives."""


@dataclass
class ConclusionText:
    """One text of a conclusion; `key` says which."""

    key: str
    sentences: list[Sentence]
    operands: dict[int, list[Operand]] = field(default_factory=dict)
    """By sentence."""


class ConclusionNumbers:
    """Checks the numbers of a conclusion's texts, which may repeat what one of them has computed."""

    def __init__(
        self,
        texts: Sequence[ConclusionText],
        known: Known,
        terms: Known,
        language: str | None,
        *,
        is_other_script: bool,
    ) -> None:
        """`terms` are known besides: the conclusion's own confidence, horizon and time."""
        self._texts = texts
        self._known = known
        self._terms = terms
        self._language = language
        self._is_other_script = is_other_script
        self._results: list[Value] = []

    def check(self) -> list[tuple[str, str, Outcome]]:
        """The key of the text, the number as written, and the finding about it."""
        numbers: dict[tuple[str, int, int], tuple[str, Outcome]] = {}
        for _ in range(_MAX_PASSES):
            before = dict(numbers)
            for text in self._texts:
                self._check_text(text, numbers)
            if numbers == before:
                break
        return [(key, written, finding) for (key, _, _), (written, finding) in numbers.items()]

    def _check_text(
        self, text: ConclusionText, numbers: dict[tuple[str, int, int], tuple[str, Outcome]]
    ) -> None:
        for place, sentence in enumerate(text.sentences):
            for number in sentence.numbers:
                key = text.key, place, number.start
                if key in numbers and numbers[key][1].level is not Level.LEFT_OUT:
                    continue
                finding = self._number(text, place, number)
                if finding is not None:
                    numbers[key] = sentence.shown(number), finding

    def _number(self, text: ConclusionText, place: int, number: Number) -> Outcome | None:
        sentence = text.sentences[place]
        if self._is_date(sentence, number):
            return None
        if number.is_label:
            return self._label(sentence, number)
        counted = self._count(text, place, number)
        if counted is not None and counted.level is not Level.LEFT_OUT:
            return counted
        if counted is None:
            if (found := self._find(text, place, number)) is not None:
                scaled, value = found
                self._add_operand(text, place, scaled, value)
                return (
                    MATCHED if value.unit or not number.unit else unread("its unit is not stated")
                )
            if number.is_bare and self._known.contains(sentence.shown(number)):
                return MATCHED
        if (finding := self._derived(text, place, number)) is not None:
            return finding
        return counted or self._unknown(text, place, number)

    def _is_date(self, sentence: Sentence, number: Number) -> bool:
        # "2,022 million" ends after the date that its digits may be.
        return any(
            date.start <= number.start < date.end and number.end <= date.end
            for date in sentence.dates
        )

    def _label(self, sentence: Sentence, number: Number) -> Outcome | None:
        """The finding about a number such as that of "ISO 9001" or "17th"; those of places are checked as ranks."""
        written = sentence.shown(number)
        before = sentence.text[: number.start].rstrip()
        if self._known.contains(written) or number.value <= _MIN_COUNT:
            return None
        if _CENTURY.match(sentence.folded, number.end) or _TIME.search(written):
            return unread("rules cannot check this")
        if before[-2:].isupper() or number.value > self._max_count():
            return left_out(f"{written!r} is not in anything that is cited")
        return None

    def _max_count(self) -> int:
        items = max((len(text.sentences) for text in self._texts), default=0)
        return max(_MIN_COUNT, len(self._known.cited), min(items, 2 * _MIN_COUNT))

    def _count(self, text: ConclusionText, place: int, number: Number) -> Outcome | None:
        """The finding about a number that may count things; None if it is no such number."""
        sentence = text.sentences[place]
        if not (number.is_bare and number.is_whole and number.value > 0):
            return None
        nouns = self._nouns(sentence, number)
        values = [value for noun in nouns for value in self._known.counted(noun)]
        if values:
            if equal := [value for value in values if value.number == number.value]:
                self._add_operand(text, place, number, equal[0])
                return MATCHED
            shown = ", ".join(f"{value.number:f} ({self._label_of(value)})" for value in values[:3])
            return left_out(f"{sentence.shown(number)!r} is wrong: what is cited says {shown}")
        for noun in nouns:
            count = sum(is_noun_form(noun, fold(each.type)) for each in self._known.cited)
            if count and number.value == count:
                return MATCHED
            if count and number.value > count and number.value <= 2 * _MIN_COUNT + count:
                return left_out(
                    f"{sentence.shown(number)!r} is wrong: {count} of the cited elements are of this type"
                )
        return None

    def _nouns(self, sentence: Sentence, number: Number) -> list[str]:
        """The words after the number, up to the end of the phrase."""
        nouns: list[str] = []
        end = number.end
        for token in sentence.tokens:
            if token.start < number.end:
                continue
            if len(nouns) == _NOUN_WORDS or sentence.text[end : token.start].strip():
                break
            nouns.append(token.word)
            end = token.end
        return nouns

    def _find(
        self, text: ConclusionText, place: int, number: Number
    ) -> tuple[Number, Value] | None:
        """The known value that the number is, and the number with the scale that it has."""
        sentence = text.sentences[place]
        if (value := self._find_value(sentence, number)) is not None:
            return number, value
        if not number.is_bare:
            return None
        # In a table of "USD bn", or before the end of a list in millions.
        near = [each for each in text.sentences if each.paragraph == sentence.paragraph]
        for power in sorted({power for each in near for power in each.powers if power > 2}):
            scaled = number.scaled(power)
            if (value := self._find_value(sentence, scaled)) is not None:
                return scaled, value
        return None

    def _find_value(self, sentence: Sentence, number: Number) -> Value | None:
        weak: Value | None = None
        values = (*self._known.values, *self._terms.values, *self._results)
        for value in matching(sentence, number, values):
            if value.unit or not number.unit:
                return value
            weak = weak or value
        return weak

    def _add_operand(self, text: ConclusionText, place: int, number: Number, value: Value) -> None:
        sentence = text.sentences[place]
        unit = value.unit or number.unit
        currencies = value.currencies or number.currencies
        written = abs(number.value)
        if number.unit and value.unit and number.unit != CURRENCY:
            written = convert(written, number.unit, value.unit) or written
        exact = value.number
        # "812" of `revenue_million_eur` is no part of the scaled amount.
        operand = Operand(
            (abs(exact), written),
            unit,
            currencies,
            place,
            number.start,
            value.element,
            sentence.shown(number),
            value.property,
        )
        operands = text.operands.setdefault(place, [])
        if all(each.start != operand.start for each in operands):
            operands.append(operand)
            operands.sort(key=lambda each: each.start)

    # ---- Arithmetic

    def _derived(self, text: ConclusionText, place: int, number: Number) -> Outcome | None:
        """The finding about a number that is computed from others; None if nothing gives it."""
        sentence = text.sentences[place]
        near, around, others = self._operands(text, place, number)
        for operands, needs_call in (
            (near, False),
            (around, len(around) > len(near)),
            (others, True),
        ):
            for result in derive(number, sentence, operands):
                if not follows(number, result, limit=sentence.limit(number)):
                    continue
                if self._is_against_trend(sentence, number, result):
                    continue
                if reversal := self._reversal(sentence, number, result):
                    return reversal
                is_called_so = is_called(result, sentence, operands)
                if needs_call and not is_called_so:
                    continue
                if operands is others and len({each.property for each in result.operands}) > 1:
                    continue
                self._add_result(text, place, number, result)
                known = is_called_so and self._language in LANGUAGES
                return MATCHED if known else unread("rules cannot check this computation")
        return None

    def _operands(
        self, text: ConclusionText, place: int, number: Number
    ) -> tuple[list[Operand], list[Operand], list[Operand]]:
        """The operands of the sentence, those of its paragraph, and those of elements that it names, anywhere."""
        sentence = text.sentences[place]
        near = [each for each in text.operands.get(place, []) if each.start != number.start]
        everywhere = [
            (other, operand)
            for other in range(len(text.sentences))
            for operand in text.operands.get(other, [])
            if (other, operand.start) != (place, number.start)
        ]
        around = [
            operand
            for other, operand in everywhere
            if text.sentences[other].paragraph == sentence.paragraph
        ]
        named = {element for _, element in mentions_of(self._known.cited, sentence)}
        of_named = [operand for _, operand in everywhere if operand.element in named]
        return near, around, of_named

    def _is_against_trend(self, sentence: Sentence, number: Number, result: Result) -> bool:
        """Whether the sentence says that it rises, and it falls, or the other way round."""
        trend = -1 if number.value < 0 else sentence.trend(number)
        if not result.sign:
            # "A drop of 20 %" is no share of what there was, but "down to 20 %" is.
            one = {(each.element, each.property.rstrip("0123456789_")) for each in result.operands}
            is_share = number.unit == PERCENT and len(result.operands) == 2 and len(one) == 1
            return is_share and bool(trend) and not sentence.is_target(number)
        stated = self._stated_sign(result)
        if stated is not None and stated != result.sign:
            return True
        return bool(trend) and trend != result.sign

    def _stated_sign(self, result: Result) -> int | None:
        """The sign of the change in the order of the sentence, if both numbers are of one element and property or follow
        each other as "from … to …".
        """
        first, second = sorted(result.operands, key=lambda each: (each.sentence, each.start))[:2]
        if first.sentence != second.sentence:
            return None
        sentence = next(
            (
                text.sentences[first.sentence]
                for text in self._texts
                if first in text.operands.get(first.sentence, [])
            ),
            None,
        )
        return (is_reversed(first, second, sentence) or None) if sentence else None

    def _reversal(self, sentence: Sentence, number: Number, result: Result) -> Outcome | None:
        """The finding about a ratio whose sentence names its two elements the other way round."""
        if number.unit not in (TIMES, PERCENT) or result.sign or len(result.operands) != 2:
            return None
        one, other = result.operands
        if one.element == other.element or sentence.trend(number) < 0:
            return None
        names = [
            (start, element)
            for start, element in mentions_of(self._known.cited, sentence)
            if element in (one.element, other.element)
        ]
        before = [element for start, element in names if start < number.start]
        after = [element for start, element in names if start >= number.end]
        if before and after and (before[-1], after[0]) == (other.element, one.element):
            return left_out(
                f"{sentence.shown(number)!r} is the other way round: it is {result.what}"
            )
        return None

    def _add_result(self, text: ConclusionText, place: int, number: Number, result: Result) -> None:
        exact = min(result.values, key=lambda value: abs(abs(value) - abs(number.value)))
        first = result.operands[0]
        unit = number.unit or (first.unit if first.unit != PERCENT else "")
        if number.unit == "" and result.what.count(" / ") == 1 and "+" not in result.what:
            unit = TIMES if len({each.unit for each in result.operands}) == 1 else ""
        codes = number.currencies or (first.currencies if unit == CURRENCY else frozenset())
        value = Value(abs(exact), unit, codes)
        self._results.append(value)
        self._add_operand(text, place, number, value)

    # ---- What is not known

    def _unknown(self, text: ConclusionText, place: int, number: Number) -> Outcome:
        sentence = text.sentences[place]
        is_count = number.is_bare and number.is_whole and number.value >= 0
        if is_count and _is_numbering(sentence, number):
            return unread("it numbers the word before it")
        if is_count and 0 < number.value <= self._max_count():
            return unread("it may count what the conclusion is about")
        if number.unit.startswith(_DURATION) and (
            self._is_duration(text, place, number)
            or (number.is_word and number.value <= _MIN_COUNT)
        ):
            return unread("it is a future time or a time between two dates")
        if (
            number.unit == "duration-month"
            and number.value < _MONTHS
            and (
                _PERIOD_BEFORE.search(sentence.folded[: number.start])
                or _PERIOD_AFTER.match(sentence.folded, number.end)
            )
        ):
            return unread("it is the period of a figure")
        if _TIME.match(sentence.text, number.start) or _TIME.search(
            sentence.text[max(0, number.start - 4) : number.end]
        ):
            return unread("rules cannot check times")
        if (
            number.is_bare
            and _DECADE.match(sentence.folded, number.end)
            and self._is_decade(number)
        ):
            return unread("it is a decade")
        if self._is_other_script and self._has_digits(number):
            return unread("rules do not know words such as “million” in this script")
        return left_out(self._reason(text, place, number))

    def _is_duration(self, text: ConclusionText, place: int, number: Number) -> bool:
        sentence = text.sentences[place]
        if _ahead().search(sentence.folded[max(0, number.start - _AHEAD_CHARS) : number.start]):
            return True
        if self._is_horizon(number):
            return True
        years = {year for each in text.sentences for day in each.dates if (year := day.year)}
        years |= self._terms.years
        for operand in (each for group in text.operands.values() for each in group):
            years |= {int(value) for value in operand.values if 1000 <= value < 3000}
        is_years = number.unit == "duration-year"
        return is_years and any(
            abs(one - other) == number.value for one in years for other in years if one != other
        )

    def _is_horizon(self, number: Number) -> bool:
        """Whether it is about the time from the conclusion's own date to its horizon."""
        days = [
            date(each.year, each.month, each.day)
            for each in self._terms.dates
            if each.year and each.month and each.day
        ]
        length = Decimal((max(days) - min(days)).days) if days else Decimal(0)
        written = number.value * _DAYS.get(number.unit, 0)
        return bool(written) and abs(written - length) <= written * _HORIZON_PART

    def _is_decade(self, number: Number) -> bool:
        return any(number.value <= year < number.value + 10 for year in self._known.years)

    def _has_digits(self, number: Number) -> bool:
        digits = _digits(number.value)
        return any(_digits(value.number) == digits for value in self._known.values)

    def _reason(self, text: ConclusionText, place: int, number: Number) -> str:
        sentence = text.sentences[place]
        written = sentence.shown(number) or f"{number.value:f}"
        if self._is_wrong_unit(sentence, number):
            return f"nothing that is cited has {written!r} in this unit"
        if right := self._right_value(text, place, number):
            return f"{written!r} is not what the numbers beside it give: {right}"
        return f"{written!r} is not in anything that is cited, and does not follow from the numbers of its paragraph"

    def _right_value(self, text: ConclusionText, place: int, number: Number) -> str:
        """What the numbers of the sentence give instead; empty if nothing comes near."""
        sentence = text.sentences[place]
        near = text.operands.get(place, [])
        results = [
            (abs(abs(value) - abs(number.value)), result.what, value)
            for result in derive(number, sentence, near)
            for value in result.values
            if is_called(result, sentence, near)
            and not self._is_against_trend(sentence, number, result)
        ]
        if not results:
            return ""
        error, what, value = min(results)
        is_near = error <= max(abs(number.value), abs(value)) * _MAX_GUESS
        return f"{what} is {_shown(value, number)}" if is_near else ""

    def _is_wrong_unit(self, sentence: Sentence, number: Number) -> bool:
        return bool(number.unit) and any(
            value.unit != TIMES and is_within(abs(written), step, abs(value.number), "", "")
            for value in self._known.values
            for written, step in number.readings
        )

    def _label_of(self, value: Value) -> str:
        names = self._known.cited[value.element].names if value.element >= 0 else ()
        return f"{value.property} of {names[0]}" if names else value.property


def matching(sentence: Sentence, number: Number, values: Iterable[Value]) -> Iterator[Value]:
    """Those of the values that the number of the sentence is, exactly, rounded or as a limit."""
    limit = sentence.limit(number)
    for value in values:
        exact = _exact(number, value)
        if exact is not None and any(
            is_within(abs(written), step, abs(exact), limit, number.unit)
            and (not written < 0 < exact or _is_after_number(sentence, number))
            for written, step in number.readings
        ):
            yield value


def _exact(number: Number, value: Value) -> Decimal | None:
    if number.unit == TIMES:
        is_ratio = value.unit == TIMES or _RATIO.search(value.property)
        return value.number if is_ratio else None
    if value.unit == TIMES:
        return value.number if not number.unit else None
    return value.number_in(number.unit, number.currencies)


def _is_after_number(sentence: Sentence, number: Number) -> bool:
    """Whether the sign before the number is that of a difference."""
    before = sentence.text[max(0, number.start - 20) : number.start]
    return bool(re.search(r"\d\s*[-−–]\s*$", before))


def _is_numbering(sentence: Sentence, number: Number) -> bool:
    """Whether it stands after a capitalized word and ends the phrase, as in "Scenario 7"."""
    before = [token for token in sentence.tokens if token.end <= number.start]
    if not before or number.value > _MAX_NUMBERING:
        return False
    is_joined = sentence.text[before[-1].end : number.start] == " " and before[-1].is_capitalized
    is_end = not sentence.text[number.end :].strip(" .") or sentence.text[number.end] == ":"
    return is_joined and is_end and not before[-1].word[0].isdigit()


def _digits(value: Decimal) -> str:
    return "".join(map(str, value.normalize().as_tuple().digits))


def _shown(value: Decimal, number: Number) -> str:
    """The right value, with a digit more than the wrong one."""
    rounded = value.quantize(min(number.readings[0][1] / 10, Decimal(1)))
    unit = {PERCENT: " %", TIMES: "", CURRENCY: ""}.get(number.unit, f" {number.unit}".rstrip())
    return f"{rounded:,f}{unit}"


def _ahead() -> re.Pattern[str]:
    words = alternatives(frozenset(phrases(table("ahead")["all"])))
    return re.compile(rf"(?<!\w)(?:{words})(?!\w)")
