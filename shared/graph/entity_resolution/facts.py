"""Facts that identify a node: its birth, place, country, office, profession, kind. Pure.

Which properties they are is data: `identity.toml` lists names of properties, and the schema of a type can add some
(`"identifies": "role"`) or take some away (`"identifies": false`).
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Final, Literal, get_args

from babel import Locale

from shared.graph.entity_resolution.normalization import fold_key, normalize_key
from shared.tools import Json

FactKind = Literal["date", "place", "role", "name", "code"]
"""How values are compared."""
SUMMARY: Final = "summary"
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_DATE: Final = re.compile(r"\s*(-?\d{1,4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?(?!\d)\s*(BC)?", re.I)
_PLACE_IN_SUMMARY: Final = re.compile(
    r"\b(?:city|town|village|port|river|lake|county|district|state|municipality|Stadt|ville|ciudad|città)"
    r" (?:of|in|aus|en|de|di) "
    r"((?:the )?[A-ZÀ-Ý][\w'-]+(?: [A-ZÀ-Ý][\w'-]+)*)"
)
_LANGUAGES: Final = ("en", "de", "fr", "es", "it", "pt")
_MIN_STEM: Final = 5


@cache
def table(name: str) -> Mapping[str, Any]:
    """A table of `identity.toml`."""
    text = files(__package__).joinpath("identity.toml").read_text(encoding="utf-8")
    content: Mapping[str, Any] = tomllib.loads(text)[name]
    return content


@cache
def words(table_name: str, name: str) -> frozenset[str]:
    """A list of words in `identity.toml`."""
    return frozenset(table(table_name)[name].split())


@dataclass(frozen=True)
class Fact:
    """A value that identifies a node."""

    name: str
    """Of the property."""
    kind: FactKind
    value: str


@dataclass(frozen=True)
class Contradiction:
    """Two values of which only one can be true of one thing."""

    name: str
    value: str
    other_value: str


def is_of(type_name: str, group: str) -> bool:
    """Whether the type is one of a group of `identity.toml`: its last word says what its nodes are."""
    last = _HUMP.sub(" ", type_name).lower().split()
    return bool(last) and last[-1] in words("types", group)


def identifying_facts(type_name: str, properties: Mapping[str, Any], schema: Json) -> list[Fact]:
    """The facts among the properties, as the type's schema and `identity.toml` have them; and what the summary says."""
    declared = schema.get("properties") or {}
    facts = []
    for name, value in properties.items():
        kind = _kind_of(type_name, name, declared.get(name))
        if (
            kind is not None
            and isinstance(value, str | int | float)
            and not isinstance(value, bool)
        ):
            facts.append(Fact(name, kind, str(value)))
    summary = properties.get(SUMMARY)
    if isinstance(summary, str):
        facts += _facts_of_summary(type_name, summary)
    return facts


def _facts_of_summary(type_name: str, summary: str) -> Iterator[Fact]:
    """The first occupation or kind that it names, and the place that it is in."""
    yield Fact(SUMMARY, "role", summary)
    if is_of(type_name, "place") and (match := _PLACE_IN_SUMMARY.search(summary)):
        yield Fact("in", "place", match[1])


@lru_cache(maxsize=1024)
def _kind_by_name(type_name: str, name: str) -> FactKind | None:
    plain = fold_key(_HUMP.sub("_", name).lower().replace("-", "_")).replace(" ", "_")
    forms = [plain, "_".join(plain.split("_")[-1:])]
    for form in forms:
        for kind in get_args(FactKind):
            if form in words("properties", kind):
                return kind  # type: ignore[no-any-return]  # one of the literals
    last = _HUMP.sub(" ", type_name).lower().split()[-1:]
    limited = table("of_types")
    for kind in get_args(FactKind):
        rule = limited.get(kind)
        if (
            rule
            and last
            and last[0] in rule["types"].split()
            and plain in rule["properties"].split()
        ):
            return kind  # type: ignore[no-any-return]  # one of the literals
    return None


def _kind_of(type_name: str, name: str, declared: Any) -> FactKind | None:
    says = declared.get("identifies") if isinstance(declared, dict) else None
    if says is False:
        return None
    return says if says in get_args(FactKind) else _kind_by_name(type_name, name)


def contradictions(facts: Iterable[Fact], others: Iterable[Fact]) -> list[Contradiction]:
    """The facts that no value of the same property agrees with, though there is one."""
    by_name = _by_name(others)
    found = []
    for name, own in _by_name(facts).items():
        theirs = by_name.get(name)
        if not theirs or any(_agree(one, other) for one in own for other in theirs):
            continue
        pairs = [(one, other) for one in own for other in theirs if _contradict(one, other)]
        if pairs:
            found.append(Contradiction(name, pairs[0][0].value, pairs[0][1].value))
    return found


def agreements(facts: Iterable[Fact], others: Iterable[Fact]) -> list[str]:
    """The names of the facts that agree."""
    by_name = _by_name(others)
    return [
        name
        for name, own in _by_name(facts).items()
        if any(_agree(one, other) for one in own for other in by_name.get(name, ()))
    ]


def _by_name(facts: Iterable[Fact]) -> dict[str, list[Fact]]:
    by_name: dict[str, list[Fact]] = {}
    for fact in facts:
        by_name.setdefault(fact.name, []).append(fact)
    return by_name


