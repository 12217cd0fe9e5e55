"""Compares what an agent wrote into its graph with the World Factbook.

Only a property whose meaning is certain is compared: the property must be of a country, and its name must lead to a value of
the Factbook. Everything else is `not checkable`, which does not count against it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final
from unicodedata import normalize

from sandbox.corpus.factbook import Country, StatedFact
from shared.graph.grounding.figure_rules import is_same
from shared.graph.grounding.quantities import SHARE, Quantity, convert, find_quantities, hint_of
from shared.graph.grounding.words import lexicon

_GENERIC: Final = frozenset(
    (
        *("a", "an", "and", "as", "at", "by", "for", "from", "in", "is", "of", "on", "per", "the"),
        *("to", "amount", "data", "est", "estimate", "estimated", "figure", "level", "number"),
        *("quantity", "rate", "share", "unit", "us", "value", "annual", "current", "latest"),
        "yearly",
    )
)
"""Words of a property's name that carry no meaning of their own."""
_WEAK: Final = frozenset({"total", "name", "real", "country", "national"})
"""Words that a label may have in addition to the property's name without changing its meaning."""
_TEXTS: Final = frozenset({"quote", "summary", "description", "source", "url", "note", "title"})
"""Properties that describe a node or a page; they are not facts."""
_YEARS: Final = frozenset({"year", "date", "period", "as of", "asof", "reference year"})
_UNIT_KEYS: Final = ("unit", "units", "currency")
_ENGLISH: Final = lexicon("en")
_UNITS: Final = frozenset(
    (
        *("usd", "dollar", "dollars", "pct", "km2", "m3", "sq", "cu", "bcm", "bbl", "btu"),
        "person",
        *(
            word
            for phrase in (*_ENGLISH.units, *_ENGLISH.symbols, *_ENGLISH.scales)
            for word in re.split("[ /-]", phrase.lower())
            if len(word) > 1 and word not in _GENERIC
        ),
    )
)
"""Words of a property's name that say in which unit its value is."""
_STATED_YEAR: Final = re.compile(
    r"\(?\b(?:FY\s?)?((?:19|20)\d\d)(?:/\d\d)?\b(?:\s*est\.?)?\)?", re.IGNORECASE
)
_WITHIN_NUMBER: Final = re.compile(r"(?:\d[.,]|\$\s?)$")
_MAX_CHARS: Final = 5000
_THOUSANDS: Final = (-9, -6, -3, 3, 6, 9)
"""Powers of ten that a number without a unit may leave out."""
_SHORT_WORDS: Final = 4
_MIN_TEXT_CHARS: Final = 4


