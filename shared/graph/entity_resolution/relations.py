"""Relations of names: equal, spellings of one, a part of another, or none. Pure."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache, lru_cache
from typing import Final, NamedTuple

from rapidfuzz.distance import OSA, JaroWinkler

from shared.graph.entity_resolution import facts as identity
from shared.graph.entity_resolution.facts import country_code, is_of, replace_phrases, words
from shared.graph.entity_resolution.normalization import (
    discriminators,
    fold_key,
    normalize,
    normalize_key,
    split_qualifier,
    transliterate,
)
from shared.graph.types import has_labels


class Relation(IntEnum):
    """How two names are related."""

    NONE = 0
    PART = 1
    """One may be short for the other, or misspelled."""
    SPELLING = 2
    """They differ in accents, titles or spaces."""
    EQUAL = 3


class Related(NamedTuple):
    relation: Relation
    score: float
    """How similar the names are, 0 to 1."""


DUPLICATE_THRESHOLD: Final = 0.55
"""Default trigram similarity from which a misspelled name is a question."""
_PART_SCORE: Final = 0.6
"""Score of a name that is a part of another, or its initials."""
_WITH_LEGAL_FORMS: Final = "Topic"
"""A type whose names are normalized without the removal of legal forms."""
_MIN_JOINED_SIMILARITY: Final = 0.93
_MIN_WORD_SIMILARITY: Final = 0.88
_MIN_GIVEN_NAME_SIMILARITY: Final = 0.82
_MIN_SIMILARITY_WITH_FACTS: Final = 0.72
"""Of given names, if a fact agrees."""
_MAX_ADDED: Final = 4
"""Letters by which one of two spellings of a given name or surname is longer."""
_MIN_STEM: Final = 6
_CACHED_NAMES: Final = 8192
"""Every new name of a small graph is compared with nearly all others."""
_NUMBER_SIGN: Final = re.compile(r"(?<!\S)[+-](?=\d)|[⁻₋]")
_RAISED: Final = re.compile(r"\d[⁰¹²³⁴-⁹⁺⁻₀-₉₊₋]+")
_SIGN_IN_WORD: Final = re.compile(r"[^\W\d_][+#]|[+#][^\W\d_]")
_DIGITS: Final = re.compile(r"\d+")
_ROMAN: Final = re.compile(r"(?=[ivxl])(?:xl|l?x{0,3})(?:ix|iv|v?i{0,3})")
_CJK: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
UMLAUTS: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "ø": "oe", "å": "aa"})


class Person(NamedTuple):
    """The parts of a person's name."""

    names: tuple[str, ...]
    """Given names and surname, without particles and titles."""
    generation: frozenset[str]
    numeral: str
    umlauts: str
    """The names in one, with umlauts written as two letters."""


@dataclass(frozen=True, slots=True, eq=False)
class _Form:
    """A key under which a name is compared, with what is computed of it once."""

    key: str
    content: tuple[str, ...]
    """Its words without those that only join the others, each in one spelling."""
    content_set: frozenset[str]
    text: str
    joined: frozenset[str]
    """Without accents, signs and spaces, and with umlauts as two letters."""
    digits: tuple[str, ...]
    signs: tuple[tuple[str, ...], ...]
    """What distinguishes names whose folded keys are equal; see `_distinguishing_signs`."""
    is_foreign: bool
    """Whether it has letters that are not Latin."""
    person: Person


@dataclass(frozen=True, slots=True, eq=False)
class _Name:
    key: str
    base: str
    also: tuple[str, ...]
    forms: tuple[_Form, ...]
    letters: str
    """If it can be the initials of another name."""
    initials: frozenset[str]


def relate(
    type_name: str,
    name: str,
    other_name: str,
    threshold: float = DUPLICATE_THRESHOLD,
    *,
    is_supported: bool = False,
) -> Related:
    """How two names of one type are related, and how similar they are. `is_supported` by a fact that agrees."""
    own, theirs = _analyze(name, type_name), _analyze(other_name, type_name)
    if own.base == theirs.base or own.key in theirs.also:
        return Related(Relation.EQUAL, 1.0)
    if _are_other_versions(name, other_name):
        return Related(Relation.NONE, 0.0)
    if theirs.key in own.also:
        return Related(Relation.PART, 1.0)
    if own.letters in theirs.initials or theirs.letters in own.initials:
        return Related(Relation.PART, _PART_SCORE)
    is_person, best = is_of(type_name, "person"), Related(Relation.NONE, 0.0)
    for one in own.forms:
        for other in theirs.forms:
            if one.signs != other.signs:
                continue
            if is_person:
                related = _relate_persons(one, other, is_supported=is_supported)
            else:
                related = _relate_things(type_name, one, other, threshold)
            best = max(best, related)
    return best