def _agree(one: Fact, other: Fact) -> bool:
    if one.name == SUMMARY:
        return bool(_groups(one.value) & _groups(other.value)) or _share_names(
            one.value, other.value
        )
    match one.kind:
        case "date":
            return _dates_agree(one.value, other.value)
        case "place":
            return bool(_places(one.value) & _places(other.value))
        case "role":
            return _roles_agree(one.value, other.value)
        case "name":
            return _names_agree(one.value, other.value)
        case "code":
            return one.value.casefold() == other.value.casefold()


def _contradict(one: Fact, other: Fact) -> bool:
    """Whether two values that do not agree exclude each other. Two summaries do if each names what the thing is."""
    if one.name != SUMMARY:
        return True
    own, theirs = _groups(one.value), _groups(other.value)
    return bool(own and theirs)


def _dates_agree(one: str, other: str) -> bool:
    matches = _DATE.match(one), _DATE.match(other)
    if matches[0] is None or matches[1] is None:
        return fold_key(normalize_key(one)) == fold_key(normalize_key(other))
    (*own, own_era), (*theirs, their_era) = matches[0].groups(), matches[1].groups()
    return own_era == their_era and all(
        int(part) == int(their_part)
        for part, their_part in zip(own, theirs, strict=True)
        if part and their_part
    )


@cache
def _territories() -> Mapping[str, str]:
    """The codes of countries by their folded names, in six languages."""
    codes = {}
    for language in reversed(_LANGUAGES):
        for code, name in Locale(language).territories.items():
            if len(code) == 2 and code.isalpha():
                codes[fold_key(normalize_key(name))] = code.lower()
    return codes


@lru_cache(maxsize=1024)
def country_code(name: str) -> str | None:
    """The code of a country, if `name` is one, in one of six languages."""
    folded = replace_phrases(fold_key(normalize_key(name)))
    if folded in ("us", "uk"):
        return {"us": "us", "uk": "gb"}[folded]
    return _territories().get(folded)


@lru_cache(maxsize=1024)
def _places(value: str) -> frozenset[str]:
    parts = [part for part in re.split(r"[,;/()]", value) if part.strip()]
    return frozenset(
        country_code(part.strip()) or replace_phrases(fold_key(normalize_key(part.strip())))
        for part in parts
    )


def replace_phrases(folded: str) -> str:
    """A folded name with one form of what is written in several: `us` for `united states of america`."""
    padded = f" {folded} "
    for phrase, short in table("phrases").items():
        padded = padded.replace(f" {phrase} ", f" {short} ")
    return padded.strip()


@lru_cache(maxsize=1024)
def _content_words(value: str) -> frozenset[str]:
    plain = replace_phrases(fold_key(normalize_key(value)))
    return frozenset(word for word in plain.split() if word not in words("words", "particles"))


def _roles_agree(one: str, other: str) -> bool:
    """They have a word in common, or words of one group, or one word is the beginning of another."""
    own, theirs = _content_words(one), _content_words(other)
    if own & theirs or _groups(one) & _groups(other):
        return True
    return any(
        min(len(word), len(their_word)) >= _MIN_STEM
        and (word.startswith(their_word[:_MIN_STEM]) and their_word.startswith(word[:_MIN_STEM]))
        for word in own
        for their_word in theirs
    )


def _names_agree(one: str, other: str) -> bool:
    own, theirs = _content_words(one), _content_words(other)
    return own <= theirs or theirs <= own


@cache
def _group_of_word() -> Mapping[str, int]:
    roles = table("roles")
    groups: Sequence[str] = [*roles["occupations"], *roles["kinds"]]
    return {word: number for number, line in enumerate(groups) for word in line.split()}


@lru_cache(maxsize=1024)
def _groups(text: str) -> frozenset[int]:
    """The roles and kinds that the text states, as numbers of groups of words."""
    known = _group_of_word()
    return frozenset(known[word] for word in _content_words(text) if word in known)


_NAME_IN_TEXT: Final = re.compile(r"(?<=[\w,] )[A-ZÀ-ÝА-Я][\w'-]{2,}")


def _share_names(one: str, other: str) -> bool:
    """Whether both name the same person, place or thing, after their first words."""
    return not set(_NAME_IN_TEXT.findall(one)).isdisjoint(_NAME_IN_TEXT.findall(other))


def is_same_description(one: str, other: str) -> bool:
    """Whether two short descriptions, such as "footballer" and "German footballer", can be of one thing."""
    return bool(_places(one) & _places(other)) or _roles_agree(one, other)


def describes(description: str, facts: Iterable[Fact]) -> bool | None:
    """Whether a short description agrees with the facts: True, False if it contradicts one, None if nothing says so."""
    is_contradicted = False
    for fact in facts:
        value = fact.value
        match fact.kind:
            case "place" | "name":
                agrees = bool(_places(description) & _places(value))
                contradicts = (
                    country_code(description) is not None and country_code(value) is not None
                )
                contradicts |= fact.name != "country" and description[:1].isupper()
            case "date":
                agrees = description.isdigit() and _dates_agree(description, value)
                contradicts = description.isdigit()
            case "role":
                agrees = _roles_agree(description, value)
                contradicts = bool(_groups(description) and _groups(value))
            case "code":
                continue
        if agrees:
            return True
        is_contradicted |= contradicts
    return False if is_contradicted else None
