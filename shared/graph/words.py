"""What a text asks for: its words, and which of them are rare enough to be looked up."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import compress
from typing import Any, Final

from sqlalchemy import ColumnElement, func
from sqlalchemy.dialects.postgresql import TSQUERY
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import Scope
from shared.store.direct import Direct
from shared.store.tables.graph import NAME_WORDS, PROPERTY_WORDS

MAX_WORDS: Final = 8
COMMON_NODES: Final = 5_000
"""A word of more nodes than this tells little, and to fetch them would cost more than the answer is worth."""
_LOOKS_A_WORD: Final = 3
_MANY_ARE_ONE_OF: Final = 4
"""An agent has many nodes where it has one of so many of all agents'."""
_MAX_CHARACTERS: Final = 200
"""Of a text, as of a name."""
_SHORTEST_BEGINNING: Final = 4
"""Characters of a word that is also taken for the beginning of one, in names."""


@dataclass(frozen=True)
class Asked:
    """`whole` is the text on one line, `words` the first different ones of it in small letters."""

    whole: str
    words: tuple[str, ...]


@dataclass(frozen=True)
class Rare:
    """Those of the words that few nodes hold: in their names, and in their properties."""

    in_names: tuple[str, ...]
    in_properties: tuple[str, ...]
    beginnings: tuple[str, ...]
    """Those of some length that few words of names begin with."""
    common: tuple[str, ...]
    """Those that are rare in neither."""
    owns_many: bool
    """The agent has so many of all nodes that the index need not tell whose each is, which costs more than to look."""


def asked(given: str) -> Asked | None:
    """None where there is nothing in it."""
    # PostgreSQL refuses NUL even in a question, and half a surrogate is no text.
    clean = given.replace("\x00", " ").encode(errors="ignore").decode()
    words = clean.split(maxsplit=MAX_WORDS)[:MAX_WORDS]
    if not words:
        return None
    different = dict.fromkeys(word[:_MAX_CHARACTERS].lower() for word in words)
    whole = " ".join(clean[: 4 * _MAX_CHARACTERS].split())
    return Asked(whole[:_MAX_CHARACTERS], tuple(different))


def all_of(words: Sequence[str]) -> ColumnElement[str]:
    """The query for all of them, each as the beginning of a word."""
    joined = " & ".join(map(_beginning, words))
    return func.to_tsquery("simple", joined, type_=TSQUERY)


def values_of_words(asked_for: Asked) -> dict[str, Any]:
    """What the statements of `shared.graph.search` call by these names."""
    return {
        "whole": asked_for.whole,
        "patterns": _patterns(asked_for.words),
        "all_words": " & ".join(map(_quoted, asked_for.words)),
    }


def values_of_rare(asked_for: Asked, few: Rare) -> dict[str, Any]:
    """Likewise."""
    common = [word for word in asked_for.words if word not in few.in_properties]
    return {
        "any_in_names": " | ".join(map(_quoted, few.in_names)),
        "any_begins": " | ".join(map(_beginning, few.beginnings)),
        "any_in_properties": " | ".join(map(_quoted, few.in_properties)),
        "common_in_properties": _patterns(common),
    }


async def rare(session: AsyncSession, scope: Scope, words: Asked) -> Rare:
    """By how many nodes the planner expects of each: a figure that is kept anyway, so that nothing is counted."""
    values: dict[str, Any] = {"agent": scope.agent_id}
    for place, word in enumerate(words.words):
        values |= {f"word{place}": _quoted(word), f"beginning{place}": _beginning(word)}
    plan = await _expected(len(words.words)).value(session, values)
    of_all, of_agent, *of_words = (part["Plan Rows"] for part in plan[0]["Plan"]["Plans"])
    few = [nodes <= COMMON_NODES for nodes in of_words]
    in_names, in_properties, beginnings = (
        tuple(compress(words.words, few[look::_LOOKS_A_WORD])) for look in range(_LOOKS_A_WORD)
    )
    long = tuple(word for word in beginnings if len(word) >= _SHORTEST_BEGINNING)
    either = {*in_names, *in_properties}
    common = tuple(word for word in words.words if word not in either)
    owns_many = of_agent * _MANY_ARE_ONE_OF >= of_all
    return Rare(in_names, in_properties, long, common, owns_many)


async def is_spelling(session: AsyncSession, scope: Scope, words: Asked) -> bool:
    """Whether few nodes have a name that is spelt much like all of the text; likewise.

    By itself: it takes as long as all the words do, and is mostly not asked.
    """
    plan = await _ALIKE.value(session, {"agent": scope.agent_id, "whole": words.whole})
    is_few: bool = plan[0]["Plan"]["Plan Rows"] <= COMMON_NODES
    return is_few


_OWN: Final = "select from graph_nodes where agent_id = :agent and"
_ALIKE: Final = Direct(f"explain (format json) {_OWN} name %> :whole")


@cache
def _expected(words: int) -> Direct:
    """The plan whose parts say of how many nodes each is expected: all, the agent's, and those that hold the words."""
    looks = ["true"]
    for place in range(words):
        looks += [f"{NAME_WORDS} @@ to_tsquery('simple', :word{place})"]
        looks += [f"{PROPERTY_WORDS} @@ to_tsquery('simple', :word{place})"]
        looks += [f"{NAME_WORDS} @@ to_tsquery('simple', :beginning{place})"]
    own = (f"{_OWN} {look}" for look in looks)
    return Direct(f"explain (format json) {' union all '.join(['select from graph_nodes', *own])}")


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def _beginning(word: str) -> str:
    return f"{_quoted(word)}:*"


def _patterns(words: Sequence[str]) -> list[str]:
    """Of texts that hold such a word anywhere; its signs mean themselves."""
    return ["%" + re.sub(r"([\\%_])", r"\\\1", word) + "%" for word in words]
