"""Cases by one generator: claims on pages as users have them, of which every second one has one thing changed.

Four sources: pages written by hand (`story`), sentences from templates with random facts (`sentence`, `joint`,
`summary`, `edge`, `negation`), the same templates with facts of the World Factbook, and lines of the World Factbook
(`factbook`). A template names its facts; a fact knows how a page writes it, how JSON claims it, and what is false
instead. So true and false cases differ in nothing but the meaning.

With seed 1 there are 1312 cases, 627 true and 685 false.

By language, true and false: en 157 and 170, de 118 and 128, fr 121 and 131, es 114 and 127, it 117 and 129.

False cases by fault: number 165, negation 74, scale 61, year 57, name 54, date 53, percentage 51, subject 45, unit
41, invented 35, edge_end 27, currency 22.

True cases by rule: title 98, heading 52, same text 47, free text 43, digit grouping 37, several quotes 37, legal form
32, boolean 28, alias 27, written date 26, percentage 25, currency 23, scale word 21, unit word 18, sign 16, fraction
13, honorific 13, number word 12, unit scale 12, range 11, enumeration 6, quarter 6, accent 5, approximation 4,
genitive 3, identifier 3, plural 3, exonym 2, list 2, adjective 1, edge ends 1.

By source: sentence 480, story 454, negation 100, edge 80, summary 80, joint 60, factbook 58.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any, Final, NamedTuple, Protocol

from sandbox.corpus import factbook
from tests.support.evidence_cases import EvidenceCase, Fault

LANGUAGES: Final = ("en", "de", "fr", "es", "it")


_NBSP: Final = "\u00a0"
_NARROW_NBSP: Final = "\u202f"
_GROUP_SEPARATORS: Final = {
    "en": (",",),
    "de": (".", ".", _NARROW_NBSP, "'"),
    "fr": (_NBSP, _NARROW_NBSP, " "),
    "es": (".", ".", _NBSP, " "),
    "it": (".", ".", "'"),
}
_SCALES: Final[Mapping[str, Mapping[int, tuple[str, str, str]]]] = {
    "en": {10**9: ("billion", "billion", "bn"), 10**6: ("million", "million", "m")},
    "de": {10**9: ("Milliarde", "Milliarden", "Mrd."), 10**6: ("Million", "Millionen", "Mio.")},
    "fr": {10**9: ("milliard", "milliards", "Md"), 10**6: ("million", "millions", "M")},
    "es": {10**9: ("mil millones", "mil millones", ""), 10**6: ("millón", "millones", "M")},
    "it": {10**9: ("miliardo", "miliardi", "mld"), 10**6: ("milione", "milioni", "mln")},
}
"""By size: one, many, abbreviation."""
_SMALL_NUMBERS: Final = {
    "en": "two three four five six seven eight nine ten eleven twelve",
    "de": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "fr": "deux trois quatre cinq six sept huit neuf dix onze douze",
    "es": "dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "it": "due tre quattro cinque sei sette otto nove dieci undici dodici",
}
_MONTHS: Final = {
    "en": "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
    "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
    "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
}
_SHORT_MONTHS: Final = {
    "en": "Jan. Feb. Mar. Apr. May June July Aug. Sept. Oct. Nov. Dec.",
    "de": "Jan. Feb. März Apr. Mai Juni Juli Aug. Sept. Okt. Nov. Dez.",
    "fr": "janv. févr. mars avr. mai juin juill. août sept. oct. nov. déc.",
    "it": "gen. feb. mar. apr. mag. giu. lug. ago. set. ott. nov. dic.",
}
_QUARTERS: Final = {
    "en": ("the {} quarter of {}", "first second third fourth", "Q{} {}"),
    "de": ("{} Quartal {}", "ersten zweiten dritten vierten", "{}. Quartal {}"),
    "fr": ("{} trimestre {}", "premier deuxième troisième quatrième", "T{} {}"),
    "es": ("{} trimestre de {}", "primer segundo tercer cuarto", "{}T {}"),
    "it": ("{} trimestre del {}", "primo secondo terzo quarto", "{}° trimestre {}"),
}
_FRACTIONS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"0.5": "half", "0.33": "a third", "0.25": "a quarter", "0.67": "two thirds", "0.75": "three quarters"},
    "de": {"0.5": "die Hälfte", "0.33": "ein Drittel", "0.25": "ein Viertel", "0.67": "zwei Drittel",
           "0.75": "drei Viertel"},
    "fr": {"0.5": "la moitié", "0.33": "un tiers", "0.25": "un quart", "0.67": "deux tiers", "0.75": "trois quarts"},
    "es": {"0.5": "la mitad", "0.33": "un tercio", "0.25": "una cuarta parte", "0.67": "dos tercios",
           "0.75": "tres cuartas partes"},
    "it": {"0.5": "la metà", "0.33": "un terzo", "0.25": "un quarto", "0.67": "due terzi", "0.75": "tre quarti"},
}  # fmt: skip
_RANGES: Final = {
    "en": ("between {} and {}", "{} to {}"),
    "de": ("zwischen {} und {}", "{} bis {}"),
    "fr": ("entre {} et {}", "{} à {}"),
    "es": ("entre {} y {}", "de {} a {}"),
    "it": ("tra {} e {}", "fra {} e {}"),
}
_PERCENT: Final = {
    "en": ("{}%", "{} percent", "{} per cent"),
    "de": ("{}\u00a0%", "{} %", "{} Prozent"),
    "fr": ("{}\u202f%", "{} %", "{} pour cent"),
    "es": ("{}\u00a0%", "{}%", "{} por ciento"),
    "it": ("{}%", "{} %", "{} per cento"),
}
_AND: Final = {"en": "and", "de": "und", "fr": "et", "es": "y", "it": "e"}

_CURRENCY_WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {"EUR": "euros", "USD": "US dollars", "GBP": "pounds", "CHF": "Swiss francs", "SEK": "Swedish kronor"},
    "de": {"EUR": "Euro", "USD": "US-Dollar", "GBP": "Pfund", "CHF": "Schweizer Franken", "SEK": "schwedische Kronen"},
    "fr": {"EUR": "euros", "USD": "dollars", "GBP": "livres sterling", "CHF": "francs suisses",
           "SEK": "couronnes suédoises"},
    "es": {"EUR": "euros", "USD": "dólares", "GBP": "libras esterlinas", "CHF": "francos suizos", "SEK": "coronas suecas"},
    "it": {"EUR": "euro", "USD": "dollari", "GBP": "sterline", "CHF": "franchi svizzeri", "SEK": "corone svedesi"},
}  # fmt: skip
_SIGNS: Final = {"EUR": "€", "USD": "$", "GBP": "£"}


@dataclass(frozen=True)
class Unit:
    """A unit: its suffix in property names, its symbol, and its plural by language in the order of LANGUAGES."""

    suffix: str
    symbol: str
    words: tuple[str, str, str, str, str]
    wrong: str
    """The suffix of a unit with which it is confused."""
    smaller: str = ""
    """The suffix of a thousandth of it; empty if that is not in use."""

    def word(self, language: str) -> str:
        return self.words[LANGUAGES.index(language)]


_UNITS: Final = {
    unit.suffix: unit
    for unit in (
        Unit("mw", "MW", ("megawatts", "Megawatt", "mégawatts", "megavatios", "megawatt"), "gw", "kw"),
        Unit("gw", "GW", ("gigawatts", "Gigawatt", "gigawatts", "gigavatios", "gigawatt"), "mw", "mw"),
        Unit("kw", "kW", ("kilowatts", "Kilowatt", "kilowatts", "kilovatios", "kilowatt"), "mw"),
        Unit("gwh", "GWh", ("gigawatt hours", "Gigawattstunden", "gigawattheures", "gigavatios hora", "gigawattora"),
             "twh", "mwh"),
        Unit("twh", "TWh", ("terawatt hours", "Terawattstunden", "térawattheures", "teravatios hora", "terawattora"),
             "gwh", "gwh"),
        Unit("mwh", "MWh", ("megawatt hours", "Megawattstunden", "mégawattheures", "megavatios hora", "megawattora"), "gwh"),
        Unit("kwh", "kWh", ("kilowatt hours", "Kilowattstunden", "kilowattheures", "kilovatios hora", "chilowattora"),
             "mwh"),
        Unit("km2", "km²", ("square kilometres", "Quadratkilometer", "kilomètres carrés", "kilómetros cuadrados",
                            "chilometri quadrati"), "sq_miles"),
        Unit("sq_miles", "sq mi", ("square miles", "Quadratmeilen", "milles carrés", "millas cuadradas", "miglia quadrate"),
             "km2"),
        Unit("ha", "ha", ("hectares", "Hektar", "hectares", "hectáreas", "ettari"), "acres"),
        Unit("acres", "ac", ("acres", "Acres", "acres", "acres", "acri"), "ha"),
        Unit("km", "km", ("kilometres", "Kilometer", "kilomètres", "kilómetros", "chilometri"), "miles", "m"),
        Unit("miles", "mi", ("miles", "Meilen", "milles", "millas", "miglia"), "km"),
        Unit("m", "m", ("metres", "Meter", "mètres", "metros", "metri"), "feet"),
        Unit("feet", "ft", ("feet", "Fuß", "pieds", "pies", "piedi"), "m"),
        Unit("tonnes", "t", ("tonnes", "Tonnen", "tonnes", "toneladas", "tonnellate"), "pounds", "kg"),
        Unit("kg", "kg", ("kilograms", "Kilogramm", "kilogrammes", "kilogramos", "chilogrammi"), "tonnes"),
        Unit("pounds", "lb", ("pounds", "Pfund", "livres", "libras", "libbre"), "tonnes"),
        Unit("barrels_per_day", "b/d", ("barrels per day", "Barrel pro Tag", "barils par jour", "barriles diarios",
                                        "barili al giorno"), "barrels_per_year"),
        Unit("barrels_per_year", "b/y", ("barrels per year", "Barrel pro Jahr", "barils par an", "barriles anuales",
                                         "barili all'anno"), "barrels_per_day"),
        Unit("celsius", "°C", ("degrees Celsius", "Grad Celsius", "degrés Celsius", "grados Celsius", "gradi Celsius"),
             "fahrenheit"),
        Unit("fahrenheit", "°F", ("degrees Fahrenheit", "Grad Fahrenheit", "degrés Fahrenheit", "grados Fahrenheit",
                                  "gradi Fahrenheit"), "celsius"),
    )
}  # fmt: skip

_NOUNS: Final[Mapping[str, tuple[str, str, str, str, str]]] = {
    "people": ("people", "Beschäftigte", "personnes", "personas", "persone"),
    "inhabitants": ("inhabitants", "Einwohner", "habitants", "habitantes", "abitanti"),
    "plants": ("plants", "Werken", "usines", "fábricas", "stabilimenti"),
    "vehicles": ("vehicles", "Fahrzeuge", "véhicules", "vehículos", "veicoli"),
    "homes": ("homes", "Haushalte", "foyers", "hogares", "famiglie"),
    "passengers": ("passengers", "Fahrgäste", "voyageurs", "pasajeros", "passeggeri"),
    "turbines": ("turbines", "Turbinen", "turbines", "turbinas", "turbine"),
    "stores": ("stores", "Filialen", "magasins", "tiendas", "negozi"),
}
"""What is counted, in the order of LANGUAGES."""


class Written(NamedTuple):
    """A fact as a page has it, and the rule by which a reader understands it."""

    text: str
    rule: str


class Magnitude(NamedTuple):
    text: str
    is_scaled: bool


class Style(Random):
    """Random choices of notation; all numbers written with one style have the same separators."""

    def __init__(self, seed: object, separator: int | None = None) -> None:
        super().__init__(str(seed))
        self.separator = self.randrange(60) if separator is None else separator


def _digits(rng: Style, language: str, value: Decimal) -> str:
    """`value` with the separators of the language; four digits are not always grouped."""
    whole, _, decimals = f"{abs(value):f}".partition(".")
    separators = _GROUP_SEPARATORS[language]
    separator = separators[rng.separator % len(separators)]
    is_grouped = len(whole) > 4 or (len(whole) == 4 and rng.random() < 0.6)
    if is_grouped:
        whole = f"{int(whole):,}".replace(",", separator)
    decimal_point = "." if language == "en" or (separator == "'" and is_grouped) else ","
    sign = rng.choice(("-", "\u2212")) if value < 0 else ""
    return sign + whole + (decimal_point + decimals if decimals else "")


def _plain(value: Decimal) -> Decimal:
    """Without trailing zeros after the decimal point and without an exponent."""
    return value.quantize(Decimal(1)) if value == value.to_integral() else value.normalize()


def _magnitude(rng: Style, language: str, value: Decimal, *, short: bool = False) -> Magnitude:
    """`value` with a scale word (abbreviated if `short`) where it has one and few digits; else its digits."""
    for size, (one, many, abbreviation) in _SCALES[language].items():
        scaled = _plain(value / size)
        exponent = scaled.as_tuple().exponent
        if abs(scaled) < 1 or not isinstance(exponent, int) or exponent < -3:
            continue
        if language == "es" and size == 10**9 and rng.random() < 0.6:
            continue  # 1.200 millones
        if short and abbreviation:
            space = "" if language == "en" else " "
            return Magnitude(f"{_digits(rng, language, scaled)}{space}{abbreviation}", True)
        is_one = abs(scaled) < 2 if language == "fr" else abs(scaled) == 1
        return Magnitude(f"{_digits(rng, language, scaled)} {one if is_one else many}", True)
    return Magnitude(_digits(rng, language, value), False)


def _with_noun(language: str, magnitude: Magnitude, noun: str) -> str:
    """`1,2 million d'habitants`, but `12 000 habitants`."""
    if not magnitude.is_scaled or language in {"en", "de"}:
        return f"{magnitude.text} {noun}"
    if language == "fr" and noun[0] in "aeéhiou":
        return f"{magnitude.text} d'{noun}"
    return f"{magnitude.text} {'di' if language == 'it' else 'de'} {noun}"


def _json_number(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral() else float(value)


def _join(language: str, names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} {_AND[language]} {names[-1]}"


def _without_accents(text: str) -> str:
    return "".join(
        letter for letter in unicodedata.normalize("NFD", text) if not unicodedata.combining(letter)
    )


def _change_digits(rng: Random, value: Decimal) -> Decimal:
    """A number of the same length: two digits swapped, or one changed."""
    digits = list(f"{value:f}")
    places = [place for place, digit in enumerate(digits) if digit.isdigit()]
    swaps = [
        (left, right)
        for left, right in pairwise(places)
        if digits[left] != digits[right] and not (left == places[0] and digits[right] == "0")
    ]
    if swaps and rng.random() < 0.6:
        left, right = rng.choice(swaps)
        digits[left], digits[right] = digits[right], digits[left]
    else:
        nonzero = [place for place in places if digits[place] != "0"] or places
        place = rng.choice(nonzero)
        digits[place] = rng.choice([digit for digit in "123456789" if digit != digits[place]])
    return Decimal("".join(digits))


class Claimed(NamedTuple):
    """The properties that state a fact; `rule` if this form needs more than reading what is written."""

    properties: dict[str, Any]
    rule: str = ""


class Variant(NamedTuple):
    """A fact that is false where another one is true."""

    fact: "Fact"
    fault: Fault
    note: str = ""


class Fact(Protocol):
    """A value in a sentence."""

    @property
    def fault(self) -> Fault:
        """Of a claim that states another fact of this class instead."""

    @property
    def forms(self) -> int:
        """How many forms of claims there are."""

    def write(self, rng: Style, language: str) -> Written: ...

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        """State the fact as property `name`. Equal seeds choose the same notation in texts."""

    def variants(self, rng: Random) -> list[Variant]: ...


def _text_claim(fact: Fact, name: str, language: str, seed: int, rule: str = "") -> Claimed:
    return Claimed({name: fact.write(Style(seed), language).text}, rule)


@dataclass(frozen=True)
class Count:
    """A number of things, such as 12,450 people. `style`: `digits`, `word` (two to twelve) or `round`."""

    value: Decimal
    noun: str = ""
    style: str = "digits"
    fault: Fault = "number"
    forms: int = 3

    def write(self, rng: Style, language: str) -> Written:
        noun = _NOUNS[self.noun][LANGUAGES.index(language)] if self.noun else ""
        if self.style == "word" and 2 <= self.value <= 12:
            text = _SMALL_NUMBERS[language].split()[int(self.value) - 2]
            return Written(f"{text} {noun}".strip(), "number word")
        magnitude = _magnitude(rng, language, self.value)
        text = _with_noun(language, magnitude, noun) if noun else magnitude.text
        if self.style == "round":
            return Written(text, "approximation")
        if magnitude.is_scaled:
            return Written(text, "scale word")
        return Written(text, "digit grouping" if self.value >= 1000 else "same text")

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        if form == 1 and self.noun:
            return _text_claim(
                self, name, language, seed, "same text" if self.style == "digits" else ""
            )
        if form == 2 and self.noun and self.style == "digits":
            return _text_claim(self, name, "en", seed)
        return Claimed({name: _json_number(self.value)})

    def variants(self, rng: Random) -> list[Variant]:
        if self.style == "word":
            others = [n for n in range(2, 13) if n != self.value]
            return [Variant(replace(self, value=Decimal(rng.choice(others))), "number")]
        changed = Variant(replace(self, value=_change_digits(rng, self.value)), "number")
        larger = Variant(replace(self, value=self.value * rng.choice((10, 1000))), "scale")
        if self.style == "round":
            exact = self.value + rng.choice((-1, 1)) * rng.randint(3, 49)
            note = "more exact than the quote"
            return [
                Variant(replace(self, value=exact, style="digits"), "number", note),
                larger,
                changed,
            ]
        smaller = Variant(
            replace(self, value=_plain(self.value / 1000)), "scale", "grouping read as decimals"
        )
        return [changed, changed, larger, smaller]


@dataclass(frozen=True)
class Money:
    """An amount of money; a loss is negative but written without its sign."""

    value: Decimal
    currency: str
    is_loss: bool = False
    fault: Fault = "number"
    forms: int = 5

    def write(self, rng: Style, language: str) -> Written:
        value = abs(self.value) if self.is_loss else self.value
        style = rng.choice(("word", "word", "sign", "sign", "code"))
        if style == "word":
            short = language in {"de", "it"} and rng.random() < 0.3
            magnitude = _magnitude(rng, language, value, short=short)
            word = _CURRENCY_WORDS[language][self.currency]
            return Written(_with_noun(language, magnitude, word), "scale word")
        short = rng.random() < 0.5 and not (language in {"fr", "es"} and style == "code")
        text = _magnitude(rng, language, value, short=short).text
        mark = _SIGNS.get(self.currency, self.currency) if style == "sign" else self.currency
        is_code = mark == self.currency
        if language == "en" or (is_code and language == "it"):
            return Written(f"{mark}{' ' if is_code else ''}{text}", "currency")
        if text.endswith((" M", " Md")):
            return Written(f"{text}{' ' if is_code else ''}{mark}", "currency")
        return Written(f"{text}{_NBSP}{mark}", "currency")

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        rule = "sign" if self.is_loss else ""
        number = _json_number(self.value)
        if self.is_loss or form in {0, 4}:
            return Claimed({f"{name}_{self.currency.lower()}": number}, rule)
        if form == 1:
            return Claimed({name: number, f"{name}_currency": self.currency}, "currency")
        return _text_claim(self, name, "en" if form == 2 else language, seed)

    def variants(self, rng: Random) -> list[Variant]:
        size = Decimal(10**6)
        digits = _change_digits(rng, _plain(self.value / size))
        changed = Variant(replace(self, value=_plain(digits * size)), "number")
        others = [code for code in ("EUR", "USD", "GBP", "CHF") if code != self.currency]
        currency = Variant(replace(self, currency=rng.choice(others)), "currency")
        factor = rng.choice((Decimal(1000), Decimal("0.001"), Decimal(10)))
        scale = Variant(replace(self, value=_plain(self.value * factor)), "scale")
        if self.is_loss:
            gain = replace(self, value=-self.value, is_loss=False)
            return [Variant(_AsNumber(gain), "number", "sign lost"), changed, scale, currency]
        return [changed, scale, currency, currency]


@dataclass(frozen=True)
class _AsNumber:
    """A fact that is claimed in its first form only."""

    fact: Fact
    fault: Fault = "number"
    forms: int = 1

    def write(self, rng: Style, language: str) -> Written:
        return self.fact.write(rng, language)

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        return self.fact.claim(name, 0, language, seed)

    def variants(self, rng: Random) -> list[Variant]:
        return []


@dataclass(frozen=True)
class Quantity:
    """A measured value with its unit."""

    value: Decimal
    unit: str
    fault: Fault = "number"
    forms: int = 4

    def write(self, rng: Style, language: str) -> Written:
        unit, magnitude = _UNITS[self.unit], _magnitude(rng, language, self.value)
        if rng.random() < 0.5 and not magnitude.is_scaled:
            space = rng.choice((" ", _NBSP))
            return Written(f"{magnitude.text}{space}{unit.symbol}", "digit grouping")
        text = _with_noun(language, magnitude, unit.word(language))
        return Written(text, "scale word" if magnitude.is_scaled else "unit word")

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        unit = _UNITS[self.unit]
        if form == 1:
            return _text_claim(self, name, "en", seed)
        if form == 2:
            return _text_claim(self, name, language, seed)
        if form == 3 and unit.smaller:
            number = _json_number(self.value * 1000)
            return Claimed({f"{name}_{unit.smaller}": number}, "unit scale")
        return Claimed({f"{name}_{self.unit}": _json_number(self.value)})

    def variants(self, rng: Random) -> list[Variant]:
        changed = Variant(replace(self, value=_change_digits(rng, self.value)), "number")
        unit = Variant(replace(self, unit=_UNITS[self.unit].wrong), "unit")
        scale = Variant(replace(self, value=_plain(self.value * rng.choice((10, 1000)))), "scale")
        if self.value < 0:
            return [Variant(replace(self, value=-self.value), "number", "sign lost"), unit, changed]
        return [changed, scale, unit, unit]


@dataclass(frozen=True)
class Percent:
    """A percentage; a decline is negative but written without its sign."""

    value: Decimal
    is_decline: bool = False
    fault: Fault = "percentage"
    forms: int = 4

    def write(self, rng: Style, language: str) -> Written:
        value = abs(self.value) if self.is_decline else self.value
        style = rng.choice(_PERCENT[language])
        return Written(style.format(_digits(rng, language, value)), "percentage")

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        rule = "sign" if self.is_decline else ""
        if form == 1:
            return Claimed({f"{name}_rate": _json_number(self.value / 100)}, rule)
        if self.is_decline or form in {0, 3}:
            return Claimed({f"{name}_percent": _json_number(self.value)}, rule)
        return _text_claim(self, name, language, seed)

    def variants(self, rng: Random) -> list[Variant]:
        changed = Variant(replace(self, value=_change_digits(rng, self.value)), "percentage")
        factor = Decimal(10) if abs(self.value) < 10 else Decimal("0.1")
        moved = Variant(
            replace(self, value=_plain(self.value * factor)), "percentage", "decimal point moved"
        )
        if self.is_decline:
            return [Variant(Percent(-self.value), "percentage", "sign lost"), changed, moved]
        return [changed, changed, moved]


@dataclass(frozen=True)
class Fraction:
    """A share in words: a third, half."""

    value: str
    fault: Fault = "number"
    forms: int = 3

    def write(self, rng: Style, language: str) -> Written:
        return Written(_FRACTIONS[language][self.value], "fraction")

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        if form == 0:
            return Claimed({name: float(self.value)})
        return _text_claim(self, name, "en" if form == 1 else language, seed)

    def variants(self, rng: Random) -> list[Variant]:
        others = [value for value in _FRACTIONS["en"] if value != self.value]
        return [Variant(Fraction(rng.choice(others)), "number")]


@dataclass(frozen=True)
class Range:
    """From `low` to `high` millions of a unit."""

    low: int
    high: int
    unit: str
    fault: Fault = "number"
    forms: int = 3

    def write(self, rng: Style, language: str) -> Written:
        form = rng.choice(_RANGES[language])
        numbers = Magnitude(
            f"{form.format(self.low, self.high)} {_SCALES[language][10**6][1]}", True
        )
        return Written(_with_noun(language, numbers, _UNITS[self.unit].word(language)), "range")

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        if form == 0:
            low, high = f"{name}_min_{self.unit}", f"{name}_max_{self.unit}"
            return Claimed({low: self.low * 10**6, high: self.high * 10**6})
        return _text_claim(self, name, "en" if form == 1 else language, seed)

    def variants(self, rng: Random) -> list[Variant]:
        wider = Variant(replace(self, high=self.high + rng.randint(1, 4)), "number")
        other_unit = Variant(replace(self, unit=_UNITS[self.unit].wrong), "unit")
        middle = Quantity(Decimal((self.low + self.high) * 500_000), self.unit)
        return [wider, other_unit, Variant(_AsNumber(middle), "number", "middle of the range")]


@dataclass(frozen=True)
class Year:
    value: int
    fault: Fault = "year"
    forms: int = 2

    def write(self, rng: Style, language: str) -> Written:
        return Written(str(self.value), "same text")

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        return Claimed({name: self.value if form == 0 else str(self.value)})

    def variants(self, rng: Random) -> list[Variant]:
        near = self.value + rng.choice((-10, -2, -1, 1, 2))
        swapped = int(str(self.value)[:2] + str(self.value)[:1:-1])
        return [Variant(Year(year), "year") for year in (near, swapped) if year < 2031]


@dataclass(frozen=True)
class Quarter:
    year: int
    quarter: int
    fault: Fault = "date"
    forms: int = 2

    def write(self, rng: Style, language: str) -> Written:
        pattern, ordinals, short = _QUARTERS[language]
        if rng.random() < 0.5:
            return Written(short.format(self.quarter, self.year), "quarter")
        return Written(pattern.format(ordinals.split()[self.quarter - 1], self.year), "quarter")

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        separated = f"{self.year}-Q{self.quarter}" if form == 0 else f"Q{self.quarter} {self.year}"
        return Claimed({name: separated})

    def variants(self, rng: Random) -> list[Variant]:
        others = [quarter for quarter in (1, 2, 3, 4) if quarter != self.quarter]
        return [
            Variant(replace(self, quarter=rng.choice(others)), "date"),
            Variant(replace(self, year=self.year - 1), "year"),
        ]


@dataclass(frozen=True)
class Day:
    """A day, or a month if `day` is 0."""

    year: int
    month: int
    day: int
    fault: Fault = "date"
    forms: int = 5

    @property
    def iso(self) -> str:
        return f"{self.year}-{self.month:02}" + (f"-{self.day:02}" if self.day else "")

    def write(self, rng: Style, language: str) -> Written:
        month = _MONTHS[language].split()[self.month - 1]
        short = _SHORT_MONTHS.get(language, _MONTHS[language]).split()[self.month - 1]
        if not self.day:
            return Written(
                f"{month}{' de' if language == 'es' else ''} {self.year}", "written date"
            )
        return Written(rng.choice(self._notations(language, month, short)), "written date")

    def _notations(self, language: str, month: str, short: str) -> list[str]:
        day, year = self.day, self.year
        if language == "en":
            suffix = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd"}.get(day, "th")
            named = [f"{day} {month} {year}", f"{month} {day}, {year}", f"{short} {day}, {year}"]
            return [*named, f"{day}{suffix} {month} {year}", self.iso]
        if language == "de":
            dotted = [f"{day:02}.{self.month:02}.{year}", f"{day}.{self.month}.{year}"]
            return [
                f"{day}. {month} {year}",
                f"{day}. {month} {year}",
                f"{day}. {short} {year}",
                *dotted,
            ]
        numeric = f"{day:02}/{self.month:02}/{year}"
        if language == "es":
            return [
                f"{day} de {month} de {year}",
                f"{day} de {month} de {year}",
                f"{day}/{self.month}/{year}",
                numeric,
            ]
        first = {"fr": "1er", "it": "1º"}[language] if day == 1 else str(day)
        return [
            f"{first} {month} {year}",
            f"{first} {month} {year}",
            f"{first} {short} {year}",
            numeric,
        ]

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        if form == 1:
            return Claimed({name: self.iso[:7]})
        if form == 2 and seed % 2:
            return Claimed({name: str(self.year)})
        if form in {3, 4}:
            return _text_claim(self, name, "en" if form == 3 else language, seed)
        return Claimed({name: self.iso})

    def variants(self, rng: Random) -> list[Variant]:
        month = rng.choice([number for number in range(1, 13) if number != self.month])
        shifted = Variant(replace(self, year=self.year + rng.choice((-2, -1, 1))), "year")
        if not self.day:
            exact = replace(self, day=rng.randint(12, 28))
            note = "more exact than the quote"
            return [
                Variant(replace(self, month=month), "date"),
                shifted,
                Variant(exact, "date", note),
            ]
        day = rng.choice([number for number in range(1, 29) if number != self.day])
        found = [
            Variant(replace(self, month=month), "date"),
            Variant(replace(self, day=day), "date"),
            shifted,
        ]
        if self.day <= 12 and self.day != self.month:
            swapped = replace(self, month=self.day, day=self.month)
            found.append(Variant(swapped, "date", "day and month swapped"))
        return found


@dataclass(frozen=True)
class Name:
    """A proper name: `text` in claims, one of `spellings` (with rules) in pages; `others` are false instead of it."""

    text: str
    spellings: tuple[Written, ...]
    others: tuple[str, ...]
    fault: Fault = "name"
    forms: int = 2

    def write(self, rng: Style, language: str) -> Written:
        return rng.choice(self.spellings)

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        plain = _without_accents(self.text)
        if form == 1 and plain != self.text:
            return Claimed({name: plain}, "accent")
        return Claimed({name: self.text})

    def variants(self, rng: Random) -> list[Variant]:
        return [
            Variant(Name(other, (Written(other, "same text"),), ()), self.fault)
            for other in self.others
            if other != self.text
        ]


@dataclass(frozen=True)
class Names:
    """A list of names."""

    texts: tuple[str, ...]
    other: str
    fault: Fault = "name"
    forms: int = 3

    def write(self, rng: Style, language: str) -> Written:
        return Written(_join(language, self.texts), "list")

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        if form == 1:
            return Claimed({name: ", ".join(self.texts)})
        return Claimed({name: list(self.texts) if form == 0 else sorted(self.texts)})

    def variants(self, rng: Random) -> list[Variant]:
        place = rng.randrange(len(self.texts))
        replaced = (*self.texts[:place], self.other, *self.texts[place + 1 :])
        added = (*self.texts, self.other)
        return [Variant(replace(self, texts=texts), "name") for texts in (replaced, added)]


@dataclass(frozen=True)
class Code:
    """An identifier, such as an ISIN; one digit decides."""

    text: str
    fault: Fault = "number"
    forms: int = 1

    def write(self, rng: Style, language: str) -> Written:
        return Written(self.text, "identifier")

    def claim(self, name: str, form: int, language: str, seed: int) -> Claimed:
        return Claimed({name: self.text})

    def variants(self, rng: Random) -> list[Variant]:
        place = rng.choice([i for i, letter in enumerate(self.text) if letter.isdigit()])
        digit = rng.choice([digit for digit in "0123456789" if digit != self.text[place]])
        return [Variant(Code(self.text[:place] + digit + self.text[place + 1 :]), "number")]


@dataclass(frozen=True)
class Subject:
    """What a sentence is about, and how the language speaks of it."""

    name: str
    type_name: str
    written: str
    """In a sentence, with its article if it has one."""
    pronoun: str
    """Such as `Das Unternehmen`."""
    legal_name: str = ""
    alias: str = ""


_COMPANIES: Final[Mapping[str, str]] = {
    "en": "Kestrel Cells|Kestrel Cells, Inc.|KSTL;Northgate Minerals|Northgate Minerals plc|NGM;"
    "Bluewater Robotics|Bluewater Robotics Ltd.|BWR;Tamarack Energy|Tamarack Energy Corp.|TMK;"
    "Silverline Foods|Silverline Foods Inc.|SLVF;Ashdown Semiconductor|Ashdown Semiconductor PLC|ASH;"
    "Vanterra Motors|Vanterra Motors, Inc.|VNTR;Pemberton Rail|Pemberton Rail Group Ltd|PRG",
    "de": "Rheinwerk Batterien|Rheinwerk Batterien GmbH|RWB;Kaltenbach Maschinenbau|Kaltenbach Maschinenbau AG|KBM;"
    "Nordhafen Logistik|Nordhafen Logistik SE|NHL;Müller Feinpapier|Müller Feinpapier GmbH & Co. KG|MFP;"
    "Alpenglas|Alpenglas AG|AGL;Havelstrom|Havelstrom eG|HVS;Stürmer Pharma|Stürmer Pharma AG|STP;"
    "Lindauer Optik|Lindauer Optik GmbH|LDO",
    "fr": "Batteries du Rhône|Batteries du Rhône SA|BDR;Verrerie Saint-Maur|Verrerie Saint-Maur SAS|VSM;"
    "Groupe Delorme|Groupe Delorme S.A.|GDL;Néovélo|Néovélo SAS|NEOV;Minoterie Kerbrat|Minoterie Kerbrat SARL|MKB;"
    "Transports Villard|Transports Villard SAS|TVI;Pharmalys|Pharmalys SA|PHLY;Câbleries du Nord|Câbleries du Nord S.A.|CDN",
    "es": "Energías del Ebro|Energías del Ebro, S.A.|EDE;Grupo Montalbán|Grupo Montalbán, S.A.|GMB;"
    "Conservas Rianxo|Conservas Rianxo, S.L.|CRX;Cementos Almudévar|Cementos Almudévar, S.A.|CAL;"
    "Navarra Solar|Navarra Solar, S.L.U.|NVS;Telecable Sur|Telecable Sur, S.A.U.|TSUR;"
    "Minera Los Cóndores|Minera Los Cóndores, S.A. de C.V.|MLC;Textiles Buñol|Textiles Buñol, S.L.|TXB",
    "it": "Ceramiche Valdarno|Ceramiche Valdarno S.p.A.|CVD;Officine Bertoldi|Officine Bertoldi S.r.l.|OBT;"
    "Gruppo Marchesini|Gruppo Marchesini S.p.A.|GMS;Cantine Forlani|Cantine Forlani S.r.l.|CFO;"
    "Tirrenia Cantieri|Tirrenia Cantieri S.p.A.|TCN;Fonderie Brembate|Fonderie Brembate S.p.A.|FBR;"
    "Molini Santacroce|Molini Santacroce S.p.A.|MSC;Elettrica Padana|Elettrica Padana S.p.A.|ELP",
}  # fmt: skip
"""Name, name with legal form, alias."""
_PARTNERS: Final = (
    "Orion Trucks", "Halden Energy", "Vestberg Systems", "Lumen Aviation", "Castellan Group", "Ferrovia Sud",
    "Nakamura Tools", "Brightwater Utilities", "Sørland Marine", "Électro-Vosges", "Gebrüder Hartwig", "Navalia",
)  # fmt: skip
"""Customers and rivals."""
_CITIES: Final = {
    "en": "Leeds Dayton Halifax Sheffield Tulsa Galway Wollongong Dundee",
    "de": "Köln Rostock Chemnitz Graz Würzburg Winterthur Görlitz Lübeck",
    "fr": "Lyon Nîmes Saint-Étienne Dunkerque Besançon Liège Béziers Valenciennes",
    "es": "Zaragoza Málaga Córdoba León Gijón Valparaíso Cádiz Medellín",
    "it": "Bologna Forlì Cagliari Bergamo Taranto Vicenza Cefalù Trieste",
}
_TOWNS: Final = {
    "en": "Brackwell|Ferndale Cross|Kilmarrow|Stony Ridge|Alderwick",
    "de": "Oberlinden|Bad Harsfeld|Steinbrück|Neuenrode|Königsau",
    "fr": "Saint-Aubert|Montreval|Villecroix|Castelnou|Beaurivage-sur-Lys",
    "es": "Villarejo del Río|Peñamora|Torrealba|Santa Lucía de Tormes|Castrofuerte",
    "it": "Montescuro|Roccafredda|Pian del Lago|Castelverde|San Vito al Colle",
}
_PLANTS: Final = {
    "en": ("{} plant", "The {} plant", "The plant"),
    "de": ("Kraftwerk {}", "Das Kraftwerk {}", "Das Kraftwerk"),
    "fr": ("centrale de {}", "La centrale de {}", "La centrale"),
    "es": ("planta de {}", "La planta de {}", "La planta"),
    "it": ("impianto di {}", "L'impianto di {}", "L'impianto"),
}
_THE_COMPANY: Final = {
    "en": "The company", "de": "Das Unternehmen", "fr": "L'entreprise", "es": "La empresa", "it": "L'azienda",
}  # fmt: skip
_THE_TOWN: Final = {
    "en": "The town",
    "de": "Die Stadt",
    "fr": "La commune",
    "es": "La localidad",
    "it": "Il comune",
}
_THE_COUNTRY: Final = {
    "en": "The country",
    "de": "Das Land",
    "fr": "Le pays",
    "es": "El país",
    "it": "Il Paese",
}
_COUNTRIES: Final[Mapping[str, str]] = {
    "en": "Norway|Japan|Peru|Chile|Portugal",
    "de": "Norwegen|Japan|Peru|Chile|Portugal",
    "fr": "La Norvège|Le Japon|Le Pérou|Le Chili|Le Portugal",
    "es": "Noruega|Japón|Perú|Chile|Portugal",
    "it": "La Norvegia|Il Giappone|Il Perù|Il Cile|Il Portogallo",
}
_PEOPLE: Final = {
    "en": "Margaret Hollis|Daniel Okafor|Priya Raman|Owen Fairchild|Ruth Calloway|Samuel Brandt",
    "de": "Anna Weber|Jörg Lindemann|Sabine Köhler|Matthias Groß|Petra Schäfer|Uwe Brandstätter",
    "fr": "Hélène Marchand|Thierry Le Goff|Amélie Rousseau|François Béranger|Nadia Belkacem|Luc Delattre",
    "es": "María Ibáñez|Andrés Quintana|Lucía Peñalver|Íñigo Arrieta|Rosa Montenegro|Javier Cortés",
    "it": "Giulia Ferraro|Niccolò Bassani|Elena Sartori|Marco Dall'Olio|Chiara Lombardi|Paolo Venier",
}
_FEMALE: Final = frozenset(
    ("Margaret", "Priya", "Ruth", "Anna", "Sabine", "Petra", "Hélène", "Amélie", "Nadia", "María", "Lucía", "Rosa",
     "Giulia", "Elena", "Chiara")
)  # fmt: skip
_HONORIFICS: Final = {
    "en": ("Sir ", "Ms. ", "Dr. ", "Professor "), "de": ("Dr. ", "Frau ", "Dr. ", "Prof. Dr. "),
    "fr": ("M. ", "Mme ", "Me ", "Me "), "es": ("don ", "doña ", "don ", "doña "),
    "it": ("l'ing. ", "l'avv. ", "l'avv. ", "l'ing. "),
}  # fmt: skip
"""Of a man, of a woman, of a man, of a woman."""


def _subjects(language: str, kind: str) -> list[Subject]:
    if kind == "company":
        rows = [row.split("|") for row in _COMPANIES[language].split(";")]
        return [
            Subject(name, "Company", name, _THE_COMPANY[language], legal, alias)
            for name, legal, alias in rows
        ]
    if kind == "plant":
        name, written, pronoun = _PLANTS[language]
        cities = _TOWNS[language].split("|")
        return [Subject(name.format(c), "PowerPlant", written.format(c), pronoun) for c in cities]
    if kind == "town":
        return [
            Subject(town, "Town", town, _THE_TOWN[language]) for town in _TOWNS[language].split("|")
        ]
    article = re.compile(r"^(?:Le |La |Il |L')")
    return [
        Subject(article.sub("", written), "Country", written, _THE_COUNTRY[language])
        for written in _COUNTRIES[language].split("|")
    ]


def _company(rng: Random, language: str, noun: str) -> Fact:
    name = rng.choice(_PARTNERS)
    return Name(name, (Written(name, "same text"),), _PARTNERS)


def _companies(rng: Random, language: str, noun: str) -> Fact:
    *texts, other = rng.sample(_PARTNERS, 4)
    return Names(tuple(texts), other)


def _city(rng: Random, language: str, noun: str) -> Fact:
    cities = _CITIES[language].split()
    city = rng.choice(cities)
    return Name(city, (Written(city, "same text"),), tuple(cities))


def _person(rng: Random, language: str, noun: str) -> Fact:
    people = _PEOPLE[language].split("|")
    name = rng.choice(people)
    first, _, last = name.partition(" ")
    place = (first in _FEMALE) + rng.choice((0, 2))
    spellings = (
        Written(name, "same text"),
        Written(_HONORIFICS[language][place] + name, "honorific"),
    )
    other_last = rng.choice([other for other in people if other != name]).partition(" ")[2]
    same_gender = [
        o.partition(" ")[0] for o in people if (o.split()[0] in _FEMALE) == (first in _FEMALE)
    ]
    other_first = rng.choice([other for other in same_gender if other != first])
    return Name(
        name, spellings, (f"{first} {other_last}", f"{other_first} {last}", rng.choice(people))
    )


def _decimal(rng: Random, low: int, high: int, decimals: int = 0) -> Decimal:
    """A random number without trailing zeros that Italian elides no article before (8, 11, 80 to 89)."""
    while True:
        number = Decimal(rng.randint(low * 10**decimals, high * 10**decimals)).scaleb(-decimals)
        if str(number)[-1] != "0" and not re.match(r"8|11(?!\d)", str(number)):
            return number


def _money(rng: Random, language: str, noun: str) -> Money:
    currencies = {"en": "USD USD GBP EUR", "de": "EUR EUR USD CHF", "it": "EUR EUR USD GBP"}
    currency = rng.choice(currencies.get(language, "EUR EUR USD SEK").split())
    if rng.random() < 0.25:
        return Money(_decimal(rng, 12000, 98000) * 100, currency)
    mantissa = (
        _decimal(rng, 1, 9, 1) * 1000
        if rng.random() < 0.5
        else _decimal(rng, 12, 780, rng.choice((0, 1)))
    )
    return Money(_plain(mantissa * 10**6), currency)


def _related_money(rng: Random, first: Money, name: str) -> Money:
    """An amount beside `first`: of the year before if its name starts with _, else a smaller one."""
    ratio = rng.uniform(0.72, 1.2) if name.startswith("_") else rng.uniform(0.05, 0.3)
    digits = (
        f"{abs(first.value) * Decimal(ratio):.2E}"
        if first.value < 10**9
        else f"{first.value * Decimal(ratio):.1E}"
    )
    return Money(_plain(Decimal(digits)), first.currency)


def _loss(rng: Random, language: str, noun: str) -> Fact:
    money = _money(rng, language, noun)
    return replace(money, value=-money.value, is_loss=True)


def _day(rng: Random, language: str, noun: str) -> Fact:
    return Day(
        rng.randint(1998, 2026),
        rng.randint(1, 12),
        rng.choice([d for d in range(1, 29) if d not in {8, 11}]),
    )


def _isin(rng: Random, language: str, noun: str) -> Fact:
    letters = "".join(rng.choice("0123456789ABCDEFGHKLMNPRSTVWX") for _ in range(5))
    country = {"en": "GB"}.get(language, language.upper())
    return Code(f"{country}00{letters}{rng.randint(100, 999)}")


def _quantity(
    low: int, high: int, unit: str, decimals: int = 0
) -> Callable[[Random, str, str], Fact]:
    return lambda rng, language, noun: Quantity(_decimal(rng, low, high, decimals), unit)


def _power(rng: Random, language: str, noun: str) -> Fact:
    if rng.random() < 0.4:
        return Quantity(_decimal(rng, 1, 4, 1), "gw")
    return Quantity(_decimal(rng, 12, 790), "mw")


def _mass(rng: Random, language: str, noun: str) -> Fact:
    if rng.random() < 0.4:
        return Quantity(_plain(_decimal(rng, 1, 9, 1) * 10**6), "tonnes")
    return Quantity(_decimal(rng, 1200, 98000), "tonnes")


def _range(rng: Random, language: str, noun: str) -> Fact:
    low = rng.randint(2, 6)
    return Range(low, low + rng.randint(2, 7), "tonnes")


_MAKERS: Final[Mapping[str, Callable[[Random, str, str], Fact]]] = {
    "money": _money,
    "loss": _loss,
    "count": lambda rng, language, noun: Count(_decimal(rng, 1100, 98000), noun),
    "few": lambda rng, language, noun: Count(Decimal(rng.randint(2, 12)), noun, "word"),
    "round": lambda rng, language, noun: Count(
        Decimal(rng.choice((12, 15, 24, 36, 45, 62, 140)) * 100), noun, "round"
    ),
    "percent": lambda rng, language, noun: Percent(_decimal(rng, 2, 40, 1)),
    "decline": lambda rng, language, noun: Percent(-_decimal(rng, 2, 40, 1), True),
    "fraction": lambda rng, language, noun: Fraction(rng.choice(list(_FRACTIONS["en"]))),
    "range": _range,
    "year": lambda rng, language, noun: Year(rng.randint(1951, 2025)),
    "old": lambda rng, language, noun: Year(rng.randint(1891, 1988)),
    "recent": lambda rng, language, noun: Year(rng.randint(2009, 2025)),
    "quarter": lambda rng, language, noun: Quarter(rng.randint(2019, 2026), rng.randint(1, 4)),
    "day": _day,
    "month": lambda rng, language, noun: Day(rng.randint(2010, 2027), rng.randint(1, 12), 0),
    "person": _person,
    "city": _city,
    "company": _company,
    "companies": _companies,
    "isin": _isin,
    "power": _power,
    "energy": _quantity(120, 7900, "gwh"),
    "mass": _mass,
    "area": _quantity(12, 780, "km2", 1),
    "hectares": _quantity(12, 480, "ha"),
    "length": _quantity(12, 780, "km", 1),
    "height": _quantity(120, 2900, "m"),
    "oil": _quantity(12000, 98000, "barrels_per_day"),
    "frost": lambda rng, language, noun: Quantity(-_decimal(rng, 2, 39, 1), "celsius"),
}
"""Random facts by the type that frames name."""

# {S} is the subject, {T} the target of an edge, {name:type} or {name:type:noun} a fact; facts whose name starts with _
# are not claimed but mistaken for others.

_FRAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "company": """
{S} reported revenue of {revenue:money} for {fiscal_year:recent}, compared with {_revenue:money} a year earlier.
{S} employs {employees:count:people} in {plants:few:plants} and was founded in {founded:year}.
Revenue rose {revenue_growth:percent} to {revenue:money}, {S} said, while operating profit came to {operating_profit:money}.
{S} named {ceo:person} as chief executive on {appointed:day}, succeeding {_ceo:person}.
Headquartered in {headquarters:city}, {S} counts {customers:companies} among its customers.
{S} saw its net income fall by {net_income_change:decline} in {period:quarter}.
{S} will invest {investment:money} in a new site in {site:city}, where production is due to start in
  {production_start:month}.
