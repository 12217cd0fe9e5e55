"""What words mean in a language: numbers, units, currencies, months. From the Unicode CLDR and `words.toml`. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, cached_property
from typing import Final, Literal

from babel import Locale, dates, numbers, units

from shared.graph.grounding.words import fold, phrases, table

LANGUAGES: Final = ("en", "de", "fr", "es", "it", "pt", "nl")
PERCENT: Final = "percent"
POINTS: Final = "percentage points"
PER_MILLE: Final = "per mille"

MAIN_CURRENCIES: Final = (
    *("USD", "EUR", "GBP", "CHF", "JPY", "CNY", "MXN", "CAD", "AUD", "INR", "BRL", "RUB", "SEK", "NOK", "DKK", "PLN"),
    *("CZK", "HUF", "TRY", "KRW", "ZAR", "NZD", "SGD", "HKD", "TWD", "THB", "IDR", "MYR", "PHP", "ILS", "SAR", "AED"),
    *("ARS", "CLP", "COP", "PEN", "UAH", "RON", "BGN", "EGP", "NGN", "VND", "ISK", "KES", "PKR", "BDT"),
)  # fmt: skip
_NAMED_UNITS: Final = (
    *("length-millimeter", "length-centimeter", "length-meter", "length-kilometer", "length-inch", "length-foot"),
    *("length-yard", "length-mile", "length-nautical-mile", "area-square-centimeter", "area-square-meter"),
    *("area-square-kilometer", "area-hectare", "area-acre", "area-square-foot", "area-square-mile"),
    *("volume-cubic-meter", "volume-cubic-kilometer", "volume-liter", "volume-milliliter", "volume-hectoliter"),
    *("volume-gallon", "volume-barrel", "volume-cubic-foot", "mass-milligram", "mass-gram", "mass-kilogram"),
    *("mass-tonne", "mass-ton", "mass-pound", "mass-ounce", "power-watt", "power-kilowatt", "power-megawatt"),
    *("power-gigawatt", "power-horsepower", "energy-joule", "energy-kilojoule", "energy-kilocalorie"),
    *("energy-kilowatt-hour", "temperature-celsius", "temperature-fahrenheit", "temperature-kelvin"),
    *("speed-kilometer-per-hour", "speed-meter-per-second", "speed-mile-per-hour", "speed-knot", "duration-second"),
    *("duration-minute", "duration-hour", "duration-day", "duration-week", "duration-month", "duration-year"),
    *("digital-kilobyte", "digital-megabyte", "digital-gigabyte", "digital-terabyte", "frequency-hertz"),
    *("frequency-kilohertz", "frequency-megahertz", "frequency-gigahertz", "electric-volt", "electric-ampere"),
    *("pressure-bar", "pressure-hectopascal"),
)  # fmt: skip
_PREFIXES: Final = ("kilo", "mega", "giga", "tera")
_COUNTS: Final = (1, 2, 5, Decimal("1.5"))
"""Languages have different forms of a unit's name for these."""


@dataclass(frozen=True)
class Lexicon:
    """What the words of one language, and of English, mean. Words are folded, symbols are as they stand."""

    language: str
    scales: Mapping[str, int]
    """The power of ten by word, such as 9 for "mrd"."""
    units: Mapping[str, str]
    """Unit by word or phrase: a name of the CLDR such as "length-meter", or "percent"."""
    symbols: Mapping[str, str]
    """The same by symbol, in which case matters, such as "MW"."""
    currencies: Mapping[str, frozenset[str]]
    """Codes by symbol, code or name; "$" has several."""
    months: Mapping[str, int]
    quarters: Mapping[str, int]
    """The quarter by the word that counts it, such as 3 for "troisieme"."""

    @cached_property
    def first_words(self) -> frozenset[str]:
        """First words, folded, of the phrases of several words that are a scale, unit or currency."""
        phrases = (*self.scales, *self.units, *self.currencies)
        return frozenset(phrase.split()[0] for phrase in phrases if " " in phrase)


