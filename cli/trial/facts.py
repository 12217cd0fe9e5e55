"""Compares what an agent wrote into its graph with the World Factbook.

Only a property whose meaning is certain is compared: the property must be of a country, and its name must lead to a value of
the Factbook. Everything else is `not checkable`, which does not count against it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final
from unicodedata import normalize

from cli.trial.quantities import UNIT_WORDS, Quantity, quantities, years
from sandbox.corpus.factbook import Country, StatedFact

_GENERIC: Final = frozenset(
    {
        *(
            "a",
            "an",
            "and",
            "as",
            "at",
            "by",
            "for",
            "from",
            "in",
            "is",
            "of",
            "on",
            "per",
            "the",
            "to",
        ),
        *(
            "amount",
            "data",
            "est",
            "estimate",
            "estimated",
            "figure",
            "level",
            "number",
            "quantity",
        ),
        *("rate", "share", "unit", "us", "value", "annual", "current", "latest", "yearly"),
    }
)
"""Words of a property's name that carry no meaning of their own."""
_WEAK: Final = frozenset({"total", "name", "real", "country", "national"})
"""Words that a label may have in addition to the property's name without changing its meaning."""
_TEXTS: Final = frozenset({"quote", "summary", "description", "source", "url", "note", "title"})
"""Properties that describe a node or a page; they are not facts."""
_YEARS: Final = frozenset({"year", "date", "period", "as of", "asof", "reference year"})
_UNIT_KEYS: Final = ("unit", "units", "currency")
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
class Checked:
    written: WrittenProperty
    judgement: Judgement
    stated: str | None = None
    """The Factbook's statement, as `Ghana — Electricity, imports: 48.449 million kWh (2023 est.)`."""


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

    def check(self, prop: WrittenProperty) -> Checked:
        """Compares the property with the Factbook."""
        subject = self._subject(prop)
        if subject is None or not _is_fact(prop):
            return Checked(prop, Judgement.NOT_CHECKABLE)
        country, context, other_node = subject
        claim = _Claim(prop, country, context, other_node)
        judgement, fact = claim.judge()
        stated = f"{country.name} — {fact.path}: {fact.text}" if fact is not None else None
        return Checked(prop, judgement, stated)

    def _subject(self, prop: WrittenProperty) -> tuple[_Country, str, str] | None:
        """The country, the words of the property, and the other node of an edge."""
        if prop.about:
            for name, other_name in (
                (prop.subject, prop.other),
                (prop.other, prop.subject),
            ):
                if (country := self._by_name.get(_plain(name))) is not None:
                    return country, prop.about, other_name
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
        self._text = _as_text(prop)
        subject = _words(country.name)
        key = _words(prop.property) - subject
        about = _words(context) - subject
        self._name_words = key | about
        candidates = _facts_with(country.facts, self._name_words)
        self._may_be_wrong = bool(candidates)
        if not candidates and key and about:
            candidates = _facts_with(country.facts, key)
        self._facts = self._of_year(candidates)

    def judge(self) -> tuple[Judgement, StatedFact | None]:
        if isinstance(self._property.value, list):
            return self._judge_list(self._property.value)
        amounts = quantities(self._text)
        if len(amounts) == 1:
            return self._judge_quantity(amounts[0])
        return self._judge_text(self._text)

    def _of_year(self, facts: Sequence[_Labelled]) -> Sequence[_Labelled]:
        stated = _stated_years(self._property)
        of_year = [fact for fact in facts if stated & fact.years]
        if stated and not of_year:
            self._may_be_wrong = False  # a year that the Factbook does not cover
        return of_year or facts

    def _judge_quantity(self, quantity: Quantity) -> tuple[Judgement, StatedFact | None]:
        against: list[_Labelled] = []
        is_clear = quantity.unit is not None or not _has_words(self._text)
        for fact in self._facts:
            stated = [
                amount
                for amount in quantities(self._segment(fact))
                if quantity.is_comparable(amount)
            ]
            if any(quantity.agrees(amount) for amount in stated):
                return Judgement.RIGHT, fact.fact
            if (
                len(stated) == 1
                and self._is_meant(fact)
                and not quantity.may_differ_by_unit(stated[0])
            ):
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

    def _judge_list(self, values: list[Any]) -> tuple[Judgement, StatedFact | None]:
        parts = [_plain(str(value)) for value in values]
        for fact in self._facts:
            stated = _plain(fact.fact.text)
            if parts and all(part and _holds(stated, part) for part in parts):
                return Judgement.RIGHT, fact.fact
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
    return any(word.isalpha() and word not in UNIT_WORDS for word in _split(text))


def _is_fact(prop: WrittenProperty) -> bool:
    key = " ".join(_split(prop.property))
    return (
        key not in _TEXTS
        and key not in _YEARS
        and key not in _UNIT_KEYS
        and isinstance(prop.value, str | int | float | list)
        and not isinstance(prop.value, bool)
    )


def _as_text(prop: WrittenProperty) -> str:
    """The value with the unit from the property's name or from another property."""
    text = str(prop.value)
    if any(quantity.unit or quantity.has_scale for quantity in quantities(text)):
        return text
    units = [word for word in _split(prop.property) if word in UNIT_WORDS]
    siblings = prop.siblings or {}
    units += [str(siblings[key]) for key in _UNIT_KEYS if isinstance(siblings.get(key), str)]
    # A scale comes before its unit, in whatever order the name has them.
    units.sort(key=lambda word: word not in ("thousand", "million", "billion", "trillion"))
    return f"{text} {' '.join(units)}" if units and quantities(text) else text


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
        if word not in _GENERIC and word not in UNIT_WORDS and not word.isdigit()
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