About {employees:round:people} work for {S}, and {share_abroad:fraction} of them are based abroad.
{S} expects to ship {output_forecast:range} this year, after {_output:mass} in {_year:recent}.
{S} (ISIN {isin:isin}) closed {price_change:percent} higher on {trading_day:day}.
{S} posted a net loss of {net_income:loss} in {fiscal_year:recent}.
While {_rival:company} delivered {_deliveries:count:vehicles}, {S} sold {deliveries:count:vehicles} in {period:quarter}.
{S} pumps {production:oil} from fields that it bought on {acquired_fields:day} for {fields_price:money}.
""",
        "plant": """
{S} has a capacity of {capacity:power} and entered service on {commissioned:day}.
{S} stands on {site_area:hectares} of former farmland; building it cost {cost:money}.
{S} generated {generation:energy} in {_year:recent} and supplied {households:count:homes}.
{S} burned {fuel:mass} of wood chips last year, against {_fuel:mass} the year before.
A pipeline of {pipeline:length}, completed in {pipeline_completed:month}, connects {S} with the coast.
""",
        "town": """
{S} had {population:count:inhabitants} at the census of {census:day} and covers {area:area}.
{S} recorded {lowest_temperature:frost} on {record_day:day}, the lowest reading since {_since:old}.
{S} lies {elevation:height} above sea level; its mayor has been {mayor:person} since {mayor_since:recent}.
""",
        "country": """
{S} covers {area:area} and has {population:count:inhabitants}.
{S} has a coastline of {coastline:length}, and {urban_population:percent} of its people live in towns.
{S} exported goods and services worth {exports:money} in 2024, when its economy grew by {gdp_growth:percent}.
""",
        "edge": """
