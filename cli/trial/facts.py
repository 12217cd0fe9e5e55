"""Compares what an agent wrote into its graph with the World Factbook.

Only what can be compared for certain is judged: the property must be of a country, and its name must lead to a value of
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
"""Properties that are text about a thing, or of the page, and no fact that has a name."""
_YEARS: Final = frozenset({"year", "date", "period", "as of", "asof", "reference year"})
_UNIT_KEYS: Final = ("unit", "units", "currency")
_SHORT_WORDS: Final = 4
_SHORTEST_TEXT: Final = 4


class Judgement(StrEnum):
    RIGHT = "right"
    WRONG = "wrong"
    NOT_CHECKABLE = "not_checkable"


@dataclass(frozen=True)
class Written:
    """One property of a node, or of an edge: then `about` is its type and `other` the node at its other end."""

    subject: str
    property: str
    value: Any
    about: str = ""
    other: str = ""
    beside: Mapping[str, Any] | None = None
    """All properties of the same node or edge: a year or a unit may stand in one of its own."""


@dataclass(frozen=True)
class Checked:
    written: Written
    judgement: Judgement
    stated: str | None = None
    """What the Factbook says, as `Ghana — Electricity, imports: 48.449 million kWh (2023 est.)`."""


@dataclass(frozen=True)
class _Labelled:
    fact: StatedFact
    words: frozenset[str]
    core: frozenset[str]
    """Without the text in brackets."""
    years: frozenset[int]


@dataclass(frozen=True)
class _Known:
    name: str
    facts: tuple[_Labelled, ...]


class FactCheck:
    """Built once from all countries."""

    def __init__(self, countries: Iterable[Country]) -> None:
        self._by_name: dict[str, _Known] = {}
        for country in countries:
            known = _Known(country.names[0], tuple(map(_labelled, country.facts)))
            for name in country.names:
                self._by_name.setdefault(_plain(name), known)
        names = sorted(self._by_name, key=len, reverse=True)
        self._in_text = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b")

    def of(self, written: Written) -> Checked:
        """Compares the property with the Factbook."""
        found = self._subject(written)
        if found is None or not _is_fact(written):
            return Checked(written, Judgement.NOT_CHECKABLE)
        country, context, other = found
        claim = _Claim(written, country, context, other)
        judgement, fact = claim.judged()
        stated = f"{country.name} — {fact.path}: {fact.text}" if fact is not None else None
        return Checked(written, judgement, stated)

    def _subject(self, written: Written) -> tuple[_Known, str, str] | None:
        """The country, the words of the property, and the other node of an edge."""
        if written.about:
            for one, other in (
                (written.subject, written.other),
                (written.other, written.subject),
            ):
                if (known := self._by_name.get(_plain(one))) is not None:
                    return known, written.about, other
            return None
        if (known := self._by_name.get(_plain(written.subject))) is not None:
            return known, "", ""
        name = _plain(written.subject)
        named = {
            id(self._by_name[each]): self._by_name[each] for each in self._in_text.findall(name)
        }
        if len(named) != 1:
            return None
        return next(iter(named.values())), self._in_text.sub(" ", name), ""


class _Claim:
    """One property of a country, and the facts of that country that its name leads to."""

    def __init__(self, written: Written, country: _Known, context: str, other: str) -> None:
        self._written = written
        self._other = _plain(other)
        self._text = _as_text(written)
        subject = _words(country.name)
        key = _words(written.property) - subject
        about = _words(context) - subject
        self._wanted = key | about
        candidates = _led_to(country.facts, self._wanted)
        self._may_be_wrong = bool(candidates)
        if not candidates and key and about:
            candidates = _led_to(country.facts, key)
        self._facts = self._of_year(candidates)

    def judged(self) -> tuple[Judgement, StatedFact | None]:
        if isinstance(self._written.value, list):
            return self._judged_list(self._written.value)
        found = quantities(self._text)
        if len(found) == 1:
            return self._judged_quantity(found[0])
        return self._judged_text(self._text)

    def _of_year(self, facts: Sequence[_Labelled]) -> Sequence[_Labelled]:
        wanted = _stated_years(self._written)
        of_year = [each for each in facts if wanted & each.years]
        if wanted and not of_year:
            self._may_be_wrong = False  # a year that the Factbook does not cover
        return of_year or facts

    def _judged_quantity(self, written: Quantity) -> tuple[Judgement, StatedFact | None]:
        against: list[_Labelled] = []
        is_clear = written.unit is not None or not _has_words(self._text)
        for each in self._facts:
            stated = [one for one in quantities(self._segment(each)) if written.is_comparable(one)]
            if any(written.agrees(one) for one in stated):
                return Judgement.RIGHT, each.fact
            if (
                len(stated) == 1
                and self._is_meant(each)
                and not written.may_differ_by_unit(stated[0])
            ):
                against.append(each)
        if against and self._may_be_wrong and is_clear:
            return Judgement.WRONG, _nearest(against)
        return Judgement.NOT_CHECKABLE, None

    def _judged_text(self, text: str) -> tuple[Judgement, StatedFact | None]:
        said = _plain(text)
        if not said:
            return Judgement.NOT_CHECKABLE, None
        against: list[_Labelled] = []
        for each in self._facts:
            stated = _plain(re.split(r"[;(]", each.fact.text)[0])
            is_same = said == stated and self._is_meant(each)
            if is_same or (len(said) >= _SHORTEST_TEXT and _holds(_plain(each.fact.text), said)):
                return Judgement.RIGHT, each.fact
            if len(stated) >= _SHORTEST_TEXT and self._is_meant(each) and _holds(said, stated):
                return Judgement.RIGHT, each.fact
            if self._is_meant(each) and _is_short(stated) and _is_short(said):
                against.append(each)
        if against and self._may_be_wrong and not quantities(text):
            return Judgement.WRONG, _nearest(against)
        return Judgement.NOT_CHECKABLE, None

    def _judged_list(self, values: list[Any]) -> tuple[Judgement, StatedFact | None]:
        said = [_plain(str(each)) for each in values]
        for each in self._facts:
            stated = _plain(each.fact.text)
            if said and all(one and _holds(stated, one) for one in said):
                return Judgement.RIGHT, each.fact
        return Judgement.NOT_CHECKABLE, None

    def _is_meant(self, fact: _Labelled) -> bool:
        return fact.core - _WEAK == self._wanted - _WEAK

    def _segment(self, fact: _Labelled) -> str:
        """The whole value; of a list, what it says of the other end of an edge."""
        text = fact.fact.text
        if not self._other:
            return text
        parts = [
            part for part in re.split(r"[,;](?!\d)", text) if _holds(_plain(part), self._other)
        ]
        return parts[0] if parts else ""


def _nearest(facts: Sequence[_Labelled]) -> StatedFact:
    """The one whose label says least more than the property's name."""
    return min(facts, key=lambda each: len(each.words)).fact