def _are_other_versions(name: str, other_name: str) -> bool:
    """Whether each name has a number that the other has not: 8.1.4 is neither 8.1 nor 8.2."""
    own, theirs = (
        {each.replace(",", ".") for each in _NUMBER.findall(text)} for text in (name, other_name)
    )
    return bool(own - theirs and theirs - own)


_NUMBER: Final = re.compile(r"\d+(?:[.,]\d+)*")


@lru_cache(maxsize=_CACHED_NAMES)
def _analyze(name: str, type_name: str) -> _Name:
    ordered = _in_order(name) if is_of(type_name, "person") else name
    normalized = normalize(ordered, type_name)
    base, qualifier = split_qualifier(normalized.key)
    keys = [base]
    if qualifier and base.replace(" ", "") in initials_of(qualifier.split()):
        keys.append(qualifier)
    if is_of(type_name, "place") and "," in name:
        keys.append(normalize_key(name.partition(",")[0], type_name))
    key = normalize(name, type_name)
    with_legal_forms = normalize(name, _WITH_LEGAL_FORMS).base
    initials = {
        each
        for word_list in (word_list_of(base), word_list_of(with_legal_forms))
        if len(content_of(word_list)) > 1
        for each in initials_of(word_list)
        if len(each) > 1
    }
    forms = tuple(map(_form, keys))
    return _Name(key.key, key.base, key.also, forms, initial_letters(base), frozenset(initials))


def initial_letters(base: str) -> str:
    """The letters of a key that can be the initials of another name; empty if it cannot."""
    word_list = word_list_of(base)
    letters = content_of(word_list) if len(word_list) > 1 else word_list
    is_initials = len(word_list) == 1 or all(len(word) == 1 for word in letters)
    return "".join(letters) if is_initials else ""


@lru_cache(maxsize=_CACHED_NAMES)
def _form(key: str) -> _Form:
    word_list = word_list_of(key)
    content = content_of(word_list)
    text = " ".join(word_list)
    folded, umlauts = fold_key(key), fold_key(key.translate(UMLAUTS))
    return _Form(
        key,
        content,
        frozenset(content),
        text,
        frozenset(each.replace(" ", "") for each in (folded, umlauts, text)),
        tuple(_DIGITS.findall(text)),
        _distinguishing_signs(key),
        any(each.isalpha() and not each.isascii() for each in folded),
        person_of(key),
    )


def _in_order(name: str) -> str:
    """`Angela Merkel` for `Merkel, Angela`."""
    surname, comma, given = name.partition(",")
    is_swapped = comma and given.strip() and "," not in given
    if is_swapped and normalize_key(given) not in words("words", "generations"):
        return f"{given.strip()} {surname.strip()}"
    return name


def _distinguishing_signs(key: str) -> tuple[tuple[str, ...], ...]:
    """Signs of numbers, raised and lowered digits after digits, and words with signs in them: C++ is not C."""
    with_signs = [word for word in fold_key(key).split() if _SIGN_IN_WORD.search(word)]
    found = (_NUMBER_SIGN.findall(key), _RAISED.findall(key), with_signs)
    return tuple(tuple(sorted(each)) for each in found)


@cache
def _spellings() -> Mapping[str, str]:
    pairs = (each.partition(":") for each in identity.table("words")["spellings"].split())
    return {word: form for word, _, form in pairs}


@cache
def _short_forms() -> frozenset[frozenset[str]]:
    pairs = (each.split(":") for each in identity.table("words")["short_forms"].split())
    return frozenset(frozenset(pair) for pair in pairs)


def word_list_of(key: str) -> tuple[str, ...]:
    """The words of a folded key, each in one spelling."""
    spellings = _spellings()
    return tuple(spellings.get(word, word) for word in replace_phrases(fold_key(key)).split())


def content_of(word_list: Sequence[str]) -> tuple[str, ...]:
    """The words without those that only join the others."""
    particles = words("words", "particles")
    return tuple(word for word in word_list if word not in particles)


def initials_of(word_list: Sequence[str]) -> set[str]:
    """The initials of a name's words: of all, and without those that only join the others."""
    return {
        "".join(word[0] for word in word_list),
        "".join(word[0] for word in content_of(word_list)),
    }