supplies|{S} has supplied {T} with battery cells since {since:recent}.
owns_share_of|{S} holds {share:percent} of the shares in {T} after buying {_share:percent} on {purchase:day}.
acquires|{S} has agreed to buy {T} for {price:money}, with closing expected in {closing:month}.
partners_with|Together with {T}, {S} runs {joint_sites:few:plants} under a contract signed on {signed:day}.
""",
    },
    "de": {
        "company": """
{S} erzielte {fiscal_year:recent} einen Umsatz von {revenue:money} nach {_revenue:money} im Vorjahr.
{S} zählt {employees:count:people} in {plants:few:plants} und wurde {founded:year} gegründet.
Der Umsatz stieg um {revenue_growth:percent} auf {revenue:money}, wie {S} mitteilte; der Betriebsgewinn lag bei
  {operating_profit:money}.
Seit dem {appointed:day} steht {ceo:person} an der Spitze, zuvor führte {_ceo:person} das Haus, teilte {S} mit.
{S} hat den Hauptsitz in {headquarters:city} und beliefert unter anderem {customers:companies}.
Im {period:quarter} ging der Überschuss um {net_income_change:decline} zurück, berichtete {S}.
{S} investiert {investment:money} in einen neuen Standort in {site:city}, die Produktion soll im {production_start:month}
  anlaufen.
Rund {employees:round:people} arbeiten für {S}, {share_abroad:fraction} davon im Ausland.
{S} erwartet für dieses Jahr {output_forecast:range}; {_year:recent} waren es {_output:mass}.
{S} (ISIN {isin:isin}) schloss am {trading_day:day} um {price_change:percent} fester.
{S} verbuchte {fiscal_year:recent} einen Verlust von {net_income:loss}.
Während {_rival:company} {_deliveries:count:vehicles} auslieferte, verkaufte {S} im {period:quarter}
  {deliveries:count:vehicles}.
{S} fördert {production:oil} aus Feldern, die zum {acquired_fields:day} für {fields_price:money} gekauft wurden.
""",
        "plant": """
{S} hat eine Leistung von {capacity:power} und ging am {commissioned:day} ans Netz.
{S} steht auf {site_area:hectares} Ackerland; der Bau kostete {cost:money}.
{S} erzeugte {_year:recent} {generation:energy} und versorgte {households:count:homes}.
{S} verfeuerte zuletzt {fuel:mass} Holz, im Jahr davor {_fuel:mass}.
Eine Leitung von {pipeline:length}, fertiggestellt im {pipeline_completed:month}, verbindet die Küste und {S}.
""",
        "town": """
{S} hatte bei der Zählung vom {census:day} {population:count:inhabitants} und ist {area:area} groß.
{S} meldete am {record_day:day} {lowest_temperature:frost}, den tiefsten Wert seit {_since:old}.
{S} liegt {elevation:height} über dem Meer; das Rathaus leitet seit {mayor_since:recent} {mayor:person}.
""",
        "country": """
{S} hat eine Fläche von {area:area} und {population:count:inhabitants}.
{S} hat eine Küste von {coastline:length} Länge; {urban_population:percent} der Menschen leben in Städten.
{S} führte 2024 Güter und Dienste für {exports:money} aus, die Wirtschaft wuchs um {gdp_growth:percent}.
""",
        "edge": """
supplies|{S} beliefert {T} seit {since:recent} mit Batteriezellen.
owns_share_of|{S} hält {share:percent} an {T}, nachdem am {purchase:day} weitere {_share:percent} hinzukamen.
acquires|{S} will {T} für {price:money} übernehmen; der Abschluss wird im {closing:month} erwartet.
partners_with|Gemeinsam mit {T} produziert {S} in {joint_sites:few:plants}; der Vertrag wurde am {signed:day} unterzeichnet.
""",
    },
    "fr": {
        "company": """
{S} a réalisé en {fiscal_year:recent} un chiffre d'affaires de {revenue:money}, contre {_revenue:money} un an plus tôt.
{S} emploie {employees:count:people} dans {plants:few:plants} et existe depuis {founded:year}.
Le chiffre d'affaires a progressé de {revenue_growth:percent} à {revenue:money}, indique {S}, pour un résultat
  opérationnel de {operating_profit:money}.
Depuis le {appointed:day}, {ceo:person} dirige {S} ; son prédécesseur était {_ceo:person}.
Avec son siège à {headquarters:city}, {S} compte parmi ses clients {customers:companies}.
Au {period:quarter}, le bénéfice net a reculé de {net_income_change:decline}, annonce {S}.
{S} va investir {investment:money} dans un nouveau site à {site:city}, dont la production démarrera en
  {production_start:month}.
Environ {employees:round:people} travaillent pour {S}, dont {share_abroad:fraction} à l'étranger.
{S} prévoit cette année {output_forecast:range}, après {_output:mass} en {_year:recent}.
{S} (ISIN {isin:isin}) a clôturé en hausse de {price_change:percent} le {trading_day:day}.
{S} a enregistré en {fiscal_year:recent} une perte nette de {net_income:loss}.
Là où {_rival:company} livrait {_deliveries:count:vehicles}, {S} en a vendu {deliveries:count} au {period:quarter}.
{S} extrait {production:oil} de gisements achetés le {acquired_fields:day} pour {fields_price:money}.
""",
        "plant": """
{S} a une puissance de {capacity:power} et a été mise en service le {commissioned:day}.
{S} occupe {site_area:hectares} ; sa construction a coûté {cost:money}.
{S} a produit {generation:energy} en {_year:recent} et alimenté {households:count:homes}.
{S} a brûlé l'an dernier {fuel:mass} de bois, contre {_fuel:mass} l'année précédente.
Une conduite de {pipeline:length}, achevée en {pipeline_completed:month}, relie au littoral {S}.
""",
        "town": """
{S} comptait {population:count:inhabitants} au recensement du {census:day}, sur {area:area}.
{S} a relevé {lowest_temperature:frost} le {record_day:day}, valeur la plus basse depuis {_since:old}.
{S} se trouve à {elevation:height} d'altitude ; la mairie est dirigée par {mayor:person} depuis {mayor_since:recent}.
""",
        "country": """
{S} a une superficie de {area:area} et compte {population:count:inhabitants}.
{S} possède {coastline:length} de côtes ; {urban_population:percent} de la population vit en ville.
{S} a exporté en 2024 des biens et services pour {exports:money}, avec une croissance de {gdp_growth:percent}.
""",
        "edge": """
supplies|{S} fournit {T} en cellules de batterie depuis {since:recent}.
owns_share_of|{S} détient {share:percent} du capital de {T}, après un achat de {_share:percent} le {purchase:day}.
acquires|{S} va racheter {T} pour {price:money}, la finalisation étant attendue en {closing:month}.
partners_with|Avec {T}, {S} exploite {joint_sites:few:plants} selon un accord signé le {signed:day}.
""",
    },
    "es": {
        "company": """
{S} facturó {revenue:money} en {fiscal_year:recent}, frente a los {_revenue:money} del año anterior.
{S} emplea a {employees:count:people} en {plants:few:plants} y fue fundada en {founded:year}.
Los ingresos crecieron un {revenue_growth:percent}, hasta {revenue:money}, informó {S}; el resultado operativo fue de
  {operating_profit:money}.
Desde el {appointed:day} dirige {S} {ceo:person}, que sustituye a {_ceo:person}.
Con sede en {headquarters:city}, {S} tiene entre sus clientes a {customers:companies}.
En el {period:quarter}, el beneficio neto cayó un {net_income_change:decline}, según {S}.
{S} invertirá {investment:money} en una nueva fábrica en {site:city}, que empezará a producir en {production_start:month}.
Unas {employees:round:people} trabajan para {S}, {share_abroad:fraction} de ellas en el extranjero.
{S} espera producir este año {output_forecast:range}, tras las {_output:mass} de {_year:recent}.
{S} (ISIN {isin:isin}) cerró con una subida del {price_change:percent} el {trading_day:day}.
{S} registró en {fiscal_year:recent} unas pérdidas netas de {net_income:loss}.
Mientras {_rival:company} entregó {_deliveries:count:vehicles}, {S} vendió {deliveries:count:vehicles} en el
  {period:quarter}.
{S} extrae {production:oil} de yacimientos comprados el {acquired_fields:day} por {fields_price:money}.
""",
        "plant": """
{S} tiene una potencia de {capacity:power} y entró en servicio el {commissioned:day}.
{S} ocupa {site_area:hectares}; su construcción costó {cost:money}.
{S} generó {generation:energy} en {_year:recent} y abasteció a {households:count:homes}.
{S} quemó el año pasado {fuel:mass} de madera, frente a {_fuel:mass} un año antes.
Una tubería de {pipeline:length}, terminada en {pipeline_completed:month}, une con la costa {S}.
""",
        "town": """
{S} tenía {population:count:inhabitants} en el censo del {census:day} y abarca {area:area}.
{S} registró {lowest_temperature:frost} el {record_day:day}, el valor más bajo desde {_since:old}.
{S} está a {elevation:height} sobre el nivel del mar; ocupa la alcaldía {mayor:person} desde {mayor_since:recent}.
""",
        "country": """
{S} tiene una superficie de {area:area} y {population:count:inhabitants}.
{S} cuenta con {coastline:length} de costa; el {urban_population:percent} de la población vive en ciudades.
{S} exportó en 2024 bienes y servicios por {exports:money}, con un crecimiento del {gdp_growth:percent}.
""",
        "edge": """
supplies|{S} suministra celdas de batería a {T} desde {since:recent}.
owns_share_of|{S} posee el {share:percent} de {T} tras comprar otro {_share:percent} el {purchase:day}.
acquires|{S} comprará {T} por {price:money}; el cierre se espera en {closing:month}.
partners_with|Junto con {T}, {S} explota {joint_sites:few:plants} según un contrato firmado el {signed:day}.
""",
    },
    "it": {
        "company": """
{S} ha chiuso il {fiscal_year:recent} con ricavi per {revenue:money}, contro {_revenue:money} dell'anno precedente.
{S} impiega {employees:count:people} in {plants:few:plants} ed è stata fondata nel {founded:year}.
I ricavi sono cresciuti del {revenue_growth:percent} a {revenue:money}, comunica {S}; l'utile operativo è stato di
  {operating_profit:money}.
Dal {appointed:day} guida {S} {ceo:person}, che prende il posto di {_ceo:person}.
Con sede a {headquarters:city}, {S} annovera tra i clienti {customers:companies}.
Nel {period:quarter} l'utile netto è calato del {net_income_change:decline}, secondo {S}.
{S} investirà {investment:money} in un nuovo sito a {site:city}, con avvio della produzione nel mese di
  {production_start:month}.
Circa {employees:round:people} lavorano per {S}, {share_abroad:fraction} delle quali all'estero.
{S} prevede per quest'anno {output_forecast:range}, dopo {_output:mass} nel {_year:recent}.
{S} (ISIN {isin:isin}) ha chiuso in rialzo del {price_change:percent} il {trading_day:day}.
{S} ha registrato nel {fiscal_year:recent} una perdita netta di {net_income:loss}.
Mentre {_rival:company} ha consegnato {_deliveries:count:vehicles}, {S} ha venduto {deliveries:count:vehicles} nel
  {period:quarter}.
{S} estrae {production:oil} da giacimenti acquistati il {acquired_fields:day} per {fields_price:money}.
""",
        "plant": """
{S} ha una potenza di {capacity:power} ed è in servizio dal {commissioned:day}.
{S} occupa {site_area:hectares}; la costruzione è costata {cost:money}.
{S} ha prodotto {generation:energy} nel {_year:recent} e rifornito {households:count:homes}.
{S} ha bruciato l'anno scorso {fuel:mass} di legna, contro {_fuel:mass} dell'anno prima.
Una condotta di {pipeline:length}, completata nel mese di {pipeline_completed:month}, collega alla costa {S}.
""",
        "town": """
{S} contava {population:count:inhabitants} al censimento del {census:day} e si estende per {area:area}.
{S} ha registrato {lowest_temperature:frost} il {record_day:day}, il valore più basso dal {_since:old}.
{S} si trova a {elevation:height} sul livello del mare; dal {mayor_since:recent} il sindaco è {mayor:person}.
""",
        "country": """
{S} ha una superficie di {area:area} e {population:count:inhabitants}.
{S} ha {coastline:length} di coste; popolazione urbana: {urban_population:percent}.
{S} ha esportato nel 2024 beni e servizi per {exports:money}, con una crescita pari a {gdp_growth:percent}.
""",
        "edge": """