def _has_words(text: str) -> bool:
    """Whether there are words beside the number, perhaps an unknown unit."""
    return any(word.isalpha() and word not in UNIT_WORDS for word in _split(text))


def _is_fact(written: Written) -> bool:
    key = " ".join(_split(written.property))
    return (
        key not in _TEXTS
        and key not in _YEARS
        and key not in _UNIT_KEYS
        and isinstance(written.value, str | int | float | list)
        and not isinstance(written.value, bool)
    )


def _as_text(written: Written) -> str:
    """The value with the unit from the property's name or from another property."""
    text = str(written.value)
    if any(each.unit or each.has_scale for each in quantities(text)):
        return text
    units = [word for word in _split(written.property) if word in UNIT_WORDS]
    beside = written.beside or {}
    units += [str(beside[key]) for key in _UNIT_KEYS if isinstance(beside.get(key), str)]
    # A scale comes before its unit, in whatever order the name has them.
    units.sort(key=lambda word: word not in ("thousand", "million", "billion", "trillion"))
    return f"{text} {' '.join(units)}" if units and quantities(text) else text


def _stated_years(written: Written) -> set[int]:
    found = {*years(" ".join(_split(written.property))), *years(str(written.value))}
    if isinstance(written.value, int | float):
        found = set(years(" ".join(_split(written.property))))
    for key, value in (written.beside or {}).items():
        if " ".join(_split(key)) in _YEARS:
            found.update(years(str(value)))
    return found


def _led_to(facts: Iterable[_Labelled], wanted: frozenset[str]) -> list[_Labelled]:
    return [each for each in facts if wanted and wanted <= each.words]


def _labelled(fact: StatedFact) -> _Labelled:
    core = re.sub(r"\([^)]*\)", " ", fact.path)
    return _Labelled(
        fact, _words(fact.path), _words(core), frozenset([*years(fact.path), *years(fact.text)])
    )


@lru_cache(maxsize=20_000)
def _words(text: str) -> frozenset[str]:
    """Those that say what it is about, in the singular."""
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