@cache
def lexicon(language: str | None, *, is_english_first: bool = False) -> Lexicon:
    """The words of `language` and of English; English, and the scales of more languages, if it is none of `LANGUAGES`.

    A word that means something in both, such as "billion", has the meaning of `language`, unless `is_english_first`.
    """
    known = language if language in LANGUAGES else "en"
    by_weight = (known, "en") if is_english_first else ("en", known)
    scales: dict[str, int] = {}
    words: dict[str, str] = {}
    currencies: dict[str, frozenset[str]] = {}
    months: dict[str, int] = {}
    quarters: dict[str, int] = {}
    for each in dict.fromkeys(by_weight):
        scales |= dict(_scales(each))
        words |= dict(_units(each))
        currencies |= dict(_currencies(each))
        months |= dict(_months(each))
        quarters |= {word: number for number, word in enumerate(table("ordinals")[each].split(), 1)}
    if language != known:
        scales |= table("scales")["other"]
    if is_english_first:
        # "miles" is a thousand in Spanish.
        english_units = dict(_units("en"))
        scales = {word: power for word, power in scales.items() if word not in english_units}
    currencies |= {
        fold(word): frozenset(codes.split()) for word, codes in table("currencies").items()
    }
    symbols = {
        symbol: unit for unit, listed in table("symbols").items() for symbol in listed.split()
    }
    return Lexicon(known, scales, words, symbols, currencies, months, quarters)


def _scales(language: str) -> Iterator[tuple[str, int]]:
    for width, patterns in Locale(language).compact_decimal_formats.items():
        for by_size in patterns.values() if width in ("long", "short") else ():
            for size, pattern in by_size.items():
                word = fold(pattern.pattern.replace("0", "").replace("'", "")).strip(" \u00a0.")
                # "M" alone can be metres.
                is_word = len(word) > 1 or (width == "long" and word)
                if is_word and pattern.pattern.count("0") == 1:
                    yield word, len(size) - 1
    yield from table("scales").get(language, {}).items()


def _units(language: str) -> Iterator[tuple[str, str]]:
    for unit in _NAMED_UNITS:
        for name in _names_of(unit, language):
            yield name, unit
    for dimension, base in (("power", "watt"), ("mass", "tonne")):
        for name in _names_of(f"{dimension}-{base}", language):
            for prefix in _PREFIXES:
                yield prefix + name, f"{dimension}-{prefix}{base}"
    for name in phrases(table("watt_hours").get(language, "")):
        for prefix in _PREFIXES:
            written = "chilo" if (language, prefix) == ("it", "kilo") else prefix
            yield written + name, f"energy-{prefix}watt-hour"
    for unit, listed in table("units").get(language, {}).items():
        for phrase in phrases(listed):
            yield phrase, unit


def _names_of(unit: str, language: str) -> set[str]:
    written = (
        units.format_unit(count, unit, length="long", locale=language).lstrip("0123456789.,")
        for count in _COUNTS
    )
    return {name for each in written if len(name := fold(each.strip(" \u00a0\u202f"))) > 1}


def _currencies(language: str) -> Iterator[tuple[str, frozenset[str]]]:
    for code in MAIN_CURRENCIES:
        yield code.lower(), frozenset([code])
        for count in (None, 1, 2):
            name = numbers.get_currency_name(code, count, locale=language)
            yield fold(name), frozenset([code])


def _months(language: str) -> Iterator[tuple[str, int]]:
    contexts: tuple[Literal["format", "stand-alone"], ...] = ("format", "stand-alone")
    for context in contexts:
        for number, name in dates.get_month_names("wide", context, locale=language).items():
            yield fold(name), number
        for number, name in dates.get_month_names("abbreviated", context, locale=language).items():
            yield fold(name).rstrip("."), number
    for number, name in enumerate(table("months")[language].split(), 1):
        yield name, number