def _relate_things(type_name: str, one: _Form, other: _Form, threshold: float) -> Related:
    if one.digits == other.digits and not one.joined.isdisjoint(other.joined):
        return Related(Relation.SPELLING, max(similarity(one.text, other.text), _PART_SCORE))
    code = country_code(one.key) if is_of(type_name, "place") else None
    if code is not None and code == country_code(other.key):
        return Related(Relation.SPELLING, _PART_SCORE)
    if _are_alike_in_latin(one, other):
        return Related(Relation.PART, _PART_SCORE)
    shorter, longer = sorted((one, other), key=lambda form: len(form.content))
    if _have_other_periods(one, other):
        return Related(Relation.NONE, 0.0)
    before, after = _added(shorter.text, longer.text)
    if before and before[-1] in ("of", "von") and has_labels(type_name):
        return Related(Relation.NONE, 0.0)
    if after and after[0] in words("words", "particles") and len(shorter.digits) > 1:
        return Related(Relation.SPELLING, _PART_SCORE)
    if shorter.content_set <= longer.content_set and _is_contained(shorter.content, longer.content):
        is_version = is_of(type_name, "model") and _is_version(shorter.content, longer.content)
        score = max(similarity(one.text, other.text), _PART_SCORE)
        return Related(Relation.NONE if is_version else Relation.PART, score)
    if shorter.content_set.isdisjoint(longer.content_set) and len(longer.content) > 1:
        return Related(Relation.NONE, 0.0)
    score = similarity(one.text, other.text)
    if score < threshold and len(longer.content) > 1:
        return Related(Relation.NONE, score)
    if discriminators(one.text) != discriminators(other.text):
        return Related(Relation.NONE, score)
    is_misspelled = _similar_words(shorter.content, longer.content) == len(shorter.content)
    return Related(Relation.PART if is_misspelled else Relation.NONE, score)


def _added(shorter: str, longer: str) -> tuple[Sequence[str], Sequence[str]]:
    """The words before and after the shorter name in the longer one; none if it is not there, or is all of it."""
    before, found, after = f" {longer} ".partition(f" {shorter} ")
    return (before.removesuffix(" the").split(), after.split()) if found else ((), ())


def _have_other_periods(one: _Form, other: _Form) -> bool:
    """Whether both names have months or quarters, and not the same: "September 2026" and "January to September 2026"."""
    own, theirs = (
        {each for each in discriminators(form.text) if len(each) > 1 and each.isalpha()}
        for form in (one, other)
    )
    return bool(own and theirs) and own != theirs


def _is_contained(shorter: Sequence[str], longer: Sequence[str]) -> bool:
    """Whether all words of one are words of the other: "Diamond" of "Diamond Shamrock"."""
    remaining = list(longer)
    for word in shorter:
        if word not in remaining:
            return False
        remaining.remove(word)
    return any(len(word) > 1 for word in shorter)


def _is_version(shorter: Sequence[str], longer: Sequence[str]) -> bool:
    """Whether the longer name is the other with an addition after a number: iPhone 15 and iPhone 15 Pro."""
    return (
        len(longer) > len(shorter)
        and list(longer[: len(shorter)]) == list(shorter)
        and any(character.isdigit() for character in shorter[-1])
    )


def _are_alike_in_latin(one: _Form, other: _Form) -> bool:
    """Whether one of the names is not Latin, and they are the same, or one is a part of the other, in Latin letters."""
    if not (one.is_foreign or other.is_foreign):
        return False
    if _CJK.match(one.key) and (one.key in other.key or other.key in one.key):
        return True
    own, theirs = transliterate(one.key), transliterate(other.key)
    if one.is_foreign != other.is_foreign and _is_contained(
        *sorted((content_of(own.split()), content_of(theirs.split())), key=len)
    ):
        return True
    joined = own.replace(" ", ""), theirs.replace(" ", "")
    return JaroWinkler.similarity(*joined) >= _MIN_JOINED_SIMILARITY


def _similar_words(shorter: Sequence[str], longer: Sequence[str]) -> int:
    remaining, count = list(longer), 0
    for word in shorter:
        match = next((each for each in remaining if each == word), None) or next(
            (each for each in remaining if _is_near(word, each)), None
        )
        if match is not None:
            remaining.remove(match)
            count += 1
    return count


def _is_near(word: str, other: str) -> bool:
    """Whether two words are spellings of one, or forms of one."""
    if not (word.isalpha() and other.isalpha()):
        return word == other
    length = min(len(word), len(other))
    if f"{word}s" == other or f"{other}s" == word:
        return True
    if OSA.distance(word, other) <= (length - 2) // 4:
        return True
    is_same_stem = length > _MIN_STEM and word[:_MIN_STEM] == other[:_MIN_STEM]
    return is_same_stem and JaroWinkler.similarity(word, other) >= _MIN_WORD_SIMILARITY


