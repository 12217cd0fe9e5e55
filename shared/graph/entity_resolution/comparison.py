"""Comparison of two names and what identifies their nodes: the same, different, or a question. Pure.

The verdicts are published with their precision and recall on a labelled set; see decision 0067.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import NamedTuple

from shared.graph.entity_resolution import facts as identity
from shared.graph.entity_resolution.facts import Contradiction, Fact, country_code, is_of, words
from shared.graph.entity_resolution.normalization import (
    fold_key,
    legal_forms,
    normalize,
    normalize_key,
    split_qualifier,
)
from shared.graph.entity_resolution.relations import (
    DUPLICATE_THRESHOLD,
    Relation,
    content_of,
    initials_of,
    person_of,
    relate,
    word_list_of,
)


class Verdict(StrEnum):
    SAME = "same"
    ASK = "ask"
    DIFFERENT = "different"


@dataclass(frozen=True)
class Described:
    """A name of a type, and the facts that are known of its node."""

    type_name: str
    name: str
    facts: Sequence[Fact] = ()


class Comparison(NamedTuple):
    verdict: Verdict
    relation: Relation
    score: float
    """How similar the names are, 0 to 1."""
    contradictions: Sequence[Contradiction] = ()


def compare(new: Described, known: Described, threshold: float = DUPLICATE_THRESHOLD) -> Comparison:
    """Judge whether the thing that is written is the known one."""
    relation, score = relate(
        new.type_name, new.name, known.name, threshold, is_supported=bool(_agreed(new, known))
    )
    return judge(relation, new, known, score)


def judge(
    relation: Relation,
    new: Described,
    known: Described,
    score: float = 1.0,
    *,
    is_known: bool = False,
) -> Comparison:
    """Judge by the facts, given how the names are related. `is_known`: only a contradiction makes it another thing."""
    if relation is Relation.NONE:
        return Comparison(Verdict.DIFFERENT, relation, score)
    found = [*identity.contradictions(new.facts, known.facts), *_contradicting_forms(new, known)]
    qualifiers = _compare_qualifiers(new, known)
    if relation is Relation.PART:
        is_excluded = any(_excludes(each, new) for each in found)
        verdict = Verdict.DIFFERENT if is_excluded or qualifiers is False else Verdict.ASK
    elif qualifiers is False:
        verdict = Verdict.DIFFERENT if _both_qualified(new, known) else Verdict.ASK
    elif found:
        verdict = Verdict.ASK
    elif qualifiers or is_known or _agreed(new, known):
        verdict = Verdict.SAME
    else:
        is_uncertain = _one_is_qualified(new, known) or is_ambiguous(new.type_name, new.name)
        verdict = Verdict.ASK if is_uncertain else Verdict.SAME
    return Comparison(verdict, relation, score, found)


def _agreed(new: Described, known: Described) -> list[str]:
    """The facts that agree and say which of several things of one name is meant; not the country of a person."""
    agreed = identity.agreements(new.facts, known.facts)
    if not is_of(new.type_name, "person"):
        return agreed
    return [name for name in agreed if not _is_shared_by_many(name)]


def _is_shared_by_many(property_name: str) -> bool:
    return fold_key(normalize_key(property_name)) in (
        "country",
        "nation",
        "nationality",
        "citizenship",
    )


def _excludes(contradiction: Contradiction, new: Described) -> bool:
    """Whether nothing can have both values, as far as the property says: an office or profession can change."""
    kinds = {fact.kind for fact in new.facts if fact.name == contradiction.name}
    return not kinds & {"role"}


def _contradicting_forms(new: Described, known: Described) -> list[Contradiction]:
    """The legal forms of two names, if they are of different kinds: Siemens AG is not Siemens Ltd."""
    own, theirs = (legal_forms(each.name, new.type_name) for each in (new, known))
    if own and theirs and own.isdisjoint(theirs):
        return [Contradiction("legal form", " ".join(sorted(own)), " ".join(sorted(theirs)))]
    return []


# Qualifiers -----------------------------------------------------------------------------------------------------------


def _qualifier(described: Described) -> str:
    base, qualifier = split_qualifier(_without_expansion(described.name))
    if not qualifier and is_of(described.type_name, "place") and "," in base:
        return base.partition(",")[2].strip()
    key = normalize(described.name, described.type_name)
    return qualifier if split_qualifier(key.key)[1] else ""


def _without_expansion(name: str) -> str:
    """`WHO` for `WHO (World Health Organization)`."""
    base, qualifier = split_qualifier(name)
    is_expansion = qualifier and normalize_key(base).replace(" ", "") in initials_of(
        normalize_key(qualifier).split()
    )
    return base if is_expansion else name


def _both_qualified(new: Described, known: Described) -> bool:
    return bool(_qualifier(new) and _qualifier(known))


def _one_is_qualified(new: Described, known: Described) -> bool:
    return bool(_qualifier(new)) != bool(_qualifier(known))


def _compare_qualifiers(new: Described, known: Described) -> bool | None:
    """Whether what distinguishes each agrees with the other: True, False, or None if nothing says so."""
    own, theirs = _qualifier(new), _qualifier(known)
    if own and theirs:
        return identity.is_same_description(own, theirs)
    if not own and not theirs:
        return None
    qualifier, facts = (own, known.facts) if own else (theirs, new.facts)
    return identity.describes(qualifier, facts)


# Ambiguous names ------------------------------------------------------------------------------------------------------


def is_ambiguous(type_name: str, name: str) -> bool:
    """Whether many things have the name, so that an equal name does not say that it is the same thing."""
    key = normalize(name, type_name).base
    if is_of(type_name, "person"):
        return _is_common_person(key)
    word_list = content_of(word_list_of(key))
    if is_of(type_name, "place"):
        if type_name == "Country" and country_code(key):
            return False
        place = " ".join(word_list_of(key))
        return place in _places() or _is_generic(word_list)
    if len(word_list) == 1 and word_list[0] in words("names", "brands"):
        return True
    head = word_list[:1]
    if head and head[0] in words("names", "of_place"):
        return not any(character.isdigit() for character in key)
    return _is_generic(word_list)


def _is_common_person(key: str) -> bool:
    names = [name for name in person_of(key).names if len(name) > 1]
    if len(names) <= 1:
        return not (names and len(names[0]) > 2 and _is_whole_name(names[0]))
    given, surnames = words("names", "given"), words("names", "surname")
    is_common = [name in given or name in surnames for name in names]
    is_given, is_surname = (any(name in listed for name in names) for listed in (given, surnames))
    return all(is_common) and is_given and is_surname


def _is_generic(word_list: Sequence[str]) -> bool:
    generic = words("names", "generic")
    return bool(word_list) and all(
        word in generic or (word.isdigit() and len(word) < 4) for word in word_list
    )


@cache
def _places() -> frozenset[str]:
    listed = str(identity.table("names")["places"]).split(", ")
    return frozenset(" ".join(word_list_of(place)) for place in listed)


def _is_whole_name(word: str) -> bool:
    """Whether a word of a script without spaces can be a surname with a given name."""
    return "\u3040" <= word[0] <= "\ud7af"