class Judgement(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    NOT_CHECKABLE = "not_checkable"


@dataclass(frozen=True)
class WrittenProperty:
    """One property of a node, or of an edge: then `about` is its type and `other` the node at its other end."""

    subject: str
    property: str
    value: Any
    about: str = ""
    other: str = ""
    siblings: Mapping[str, Any] | None = None
    """All properties of the same node or edge: a year or a unit may be a property of its own."""


@dataclass(frozen=True)
class _Labelled:
    fact: StatedFact
    words: frozenset[str]
    core: frozenset[str]
    """Without the text in brackets."""
    years: frozenset[int]


@dataclass(frozen=True)
class _Country:
    name: str
    facts: tuple[_Labelled, ...]


class FactCheck:
    """Built once from all countries."""

    def __init__(self, countries: Iterable[Country]) -> None:
        self._by_name: dict[str, _Country] = {}
        for country in countries:
            profile = _Country(country.names[0], tuple(map(_labelled, country.facts)))
            for name in country.names:
                self._by_name.setdefault(_plain(name), profile)
        names = sorted(self._by_name, key=len, reverse=True)
        self._in_text = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")

    def check(self, prop: WrittenProperty) -> tuple[Judgement, str | None]:
        """Compares the property with the Factbook.

        Also returns its statement, as `Ghana — Electricity, imports: 48.449 million kWh (2023 est.)`.
        """
        subject = self._subject(prop)
        if subject is None or not _is_fact(prop):
            return Judgement.NOT_CHECKABLE, None
        country, context, other_node = subject
        judgement, fact = _Claim(prop, country, context, other_node).judge()
        stated = f"{country.name} — {fact.path}: {fact.text}" if fact is not None else None
        return judgement, stated

    def _subject(self, prop: WrittenProperty) -> tuple[_Country, str, str] | None:
        """The country, the words of the property, and the other node of an edge."""
        ends = [(prop.subject, prop.other), (prop.other, prop.subject)] if prop.about else []
        for name, other_name in ends:
            if (country := self._by_name.get(_plain(name))) is not None:
                return country, prop.about, other_name
        if prop.about:
            return None
        if (country := self._by_name.get(_plain(prop.subject))) is not None:
            return country, "", ""
        name = _plain(prop.subject)
        countries = {
            id(self._by_name[match]): self._by_name[match] for match in self._in_text.findall(name)
        }
        if len(countries) != 1:
            return None
        return next(iter(countries.values())), self._in_text.sub(" ", name), ""


class _Claim:
    """One property of a country, and the facts of that country that its name leads to."""

    def __init__(
        self, prop: WrittenProperty, country: _Country, context: str, other_node: str
    ) -> None:
        self._property = prop
        self._other = _plain(other_node)
        self._text, self._amounts = _read_value(prop)
        subject = _words(country.name)
        key = _words(prop.property) - subject
        about = _words(context) - subject
        self._name_words = key | about
        candidates = _facts_with(country.facts, self._name_words)
        self._may_be_wrong = bool(candidates)
        if not candidates and key and about:
            candidates = _facts_with(country.facts, key)
        stated = _stated_years(self._property)
        of_year = [fact for fact in candidates if stated & fact.years]
        if stated and not of_year:
            self._may_be_wrong = False  # a year that the Factbook does not cover
        self._facts = of_year or candidates

    def judge(self) -> tuple[Judgement, StatedFact | None]:
        if isinstance(self._property.value, list):
            parts = [_plain(str(value)) for value in self._property.value]
            for fact in self._facts:
                stated = _plain(fact.fact.text)
                if parts and all(part and _holds(stated, part) for part in parts):
                    return Judgement.RIGHT, fact.fact
            return Judgement.NOT_CHECKABLE, None
        amounts = self._amounts
        if len(amounts) == 1:
            return self._judge_quantity(amounts[0])
        return self._judge_text(self._text)

    def _judge_quantity(self, claimed: Quantity) -> tuple[Judgement, StatedFact | None]:
        against: list[_Labelled] = []
        is_clear = bool(claimed.unit) or not _has_words(self._text)
        for fact in self._facts:
            stated = [
                amount
                for amount in quantities(self._segment(fact))
                if _is_comparable(claimed, amount)
            ]
            if any(_agrees(claimed, amount) for amount in stated):
                return Judgement.RIGHT, fact.fact
            if len(stated) == 1 and self._is_meant(fact) and not _lacks_unit(claimed, stated[0]):
                against.append(fact)
        if against and self._may_be_wrong and is_clear:
            return Judgement.WRONG, _nearest(against)
        return Judgement.NOT_CHECKABLE, None

    def _judge_text(self, text: str) -> tuple[Judgement, StatedFact | None]:
        plain = _plain(text)
        if not plain:
            return Judgement.NOT_CHECKABLE, None
        against: list[_Labelled] = []
        for fact in self._facts:
            stated = _plain(re.split(r"[;(]", fact.fact.text)[0])
            is_same = plain == stated and self._is_meant(fact)
            if is_same or (len(plain) >= _MIN_TEXT_CHARS and _holds(_plain(fact.fact.text), plain)):
                return Judgement.RIGHT, fact.fact
            if len(stated) >= _MIN_TEXT_CHARS and self._is_meant(fact) and _holds(plain, stated):
                return Judgement.RIGHT, fact.fact
            if self._is_meant(fact) and _is_short(stated) and _is_short(plain):
                against.append(fact)
        if against and self._may_be_wrong and not quantities(text):
            return Judgement.WRONG, _nearest(against)
        return Judgement.NOT_CHECKABLE, None

    def _is_meant(self, fact: _Labelled) -> bool:
        return fact.core - _WEAK == self._name_words - _WEAK

    def _segment(self, fact: _Labelled) -> str:
        """The whole value; of a list, the part that names the other end of an edge."""
        text = fact.fact.text
        if not self._other:
            return text
        parts = [
            part for part in re.split(r"[,;](?!\d)", text) if _holds(_plain(part), self._other)
        ]
        return parts[0] if parts else ""


def _nearest(facts: Sequence[_Labelled]) -> StatedFact:
    """The fact whose label has the fewest words besides the property's name."""
    return min(facts, key=lambda fact: len(fact.words)).fact


def _has_words(text: str) -> bool:
    """Whether there are words besides the number, perhaps an unknown unit."""
    return any(word.isalpha() and word not in _UNITS for word in _split(text))


def _is_fact(prop: WrittenProperty) -> bool:
    key, value = " ".join(_split(prop.property)), prop.value
    is_plain = isinstance(value, str | int | float | list) and not isinstance(value, bool)
    return is_plain and key not in {*_TEXTS, *_YEARS, *_UNIT_KEYS}


def quantities(text: str) -> list[Quantity]:
    """All quantities in `text`, without years."""
    without_years = _STATED_YEAR.sub(_blank_year, text[:_MAX_CHARS])
    return [each for each in find_quantities(without_years, "en", ".") if not each.is_label]


def years(text: str) -> list[int]:
    """The years in `text`."""
    return [int(match[1]) for match in _STATED_YEAR.finditer(text) if _blank_year(match) == " "]


def _blank_year(match: re.Match[str]) -> str:
    """`2,023`, `$2023` and `2023.5` are not years."""
    text_before, text_after = match.string[: match.start()], match.string[match.end() :]
    is_number = _WITHIN_NUMBER.search(text_before) or re.match(r"[.,]\d|\s?%", text_after)
    return match[0] if is_number else " "


def _is_comparable(claimed: Quantity, stated: Quantity) -> bool:
    if claimed.unit == "currency":
        return bool(claimed.currencies & stated.currencies)
    return not claimed.unit or convert(Decimal(1), stated.unit, claimed.unit) is not None


def _agrees(claimed: Quantity, stated: Quantity) -> bool:
    """Whether this equals `stated`, allowing for rounding."""
    # A bare number may leave out the scale: 48.4 of `48.449 million kWh`.
    is_bare = not claimed.unit and not claimed.scale
    return is_same(claimed, stated) or (
        is_bare and is_same(claimed, _scaled(stated, -stated.scale))
    )


def _lacks_unit(claimed: Quantity, stated: Quantity) -> bool:
    """Whether the digits are the same and no unit is written: thousands or millions may be meant."""
    return not claimed.unit and any(
        is_same(_scaled(claimed, power), stated) for power in _THOUSANDS
    )


def _scaled(quantity: Quantity, power: int) -> Quantity:
    return quantity._replace(values=tuple(each.scaleb(power) for each in quantity.values))


def _read_value(prop: WrittenProperty) -> tuple[str, list[Quantity]]:
    """The value as a text, and its quantities, with the unit from another property or from the property's name."""
    siblings = prop.siblings or {}
    text = str(prop.value)
    amounts = quantities(text)
    if not amounts or any(amount.unit or amount.scale for amount in amounts):
        return text, amounts
    if units := [str(siblings[key]) for key in _UNIT_KEYS if isinstance(siblings.get(key), str)]:
        text = f"{text} {' '.join(units)}"
        return text, quantities(text)
    # "real" is a currency too.
    hint = hint_of("_".join(word for word in _split(prop.property) if word not in _WEAK))
    unit = "currency" if hint.currency else "" if hint.unit == SHARE else hint.unit
    currencies = frozenset({hint.currency} - {""})
    return text, [
        _scaled(amount, hint.scale)._replace(unit=unit, currencies=currencies, scale=hint.scale)
        for amount in amounts
    ]


def _stated_years(prop: WrittenProperty) -> set[int]:
    stated = {*years(" ".join(_split(prop.property))), *years(str(prop.value))}
    if isinstance(prop.value, int | float):
        stated = set(years(" ".join(_split(prop.property))))
    for key, value in (prop.siblings or {}).items():
        if " ".join(_split(key)) in _YEARS:
            stated.update(years(str(value)))
    return stated


def _facts_with(facts: Iterable[_Labelled], words: frozenset[str]) -> list[_Labelled]:
    return [fact for fact in facts if words and words <= fact.words]


def _labelled(fact: StatedFact) -> _Labelled:
    core = re.sub(r"\([^)]*\)", " ", fact.path)
    return _Labelled(
        fact, _words(fact.path), _words(core), frozenset([*years(fact.path), *years(fact.text)])
    )


@lru_cache(maxsize=20_000)
def _words(text: str) -> frozenset[str]:
    """The words that carry the meaning, in the singular."""
    return frozenset(
        _singular(word)
        for word in _split(text)
        if word not in _GENERIC and word not in _UNITS and not word.isdigit()
    )


def _split(text: str) -> list[str]:
    """`electricityImports_2023` is electricity, imports, 2023."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z0-9])|(?<=[0-9])(?=[A-Z])", " ", text)
    return _plain(spaced, keep_article=True).split()


def _singular(word: str) -> str:
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    return word[:-1] if word.endswith("s") and not word.endswith("ss") and len(word) > 3 else word


def _plain(text: str, *, keep_article: bool = False) -> str:
    """Lower case words of ASCII, one blank between them; `The Gambia` is `gambia`."""
    plain = normalize("NFKD", text).encode("ascii", "ignore").decode().casefold()
    words = " ".join(re.sub(r"[^a-z0-9]+", " ", plain).split())
    return words if keep_article else words.removeprefix("the ")


def _holds(text: str, part: str) -> bool:
    return f" {part} " in f" {text} "


def _is_short(text: str) -> bool:
    return 0 < len(text.split()) <= _SHORT_WORDS
