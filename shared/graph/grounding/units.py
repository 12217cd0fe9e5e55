"""Units: what the name of a property tells about its values, and conversion. Pure."""

import re
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from itertools import pairwise
from typing import Final

from babel.numbers import is_currency

from shared.graph.grounding.words import PERCENT, POINTS, lexicon, table

SHARE: Final = "share"


@dataclass(frozen=True)
class Hint:
    """What the values of a property are; empty and zero where its name does not tell."""

    unit: str = ""
    """A unit of `Lexicon.units`; "share" for a part of one or a percentage."""
    currency: str = ""
    scale: int = 0
    """The power of ten in which they are given, such as 6 for `revenue_million_usd`."""
    is_year: bool = False
    is_result: bool = False
    """Whether a loss makes them negative."""
    is_money: bool = False
    """Whether they are amounts in some currency."""
    is_measure: bool = False
    """Whether they have some unit of measurement."""
    is_rank: bool = False
    """Whether they are ordinals, such as 3 for "third largest"."""
    is_kind: bool = False
    """Whether its texts say of what kind something is, and are no names even with capitals."""
    is_change: bool = False
    """Whether a decrease makes them negative."""
    per: str = ""
    """The unit after "per" in the name, one of `Lexicon.units`: "mass-tonne" for `price_usd_per_tonne`."""


_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


@cache
def _words(key: str) -> frozenset[str]:
    """A list of `[properties]` in `words.toml`."""
    return frozenset(table("properties")[key].split())


_SCALES: Final = {
    **dict.fromkeys(("k", "thousand", "thousands"), 3),
    **dict.fromkeys(("mn", "mio", "mln", "million", "millions"), 6),
    **dict.fromkeys(("bn", "mrd", "billion", "billions"), 9),
    **dict.fromkeys(("trillion", "trillions", "tn"), 12),
    "lakh": 5,
    "crore": 7,
}
_CURRENCIES: Final = {
    **dict.fromkeys(("dollar", "dollars"), "USD"),
    **dict.fromkeys(("euro", "euros"), "EUR"),
    "pounds": "GBP",
    "yen": "JPY",
}
_UNITS: Final = {
    **dict.fromkeys(("percent", "pct", "percentage", "prozent"), PERCENT),
    **dict.fromkeys(("rate", "share", "ratio", "fraction", "proportion"), SHARE),
    **dict.fromkeys(("km2", "sqkm"), "area-square-kilometer"),
    **dict.fromkeys(("m2", "sqm"), "area-square-meter"),
    "m3": "volume-cubic-meter",
    "ha": "area-hectare",
    "km": "length-kilometer",
    "m": "length-meter",
    "cm": "length-centimeter",
    "mm": "length-millimeter",
    "ft": "length-foot",
    "mi": "length-mile",
    "kg": "mass-kilogram",
    "t": "mass-tonne",
    "w": "power-watt",
    "kw": "power-kilowatt",
    "mw": "power-megawatt",
    "gw": "power-gigawatt",
    "tw": "power-terawatt",
    "kwh": "energy-kilowatt-hour",
    "mwh": "energy-megawatt-hour",
    "gwh": "energy-gigawatt-hour",
    "twh": "energy-terawatt-hour",
    **dict.fromkeys(("c", "celsius"), "temperature-celsius"),
    **dict.fromkeys(("f", "fahrenheit"), "temperature-fahrenheit"),
    "l": "volume-liter",
    "kmh": "speed-kilometer-per-hour",
    "mph": "speed-mile-per-hour",
    **dict.fromkeys(("lb", "lbs"), "mass-pound"),
}
_LENGTHS: Final = {
    **dict.fromkeys(("mi", "mile", "miles"), "mile"),
    **dict.fromkeys(("ft", "foot", "feet"), "foot"),
    **dict.fromkeys(("km", "kilometer", "kilometers", "kilometre", "kilometres"), "kilometer"),
    **dict.fromkeys(("m", "meter", "meters", "metre", "metres"), "meter"),
}
_POWERS: Final = {"sq": "area-square", "square": "area-square", "cubic": "volume-cubic"}
_SHARES: Final = frozenset({"per", "share"})


@lru_cache(maxsize=4096)
def hint_of(name: str) -> Hint:
    """What the name of a property tells, such as `area_km2`, `revenueMillionUsd` or `market_share_percent`."""
    words = [part.lower() for word in re.split(r"[^0-9A-Za-z]+", name) for part in _parts(word)]
    has = frozenset(words)
    unit, currency = _unit_of(words, has)
    return Hint(
        unit,
        currency,
        _scale_of(words, currency),
        is_year="per" not in has and bool(has & _words("year")),
        is_result=bool(has & _words("result")) and not has & (_words("loss") | _words("change")),
        is_kind=bool(has & _words("kind")) and not has & {"name", "by", "of"},
        is_money=bool(has & _words("money")),
        is_measure=bool(has & _words("measure"))
        and not has & {"count", "number"}
        and words[-1] not in _words("unknown_unit"),
        is_rank=bool(has & {"rank", "ranking", "position", "place"}),
        is_change=bool(has & _words("change")) and not has & _words("loss"),
        per=_unit_after_per(words) if "per" in has else "",
    )


def _scale_of(words: list[str], currency: str) -> int:
    found = [
        _SCALES[word]
        for word in words[1:]
        if word in _SCALES and (word != "k" or word is words[-1])
    ]
    if not found and currency and words[-1] in _MONEY_LETTERS:
        found = [_MONEY_LETTERS[words[-1]]]
    return max(found, default=0)


_MONEY_LETTERS: Final = {"m": 6, "mm": 6, "b": 9}
"""As in `revenue_usd_m`."""