supplies|{S} fornisce celle per batterie a {T} dal {since:recent}.
owns_share_of|{S} detiene il {share:percent} di {T} dopo aver rilevato un altro {_share:percent} il {purchase:day}.
acquires|{S} acquisirà {T} per {price:money}; il perfezionamento è atteso nel mese di {closing:month}.
partners_with|Insieme a {T}, {S} gestisce {joint_sites:few:plants} in base a un contratto firmato il {signed:day}.
""",
    },
}

_CLAUSES: Final[Mapping[str, Mapping[str, str]]] = {
    "en": {
        "revenue": "reported revenue of {}", "employees": "employs {}", "founded": "was founded in {}",
        "revenue_growth": "increased its revenue by {}", "operating_profit": "made an operating profit of {}",
        "ceo": "is led by {}", "appointed": "got a new chief executive on {}", "headquarters": "has its headquarters in {}",
        "customers": "supplies {}", "investment": "is investing {} in a new site", "site": "is building a site in {}",
        "production_start": "plans to start production there in {}", "price_change": "saw its shares rise by {}",
        "trading_day": "traded higher on {}", "deliveries": "sold {}", "production": "produces {}",
        "fields_price": "paid {} for its fields", "capacity": "has a capacity of {}",
        "commissioned": "has been in service since {}",
        "cost": "cost {} to build", "site_area": "occupies {}", "generation": "generated {}", "households": "supplied {}",
        "population": "has {}", "area": "covers {}", "census": "was last counted on {}", "elevation": "lies at {}",
        "mayor": "is governed by {}", "mayor_since": "has had the same mayor since {}",
    },
    "de": {
        "revenue": "erzielte einen Umsatz von {}", "employees": "zählt {}", "founded": "entstand {}",
        "revenue_growth": "steigerte den Umsatz um {}", "operating_profit": "erreichte einen Betriebsgewinn von {}",
        "ceo": "wird geleitet von {}", "headquarters": "hat den Sitz in {}", "customers": "beliefert {}",
        "investment": "steckt {} in einen neuen Standort", "site": "baut in {}", "deliveries": "verkaufte {}",
        "production": "fördert {}", "fields_price": "zahlte {} für die Felder", "capacity": "leistet {}",
        "commissioned": "ist seit dem {} am Netz", "cost": "kostete {}", "generation": "lieferte {}",
        "households": "versorgte {}",
        "population": "hat {}", "area": "umfasst {}", "elevation": "liegt auf {} Höhe",
    },
    "fr": {
        "revenue": "a réalisé {} de ventes", "employees": "emploie {}", "founded": "date de {}",
        "revenue_growth": "a accru ses ventes de {}", "operating_profit": "a dégagé un résultat opérationnel de {}",
        "ceo": "a pour dirigeant {}", "headquarters": "a son siège à {}", "customers": "a pour clients {}",
        "investment": "investit {} dans un site", "site": "construit un site à {}", "deliveries": "a vendu {}",
        "production": "produit {}", "fields_price": "a payé {} pour ses gisements",
        "capacity": "affiche une puissance de {}",
        "commissioned": "fonctionne depuis le {}", "cost": "a coûté {}", "generation": "a produit {}",
        "households": "a alimenté {}",
        "population": "compte {}", "area": "couvre {}", "elevation": "est à {} d'altitude",
    },
    "es": {
        "revenue": "ingresó {}", "employees": "da trabajo a {}", "founded": "nació en {}",
        "revenue_growth": "aumentó sus ingresos un {}", "operating_profit": "logró un resultado operativo de {}",
        "ceo": "está dirigida por {}", "headquarters": "tiene su sede en {}", "customers": "tiene como clientes a {}",
        "investment": "invierte {} en una fábrica", "site": "construye una fábrica en {}", "deliveries": "vendió {}",
        "production": "extrae {}", "fields_price": "pagó {} por sus yacimientos", "capacity": "tiene {} de potencia",
        "commissioned": "funciona desde el {}", "cost": "costó {}", "generation": "generó {}",
        "households": "abasteció a {}",
        "population": "tiene {}", "area": "ocupa {}", "elevation": "está a {} de altitud",
    },
    "it": {
        "revenue": "ha ottenuto ricavi per {}", "employees": "dà lavoro a {}", "founded": "è nata nel {}",
        "revenue_growth": "ha aumentato i ricavi del {}", "operating_profit": "ha conseguito un utile operativo di {}",
        "ceo": "ha come guida {}", "headquarters": "ha sede a {}", "customers": "ha come clienti {}",
        "investment": "investe {} in un sito", "site": "costruisce un sito a {}", "deliveries": "ha venduto {}",
        "production": "estrae {}", "fields_price": "ha pagato {} per i giacimenti", "capacity": "ha {} di potenza",
        "commissioned": "funziona dal {}", "cost": "è costato {}", "generation": "ha generato {}",
        "households": "ha rifornito {}",
        "population": "conta {}", "area": "si estende per {}", "elevation": "è a {} di quota",
    },
}  # fmt: skip
"""Predicates of free texts, by property."""

_TITLES: Final = {
    "en": ("Business briefing", "Markets in brief", "What we know", "Regional news"),
    "de": ("Meldungen des Tages", "Wirtschaft kompakt", "Nachrichten", "Aus der Region"),
    "fr": ("L'essentiel de l'actualité", "En bref", "Revue de presse", "Économie"),
    "es": ("Resumen del día", "Noticias breves", "Actualidad económica", "Panorama"),
    "it": ("Notizie in breve", "Rassegna stampa", "Economia e territorio", "Il punto"),
}
_TITLES_OF_SUBJECT: Final = {
    "en": ("{}: company profile and key facts", "{} – Annual review", "About {} | Factsheet"),
    "de": ("{} – Daten und Fakten", "Im Porträt: {}", "{} | Presse"),
    "fr": ("{} : chiffres clés", "Portrait – {}", "{} | Dossier"),
    "es": ("{}: datos y cifras", "Perfil de {}", "{} | Prensa"),
    "it": ("{}: dati e cifre", "Profilo: {}", "{} | Comunicati"),
}
_HEADINGS: Final = {
    "en": ("", "Overview", "Key figures"),
    "de": ("", "Überblick", "Zahlen und Fakten"),
    "fr": ("", "Présentation", "Chiffres clés"),
    "es": ("", "Resumen", "Datos clave"),
    "it": ("", "Panoramica", "Dati principali"),
}
_INVENTED: Final[Mapping[str, Sequence[tuple[str, Any]]]] = {
    "Company": (
        ("stock_exchange", "Nasdaq Helsinki"), ("patents", 318), ("dividend_per_share_eur", 1.35), ("auditor",
        "Harlow & Whitcombe"),
        ("summary", "The company is known for its hydrogen trains, which run in Denmark."), ("founder", "Tobias Renqvist"),
        ("market_share_percent", 23), ("is_listed", True), ("debt_usd", 640_000_000), ("next_report", "2027-02-18"),
    ),
    "PowerPlant": (
        ("operator", "Skaldic Power"), ("efficiency_percent", 61.3), ("turbines", 14), ("fuel_supplier", "Lomond Forestry"),
        ("shutdown", "2031-12-31"), ("summary", "It is the country's first plant with carbon capture."),
        ("lifetime_years", 35),
    ),
    "Town": (
        ("twin_town", "Rovaniemi"), ("unemployment_percent", 6.4), ("founded", 1247), ("university",
        "Ostrava Technical University"),
        ("river", "Vistula"), ("summary", "The town is famous for its glass museum, opened in 1962."),
    ),
    "Country": (
        ("minimum_wage_usd", 412), ("president", "Aurelio Vantini"), ("rail_network_km", 7_311), ("literacy_percent", 93.2),
        ("independence", "1957-09-30"), ("summary", "The country is the largest exporter of cobalt in the world."),
    ),
}  # fmt: skip
"""Properties by type that no sentence supports."""

_NEGATIONS: Final[Mapping[str, str]] = {
    "en": """
plant|operational|{S} is not yet in operation.|{S} is now in operation.
plant|opened|{S} did not open on {when:day} as planned.|{S} opened on {when:day} as planned.
company|profitable|{S} has never made a profit.|{S} has made a profit every year since {when:year}.
company|listed_on_stock_exchange|{S} is no longer listed on any stock exchange.|{S} is listed on the stock exchange in
  {where:city}.
company|pays_dividend|{S} will pay no dividend for {when:recent}.|{S} will pay a dividend for {when:recent}.
""",
    "de": """
plant|operational|{S} ist noch nicht in Betrieb.|{S} ist inzwischen in Betrieb.
plant|opened|{S} wurde nicht wie geplant am {when:day} eröffnet.|{S} wurde wie geplant am {when:day} eröffnet.
company|profitable|{S} hat noch nie Gewinn gemacht.|{S} macht seit {when:year} jedes Jahr Gewinn.
company|listed_on_stock_exchange|{S} ist an keiner Börse notiert.|{S} ist an der Börse in {where:city} notiert.
company|pays_dividend|{S} zahlt für {when:recent} keine Dividende.|{S} zahlt für {when:recent} eine Dividende.
""",
    "fr": """
plant|operational|{S} n'est pas encore en service.|{S} est désormais en service.
plant|opened|{S} n'a pas ouvert le {when:day} comme prévu.|{S} a ouvert le {when:day} comme prévu.
company|profitable|{S} n'a jamais réalisé de bénéfice.|{S} réalise un bénéfice chaque année depuis {when:year}.
company|listed_on_stock_exchange|{S} n'est plus cotée en Bourse.|{S} est cotée à la Bourse de {where:city}.
company|pays_dividend|{S} ne versera aucun dividende pour {when:recent}.|{S} versera un dividende pour {when:recent}.
""",
    "es": """
plant|operational|{S} todavía no está en funcionamiento.|{S} ya está en funcionamiento.
plant|opened|{S} no abrió el {when:day} como estaba previsto.|{S} abrió el {when:day} como estaba previsto.
company|profitable|{S} nunca ha obtenido beneficios.|{S} obtiene beneficios todos los años desde {when:year}.
company|listed_on_stock_exchange|{S} ya no cotiza en ninguna bolsa.|{S} cotiza en la bolsa de {where:city}.
company|pays_dividend|{S} no repartirá ningún dividendo por {when:recent}.|{S} repartirá un dividendo por {when:recent}.
""",
    "it": """
plant|operational|{S} non è ancora in funzione.|{S} è ormai in funzione.
plant|opened|{S} non ha aperto il {when:day} come previsto.|{S} ha aperto il {when:day} come previsto.
company|profitable|{S} non ha mai chiuso un bilancio in utile.|{S} chiude in utile ogni anno dal {when:year}.
company|listed_on_stock_exchange|{S} non è più quotata in alcuna Borsa.|{S} è quotata alla Borsa di {where:city}.
company|pays_dividend|{S} non distribuirà alcun dividendo per il {when:recent}.|{S} distribuirà un dividendo per il
  {when:recent}.
""",
}
"""Type of subject, property, the sentence by which it is false, the sentence by which it is true."""


_SLOT: Final = re.compile(r"\{(\w+):(\w+)(?::(\w+))?\}")
_PERIODS: Final = frozenset({"fiscal_year", "period"})
"""Facts that are not claimed beside those of another sentence: they would seem to be its period."""
_NAMING_RULES: Final = {
    "pronoun": "title",
    "heading": "heading",
    "legal": "legal form",
    "alias": "alias",
}
_PLANS: Final = ("value", "role", "subject", "value", "elsewhere", "role", "value", "invented")
"""How false cases differ from their true one, in turn."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of a page with its facts by name, and the rules by which a reader understands them."""

    text: str
    facts: Mapping[str, Fact]
    rules: Mapping[str, str] = field(default_factory=dict)

    @property
    def claimable(self) -> list[str]:
        return [name for name in self.facts if not name.startswith("_")]


def _texts(facts: Mapping[str, Fact]) -> set[str]:
    return {fact.text for fact in facts.values() if isinstance(fact, Name)}


def _write_sentence(
    rng: Random,
    language: str,
    frame: str,
    subject: str,
    *,
    target: str = "",
    facts: Mapping[str, Fact] | None = None,
    separator: int | None = None,
) -> Sentence:
    """Fill `frame` with `facts`, which are random where they are missing.

    `subject` is as it is written at the start of a sentence. Equal `separator`s make equal separators of digits.
    """
    style = Style(rng.random(), separator)
    chosen: dict[str, Fact] = {}
    rules: dict[str, str] = {}

    def fill(match: re.Match[str]) -> str:
        name, kind, noun = match.groups(default="")
        fact = (facts or {}).get(name) or _MAKERS[kind](rng, language, noun)
        while isinstance(fact, Name) and fact.text in _texts(chosen):
            fact = _MAKERS[kind](rng, language, noun)
        first = next((other for other in chosen.values() if isinstance(other, Money)), None)
        if first and kind == "money":
            fact = _related_money(rng, first, name)
        chosen[name] = fact
        written = chosen[name].write(style, language)
        rules[name] = written.rule
        return written.text

    if not frame.startswith("{S}") and subject.startswith(
        ("The ", "Das ", "Die ", "La ", "Le ", "L'", "El ", "Il ")
    ):
        subject = subject[0].lower() + subject[1:]
    text = _SLOT.sub(fill, frame.replace("{S}", subject).replace("{T}", target))
    return Sentence(text[0].upper() + text[1:], chosen, rules)


@dataclass
class Scene:
    """A page about a subject with one sentence to quote, and what else is on the page."""

    language: str
    subject: Subject
    other: Subject
    naming: str
    """How the quote names the subject: a key of _NAMING_RULES or `plain`."""
    quoted: Sentence
    decoy: Sentence
    """The same kind of sentence about `other`."""
    filler: Sentence
    title: str
    heading: str

    def base_case(self) -> EvidenceCase:
        """A case without properties."""
        lines = [self.filler.text, self.quoted.text, self.decoy.text]
        head = [self.title, self.heading] if self.heading else [self.title]
        return EvidenceCase(
            id="",
            language=self.language,
            title=self.title,
            heading=self.heading,
            page="\n".join([*head, " ".join(lines)]),
            quotes=(self.quoted.text,),
            subject=self.subject.name,
            properties={},
            type_name=self.subject.type_name,
            aliases=(self.subject.alias,) if self.naming == "alias" else (),
        )


def _write_subject(subject: Subject, naming: str) -> str:
    named = {"legal": subject.legal_name, "alias": subject.alias, "plain": subject.written}
    return named.get(naming, subject.pronoun)


def _choose_naming(rng: Random, subject: Subject) -> str:
    names = ("plain", "plain", "plain", "plain", "plain", "pronoun", "heading")
    return rng.choice((*names, "legal", "alias") if subject.legal_name else names)


def _scene(rng: Random, language: str, kind: str, frame: str) -> Scene:
    subjects = _subjects(language, kind)
    chosen = rng.sample(range(len(subjects)), 2)
    subject, other = (subjects[index] for index in chosen)
    known = [_country_facts()[index] if kind == "country" else {} for index in chosen]
    naming = _choose_naming(rng, subject)
    others = [line for line in _frames(language, kind) if line != frame] or [frame]
    titled = rng.choice(_TITLES_OF_SUBJECT[language]).format(subject.name)
    written, separator = _write_subject(subject, naming), rng.randrange(60)
    filler_frame = rng.choice(others)
    quoted = _write_sentence(rng, language, frame, written, facts=known[0], separator=separator)
    return Scene(
        language,
        subject,
        other,
        naming,
        quoted,
        decoy=_write_sentence(
            rng, language, frame, other.written, facts=known[1], separator=separator
        ),
        filler=_write_sentence(
            rng, language, filler_frame, subject.written, facts=known[0], separator=separator
        ),
        title=titled if naming == "pronoun" else rng.choice(_TITLES[language]),
        heading=subject.name if naming == "heading" else rng.choice(_HEADINGS[language]),
    )


def _frames(language: str, kind: str) -> list[str]:
    return _lines(_FRAMES[language][kind])


def _lines(text: str) -> list[str]:
    """The lines of a text; a line that starts with two spaces continues the one before."""
    return text.strip().replace("\n  ", " ").split("\n")


@dataclass(frozen=True)
class Choice:
    """Which facts of a sentence are claimed, and in which form."""

    names: tuple[str, ...]
    forms: tuple[int, ...]
    seed: int

    def claim(self, facts: Mapping[str, Fact], language: str) -> Claimed:
        """The properties, and the rule of the first that has one."""
        claims = [
            facts[name].claim(name, form % facts[name].forms, language, self.seed)
            for name, form in zip(self.names, self.forms, strict=True)
        ]
        properties = {key: value for claim in claims for key, value in claim.properties.items()}
        return Claimed(properties, next((claim.rule for claim in claims if claim.rule), ""))


def _choose(rng: Random, sentence: Sentence, plan: str = "value") -> Choice:
    names = sentence.claimable
    if plan == "role":
        names = [name for name in names if any(_roles(sentence, name))] or names
    count = 2 if len(names) > 1 and plan != "role" and rng.random() < 0.35 else 1
    chosen = rng.sample(names, count)
    return Choice(tuple(chosen), tuple(rng.randrange(60) for _ in chosen), rng.randrange(1000))


def _roles(sentence: Sentence, name: str) -> Iterator[Fact]:
    """Facts of the sentence that can be mistaken for fact `name`."""
    fact = sentence.facts[name]
    for other_name, other in sentence.facts.items():
        if other_name != name and type(other) is type(fact):
            if isinstance(fact, Count) and isinstance(other, Count):
                yield replace(fact, value=other.value, style="digits")
            elif _unit(other) == _unit(fact):
                yield other


def _true_case(case: EvidenceCase, choice: Choice, sentence: Sentence, naming: str) -> EvidenceCase:
    properties, rule = choice.claim(sentence.facts, case.language)
    if all(isinstance(value, str) and value in sentence.text for value in properties.values()):
        rule = "same text"
    rule = rule or sentence.rules[choice.names[0]]
    return replace(case, properties=properties, rule=_NAMING_RULES.get(naming, rule))


def _false_case(
    rng: Random, plan: str, scene: Scene, true: EvidenceCase, choice: Choice
) -> EvidenceCase:
    """Change one thing of `true`; if it cannot be changed as `plan` says, change a value."""
    if plan == "subject":
        aliases = (scene.other.alias,) if true.aliases else ()
        note = "other role" if scene.other.name in true.quotes[0] else ""
        return replace(
            true, subject=scene.other.name, aliases=aliases, fault="subject", rule="", note=note
        )
    if plan == "invented":
        name, value = rng.choice(_INVENTED[scene.subject.type_name])
        kept = true.properties if rng.random() < 0.5 else {}
        return replace(true, properties={**kept, name: value}, fault="invented", rule="")
    for name in rng.sample(choice.names, len(choice.names)):
        for variant in _wrong_facts(rng, plan, scene, name):
            facts = {**scene.quoted.facts, name: variant.fact}
            properties = choice.claim(facts, scene.language).properties
            if properties != true.properties:
                fault = _date_fault(properties, true.properties, variant.fault)
                return replace(true, properties=properties, fault=fault, rule="", note=variant.note)
    raise ValueError(f"No false variant of {true.properties} for {true.quotes}")


def _date_fault(properties: Mapping[str, Any], true: Mapping[str, Any], fault: Fault) -> Fault:
    """`year` for a date of which only the year is claimed, else `fault`."""
    changed = [value for name, value in properties.items() if value != true.get(name)]
    return (
        "year"
        if fault == "date" and all(re.fullmatch(r"\d{4}", str(v)) for v in changed)
        else fault
    )


def _wrong_facts(rng: Random, plan: str, scene: Scene, name: str) -> Iterator[Variant]:
    """Facts that are false of `name`: first those that `plan` names, then changed values."""
    fact = scene.quoted.facts[name]
    if plan == "role":
        for other in _roles(scene.quoted, name):
            yield Variant(other, fact.fault, "other role")
    if plan == "elsewhere":
        yield Variant(scene.decoy.facts[name], fact.fault, "elsewhere in the page")
    variants = fact.variants(rng)
    yield from rng.sample(variants, len(variants))


def _unit(fact: Fact) -> str:
    return str(getattr(fact, "unit", getattr(fact, "currency", "")))


def _sentence_pairs(rng: Random, language: str, copies: int) -> Iterator[EvidenceCase]:
    """For each frame true cases, each followed by a false one."""
    plan = rng.randrange(len(_PLANS))
    for kind in ("company", "plant", "town", "country"):
        for frame in _frames(language, kind):
            for _ in range(copies):
                plan, scene = (plan + 1) % len(_PLANS), _scene(rng, language, kind, frame)
                choice = _choose(rng, scene.quoted, _PLANS[plan])
                true = _true_case(scene.base_case(), choice, scene.quoted, scene.naming)
                yield true
                yield _false_case(rng, _PLANS[plan], scene, true, choice)


def _unrelated_frames(rng: Random, language: str) -> list[str]:
    """Two frames about companies that have no fact in common."""
    while True:
        frames = rng.sample(_frames(language, "company"), 2)
        names = [{name for name, _, _ in _SLOT.findall(frame)} for frame in frames]
        if names[0].isdisjoint(names[1]):
            return frames


