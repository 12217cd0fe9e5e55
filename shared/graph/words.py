"""What a text asks for: its words, and which of them are rare enough to be looked up."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Final

from sqlalchemy import ColumnElement, func, text
from sqlalchemy.dialects.postgresql import TSQUERY
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import Scope
from shared.store.tables.graph import NAME_WORDS, PROPERTY_WORDS

MAX_WORDS: Final = 8
COMMON_NODES: Final = 5_000
"""A word of more nodes than this tells little, and to fetch them would cost more than the answer is worth."""
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
    is_spelling: bool
    """Few nodes have a name that is spelt much like all of the text."""
    common: tuple[str, ...]
    """Those that are rare in neither."""


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
    joined = " & ".join(_quoted(word, as_beginning=True) for word in words)
    return func.to_tsquery("simple", joined, type_=TSQUERY)


def values_of_words(asked_for: Asked) -> dict[str, Any]:
    """What the statements of `shared.graph.search` call by these names."""
    return {
        "whole": asked_for.whole,
        "patterns": _patterns(asked_for.words),
        "all_words": " & ".join(_quoted(word, as_beginning=False) for word in asked_for.words),
    }


def values_of_rare(asked_for: Asked, few: Rare) -> dict[str, Any]:
    """Likewise."""
    common = [word for word in asked_for.words if word not in few.in_properties]
    return {
        "any_in_names": " | ".join(_in_names(word) for word in few.in_names),
        "any_in_properties": " | ".join(_in_properties(word) for word in few.in_properties),
        "common_in_properties": _patterns(common),
    }


async def rare(session: AsyncSession, scope: Scope, words: Asked) -> Rare:
    """By how many nodes the planner expects of each: a figure that is kept anyway, so that nothing is counted."""
    looks = ["name %> :whole"]
    values: dict[str, Any] = {"agent": scope.agent_id, "whole": words.whole}
    for place, word in enumerate(words.words):
        looks += [f"{NAME_WORDS} @@ to_tsquery('simple', :name{place})"]
        looks += [f"{PROPERTY_WORDS} @@ to_tsquery('simple', :property{place})"]
        values[f"name{place}"] = _in_names(word)
        values[f"property{place}"] = _in_properties(word)
    each = (f"select from graph_nodes where agent_id = :agent and {look}" for look in looks)
    plan = await session.scalar(text(f"explain (format json) {' union all '.join(each)}"), values)
    few = [part["Plan Rows"] <= COMMON_NODES for part in plan[0]["Plan"]["Plans"]]
    in_names = tuple(compress(words.words, few[1::2]))
    in_properties = tuple(compress(words.words, few[2::2]))
    either = {*in_names, *in_properties}
    common = tuple(word for word in words.words if word not in either)
    return Rare(in_names, in_properties, few[0], common)


def _in_names(word: str) -> str:
    return _quoted(word, as_beginning=len(word) >= _SHORTEST_BEGINNING)


def _in_properties(word: str) -> str:
    return _quoted(word, as_beginning=False)


def _quoted(word: str, *, as_beginning: bool) -> str:
    quoted = "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"
    return f"{quoted}:*" if as_beginning else quoted


def _patterns(words: Sequence[str]) -> list[str]:
    """Of texts that hold such a word anywhere; its signs mean themselves."""
    return ["%" + re.sub(r"([\\%_])", r"\\\1", word) + "%" for word in words]