def _unit_of(words: list[str], has: frozenset[str]) -> tuple[str, str]:
    """The unit and the currency."""
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
        if code := _CURRENCIES.get(word, word.upper() if is_code else ""):
            return "currency", code
    if has >= {"barrels", "per", "day"}:
        return "barrels per day", ""
    if has >= _SHARES or (has & _words("no_share") and has & {"rate", "share", "ratio"}):
        return "", ""
    if "per" in has:
        return _rate_of(words), ""
    for power, length in pairwise(words):
        if power in _POWERS and length in _LENGTHS:
            return f"{_POWERS[power]}-{_LENGTHS[length]}", ""
    for word in reversed(words):
        if len(word) == 1 and word is not words[-1]:
            continue  # `series_c_amount`
        if word in _UNITS and (len(word) > 2 or len(words) > 1):
            return _UNITS[word], ""
        if (
            len(words) > 1
            and word not in _words("no_unit")
            and (unit := lexicon(None).units.get(word))
        ):
            return unit, ""
    return "", ""


def _unit_after_per(words: list[str]) -> str:
    after = words[words.index("per") + 1 :]
    unit, _ = _unit_of(["", *after], frozenset(after)) if after else ("", "")
    return unit if "-" in unit else ""


_SHORT_TIMES: Final = frozenset(["h", "hr", "hour", "s", "sec", "second", "min", "minute", "day"])


def _rate_of(words: list[str]) -> str:
    """The unit of a rate such as `speed_miles_per_hour`. Per year and per head, it is that of the amount."""
    known, end = lexicon(None).units, words.index("per")
    phrases = (
        " ".join(words[start:]) for start in range(end) if words[max(0, start - 1)] not in _POWERS
    )
    if unit := next((known[phrase] for phrase in phrases if phrase in known), ""):
        return unit
    return "" if _SHORT_TIMES & {*words[end:]} else _unit_of(words[:end], frozenset(words[:end]))[0]


def _parts(word: str) -> list[str]:
    """The parts of a name in camel case."""
    if word.islower() or word.isupper() or not word.isalpha():
        return [word] if word else []
    return _PART.findall(word)


_FACTORS: Final = {
    "length-millimeter": "0.001",
    "length-centimeter": "0.01",
    "length-meter": "1",
    "length-kilometer": "1000",
    "length-inch": "0.0254",
    "length-foot": "0.3048",
    "length-yard": "0.9144",
    "length-mile": "1609.344",
    "length-nautical-mile": "1852",
    "area-square-centimeter": "0.0001",
    "area-square-meter": "1",
    "area-square-kilometer": "1000000",
    "area-hectare": "10000",
    "area-acre": "4046.8564224",
    "area-square-foot": "0.09290304",
    "area-square-mile": "2589988.110336",
    "volume-milliliter": "0.000001",
    "volume-liter": "0.001",
    "volume-hectoliter": "0.1",
    "volume-cubic-meter": "1",
    "volume-cubic-hectometer": "1000000",
    "volume-cubic-kilometer": "1000000000",
    "volume-gallon": "0.003785411784",
    "volume-barrel": "0.158987294928",
    "volume-cubic-foot": "0.028316846592",
    "mass-milligram": "0.000001",
    "mass-gram": "0.001",
    "mass-kilogram": "1",
    "mass-tonne": "1000",
    "mass-kilotonne": "1000000",
    "mass-megatonne": "1000000000",
    "mass-pound": "0.45359237",
    "mass-ounce": "0.028349523125",
    "power-watt": "1",
    "power-kilowatt": "1000",
    "power-megawatt": "1000000",
    "power-gigawatt": "1000000000",
    "power-terawatt": "1000000000000",
    "energy-watt-hour": "1",
    "energy-kilowatt-hour": "1000",
    "energy-megawatt-hour": "1000000",
    "energy-gigawatt-hour": "1000000000",
    "energy-terawatt-hour": "1000000000000",
    "duration-second": "1",
    "duration-minute": "60",
    "duration-hour": "3600",
    "duration-day": "86400",
    "duration-week": "604800",
    "digital-kilobyte": "1",
    "digital-megabyte": "1000",
    "digital-gigabyte": "1000000",
    "digital-terabyte": "1000000000",
    "speed-kilometer-per-hour": "1",
    "speed-meter-per-second": "3.6",
    "speed-mile-per-hour": "1.609344",
    "speed-knot": "1.852",
    "frequency-hertz": "1",
    "frequency-kilohertz": "1000",
    "frequency-megahertz": "1000000",
    "frequency-gigahertz": "1000000000",
    "percent": "1",
    "per mille": "0.1",
    "percentage points": "1",
    "basis points": "0.01",
}
"""In the unit of the dimension that has 1; the international values, which are exact."""
_DIMENSIONS: Final = {
    "percentage points": "points",
    "basis points": "points",
    "per mille": "percent",
}


_YEARS: Final = range(1000, 3000)


def is_year(value: Decimal) -> bool:
    """Whether a number can be a year."""
    return value == value.to_integral_value() and int(value) in _YEARS


def convert(value: Decimal, unit: str, to: str) -> Decimal | None:
    """`value` of `unit` in the unit `to`; None if they do not measure the same."""
    if unit == to:
        return value
    if {unit, to} == {"temperature-celsius", "temperature-fahrenheit"}:
        return (
            (value - 32) / Decimal("1.8")
            if to == "temperature-celsius"
            else value * Decimal("1.8") + 32
        )
    if unit not in _FACTORS or to not in _FACTORS or _dimension(unit) != _dimension(to):
        return None
    return value * Decimal(_FACTORS[unit]) / Decimal(_FACTORS[to])


def _dimension(unit: str) -> str:
    return _DIMENSIONS.get(unit, unit.partition("-")[0])