def _joint_pairs(rng: Random, language: str, count: int) -> Iterator[EvidenceCase]:
    """Claims that rest on two quotes, of which the second says `the company`."""
    for number in range(count):
        first, second = _unrelated_frames(rng, language)
        scene = _scene(rng, language, "company", first)
        start = _write_sentence(rng, language, first, scene.subject.written)
        end = _write_sentence(rng, language, second, scene.subject.pronoun)
        names = [rng.choice([n for n in s.claimable if n not in _PERIODS]) for s in (start, end)]
        both = Sentence(
            f"{start.text} {end.text}", {**end.facts, **start.facts}, {**end.rules, **start.rules}
        )
        scene = replace(
            scene, quoted=both, naming="plain", title=rng.choice(_TITLES[language]), heading=""
        )
        scene.decoy = replace(scene.decoy, facts={**both.facts, **scene.decoy.facts})
        choice = Choice(tuple(names), tuple(rng.randrange(60) for _ in names), rng.randrange(1000))
        case = replace(scene.base_case(), quotes=(start.text, end.text))
        true = replace(_true_case(case, choice, both, "plain"), rule="several quotes")
        yield true
        if number % 2:
            fault = both.facts[names[1]].fault
            yield replace(
                true, quotes=(start.text,), fault=fault, rule="", note="elsewhere in the page"
            )
        else:
            yield _false_case(rng, "value", scene, true, choice)