@lru_cache(maxsize=_CACHED_NAMES)
def person_of(key: str) -> Person:
    """The parts of a name, if it is that of a person."""
    names, generation, numeral = _split_person(word_list_of(key))
    umlauts, _, _ = _split_person(word_list_of(key.translate(UMLAUTS)))
    return Person(names, generation, numeral, "".join(umlauts))


def _split_person(word_list: Sequence[str]) -> tuple[tuple[str, ...], frozenset[str], str]:
    remaining = list(word_list)
    while len(remaining) > 1 and remaining[0] in words("words", "titles"):
        remaining.pop(0)
    generation = frozenset(word for word in remaining[1:] if word in words("words", "generations"))
    names = [word for word in remaining if word not in generation]
    numeral = names.pop() if len(names) > 1 and _ROMAN.fullmatch(names[-1]) else ""
    return content_of(names) or tuple(names), generation, numeral


def _relate_persons(one: _Form, other: _Form, *, is_supported: bool) -> Related:
    own, theirs = one.person, other.person
    if (own.generation and theirs.generation and own.generation != theirs.generation) or (
        own.numeral and theirs.numeral and own.numeral != theirs.numeral
    ):
        return Related(Relation.NONE, 0.0)
    is_whole = own.generation == theirs.generation and own.numeral == theirs.numeral
    if (
        own.names == theirs.names
        or not one.joined.isdisjoint(other.joined)
        or not {"".join(own.names), own.umlauts}.isdisjoint(("".join(theirs.names), theirs.umlauts))
    ):
        score = max(similarity(one.text, other.text), _PART_SCORE)
        return Related(Relation.SPELLING if is_whole else Relation.PART, score)
    shorter, longer = sorted((own.names, theirs.names), key=len)
    if (
        _are_alike_in_latin(one, other)
        or _names_match(shorter, longer, is_supported=is_supported)
        or (
            len(shorter) != len(longer)
            and JaroWinkler.similarity(min(one.joined), min(other.joined)) >= _MIN_JOINED_SIMILARITY
        )
    ):
        return Related(Relation.PART, max(similarity(one.text, other.text), _PART_SCORE))
    return Related(Relation.NONE, 0.0)


def _names_match(shorter: Sequence[str], longer: Sequence[str], *, is_supported: bool) -> bool:
    """Whether each name of the one can be a name of the other, and one is the same: J. Smith and John Smith."""
    remaining, full = list(longer), 0
    for name in sorted(shorter, key=len, reverse=True):
        match = next((each for each in remaining if each == name), None) or next(
            (each for each in remaining if _can_be(name, each, is_supported=is_supported)), None
        )
        if match is None:
            return False
        remaining.remove(match)
        full += len(name) > 1 and len(match) > 1
    return full > 0


def _can_be(name: str, other: str, *, is_supported: bool) -> bool:
    if len(name) == 1 or len(other) == 1:
        return name[0] == other[0]
    if frozenset((name, other)) in _short_forms():
        return True
    own, theirs = transliterate(name), transliterate(other)
    similar = JaroWinkler.similarity(own, theirs)
    least = _MIN_SIMILARITY_WITH_FACTS if is_supported else _MIN_GIVEN_NAME_SIMILARITY
    shorter, longer = sorted((len(own), len(theirs)))
    if is_supported:
        # A surname in Latin letters that only begins like another is another one.
        is_latin = (own, theirs) == (name, other)
        return similar >= least and not (is_latin and longer - shorter > _MAX_ADDED)
    most_edits = max(1, (shorter - 1) // 3)
    return similar >= least and OSA.distance(own, theirs) <= most_edits


def similarity(key: str, other_key: str) -> float:
    """Jaccard similarity of the trigrams of two keys, 0 to 1."""
    return _jaccard(_trigrams(key), _trigrams(other_key))


@lru_cache(maxsize=_CACHED_NAMES)
def _trigrams(key: str) -> frozenset[str]:
    padded = [f"  {word} " for word in key.split()]
    return frozenset(word[index : index + 3] for word in padded for index in range(len(word) - 2))


def _jaccard(trigrams: frozenset[str], other_trigrams: frozenset[str]) -> float:
    shared = len(trigrams & other_trigrams)
    return shared / (len(trigrams) + len(other_trigrams) - shared)
