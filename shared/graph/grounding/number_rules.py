"""Whether a claimed number follows from its quotes. Pure."""

import re
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Final

from shared.graph.grounding.cited import CitedPassages, is_mentioned, is_year
from shared.graph.grounding.dates import find_dates
from shared.graph.grounding.findings import (
    SUPPORTED,
    Finding,
    instead,
    listed,
    refused,
    unverified,
)
from shared.graph.grounding.lexicon import PER_MILLE, PERCENT, lexicon
from shared.graph.grounding.matching import Match, is_next, match_number
from shared.graph.grounding.names import find_names, is_place, tokenize
from shared.graph.grounding.quantities import FRACTION, Quantity
from shared.graph.grounding.units import SHARE, Hint, convert
from shared.graph.grounding.words import word_set

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
        written = f"{value:f} ({unit})" if unit else f"{value:f}"
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