def _summary_pairs(rng: Random, language: str, count: int) -> Iterator[EvidenceCase]:
    """Free texts of one or two sentences, in English or the language of the page."""
    for number in range(count):
        kind = ("company", "plant", "company", "town")[number % 4]
        text_language = "en" if number % 2 else language
        clauses = _CLAUSES[text_language]
        frames = [
            frame
            for frame in _frames(language, kind)
            if sum(name in clauses for name, _, _ in _SLOT.findall(frame)) >= 2
        ]
        scene = _scene(rng, language, kind, rng.choice(frames))
        names = [name for name in scene.quoted.claimable if name in clauses]
        key, seed = rng.choice(("summary", "description")), rng.randrange(1000)

        def state(facts: Mapping[str, Fact]) -> dict[str, Any]:
            return {key: _summarize(text_language, scene.subject, facts, names, seed)}  # noqa: B023

        true = replace(scene.base_case(), properties=state(scene.quoted.facts), rule="free text")
        yield true
        name = rng.choice(names)
        for variant in _wrong_facts(
            rng, ("value", "elsewhere", "value", "role")[number // 2 % 4], scene, name
        ):
            properties = state({**scene.quoted.facts, name: variant.fact})
            if properties != true.properties:
                yield replace(
                    true, properties=properties, fault=variant.fault, rule="", note=variant.note
                )
                break


def _summarize(
    language: str, subject: Subject, facts: Mapping[str, Fact], names: Sequence[str], seed: int
) -> str:
    rng = Random(seed)
    predicates = []
    for place, name in enumerate(names):
        fact = facts[name]
        text = (
            fact.text
            if isinstance(fact, Name)
            else fact.write(Style(seed + place, seed), language).text
        )
        predicates.append(_CLAUSES[language][name].format(text))
    if rng.random() < 0.5 and len(predicates) > 2:
        pronoun = {"Company": _THE_COMPANY, "Town": _THE_TOWN}.get(subject.type_name, {}).get(
            language, subject.name
        )
        return f"{subject.name} {predicates[0]}. {pronoun} {_join(language, predicates[1:])}."
    start = subject.name[0].upper() + subject.name[1:]
    return f"{start} {_join(language, predicates)}."


def _edge_pairs(rng: Random, language: str, copies: int) -> Iterator[EvidenceCase]:
    """Edges between two companies; the false ones have another end, direction or property."""
    plan = rng.randrange(4)
    for row in _frames(language, "edge") * copies:
        type_name, frame = row.split("|")
        source, target, third = rng.sample(_subjects(language, "company"), 3)
        target_naming = rng.choice(("plain", "legal", "alias"))
        naming = _choose_naming(rng, source)
        written_target = _write_subject(target, target_naming)
        quoted = _write_sentence(
            rng, language, frame, _write_subject(source, naming), target=written_target
        )
        decoy = _write_sentence(rng, language, frame, target.written, target=third.written)
        title = rng.choice(_TITLES_OF_SUBJECT[language]).format(source.name)
        scene = Scene(
            language,
            source,
            third,
            naming,
            quoted,
            decoy,
            filler=_write_sentence(
                rng, language, rng.choice(_frames(language, "company")), source.written
            ),
            title=title if naming == "pronoun" else rng.choice(_TITLES[language]),
            heading=source.name if naming == "heading" else "",
        )
        choice = _choose(rng, quoted, "role" if plan % 4 == 2 else "value")
        aliases = (target.alias,) if target_naming == "alias" else ()
        case = replace(
            scene.base_case(),
            kind="edge",
            type_name=type_name,
            target=target.name,
            target_aliases=aliases,
        )
        true = _true_case(case, choice, quoted, naming if naming != "plain" else target_naming)
        if plan % 8 == 5:
            true = replace(true, properties={}, rule=_NAMING_RULES.get(target_naming, "edge ends"))
        yield true
        yield _false_edge(rng, plan, scene, true, choice)
        plan += 1


def _false_edge(
    rng: Random, plan: int, scene: Scene, true: EvidenceCase, choice: Choice
) -> EvidenceCase:
    is_reversed = plan % 8 == 7 and true.type_name != "partners_with"
    if plan % 2 and not is_reversed:
        aliases = (scene.other.alias,) if true.target_aliases else ()
        return replace(
            true, target=scene.other.name, target_aliases=aliases, fault="edge_end", rule=""
        )
    if is_reversed:
        return replace(
            true,
            subject=true.target,
            target=true.subject,
            aliases=true.target_aliases,
            target_aliases=true.aliases,
            fault="subject",
            rule="",
            note="direction reversed",
        )
    return _false_case(rng, "role" if plan % 4 == 2 else "value", scene, true, choice)


def _negation_cases(rng: Random, language: str) -> Iterator[EvidenceCase]:
    """Two pairs for each sentence: what it denies, and what it says without the denial."""
    for number, row in enumerate(_lines(_NEGATIONS[language])):
        kind, name, negative, positive = row.split("|")
        for frame, value in ((negative, False), (positive, True)):
            scene = _scene(rng, language, kind, frame)
            case = scene.base_case()
            true = replace(
                case, properties={name: value}, rule=_NAMING_RULES.get(scene.naming, "boolean")
            )
            false = replace(true, properties={name: not value}, fault="negation", rule="")
            if name == "operational" and number % 2 == 0 and value:
                true = replace(true, properties={"status": "operational"}, rule="enumeration")
                false = replace(
                    true, properties={"status": "not yet operational"}, fault="negation", rule=""
                )
            yield true
            yield false


_NUMBER: Final = re.compile(r"(-?[\d,]+(?:\.\d+)?)(?: (million|billion|trillion))?")
_FACTBOOK_PATHS: Final = {
    "Area, total": ("total_area", "km2", "Area, land"),
    "Coastline": ("coastline", "km", ""),
    "Population, total": ("population", "count", "Population, female"),
    "Urbanization, urban population": ("urban_population", "percent", "Population growth rate"),
    "Exports 2024": ("exports_2024", "money", "Exports 2023"),
    "Electricity, consumption": ("electricity_consumption", "kwh", "Electricity, imports"),
    "Unemployment rate 2024": ("unemployment_2024", "percent", "Unemployment rate 2022"),
    "Inflation rate (consumer prices) 2024": (
        "inflation_2024",
        "percent",
        "Inflation rate (consumer prices) 2023",
    ),
    "Railways, total": ("railways", "km", ""),
    "total petroleum production": (
        "petroleum_production",
        "barrels_per_day",
        "refined petroleum consumption",
    ),
    "Executive branch, most recent election date": ("last_election", "day", ""),
    "Capital, name": ("capital", "name", ""),
}
"""Property, type or unit, and the line that is mistaken for it."""
_FACTBOOK_COUNTRIES: Final = (
    "Ghana",
    "Norway",
    "Kenya",
    "Japan",
    "Peru",
    "Estonia",
    "Chile",
    "Morocco",
    "Portugal",
)
_CAPITALS: Final = (
    "Accra",
    "Oslo",
    "Nairobi",
    "Tokyo",
    "Lima",
    "Tallinn",
    "Santiago",
    "Rabat",
    "Lisbon",
)


@cache
def _factbook() -> Mapping[str, Mapping[str, str]]:
    """The lines of some countries by country and path."""
    found = {country.names[0]: country for country in factbook.countries()}
    return {
        name: {fact.path: fact.text for fact in found[name].facts} for name in _FACTBOOK_COUNTRIES
    }


def _parse_number(text: str) -> Decimal:
    match = _NUMBER.search(text)
    if match is None:
        raise ValueError(f"No number in {text!r}")
    size = {"million": 10**6, "billion": 10**9, "trillion": 10**12}.get(match[2], 1)
    return _plain(Decimal(match[1].replace(",", "")) * size)


def _parse_fact(kind: str, text: str) -> Fact | None:
    """The fact that a line of the Factbook states, or None if it is written in another way."""
    if kind == "name":
        capital = text.partition(";")[0]
        return Name(capital, (Written(capital, "same text"),), _CAPITALS)
    if kind == "day":
        match = re.fullmatch(r"(\d+) (\w+) (\d{4})", text)
        if match is None:
            return None
        return Day(int(match[3]), _MONTHS["en"].split().index(match[2]) + 1, int(match[1]))
    number = _parse_number(text)
    if kind == "percent":
        return Percent(number)
    if kind == "count":
        return Count(number, "inhabitants")
    return Money(number, "USD") if kind == "money" else Quantity(number, kind)


@cache
def _country_facts() -> list[dict[str, Fact]]:
    """Facts for the country frames, in the order of _COUNTRIES."""
    paths = {
        "area": ("Area, total", "km2"),
        "population": ("Population, total", "count"),
        "coastline": ("Coastline", "km"),
        "urban_population": ("Urbanization, urban population", "percent"),
        "exports": ("Exports 2024", "money"),
        "gdp_growth": ("Real GDP growth rate 2024", "percent"),
    }
    found: list[dict[str, Fact]] = []
    for country in _COUNTRIES["en"].split("|"):
        parsed = {
            name: _parse_fact(kind, _factbook()[country][path])
            for name, (path, kind) in paths.items()
        }
        found.append({name: fact for name, fact in parsed.items() if fact})
    return found


def _factbook_pairs(rng: Random, count: int) -> Iterator[EvidenceCase]:
    """Lines of the Factbook as the English pages have them; half of the quotes leave the country to the title."""
    choices = [(country, path) for country in _FACTBOOK_COUNTRIES for path in _FACTBOOK_PATHS]
    for number, (country, path) in enumerate(rng.sample(choices, len(choices))):
        lines = _factbook()[country]
        name, kind, sibling = _FACTBOOK_PATHS[path]
        fact = _parse_fact(kind, lines[path]) if path in lines else None
        if fact is None or number >= count:
            continue
        paths = dict.fromkeys(
            [*rng.sample(list(_FACTBOOK_PATHS), 4), path, *([sibling] if sibling else [])]
        )
        page = "\n".join(f"{country} — {p}: {lines[p]}." for p in paths if p in lines)
        is_titled = rng.random() < 0.5
        quote = f"{'' if is_titled else f'{country} — '}{path}: {lines[path]}"
        form, seed = rng.randrange(fact.forms), rng.randrange(1000)
        properties, rule = fact.claim(name, form, "en", seed)
        true = EvidenceCase(
            id="",
            language="en",
            title=f"{country}: facts" if is_titled else "The World Factbook",
            heading="",
            page=page,
            quotes=(quote,),
            subject=country,
            properties=properties,
            type_name="Country",
            rule="title" if is_titled else rule or fact.write(Style(seed), "en").rule,
        )
        yield true
        wrong = [(variant.fact, variant.fault, variant.note) for variant in fact.variants(rng)]
        rng.shuffle(wrong)
        if sibling in lines and number % 3 == 0 and (other := _parse_fact(kind, lines[sibling])):
            wrong.insert(0, (other, fact.fault, "elsewhere in the page"))
        if number % 5 == 4:
            others = [other for other in _FACTBOOK_COUNTRIES if other != country]
            yield replace(true, subject=rng.choice(others), fault="subject", rule="")
            continue
        for other, fault, note in wrong:
            properties = other.claim(name, form, "en", seed).properties
            if properties != true.properties:
                yield replace(true, properties=properties, fault=fault, rule="", note=note)
                break


_LINE: Final = re.compile(r"^([a-z]): (.*)$")


@dataclass(frozen=True)
class Assertion:
    """A claim about a story's page: the letters of the lines it cites, and a rule if it is true or a fault if not."""

    lines: str
    properties: Mapping[str, Any]
    rule: str = ""
    fault: Fault | None = None
    note: str = ""
    subject: str = ""
    """Empty if it is the story's."""
    edge: str = ""
    """For an edge `type > target`."""
    part: str = ""
    """The part of the line that is cited; empty for all of it."""
    aliases: tuple[str, ...] = ()
    target_aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Story:
    """A page as it could be on the web, with claims on it.

    Lines of `text` start with a letter (`a: …`) by which claims cite them; `#` starts a heading.
    Lines that start with two spaces continue the line before.
    """

    language: str
    title: str
    text: str
    subject: str
    type_name: str
    assertions: Sequence[Assertion]

    def cases(self) -> Iterator[EvidenceCase]:
        sentences: dict[str, str] = {}
        headings: dict[str, str] = {}
        page: list[str] = []
        heading = ""
        for line in _lines(self.text):
            if match := _LINE.match(line):
                sentences[match[1]], headings[match[1]] = match[2], heading
                page.append(match[2])
            else:
                heading = line.lstrip("# ")
                page.append(f"\n{heading}\n")
        text = " ".join(page).replace("\n ", "\n").replace(" \n", "\n").strip()
        for claim in self.assertions:
            type_name, _, target = claim.edge.partition(" > ")
            yield EvidenceCase(
                id="",
                language=self.language,
                title=self.title,
                heading=headings[claim.lines[0]],
                page=text,
                quotes=tuple(claim.part or sentences[letter] for letter in claim.lines),
                subject=claim.subject or self.subject,
                properties=claim.properties,
                kind="edge" if target else "node",
                type_name=type_name or self.type_name,
                target=target,
                aliases=claim.aliases,
                target_aliases=claim.target_aliases,
                fault=claim.fault,
                rule=claim.rule,
                note=claim.note,
            )


def _yes(
    rule: str,
    lines: str,
    properties: Mapping[str, Any],
    *,
    note: str = "",
    subject: str = "",
    edge: str = "",
    part: str = "",
    aliases: tuple[str, ...] = (),
    target_aliases: tuple[str, ...] = (),
) -> Assertion:
    return Assertion(
        lines, properties, rule, None, note, subject, edge, part, aliases, target_aliases
    )


def _no(
    fault: Fault,
    lines: str,
    properties: Mapping[str, Any],
    *,
    note: str = "",
    subject: str = "",
    edge: str = "",
    part: str = "",
    aliases: tuple[str, ...] = (),
    target_aliases: tuple[str, ...] = (),
) -> Assertion:
    return Assertion(
        lines, properties, "", fault, note, subject, edge, part, aliases, target_aliases
    )


_ENGLISH_STORIES: Final = (
    Story(
        "en", "Harbour battery plant clears last hurdle | The Tyne Ledger", """
a: The £2.4bn battery plant planned by Corvane Power at Blyth Quay won final approval on Tuesday, 14 May 2024.
b: The company says the site will employ about 3,000 people once all four halls are running.
c: The first hall is due to make cells from the second quarter of 2026, a year later than first announced.
# Who pays
d: The Treasury will lend £310m at a fixed rate of 4.25 per cent, while the North Bank pension fund takes a stake of 12.5 per
  cent for £300 million.
e: Corvane, listed in London under the ticker CVN, lost £18.6m before tax last year on sales of £7.2m.
f: Councillor Eileen Pratt, who chairs the planning committee, said members "did not receive a single objection".
g: A rival scheme by Amberline at Port Talbot was dropped in 2023 after its backers withdrew 2,024 days into the project.
""", "Corvane Power", "Company", (
            _yes("currency", "a", {"planned_investment_gbp": 2_400_000_000}),
            _no("currency", "a", {"planned_investment_eur": 2_400_000_000}),
            _yes("written date", "a", {"approved": "2024-05-14", "site": "Blyth Quay"}),
            _no("date", "a", {"approved": "2024-05-04", "site": "Blyth Quay"}),
            _yes("approximation", "ab", {"summary": "Corvane Power's Blyth Quay plant is to employ about 3,000 people."}),
            _no("number", "b", {"expected_employees": 3024}, note="more exact than the quote", subject="Corvane Power"),
            _yes("quarter", "c", {"production_start": "2026-Q2"}, subject="Blyth Quay plant", aliases=("first hall",)),
            _no("year", "c", {"production_start": "2025-Q2"}, subject="Blyth Quay plant", aliases=("first hall",)),
            _yes("percentage", "ad", {"share_percent": 12.5}, edge="invests_in > Blyth Quay battery plant",
                 subject="North Bank pension fund", target_aliases=("battery plant",)),
            _no("edge_end", "ad", {"share_percent": 12.5}, edge="invests_in > Amberline", subject="North Bank pension fund"),
            _no("percentage", "d", {"loan_interest_percent": 12.5}, subject="Treasury", note="other role"),
            _yes("sign", "e", {"pre_tax_profit_gbp": -18_600_000, "ticker": "CVN"}, aliases=("Corvane",)),
            _no("number", "e", {"pre_tax_profit_gbp": 18_600_000, "ticker": "CVN"}, aliases=("Corvane",), note="sign lost"),
            _yes("currency", "e", {"sales_gbp": 7_200_000}, aliases=("CVN", "Corvane")),
            _no("scale", "e", {"sales_gbp": 7_200_000_000}, aliases=("CVN", "Corvane")),
            _no("name", "f", {"planning_committee_chair": "Eileen Platt"}, subject="planning committee"),
            _yes("honorific", "f", {"chair": "Eileen Pratt"}, subject="planning committee"),
            _no("year", "g", {"dropped": 2024}, subject="Amberline", note="other role"),
            _yes("same text", "g", {"dropped": 2023, "site": "Port Talbot"}, subject="Amberline"),
            _no("subject", "g", {"dropped": 2023}, note="other role"),
        ),
    ),
    Story(
        "en", "Lake Orsa - encyclopedia", """
a: Lake Orsa is a freshwater lake in the north of Verland with a surface area of 1,043 square kilometres (403 square miles).
b: It is fed by two rivers, the Tarn and the Little Skell, and drains into the Bay of Meld through a canal 27.5 km long.
c: The greatest recorded depth is 148 m (486 ft), measured in 1934 by the surveyor Henrik Aune.
# Ecology
d: Perch make up roughly a third of the catch and pike another quarter.
e: Between 1990 and 2010 the mean surface temperature rose by 1.2 °C, to 9.8 °C.
f: The lake has not frozen over completely since the winter of 1986-87.
g: Some 40 to 60 pairs of ospreys nest on its 112 islands, of which only nine are inhabited.
""", "Lake Orsa", "Lake", (
            _yes("unit word", "a", {"area_km2": 1043}),
            _no("unit", "a", {"area_km2": 403}, note="other role"),
            _yes("unit word", "a", {"area_sq_miles": 403}),
            _no("unit", "a", {"area_sq_miles": 1043}, note="other role"),
            _yes("title", "b", {"outflow": "Bay of Meld", "tributaries": ["Tarn", "Little Skell"]}),
            _no("name", "b", {"outflow": "Little Skell"}, note="other role"),
            _no("unit", "b", {"canal_length_miles": 27.5}),
            _yes("title", "c", {"max_depth_m": 148, "surveyed": 1934}),
            _no("number", "c", {"max_depth_m": 184, "surveyed": 1934}),
            _no("name", "c", {"surveyor": "Henrik Aulie"}),
            _yes("fraction", "d", {"perch_share": 0.33}),
            _no("number", "d", {"perch_share": 0.25}, note="other role"),
            _yes("fraction", "d", {"pike_share_percent": 25}),
            _yes("title", "e", {"surface_temperature_c": 9.8, "warming_c": 1.2}),
            _no("number", "e", {"surface_temperature_c": 1.2}, note="other role"),
            _no("negation", "f", {"last_freeze": "The lake froze over completely in every winter since 1986-87."}),
            _yes("title", "f", {"last_freeze": "winter of 1986-87"}),
            _yes("range", "g", {"osprey_pairs_min": 40, "osprey_pairs_max": 60, "islands": 112}),
            _no("number", "g", {"osprey_pairs_min": 40, "osprey_pairs_max": 112}, note="other role"),
            _yes("number word", "g", {"inhabited_islands": 9}),
            _no("number", "g", {"inhabited_islands": 112}, note="other role"),
        ),
    ),
    Story(
        "en", "Dunmore Pharma: Form 10-K for the fiscal year ended September 30, 2025", """
# Item 1. Business
a: We are a specialty pharmaceutical company incorporated in Delaware on February 3, 1998.
b: As of September 30, 2025, we had 4,310 full-time employees, of whom approximately 1,150 were engaged in research.
c: Our Phase 3 candidate, DNM-2024, failed to meet its primary endpoint in a trial of 1,246 patients.
# Item 7. Results of operations
d: Net revenues were $1,284.6 million, an increase of 8% over fiscal 2024, when they were $1,189.4 million.
e: Gross margin improved by 1.5 percentage points to 62.3%.
f: One customer, Halloran Drug Inc., accounted for 31% of net revenues; no other customer exceeded 10%.
g: We have never declared or paid cash dividends on our common stock.
h: On November 4, 2025 the Board appointed Dr. Yusuf Demir as Chief Financial Officer, effective January 1, 2026.
""", "Dunmore Pharma", "Company", (
            _yes("title", "a", {"incorporated": "1998-02-03", "state": "Delaware"}),
            _no("date", "a", {"incorporated": "1998-03-02", "state": "Delaware"}, note="day and month swapped"),
            _yes("title", "b", {"employees": 4310}),
            _no("number", "b", {"employees": 1150}, note="other role"),
            _no("number", "b", {"employees": 4130}),
            _no("year", "c", {"trial_year": 2024}, note="other role"),
            _yes("identifier", "c", {"candidate": "DNM-2024", "trial_patients": 1246}),
            _no("negation", "c", {"trial_outcome": "DNM-2024 met its primary endpoint in a trial of 1,246 patients."}),
            _yes("currency", "d", {"revenue_usd": 1_284_600_000}),
            _no("number", "d", {"revenue_usd": 1_189_400_000}, note="other role"),
            _no("scale", "d", {"revenue_usd": 1_284_600}),
            _yes("percentage", "d", {"revenue_growth_rate": 0.08}),
            _no("percentage", "d", {"revenue_growth_rate": 0.8}, note="decimal point moved"),
            _yes("percentage", "e", {"gross_margin_percent": 62.3, "gross_margin_change": "1.5 percentage points"}),
            _no("percentage", "e", {"gross_margin_percent": 1.5}, note="other role"),
            _yes("legal form", "f", {"share_of_revenue_percent": 31}, edge="sells_to > Halloran Drug"),
            _no("percentage", "f", {"share_of_revenue_percent": 10}, edge="sells_to > Halloran Drug", note="other role"),
            _no("edge_end", "f", {"share_of_revenue_percent": 31}, edge="sells_to > Meridian Stores"),
            _yes("title", "g", {"pays_dividend": False}),
            _no("negation", "g", {"pays_dividend": True}),
            _yes("honorific", "h", {"cfo": "Yusuf Demir", "cfo_since": "2026-01-01"}),
            _no("date", "h", {"cfo": "Yusuf Demir", "cfo_since": "2025-11-04"}, note="other role"),
            _no("invented", "h", {"cfo_previous_employer": "Calder Biotech"}),
        ),
    ),
    Story(
        "en", "Metro extension: what we know so far", """
# Northern Line extension
a: The 8.4-mile extension opened to passengers on the 3rd of September, eleven months behind schedule.
b: It cost $3.9 billion, half of it paid by the federal government.
c: Trains reach 65 mph and run every six minutes at peak hours.
d: Ridership in the first week averaged 41,700 trips a day, well short of the 60,000 forecast.
# Eastern Line
e: Work on the Eastern Line has been suspended, and no date has been set for its resumption.
f: Contractor Kessler-Ruiz JV walked off the site in March after a dispute over $74,000,000 in unpaid bills.
""", "Northern Line extension", "RailwayLine", (
            _yes("heading", "a", {"length_miles": 8.4}),
            _no("unit", "a", {"length_km": 8.4}),
            _yes("heading", "a", {"opened": "September 3"}),
            _no("date", "a", {"opened": "November 3"}),
            _yes("heading", "b", {"cost_usd": 3_900_000_000, "federal_share": 0.5}),
            _no("scale", "b", {"cost_usd": 3_900_000, "federal_share": 0.5}),
            _yes("number word", "c", {"peak_interval_minutes": 6}),
            _no("unit", "c", {"top_speed_kmh": 65}),
            _yes("heading", "d", {"daily_trips": 41_700}),
            _no("number", "d", {"daily_trips": 60_000}, note="other role"),
            _yes("enumeration", "e", {"status": "suspended"}, subject="Eastern Line"),
            _no("negation", "e", {"resumption": "A date has been set for the resumption of work."}, subject="Eastern Line"),
            _no("subject", "e", {"status": "suspended"}),
            _yes("heading", "f", {"unpaid_bills": "$74 million", "contractor": "Kessler-Ruiz JV"}, subject="Eastern Line"),
            _no("name", "f", {"unpaid_bills": "$74 million", "contractor": "Kessler-Diaz JV"}, subject="Eastern Line"),
            _yes("free text", "d", {"summary": "In its first week the line saw 41,700 trips a day, fewer than "
                                               "the 60,000 forecast."}),
            _no("number", "d", {"summary": "In its first week the line saw 47,100 trips a day, fewer than the "
                                           "60,000 forecast."}),
        ),
    ),
    Story(
        "en", "Corporate: Tuskar Cellars bought by Danish group", """
a: Tuskar Cellars, maker of the Old Lantern cider, has been sold to Denmark's Bryggeriet Holm A/S for an undisclosed sum.
b: Founded by brothers Niall and Conor Whelan in 2009 with a loan of 15,000 euro, the Wexford firm now exports to
  22 countries.
c: It turned over €37.5 million in the year to June, and Holm said it would double capacity to 400,000 hectolitres by 2028.
d: Neither brother will stay on; Aoife Brennan, currently head of sales, takes over as managing director next month.
""", "Tuskar Cellars", "Company", (
            _yes("legal form", "a", {}, edge="acquired_by > Bryggeriet Holm"),
            _no("edge_end", "b", {}, edge="acquired_by > Bryggeriet Holm"),
            _no("invented", "a", {"price_eur": 85_000_000}, edge="acquired_by > Bryggeriet Holm"),
            _yes("several quotes", "ab", {"founded": 2009, "founders": ["Niall Whelan", "Conor Whelan"]}),
            _no("name", "ab", {"founded": 2009, "founders": ["Niall Whelan", "Colm Whelan"]}),
            _yes("several quotes", "ab", {"export_countries": 22, "headquarters": "Wexford"}),
            _no("number", "ab", {"export_countries": 15}),
            _yes("title", "c", {"turnover_eur": 37_500_000}, aliases=("Tuskar",)),
            _no("scale", "c", {"turnover_eur": 375_000_000}, aliases=("Tuskar",)),
            _no("number", "c", {"planned_capacity_hectolitres": 800_000}, aliases=("Tuskar",)),
            _yes("title", "d", {"next_managing_director": "Aoife Brennan"}),
            _no("negation", "ad", {"management": "Niall and Conor Whelan will stay on after the sale."}),
        ),
    ),
)  # fmt: skip

_GERMAN_STORIES: Final = (
    Story(
        "de", "Brandhorst Windtechnik meldet Rekordauftrag", """
a: Der Husumer Anlagenbauer Brandhorst Windtechnik hat am Montag den größten Auftrag seiner Geschichte bekannt gegeben.
b: Für den Park „Doggerfeld 3“ liefert das Unternehmen 84 Turbinen mit je 15 Megawatt, zusammen also 1,26 Gigawatt.
c: Der Auftragswert liegt bei rund 1,9 Mrd. Euro; die Auslieferung soll im Frühjahr 2027 beginnen.
# Geschäftszahlen
d: Brandhorsts Umsatz kletterte im Geschäftsjahr 2024/25 um 17,4 Prozent auf 2,31 Milliarden Euro.
e: Unter dem Strich blieb dennoch ein Fehlbetrag von 46,5 Mio. Euro, nach einem Gewinn von 12 Mio. Euro im Jahr zuvor.
f: Die Zahl der Beschäftigten stieg von 5.870 auf 6.240, knapp ein Viertel davon arbeitet in Dänemark.
g: Vorstandschefin Dr. Karin Thiessen schloss einen Stellenabbau aus: „Wir werden keinen Standort schließen.“
h: Die Aktie (WKN A12024) verlor am Nachmittag 3,2 % auf 41,85 Euro.
""", "Brandhorst Windtechnik", "Company", (
            _yes("same text", "b", {"turbines": 84, "turbine_power_mw": 15}, subject="Doggerfeld 3"),
            _no("number", "b", {"turbines": 15}, subject="Doggerfeld 3", note="other role"),
            _yes("unit scale", "b", {"capacity_mw": 1260}, subject="Doggerfeld 3"),
            _no("scale", "b", {"capacity_mw": 126}, subject="Doggerfeld 3"),
            _yes("title", "b", {"turbines": 84}, edge="supplies > Doggerfeld 3"),
            _no("edge_end", "b", {"turbines": 84}, edge="supplies > Nordergründe 2"),
            _yes("currency", "ac", {"order_value_eur": 1_900_000_000}),
            _no("scale", "ac", {"order_value_eur": 1_900_000}),
            _no("currency", "ac", {"order_value_usd": 1_900_000_000}),
            _yes("genitive", "d", {"revenue_eur": 2_310_000_000, "fiscal_year": "2024/25"}),
            _no("number", "d", {"revenue_eur": 2_130_000_000, "fiscal_year": "2024/25"}),
            _yes("genitive", "d", {"revenue_growth_percent": 17.4}),
            _no("year", "d", {"fiscal_year": "2023/24"}),
            _yes("sign", "e", {"net_income_eur": -46_500_000}),
            _no("number", "e", {"net_income_eur": 12_000_000}, note="other role"),
            _yes("digit grouping", "f", {"employees": 6240}),
            _no("number", "f", {"employees": 5870}, note="other role"),
            _no("scale", "f", {"employees": 6.24}, note="grouping read as decimals"),
            _yes("honorific", "g", {"ceo": "Karin Thiessen", "plant_closures_planned": False}),
            _no("negation", "g", {"ceo": "Karin Thiessen", "plant_closures_planned": True}),
            _no("year", "h", {"share_price_year": 2024}, note="other role"),
            _yes("sign", "h", {"share_price_change_percent": -3.2, "share_price_eur": 41.85}),
            _no("percentage", "h", {"share_price_change_percent": 3.2}, note="sign lost"),
            _yes("free text", "de", {"summary": "Brandhorst grew revenue by 17.4% to EUR 2.31 billion but "
                                                "lost EUR 46.5 million."}),
            _no("number", "de", {"summary": "Brandhorst grew revenue by 17.4% to EUR 2.31 billion but lost "
                                            "EUR 64.5 million."}),
        ),
    ),
    Story(
        "de", "Talbrücke Oberwald – Wikibau", """
a: Die Talbrücke Oberwald überspannt auf 742 m Länge das Tal der Schwarzen Lenne und ist bis zu 96 Meter hoch.
b: Mit dem Bau wurde im Mai 1971 begonnen, die Freigabe erfolgte am 17. Oktober 1974 durch Ministerpräsident Alfons Kreuzer.
c: Täglich passieren etwa 58.000 Fahrzeuge das Bauwerk, darunter ein Fünftel Lastwagen.
# Neubau
d: Seit Dezember 2021 ist die Brücke für Lkw über 3,5 Tonnen gesperrt; eine Sanierung kommt laut Gutachten nicht in Frage.
e: Der Ersatzneubau soll zwischen 180 und 220 Millionen Euro kosten und frühestens Ende 2029 fertig sein.
f: Den Zuschlag erhielt die Bietergemeinschaft aus Gebr. Ostertag KG und der österreichischen Alpbau AG.
""", "Talbrücke Oberwald", "Bridge", (
            _yes("same text", "a", {"length_m": 742, "height_m": 96}),
            _no("number", "a", {"length_m": 96}, note="other role"),
            _no("unit", "a", {"length": "742 km"}),
            _yes("title", "b", {"construction_start": "1971-05", "opened": "1974-10-17"}),
            _no("date", "b", {"opened": "1971-05"}, note="other role"),
            _no("year", "b", {"opened": "1947-10-17"}),
            _yes("honorific", "b", {"opened_by": "Alfons Kreuzer"}),
            _yes("fraction", "c", {"truck_share": 0.2, "daily_vehicles": 58000}),
            _no("number", "c", {"truck_share": 0.5, "daily_vehicles": 58000}),
            _no("negation", "d", {"repair_possible": True}),
            _yes("title", "d", {"repair_possible": False, "closed_to_heavy_trucks_since": "2021-12"}),
            _no("date", "d", {"closed_to_heavy_trucks_since": "2021-11"}),
            _yes("range", "e", {"replacement_cost": "180 to 220 million euros"}, aliases=("Ersatzneubau",)),
            _no("number", "e", {"replacement_cost_eur": 200_000_000}, aliases=("Ersatzneubau",), note="middle of the range"),
            _yes("list", "f", {"contractors": ["Gebr. Ostertag KG", "Alpbau AG"]}),
            _no("name", "f", {"contractors": ["Gebr. Osterkamp KG", "Alpbau AG"]}),
            _no("invented", "f", {"contract_value_eur": 204_000_000}),
        ),
    ),
    Story(
        "de", "Kantonalbank Rigi: Halbjahresbericht", """
# Auf einen Blick
a: Die Kantonalbank Rigi erzielte im ersten Halbjahr 2025 einen Reingewinn von CHF 128,4 Mio. (+6,1 %).
b: Die Kundeneinlagen nahmen um CHF 1'250 Mio. auf CHF 31,7 Mrd. zu.
c: Per 30. Juni 2025 zählte die Bank 1'412 Mitarbeitende in 38 Filialen.
d: Präsident des Bankrats ist seit dem 1.4.2023 Beat Zurbriggen, lic. oec. HSG.
e: Eine Beteiligung an der Helvia Leasing AG wurde nicht erworben; die Gespräche wurden im Mai abgebrochen.
""", "Kantonalbank Rigi", "Company", (
            _yes("currency", "a", {"net_profit_chf": 128_400_000}),
            _no("currency", "a", {"net_profit_eur": 128_400_000}),
            _yes("percentage", "a", {"net_profit_growth_percent": 6.1}),
            _no("percentage", "a", {"net_profit_growth_percent": 61}, note="decimal point moved"),
            _yes("title", "b", {"customer_deposits_chf": 31_700_000_000}),
            _no("number", "b", {"customer_deposits_chf": 1_250_000_000}, note="other role"),
            _yes("digit grouping", "c", {"employees": 1412, "branches": 38}, aliases=("die Bank",)),
            _no("scale", "c", {"employees": 14_120}, aliases=("die Bank",)),
            _no("number", "c", {"branches": 1412}, aliases=("die Bank",), note="other role"),
            _yes("written date", "d", {"chair": "Beat Zurbriggen", "chair_since": "2023-04-01"}),
            _no("date", "d", {"chair": "Beat Zurbriggen", "chair_since": "2023-01-04"}, note="day and month swapped"),
            _no("name", "d", {"chair": "Beat Zurfluh"}),
            _no("negation", "e", {}, edge="owns_share_of > Helvia Leasing", target_aliases=("Helvia Leasing AG",)),
            _yes("title", "e", {"talks": "broken off in May"}, edge="negotiated_with > Helvia Leasing",
                 target_aliases=("Helvia Leasing AG",)),
        ),
    ),
    Story(
        "de", "Bahnausbau am Niederrhein kommt voran", """
a: Das dritte Gleis zwischen Emmerling und Wesenberg wird nach Angaben der Netzgesellschaft erst 2031 fertig.
b: Von den 73 Kilometern sind bislang 29 gebaut, die Hälfte der 47 Bahnübergänge ist beseitigt.
c: Zwölf Brücken müssen noch erneuert werden; kein einziger Tunnel ist nötig.
d: Der Kölner Planer Theo Mirbach rechnet mit Gesamtkosten von 2.300 Millionen Euro.
e: In der Nacht zum 1. März wird die Strecke für 54 Stunden voll gesperrt, Ersatzbusse fahren ab Bahnsteig 12.
""", "drittes Gleis Emmerling–Wesenberg", "RailwayLine", (
            _yes("several quotes", "ab", {"length_km": 73, "completion": 2031}, aliases=("dritte Gleis",)),
            _no("number", "ab", {"length_km": 29}, aliases=("dritte Gleis",), note="other role"),
            _no("year", "ab", {"length_km": 73, "completion": 2013}, aliases=("dritte Gleis",)),
            _yes("fraction", "ab", {"level_crossings_removed": "half of 47"}, aliases=("dritte Gleis",)),
            _no("number", "ab", {"level_crossings_removed": "a third of 47"}, aliases=("dritte Gleis",)),
            _yes("number word", "ac", {"bridges_to_renew": 12, "tunnels": 0}, aliases=("dritte Gleis",)),
            _no("negation", "ac", {"needs_tunnel": True}, aliases=("dritte Gleis",)),
            _yes("scale word", "ad", {"cost_eur": 2_300_000_000}, aliases=("dritte Gleis",)),
            _no("scale", "ad", {"cost_eur": 2_300_000}, aliases=("dritte Gleis",)),
            _yes("exonym", "d", {"city": "Cologne", "profession": "planner"}, subject="Theo Mirbach"),
            _no("name", "d", {"city": "Koblenz", "profession": "planner"}, subject="Theo Mirbach"),
            _yes("written date", "ae", {"closure_start": "March 1", "closure_hours": 54}, aliases=("dritte Gleis",)),
            _no("number", "ae", {"closure_hours": 12}, aliases=("dritte Gleis",), note="other role"),
        ),
    ),
)  # fmt: skip

_FRENCH_STORIES: Final = (
    Story(
        "fr", "Aciéries de la Fensch : résultats annuels 2024", """
a: Le groupe Aciéries de la Fensch a publié mercredi un chiffre d'affaires de 3,47 milliards d'euros, en repli de 2,8 %.
b: Le résultat net part du groupe s'établit à 61,2 M€, contre une perte de 14,9 M€ en 2023.
c: L'endettement net a été ramené de 1,1 Md€ à 865 millions d'euros.
d: Le dividende proposé, 0,85 € par action, sera soumis au vote des actionnaires le 1er juin 2025.
# Production
e: Les trois hauts-fourneaux ont produit 4,15 millions de tonnes d'acier, soit 12 024 tonnes par jour en moyenne.
f: La filière électrique, inexistante en 2019, représente désormais près d'un tiers des volumes.
g: L'usine de Maizerolles n'a pas redémarré en 2024 et ne redémarrera pas avant le second semestre 2026.
# Gouvernance
h: Mme Sylvie Aubertin, ingénieure des Mines, a succédé le 15 janvier à M. Patrick Weiss à la direction générale.
i: L'État détient 15,3 % du capital, la famille Weiss 28 % et le norvégien Norsk Malm ASA un peu plus de 5 %.
""", "Aciéries de la Fensch", "Company", (
            _yes("scale word", "a", {"revenue_eur": 3_470_000_000}),
            _no("scale", "a", {"revenue_eur": 34_700_000_000}),
            _yes("sign", "a", {"revenue_change_percent": -2.8}),
            _no("percentage", "a", {"revenue_change_percent": 2.8}, note="sign lost"),
            _yes("currency", "b", {"net_income_eur": 61_200_000}),
            _no("number", "b", {"net_income_eur": 14_900_000}, note="other role"),
            _yes("sign", "b", {"net_income_2023_eur": -14_900_000}),
            _no("currency", "b", {"net_income_usd": 61_200_000}),
            _yes("title", "c", {"net_debt_eur": 865_000_000}),
            _no("number", "c", {"net_debt_eur": 1_100_000_000}, note="other role"),
            _yes("written date", "d", {"dividend_per_share_eur": 0.85, "shareholder_vote": "2025-06-01"}),
            _no("date", "d", {"dividend_per_share_eur": 0.85, "shareholder_vote": "2025-07-01"}),
            _yes("digit grouping", "e", {"daily_output_tonnes": 12024, "blast_furnaces": 3}),
            _no("year", "e", {"production_year": 2024}, note="other role", part="soit 12 024 tonnes par jour en moyenne"),
            _yes("scale word", "e", {"annual_output_tonnes": 4_150_000}),
            _no("unit", "e", {"annual_output": "4.15 million kilograms"}),
            _no("number", "f", {"electric_share": 0.5}),
            _yes("title", "g", {"maizerolles_restarted": False}),
            _no("negation", "g", {"summary": "The Maizerolles plant restarted in 2024."}),
            _yes("honorific", "h", {"ceo": "Sylvie Aubertin"}),
            _no("name", "h", {"ceo": "Patrick Weiss"}, note="other role"),
            _yes("percentage", "i", {"share_percent": 15.3}, edge="owns_share_of > Aciéries de la Fensch", subject="État"),
            _no("percentage", "i", {"share_percent": 28}, edge="owns_share_of > Aciéries de la Fensch", subject="État",
                note="other role"),
            _yes("legal form", "i", {}, edge="owns_share_of > Aciéries de la Fensch", subject="Norsk Malm"),
            _no("percentage", "i", {"share_percent": 15.3}, edge="owns_share_of > Aciéries de la Fensch",
                subject="Norsk Malm", note="other role"),
        ),
    ),
    Story(
        "fr", "Saint-Évroult-le-Haut", """
a: Saint-Évroult-le-Haut est une commune française de 1 867 habitants (recensement de 2021), située à 412 m d'altitude.
b: Elle s'étend sur 23,6 km², dont un peu plus de la moitié est couverte de forêts.
# Histoire
c: L'abbaye, fondée en 1126 par l'évêque Guilhem de Mauriac, fut incendiée le 3 août 1562 puis rebâtie entre 1611 et 1640.
d: Le viaduc de la Sioule, long de 395 mètres, n'a été achevé qu'en 1884, deux ans après le chemin de fer.
# Économie
e: La fromagerie Vergnaud, premier employeur avec 140 salariés, transforme chaque année 18 millions de litres de lait.
f: Depuis 2018 la commune abrite un parc de six éoliennes d'une puissance totale de 14,1 MW.
g: Le musée de la Coutellerie a accueilli 23 450 visiteurs en 2019 mais seulement 9 800 l'année suivante.
""", "Saint-Évroult-le-Haut", "Town", (
            _yes("digit grouping", "a", {"population": 1867, "elevation_m": 412}),
            _no("number", "a", {"population": 2021}, note="other role"),
            _no("number", "a", {"population": 1876, "elevation_m": 412}),
            _yes("accent", "a", {"population": 1867}, subject="Saint-Evroult-le-Haut"),
            _no("subject", "a", {"population": 1867}, subject="Saint-Évroult-le-Bas"),
            _yes("title", "b", {"area_km2": 23.6}),
            _no("unit", "b", {"area_ha": 23.6}),
            _yes("same text", "c", {"founded": 1126, "destroyed": "1562-08-03"}, subject="abbaye de Saint-Évroult",
                 aliases=("L'abbaye",)),
            _no("year", "c", {"founded": 1611}, subject="abbaye de Saint-Évroult", aliases=("L'abbaye",), note="other role"),
            _no("name", "c", {"founder": "Guillaume de Mauriac"}, subject="abbaye de Saint-Évroult", aliases=("L'abbaye",)),
            _yes("unit word", "d", {"length_m": 395, "completed": 1884}, subject="viaduc de la Sioule"),
            _no("year", "d", {"completed": 1882}, subject="viaduc de la Sioule"),
            _no("unit", "d", {"length_km": 395}, subject="viaduc de la Sioule"),
            _yes("scale word", "e", {"employees": 140, "milk_litres_per_year": 18_000_000}, subject="fromagerie Vergnaud"),
            _no("number", "e", {"employees": 18}, subject="fromagerie Vergnaud", note="other role"),
            _yes("number word", "f", {"wind_turbines": 6, "wind_capacity": "14.1 MW", "wind_farm_since": 2018}),
            _no("number", "f", {"wind_turbines": 16, "wind_capacity": "14.1 MW"}),
            _yes("same text", "g", {"visitors_2019": 23450}, subject="musée de la Coutellerie"),
            _no("number", "g", {"visitors_2019": 9800}, subject="musée de la Coutellerie", note="other role"),
            _no("year", "g", {"summary": "En 2018, le musée de la Coutellerie a reçu 23 450 visiteurs."},
                subject="musée de la Coutellerie"),
            _yes("free text", "g", {"summary": "En 2019, le musée de la Coutellerie a reçu 23 450 visiteurs."},
                 subject="musée de la Coutellerie"),
        ),
    ),
    Story(
        "fr", "Levée de fonds record pour Hydralune", """
a: La start-up grenobloise Hydralune a annoncé jeudi avoir levé 120 millions de dollars auprès d'un consortium mené par
  Alba Capital.
b: « Nous passerons de 85 à 240 salariés d'ici fin 2026 », précise sa cofondatrice et présidente, Inès Kaddour.
c: L'entreprise conçoit des électrolyseurs de 5 MW ; elle n'a encore livré aucun exemplaire commercial.
d: Créée en 2019 par deux anciens chercheurs du CEA, elle avait déjà réuni 18 M€ en mars 2022.
e: Son concurrent belge Waterstof NV emploie, lui, 900 personnes et vise 1,5 GW de production annuelle.
""", "Hydralune", "Company", (
            _yes("scale word", "a", {"funding_usd": 120_000_000, "lead_investor": "Alba Capital"}),
            _no("currency", "a", {"funding_eur": 120_000_000, "lead_investor": "Alba Capital"}),
            _no("name", "a", {"lead_investor": "Alma Capital"}),
            _yes("same text", "a", {}, edge="invests_in > Hydralune", subject="Alba Capital"),
            _no("edge_end", "a", {}, edge="invests_in > Waterstof", subject="Alba Capital"),
            _yes("title", "b", {"employees": 85, "planned_employees": 240}),
            _no("number", "b", {"employees": 240}, note="other role"),
            _yes("title", "b", {"co_founder": "Inès Kaddour"}),
            _no("name", "b", {"co_founder": "Inès Haddour"}),
            _yes("title", "c", {"electrolyser_power_mw": 5, "commercial_deliveries": False}),
            _no("negation", "c", {"commercial_deliveries": True}),
            _yes("title", "d", {"founded": 2019, "previous_round_eur": 18_000_000}),
            _no("year", "d", {"founded": 2022}, note="other role"),
            _no("subject", "e", {"employees": 900}, note="other role"),
            _yes("unit scale", "e", {"target_output_mw": 1500}, subject="Waterstof NV"),
            _no("scale", "e", {"target_output_mw": 150}, subject="Waterstof NV"),
            _no("invented", "a", {"valuation_usd": 640_000_000}),
            _yes("adjective", "a", {"headquarters": "Grenoble"}),
        ),
    ),
    Story(
        "fr", "Canicule : le point ville par ville", """
# Montfaucon
a: Il a fait 42,6 °C mercredi, du jamais-vu depuis l'ouverture de la station en 1921 ; le précédent record était de 41,3 °C.
# Port-Cazeau
b: La température n'est pas descendue sous 27,8 degrés dans la nuit de mercredi à jeudi.
c: Huit personnes ont été hospitalisées, aucune n'est décédée.
# Val-d'Esquières
d: Le mercure est resté négatif au sommet : −1,5 °C à 6 h, à 3 842 m.
""", "Montfaucon", "Town", (
            _yes("heading", "a", {"record_temperature_c": 42.6}),
            _no("number", "a", {"record_temperature_c": 41.3}, note="other role"),
            _no("unit", "a", {"record_temperature": "42.6 °F"}),
            _no("subject", "b", {"lowest_night_temperature_c": 27.8}),
            _yes("heading", "b", {"lowest_night_temperature_c": 27.8}, subject="Port-Cazeau"),
            _yes("number word", "c", {"hospitalized": 8, "deaths": 0}, subject="Port-Cazeau"),
            _no("negation", "c", {"summary": "À Port-Cazeau, une personne hospitalisée est décédée."},
                subject="Port-Cazeau"),
            _yes("sign", "d", {"summit_temperature_c": -1.5}, subject="Val-d'Esquières"),
            _no("number", "d", {"summit_temperature_c": 1.5}, subject="Val-d'Esquières", note="sign lost"),
            _no("number", "d", {"summit_elevation_m": 3482}, subject="Val-d'Esquières"),
        ),
    ),
)  # fmt: skip

_SPANISH_STORIES: Final = (
    Story(
        "es", "Aceites Sierra Alhama, el gigante discreto del olivar", """
a: Aceites Sierra Alhama cerró la campaña 2023-2024 con unas ventas de 1.236 millones de euros, un 18,2 % más.
b: La cooperativa jiennense agrupa a 27.450 familias olivareras repartidas en 96 municipios.
c: Molturó 412.000 toneladas de aceituna, de las que obtuvo 84.300 toneladas de aceite.
d: El precio en origen, que llegó a rozar los 9 euros por kilo en enero, cayó hasta los 4,15 euros en octubre.
# Expansión
e: En marzo compró por 63 M€ la italiana Frantoio Belcolle S.p.A., que factura unos 110 millones al año.
f: Su presidente, don Anselmo Torrijos, no descarta salir a bolsa, aunque «no será antes de 2028».
g: Estados Unidos absorbe ya el 34 % de las exportaciones, por delante de Italia (21 %) y Francia (9 %).
h: La nueva envasadora de Antequera, con capacidad para 2.024 botellas por minuto, arrancará en el segundo trimestre de 2026.
""", "Aceites Sierra Alhama", "Company", (
            _yes("scale word", "a", {"revenue_eur": 1_236_000_000, "season": "2023-2024"}),
            _no("scale", "a", {"revenue_eur": 1_236_000, "season": "2023-2024"}),
            _yes("scale word", "a", {"revenue": "1.236 billion euros"}),
            _no("scale", "a", {"revenue": "1,236 billion euros"}),
            _yes("percentage", "a", {"revenue_growth_percent": 18.2}),
            _no("percentage", "a", {"revenue_growth_percent": 12.8}),
            _yes("title", "b", {"member_families": 27450, "municipalities": 96}),
            _no("scale", "b", {"member_families": 27.45}, note="grouping read as decimals"),
            _yes("title", "c", {"oil_tonnes": 84300}),
            _no("number", "c", {"oil_tonnes": 412000}, note="other role"),
            _no("unit", "c", {"oil_kg": 84300}),
            _yes("unit scale", "c", {"oil_kg": 84_300_000}),
            _yes("several quotes", "cd", {"producer_price_october_eur_per_kg": 4.15}, subject="aceite"),
            _no("number", "cd", {"producer_price_october_eur_per_kg": 9}, subject="aceite", note="other role"),
            _yes("legal form", "e", {"price_eur": 63_000_000}, edge="acquires > Frantoio Belcolle"),
            _no("number", "e", {"price_eur": 110_000_000}, edge="acquires > Frantoio Belcolle", note="other role"),
            _no("edge_end", "e", {"price_eur": 63_000_000}, edge="acquires > Oleificio Marini"),
            _yes("honorific", "f", {"chairman": "Anselmo Torrijos"}),
            _no("name", "f", {"chairman": "Anselmo Torrejón"}),
            _no("year", "f", {"earliest_listing": 2025}),
            _yes("percentage", "g", {"share_of_exports_percent": 34}, edge="exports_to > Estados Unidos"),
            _no("percentage", "g", {"share_of_exports_percent": 21}, edge="exports_to > Estados Unidos", note="other role"),
            _yes("exonym", "g", {"share_of_exports_percent": 34}, edge="exports_to > United States"),
            _no("edge_end", "g", {"share_of_exports_percent": 9}, edge="exports_to > Portugal"),
            _yes("quarter", "h", {"start": "2026-Q2", "bottles_per_minute": 2024}, subject="envasadora de Antequera"),
            _no("year", "h", {"start": "2024"}, subject="envasadora de Antequera", note="other role"),
        ),
    ),
    Story(
        "es", "Presa de Valdehierro", """
a: La presa de Valdehierro es una presa de gravedad de 98 metros de altura situada en el río Nabia.
b: Su embalse, de 1.140 hectáreas, puede almacenar 317 hectómetros cúbicos de agua.
c: Las obras comenzaron el 2 de febrero de 1956 y fue inaugurada el 25 de julio de 1963 por el ministro Jorge Vigón Landa.
d: El pueblo de Castrillo Viejo, con 43 casas y una iglesia del siglo XII, quedó bajo las aguas.
# Central hidroeléctrica
e: Cuatro turbinas Francis suman 212 MW; en 2022, año de sequía, generaron solo 148 GWh, menos de la mitad de lo habitual.
f: La concesión de Hidroeléctrica del Nabia, S.A. vence el 31/12/2036 y no es prorrogable.
""", "presa de Valdehierro", "Dam", (
            _yes("unit word", "a", {"height_m": 98, "river": "Nabia"}),
            _no("unit", "a", {"height_ft": 98, "river": "Nabia"}),
            _no("name", "a", {"river": "Navia"}),
            _yes("title", "b", {"reservoir_area_ha": 1140, "reservoir_volume": "317 hm³"}),
            _no("number", "b", {"reservoir_area_ha": 317}, note="other role"),
            _no("scale", "b", {"reservoir_area_ha": 1.14}, note="grouping read as decimals"),
            _yes("title", "c", {"construction_start": "1956-02-02", "inaugurated": "1963-07-25"}),
            _no("date", "c", {"inaugurated": "1956-02-02"}, note="other role"),
            _yes("honorific", "c", {"inaugurated_by": "Jorge Vigón Landa"}),
            _no("year", "c", {"inaugurated": "1936-07-25"}),
            _no("invented", "c", {"engineer": "Ramiro Echegaray"}),
            _yes("title", "d", {"submerged_village": "Castrillo Viejo", "submerged_houses": 43}),
            _no("name", "d", {"submerged_village": "Castrillo Nuevo", "submerged_houses": 43}),
            _yes("number word", "e", {"turbines": 4, "capacity_mw": 212, "generation_2022_gwh": 148}),
            _no("number", "e", {"turbines": 4, "capacity_mw": 148}, note="other role"),
            _no("unit", "e", {"generation_2022_mwh": 148}),
            _yes("written date", "f", {"expires": "2036-12-31", "extendable": False},
                 edge="concession_of > presa de Valdehierro",
                 subject="Hidroeléctrica del Nabia"),
            _no("negation", "f", {"expires": "2036-12-31", "extendable": True}, edge="concession_of > presa de Valdehierro",
                subject="Hidroeléctrica del Nabia"),
            _no("edge_end", "f", {"expires": "2036-12-31"}, edge="concession_of > presa de Riomayor",
                subject="Hidroeléctrica del Nabia"),
        ),
    ),
    Story(
        "es", "Minera Quillagua eleva su previsión de cobre", """
a: SANTIAGO.- Minera Quillagua (QLG) elevó este lunes su guía de producción para 2025 a entre 310 mil y 330 mil toneladas.
b: En el tercer trimestre produjo 81.250 toneladas de cobre fino, 6,4% más que en igual período de 2024.
c: El costo directo bajó de US$ 2,11 a US$ 1,94 por libra.
d: La utilidad alcanzó los US$ 214 millones y el Ebitda, los US$ 402 millones; la deuda neta es de 1,3 veces el Ebitda.
e: La gerenta general, Carolina Undurraga Pérez, dijo que la huelga de 17 días «no afectó los embarques».
f: El gobierno regional no ha aprobado todavía la planta desaladora, cuya inversión asciende a 1.050 millones de dólares.
""", "Minera Quillagua", "Company", (
            _yes("range", "a", {"guidance_min_tonnes": 310_000, "guidance_max_tonnes": 330_000}),
            _no("number", "a", {"guidance_min_tonnes": 310_000, "guidance_max_tonnes": 350_000}),
            _yes("range", "a", {"guidance": "310,000 to 330,000 tonnes"}, subject="Quillagua", aliases=("QLG",)),
            _yes("title", "b", {"quarterly_output_tonnes": 81250, "output_growth_percent": 6.4}),
            _no("number", "b", {"quarterly_output_tonnes": 82150, "output_growth_percent": 6.4}),
            _no("year", "b", {"quarter": "2024-Q3"}, note="other role"),
            _yes("title", "c", {"cash_cost_usd_per_pound": 1.94}),
            _no("number", "c", {"cash_cost_usd_per_pound": 2.11}, note="other role"),
            _no("unit", "c", {"cash_cost_usd_per_kg": 1.94}),
            _yes("title", "d", {"net_income_usd": 214_000_000, "ebitda_usd": 402_000_000}),
            _no("number", "d", {"net_income_usd": 402_000_000}, note="other role"),
            _no("currency", "d", {"net_income_clp": 214_000_000}),
            _yes("title", "e", {"general_manager": "Carolina Undurraga", "strike_days": 17}),
            _no("negation", "e", {"summary": "Una huelga de 17 días afectó los embarques de Minera Quillagua."}),
            _yes("title", "f", {"desalination_plant_approved": False}),
            _no("negation", "f", {"desalination_plant_approved": True}),
            _no("scale", "f", {"desalination_investment_usd": 1_050_000}),
            _yes("scale word", "f", {"desalination_investment_usd": 1_050_000_000}),
        ),
    ),
)  # fmt: skip

_ITALIAN_STORIES: Final = (
    Story(
        "it", "Cantieri Navali Altieri, ordini per quasi quattro miliardi", """
a: Cantieri Navali Altieri chiude il primo semestre 2025 con ricavi per 1,84 miliardi di euro (+11,3%).
b: Il portafoglio ordini vale 3,96 mld: 14 navi, di cui nove da crociera, con consegne fino al 2031.
c: L'utile netto si attesta a 47,5 milioni, mentre l'anno scorso il semestre si era chiuso in rosso per 9,2 milioni.
d: Nei sette stabilimenti lavorano 11.280 persone; altre 20.000 circa sono impiegate nell'indotto.
# La nuova ammiraglia
e: La «Stella Adriatica», varata sabato 8 marzo 2025 a Monfaldo, è lunga 344 metri e può ospitare 6.730 passeggeri.
f: Il costo della nave, che sarà consegnata alla compagnia norvegese Fjordlinje AS nel mese di novembre,
  sfiora il miliardo di dollari.
g: «Non ci saranno esuberi», assicura l'amministratore delegato Ludovico Prandi, in carica dal 2022.
h: La società non è quotata: l'82% è della famiglia Altieri e il restante 18% del fondo Tergeste.
""", "Cantieri Navali Altieri", "Company", (
            _yes("scale word", "a", {"revenue_eur": 1_840_000_000}),
            _no("scale", "a", {"revenue_eur": 1_840_000}),
            _yes("percentage", "a", {"revenue_growth": "11.3%"}),
            _no("percentage", "a", {"revenue_growth": "11.3 percentage points"}),
            _yes("scale word", "ab", {"order_backlog_eur": 3_960_000_000, "ships_on_order": 14}),
            _no("number", "ab", {"order_backlog_eur": 3_960_000_000, "ships_on_order": 9}, note="other role"),
            _yes("number word", "b", {"cruise_ships_on_order": 9, "last_delivery": 2031}),
            _no("year", "b", {"cruise_ships_on_order": 9, "last_delivery": 2013}),
            _yes("several quotes", "ac", {"net_income_eur": 47_500_000}),
            _no("number", "ac", {"net_income_eur": 9_200_000}, note="other role"),
            _yes("title", "d", {"employees": 11280, "plants": 7}),
            _no("number", "d", {"employees": 20000}, note="other role"),
            _yes("written date", "e", {"launched": "2025-03-08", "length_m": 344}, subject="Stella Adriatica"),
            _no("date", "e", {"launched": "2025-08-03", "length_m": 344}, subject="Stella Adriatica",
                note="day and month swapped"),
            _no("unit", "e", {"length": "344 feet"}, subject="Stella Adriatica"),
            _yes("digit grouping", "e", {"passengers": 6730}, subject="Stella Adriatica"),
            _no("scale", "e", {"passengers": 67_300}, subject="Stella Adriatica"),
            _yes("several quotes", "ef", {"delivery": "November"}, edge="delivered_to > Fjordlinje",
                 subject="Stella Adriatica"),
            _no("edge_end", "ef", {"delivery": "November"}, edge="delivered_to > Nordlys Cruises",
                subject="Stella Adriatica"),
            _no("date", "ef", {"delivery": "September"}, edge="delivered_to > Fjordlinje", subject="Stella Adriatica"),
            _yes("title", "g", {"ceo": "Ludovico Prandi", "ceo_since": 2022, "layoffs_planned": False}),
            _no("name", "g", {"ceo": "Lodovico Grandi", "ceo_since": 2022}),
            _no("negation", "g", {"layoffs_planned": True}),
            _yes("title", "h", {"listed": False}),
            _no("negation", "h", {"listed": True}),
            _yes("percentage", "h", {"share": 0.18}, edge="owns_share_of > Cantieri Navali Altieri", subject="Tergeste"),
            _no("percentage", "h", {"share": 0.82}, edge="owns_share_of > Cantieri Navali Altieri", subject="Tergeste",
                note="other role"),
        ),
    ),
    Story(
        "it", "Rocca di Ventimonte", """
a: Rocca di Ventimonte è un comune italiano di 4.812 abitanti della provincia di Arsenia, a 623 m s.l.m.
b: Il castello, edificato nel 1284 da Guidone degli Alberti, fu danneggiato dal terremoto del 14 gennaio 1703.
c: Il territorio comunale, di 58,37 chilometri quadrati, comprende le frazioni di Pieve Alta, Colle Rosso e Fontegelata.
# Economia
d: Un terzo degli occupati lavora nella ceramica; il 45% nei servizi.
e: La cooperativa Terra Buona produce 2,3 milioni di bottiglie di vino l'anno, il 60 per cento delle quali
  destinato all'estero.
f: Dal 1º luglio 2023 il comune non applica più l'imposta di soggiorno.
# Amministrazione
g: Sindaca dal 27 maggio 2019 è l'avv. Benedetta Scarpelli, rieletta nel 2024 con il 61,8% dei voti.
""", "Rocca di Ventimonte", "Town", (
            _yes("digit grouping", "a", {"population": 4812, "elevation_m": 623, "province": "Arsenia"}),
            _no("scale", "a", {"population": 4.812}, note="grouping read as decimals"),
            _no("name", "a", {"province": "Arsiero"}),
            _yes("title", "b", {"castle_built": 1284, "earthquake": "1703-01-14"}),
            _no("year", "b", {"castle_built": 1703}, note="other role"),
            _no("date", "b", {"earthquake": "1703-06-14"}),
            _yes("list", "c", {"districts": ["Pieve Alta", "Colle Rosso", "Fontegelata"], "area_km2": 58.37}),
            _no("name", "c", {"districts": ["Pieve Alta", "Colle Nero", "Fontegelata"]}),
            _no("unit", "c", {"area_sq_miles": 58.37}),
            _yes("fraction", "d", {"ceramics_employment_share": "a third", "services_employment_percent": 45}),
            _no("number", "d", {"ceramics_employment_share": 0.45}, note="other role"),
            _yes("scale word", "e", {"bottles_per_year": 2_300_000, "export_share": 0.6}, subject="Terra Buona"),
            _no("scale", "e", {"bottles_per_year": 2_300, "export_share": 0.6}, subject="Terra Buona"),
            _no("percentage", "e", {"bottles_per_year": 2_300_000, "export_share": 0.06}, subject="Terra Buona",
                note="decimal point moved"),
            _yes("title", "f", {"tourist_tax": False, "tourist_tax_ended": "2023-07-01"}),
            _no("negation", "f", {"tourist_tax": True}),
            _yes("honorific", "g", {"mayor": "Benedetta Scarpelli", "mayor_since": "2019-05-27"}),
            _no("date", "g", {"mayor": "Benedetta Scarpelli", "mayor_since": "2024-05-27"}, note="other role"),
            _no("name", "g", {"mayor": "Benedetta Scarpellini", "mayor_since": "2019-05-27"}),
            _yes("percentage", "g", {"summary": "Mayor Benedetta Scarpelli was re-elected in 2024 with 61.8% of the vote."}),
            _no("percentage", "g", {"summary": "Mayor Benedetta Scarpelli was re-elected in 2024 with 68.1% of the vote."}),
        ),
    ),
    Story(
        "it", "Energia, via libera al parco eolico «Capo Sereno»", """
a: Il ministero ha autorizzato il parco eolico in mare Capo Sereno: 38 turbine per una potenza di 570 MW.
b: L'investimento, stimato in 1.650 milioni di euro, è a carico della joint venture fra Elettra Rinnovabili S.p.A. e
  la danese Havkraft.
c: A regime l'impianto fornirà 1,9 TWh l'anno, quanto basta per 700 mila famiglie.
d: I lavori non sono ancora iniziati; la posa della prima fondazione è prevista a metà 2027.
e: Le turbine, alte 262 metri, sorgeranno ad almeno 30 chilometri dalla costa, su fondali fra i 90 e i 120 metri.
""", "Capo Sereno", "WindFarm", (
            _yes("same text", "a", {"turbines": 38, "capacity": "570 MW"}),
            _no("number", "a", {"turbines": 570}, note="other role"),
            _yes("unit scale", "a", {"capacity_gw": 0.57}),
            _no("scale", "a", {"capacity_gw": 5.7}),
            _yes("scale word", "b", {"cost_eur": 1_650_000_000}),
            _no("scale", "b", {"cost_eur": 1_650_000}),
            _yes("legal form", "b", {"owners": ["Elettra Rinnovabili", "Havkraft"]}),
            _no("name", "b", {"owners": ["Elettra Rinnovabili", "Nordkraft"]}),
            _yes("unit scale", "c", {"annual_generation_gwh": 1900, "households": 700_000}),
            _no("unit", "c", {"annual_generation_gwh": 1.9}),
            _no("scale", "c", {"annual_generation_twh": 1.9, "households": 7_000}),
            _yes("title", "d", {"construction_started": False}),
            _no("negation", "d", {"summary": "I lavori per il parco Capo Sereno sono già iniziati."}),
            _no("year", "d", {"first_foundation": "mid-2025"}),
            _yes("title", "d", {"first_foundation": "mid-2027"}),
            _yes("range", "e", {"water_depth_min_m": 90, "water_depth_max_m": 120, "turbine_height_m": 262}),
            _no("number", "e", {"turbine_height_m": 120}, note="other role"),
            _no("unit", "e", {"distance_from_coast": "30 miles"}),
        ),
    ),
)  # fmt: skip

_SHORT_STORIES: Final = (
    Story(
        "en", "Kiln & Copper Ltd - product news, 2024-11-18", """
a: Kiln & Copper makes induction hobs, kettles and ovens at its works in Stoke, using steel from three suppliers.
b: Model KC-2025 draws 2,025 W at most and weighs nine and a half kilos.
c: Call 0800 555 1987 to order; deliveries start on 02 December 2024.
d: A quarter of the hobs sold last year went to Ireland; fewer than one in ten went to mainland Europe.
e: The firm was bought by Swiss investor Rütli Partners AG on 2022-06-30, when sales stood at £9,999,500.
f: Its warranty was doubled to ten years, and returns fell from 4.4% to 1.9%.
""", "Kiln & Copper", "Company", (
            _yes("plural", "a", {"products": ["induction hob", "kettle", "oven"], "suppliers": 3}),
            _no("name", "a", {"products": ["induction hob", "kettle", "toaster"], "suppliers": 3}),
            _yes("identifier", "b", {"max_power_w": 2025, "weight_kg": 9.5}, subject="KC-2025"),
            _no("unit", "b", {"max_power_kw": 2025}, subject="KC-2025"),
            _no("year", "b", {"launched": 2025}, subject="KC-2025", note="other role"),
            _no("year", "c", {"founded": 1987}, note="other role"),
            _yes("written date", "c", {"deliveries_start": "2024-12-02", "phone": "0800 555 1987"}),
            _no("date", "c", {"deliveries_start": "2024-11-18"}, note="other role"),
            _yes("fraction", "d", {"share_of_hobs_sold_to_ireland": 0.25}),
            _no("number", "d", {"share_of_hobs_sold_to_ireland": 0.1}, note="other role"),
            _yes("accent", "e", {"since": "2022-06-30"}, edge="owned_by > Rutli Partners"),
            _no("edge_end", "e", {"since": "2022-06-30"}, edge="owned_by > Rigi Partners"),
            _yes("digit grouping", "e", {"sales_gbp": 9_999_500}),
            _no("number", "e", {"sales_gbp": 10_000_000}, note="rounded"),
            _yes("percentage", "f", {"warranty_years": 10, "return_rate": 0.019}),
            _no("percentage", "f", {"warranty_years": 10, "return_rate": 0.044}, note="other role"),
        ),
    ),
    Story(
        "de", "Stadtwerke Ahrensfelde: Fernwärme aus der Tiefe", """
a: Die Geothermieanlage der Stadtwerke Ahrensfelde fördert 94 Grad heißes Wasser aus 2.850 Metern Tiefe.
b: Betreiber ist die Tiefenwärme Ahrensfelde GmbH & Co. KG, an der die Stadtwerke zu 51 Prozent beteiligt sind.
c: Oberbürgermeister Frank-Uwe Kröger legte am Freitag, dem 7. Februar 2025, den Grundstein des Heizhauses.
d: Anderthalb Millionen Euro steuert das Land bei, zwei Drittel der Gesamtkosten trägt der Bund.
e: Angeschlossen werden zunächst drei Schulen, das Hallenbad und gut 2.000 Wohnungen, keine Betriebe.
f: Die CO₂-Emissionen der Stadt sinken dadurch um 8.400 t jährlich, das sind minus 11,5 %.
""", "Geothermieanlage Ahrensfelde", "PowerPlant", (
            _yes("title", "a", {"water_temperature_c": 94, "depth_m": 2850}, aliases=("Geothermieanlage",)),
            _no("scale", "a", {"water_temperature_c": 94, "depth_m": 2.85}, aliases=("Geothermieanlage",),
                note="grouping read as decimals"),
            _no("unit", "a", {"water_temperature_f": 94}, aliases=("Geothermieanlage",)),
            _yes("legal form", "b", {"share_percent": 51}, edge="owns_share_of > Tiefenwärme Ahrensfelde",
                 subject="Stadtwerke Ahrensfelde"),
            _no("percentage", "b", {"share_percent": 15}, edge="owns_share_of > Tiefenwärme Ahrensfelde",
                subject="Stadtwerke Ahrensfelde"),
            _yes("genitive", "c", {"laid": "2025-02-07"}, subject="Grundstein Heizhaus",
                 aliases=("Grundstein des Heizhauses",)),
            _no("date", "c", {"laid": "2025-07-02"}, subject="Grundstein Heizhaus", aliases=("Grundstein des Heizhauses",),
                note="day and month swapped"),
            _yes("honorific", "c", {"mayor": "Frank-Uwe Kröger"}, subject="Ahrensfelde"),
            _no("name", "c", {"mayor": "Frank-Uwe Krüger"}, subject="Ahrensfelde"),
            _yes("number word", "ad", {"state_grant_eur": 1_500_000}, aliases=("Geothermieanlage",)),
            _no("number", "ad", {"state_grant_eur": 2_500_000}, aliases=("Geothermieanlage",)),
            _yes("fraction", "ad", {"federal_share": "zwei Drittel"}, aliases=("Geothermieanlage",)),
            _no("number", "ad", {"federal_share": "ein Drittel"}, aliases=("Geothermieanlage",)),
            _no("negation", "ae", {"connected": ["Schulen", "Hallenbad", "Wohnungen", "Betriebe"]},
                aliases=("Geothermieanlage",)),
            _yes("plural", "ae", {"connected": ["Schule", "Hallenbad", "Wohnung"]}, aliases=("Geothermieanlage",)),
            _yes("sign", "f", {"co2_change_percent": -11.5, "co2_saving_tonnes": 8400}, subject="Ahrensfelde"),
            _no("percentage", "f", {"co2_change_percent": 11.5, "co2_saving_tonnes": 8400}, subject="Ahrensfelde",
                note="sign lost"),
        ),
    ),
    Story(
        "fr", "Tramway : la ligne C prend du retard", """
a: La ligne C du tramway de Rennemont, longue de 11,3 km et desservant dix-neuf stations, ouvrira le samedi 1er mars 2025.
b: Elle devait être inaugurée en septembre 2024, a rappelé Claire-Marie d'Estaing, vice-présidente chargée des transports.
c: Les rames, des Citéa 305 d'Alvestom, peuvent transporter deux cent dix voyageurs chacune.
d: Aucune indemnité ne sera versée aux commerçants, dont les ventes auraient baissé de 20 à 30 %.
e: Coût total : 412 millions d'euros, soit 36,5 M€ du kilomètre, financés à moitié par la métropole.
""", "ligne C", "RailwayLine", (
            _yes("title", "a", {"length_km": 11.3, "opening": "2025-03-01"}, aliases=("La ligne C",)),
            _no("date", "a", {"length_km": 11.3, "opening": "2025-05-01"}),
            _no("number", "a", {"length_km": 13.1, "opening": "2025-03-01"}),
            _yes("number word", "a", {"stations": 19}, subject="ligne C du tramway de Rennemont"),
            _no("number", "a", {"stations": 9}, subject="ligne C du tramway de Rennemont"),
            _no("date", "ab", {"opening": "2024-09"}, note="other role"),
            _yes("same text", "b", {"role": "vice-présidente chargée des transports"}, subject="Claire-Marie d'Estaing"),
            _no("name", "b", {"transport_chief": "Claire-Marie d'Estang"}),
            _yes("number word", "c", {"capacity_passengers": 210}, subject="Citéa 305", aliases=("Citea 305",)),
            _no("number", "c", {"capacity_passengers": 305}, subject="Citéa 305", note="other role"),
            _yes("same text", "c", {}, edge="made_by > Alvestom", subject="Citéa 305"),
            _no("edge_end", "c", {}, edge="made_by > Siemer", subject="Citéa 305"),
            _no("negation", "d", {"shopkeepers_compensated": True}),
            _yes("range", "d", {"sales_drop": "20 to 30%"}, subject="commerçants"),
            _no("percentage", "d", {"sales_drop": "20 to 50%"}, subject="commerçants"),
            _yes("title", "e", {"cost_eur": 412_000_000, "cost_per_km": "36.5 million euros"}),
            _no("number", "e", {"cost_eur": 36_500_000}, note="other role"),
            _yes("fraction", "e", {"share_of_cost": 0.5}, edge="funds > ligne C", subject="métropole"),
        ),
    ),
    Story(
        "es", "Astilleros Brétema firma el mayor contrato de su historia", """
a: Astilleros Brétema S.A. construirá seis patrulleras para la Armada de Caledia por 1,35 millardos de euros.
b: La primera, bautizada «Punta Lobeira», se entregará a finales de noviembre de 2027 y medirá 87,5 metros de eslora.
c: La plantilla pasará de mil doscientos a mil quinientos trabajadores, según la directora general, D.ª Uxía Castelao.
d: El contrato (exp. 2025/1187) no incluye el mantenimiento, que se licitará en 2029.
e: Cerca de dos tercios del valor de cada buque corresponden a proveedores gallegos.
f: Las acciones subieron un 7,9 % hasta 12,36 euros, tras perder medio punto porcentual la víspera.
""", "Astilleros Brétema", "Company", (
            _yes("legal form", "a", {"ships": 6, "value_eur": 1_350_000_000}, edge="builds_for > Armada de Caledia"),
            _no("scale", "a", {"ships": 6, "value_eur": 1_350_000}, edge="builds_for > Armada de Caledia"),
            _no("edge_end", "a", {"ships": 6}, edge="builds_for > Armada de Noria"),
            _yes("written date", "b", {"delivery": "2027-11", "length_m": 87.5}, subject="Punta Lobeira"),
            _no("date", "b", {"delivery": "2027-12", "length_m": 87.5}, subject="Punta Lobeira"),
            _no("unit", "b", {"length_ft": 87.5}, subject="Punta Lobeira"),
            _yes("number word", "c", {"employees": 1200, "planned_employees": 1500}),
            _no("number", "c", {"employees": 1500}, note="other role"),
            _yes("honorific", "c", {"general_manager": "Uxía Castelao"}),
            _no("name", "c", {"general_manager": "Uxía Castelló"}),
            _yes("identifier", "d", {"contract_number": "2025/1187", "includes_maintenance": False}),
            _no("negation", "d", {"contract_number": "2025/1187", "includes_maintenance": True}),
            _no("number", "d", {"contract_number": "2025/1178"}),
            _no("number", "d", {"employees": 1187}, note="other role"),
            _yes("fraction", "e", {"galician_supplier_share": 0.67}),
            _no("number", "e", {"galician_supplier_share": 0.33}),
            _yes("percentage", "f", {"share_price_change": "7.9%", "share_price": "12.36 euros"}),
            _no("percentage", "f", {"share_price_change": "0.5%", "share_price": "12.36 euros"}, note="other role"),
        ),
    ),
    Story(
        "it", "Banca del Lario: nominato il nuovo direttore generale", """
a: Il consiglio di Banca del Lario (BDL) ha nominato il dott. Ettore Quaglia direttore generale con decorrenza
  1º gennaio 2026.
b: Quaglia, 52 anni, arriva da Credito Insubre, dove guidava un centinaio di filiali.
c: Al 30/09/2025 gli impieghi ammontavano a € 7.842.500.000, la raccolta a 9,1 mld.
d: Il rapporto fra sofferenze e impieghi è sceso di mezzo punto, all'1,8%; nessuna svalutazione è stata necessaria.
e: Gli sportelli chiusi nel triennio sono 24 su 118, uno su cinque.
f: Sull'ipotesi di fusione con Banca Orobica «non c'è alcuna trattativa», ripete la presidente Mariella Fontana.
""", "Banca del Lario", "Company", (
            _yes("honorific", "a", {"general_manager": "Ettore Quaglia", "in_office_from": "2026-01-01"}),
            _no("name", "a", {"general_manager": "Ettore Quaglio", "in_office_from": "2026-01-01"}),
            _yes("alias", "a", {"general_manager": "Ettore Quaglia"}, subject="BDL S.p.A.", aliases=("BDL",)),
            _no("year", "a", {"in_office_from": "2025-01-01"}),
            _yes("several quotes", "ab", {"age": 52, "previous_employer": "Credito Insubre"}, subject="Ettore Quaglia"),
            _no("number", "ab", {"age": 100}, subject="Ettore Quaglia", note="other role"),
            _yes("currency", "ac", {"loans_eur": 7_842_500_000, "deposits": "9.1 billion"}),
            _no("scale", "ac", {"loans_eur": 7_842_500}),
            _yes("written date", "ac", {"loans": "7.8425 billion euros", "as_of": "2025-09-30"}),
            _no("currency", "ac", {"loans": "7.8425 billion Swiss francs", "as_of": "2025-09-30"}),
            _yes("title", "d", {"bad_loan_ratio_percent": 1.8, "write_downs": False}),
            _no("percentage", "d", {"bad_loan_ratio_percent": 0.5}, note="other role"),
            _no("negation", "d", {"write_downs": True}),
            _yes("title", "e", {"branches_closed": 24}),
            _no("number", "e", {"branches_closed": 118}, note="other role"),
            _no("negation", "f", {}, edge="negotiates_with > Banca Orobica"),
            _yes("plural", "e", {"summary": "In tre anni la banca ha chiuso 24 filiali."}, note="sportello, filiale"),
            _no("number", "e", {"summary": "In tre anni la banca ha chiuso 42 filiali."}),
            _yes("honorific", "f", {"chair": "Mariella Fontana"}),
            _no("name", "f", {"chair": "Mariella Fontanelli"}),
        ),
    ),
)  # fmt: skip


def _stories() -> Sequence[Story]:
    long_stories = (
        _ENGLISH_STORIES,
        _GERMAN_STORIES,
        _FRENCH_STORIES,
        _SPANISH_STORIES,
        _ITALIAN_STORIES,
    )
    return (*(story for stories in long_stories for story in stories), *_SHORT_STORIES)


def cases(seed: int = 1) -> list[EvidenceCase]:
    """All cases; equal seeds give equal cases. Written pages come first and do not depend on the seed."""
    found: list[tuple[str, EvidenceCase]] = [
        ("story", case) for story in _stories() for case in story.cases()
    ]
    for language in LANGUAGES:
        rng = Random(f"{seed} {language}")
        families = {
            "sentence": _sentence_pairs(rng, language, 2),
            "joint": _joint_pairs(rng, language, 6),
            "summary": _summary_pairs(rng, language, 8),
            "edge": _edge_pairs(rng, language, 2),
            "negation": _negation_cases(rng, language),
        }
        found += [(family, case) for family, made in families.items() for case in made]
    found += [("factbook", case) for case in _factbook_pairs(Random(f"{seed} factbook"), 30)]
    return _number(found)


def _number(found: Sequence[tuple[str, EvidenceCase]]) -> list[EvidenceCase]:
    """Give each case its id. Raises ValueError for two equal cases."""
    numbers: Counter[str] = Counter()
    seen: set[str] = set()
    numbered: list[EvidenceCase] = []
    for family, case in found:
        stem = f"{case.language}-{family}"
        numbers[stem] += 1
        content = repr(
            (
                case.title,
                case.quotes,
                case.subject,
                case.target,
                dict(case.properties),
                case.aliases,
            )
        )
        if content in seen:
            raise ValueError(f"Two equal cases: {content}")
        seen.add(content)
        numbered.append(replace(case, id=f"{stem}-{numbers[stem]:03}"))
    return numbered
