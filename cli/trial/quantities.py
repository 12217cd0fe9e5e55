"""Quantities in texts, such as `$83 billion` or `48.449 million kWh`, compared across units and rounding."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_SCALES: Final = {
    "thousand": 1e3, "k": 1e3,
    "million": 1e6, "mn": 1e6, "m": 1e6,
    "billion": 1e9, "bn": 1e9, "b": 1e9,
    "trillion": 1e12, "tn": 1e12, "t": 1e12,
}  # fmt: skip

_UNITS: Final = {
    "%": ("%", 1.0), "percent": ("%", 1.0), "pct": ("%", 1.0), "percentage": ("%", 1.0),
    "$": ("USD", 1.0), "usd": ("USD", 1.0), "us dollars": ("USD", 1.0), "dollars": ("USD", 1.0),
    "kwh": ("Wh", 1e3), "mwh": ("Wh", 1e6), "gwh": ("Wh", 1e9), "twh": ("Wh", 1e12),
    "kw": ("W", 1e3), "mw": ("W", 1e6), "gw": ("W", 1e9),
    "bbl/day": ("bbl/day", 1.0), "barrels/day": ("bbl/day", 1.0), "bpd": ("bbl/day", 1.0),
    "barrels per day": ("bbl/day", 1.0), "bbl per day": ("bbl/day", 1.0),
    "barrels": ("bbl", 1.0), "bbl": ("bbl", 1.0),
    "cubic meters": ("m3", 1.0), "cubic metres": ("m3", 1.0), "cu m": ("m3", 1.0),
    "m3": ("m3", 1.0), "bcm": ("m3", 1e9), "cubic kilometers": ("m3", 1e9),
    "metric tonnes": ("t", 1.0), "metric tons": ("t", 1.0), "tonnes": ("t", 1.0),
    "tons": ("t", 1.0), "kg": ("t", 1e-3),
    "square kilometers": ("km2", 1.0), "square kilometres": ("km2", 1.0), "sq km": ("km2", 1.0),
    "km2": ("km2", 1.0), "sqkm": ("km2", 1.0), "square miles": ("km2", 2.589988),
    "sq mi": ("km2", 2.589988), "miles": ("km", 1.609344), "hectares": ("km2", 1e-2), "ha": ("km2", 1e-2),
    "kilometers": ("km", 1.0), "kilometres": ("km", 1.0), "km": ("km", 1.0),
    "btu/person": ("Btu/person", 1.0),
    "years": ("years", 1.0),
}  # fmt: skip
"""Units with the dimension they measure and their factor."""

UNIT_WORDS: Final = frozenset(
    {word for unit in (*_SCALES, *_UNITS) for word in unit.split()}
    | {"dollar", "ton", "barrel", "year"}
) - {"t", "b", "per"}


def _any_of(words: dict[str, object]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_WORD_SCALES: Final = _any_of({word: None for word in _SCALES if len(word) > 1})
_QUANTITY: Final = re.compile(
    rf"""(?P<sign>(?<![\w.,])[-−])?
    (?P<currency>(?:US)?\$)?\s?
    (?<![\w.,])?(?P<number>\d{{1,3}}(?:,\d{{3}}){{1,12}}(?:\.\d{{1,20}})?|\d{{1,40}}(?:\.\d{{1,20}})?)(?!\d)
    (?:\s*(?P<scale>(?:{_WORD_SCALES})\b)|(?P<letter>[KMBT]\b))?
    (?:\s*(?P<unit>(?:{_any_of({**_UNITS})})(?![a-z0-9])))?""",
    re.VERBOSE | re.IGNORECASE,
)
_LETTER_SCALES: Final = frozenset("KMBT")
_STATED_YEAR: Final = re.compile(
    r"\(?\b(?:FY\s?)?((?:19|20)\d\d)(?:/\d\d)?\b(?:\s*est\.?)?\)?", re.IGNORECASE
)
_WITHIN_NUMBER: Final = re.compile(r"(?:\d[.,]|\$\s?)$")
_LEAST_DIGITS_OF_ROUND: Final = 5
_ROUNDING_AT_MOST: Final = 0.05
_ALWAYS_CLOSE: Final = 0.005
_MAX_CHARS: Final = 5000


@dataclass(frozen=True)
class Quantity:
    """`value` is in the base unit of `unit` (None if the text has none); `number` is the written figure."""

    value: float
    number: float
    unit: str | None
    half_step: float
    """Half a step of the last written digit, in the same unit: the largest rounding error."""
    has_scale: bool = False

    def is_comparable(self, stated: "Quantity") -> bool:
        return self.unit is None or self.unit == stated.unit

    def agrees(self, stated: "Quantity") -> bool:
        """Whether this equals `stated`, allowing for rounding."""
        if not self.is_comparable(stated):
            return False
        if self._is_close(self.value, stated.value, self.half_step):
            return True
        # A bare number may leave out the scale: 48.4 of `48.449 million kWh`.
        is_bare = self.unit is None and not self.has_scale
        return is_bare and self._is_close(self.number, stated.number, self.half_step)

    def may_differ_by_unit(self, stated: "Quantity") -> bool:
        """Whether the digits are the same and no unit is written: thousands or millions may be meant."""
        if self.unit is not None or 0 in (self.value, stated.value):
            return False
        power = round(math.log10(abs(stated.value / self.value)) / 3) * 3
        factor = 10.0**power
        return self._is_close(self.value * factor, stated.value, self.half_step * factor)

    @staticmethod
    def _is_close(value: float, stated: float, half_step: float) -> bool:
        tolerance = min(half_step, _ROUNDING_AT_MOST * abs(stated))
        return abs(value - stated) <= max(tolerance, _ALWAYS_CLOSE * abs(stated)) * (1 + 1e-9)


def quantities(text: str) -> list[Quantity]:
    """All quantities in `text`, without years."""
    without_years = _STATED_YEAR.sub(_blank_year, text[:_MAX_CHARS])
    return list(_find_quantities(without_years))


def years(text: str) -> list[int]:
    """The years in `text`."""
    return [int(match[1]) for match in _STATED_YEAR.finditer(text) if _blank_year(match) == " "]


def _blank_year(match: re.Match[str]) -> str:
    """`2,023`, `$2023` and `2023.5` are not years."""
    text_before, text_after = match.string[: match.start()], match.string[match.end() :]
    is_number = _WITHIN_NUMBER.search(text_before) or re.match(r"[.,]\d|\s?%", text_after)
    return match[0] if is_number else " "


def _find_quantities(text: str) -> Iterator[Quantity]:
    for match in _QUANTITY.finditer(text):
        if match.start("number") and text[match.start("number") - 1].isalnum():
            continue  # CO2, G7
        yield _quantity(match)


def _quantity(match: re.Match[str]) -> Quantity:
    digits = match["number"].replace(",", "")
    letter = match["letter"] if match["letter"] in _LETTER_SCALES else None
    scale = _SCALES[(match["scale"] or letter or "").lower()] if match["scale"] or letter else 1.0
    unit, factor = _UNITS[match["unit"].lower()] if match["unit"] else (None, 1.0)
    if unit is None and match["currency"]:
        unit = "USD"
    sign = -1.0 if match["sign"] else 1.0
    times = scale * factor
    return Quantity(
        value=sign * float(digits) * times,
        number=sign * float(digits),
        unit=unit,
        half_step=_half_step(digits) * times,
        has_scale=scale > 1,
    )


def _half_step(digits: str) -> float:
    """Trailing zeros of a long number count as rounded."""
    integer, _, decimals = digits.partition(".")
    if decimals:
        return 0.5 * 10.0 ** -len(decimals)
    zeros = len(integer) - len(integer.rstrip("0")) if len(integer) >= _LEAST_DIGITS_OF_ROUND else 0
    return 0.5 * 10.0**zeros
