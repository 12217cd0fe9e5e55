"""What a text asks for: its words, and which of them are rare enough to be looked up."""

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


def all_of(words: Sequence[str], *, as_beginnings: bool = False) -> ColumnElement[str]:
    return _query([_quoted(word, as_beginning=as_beginnings) for word in words], " & ")


def any_of(words: Sequence[str], *, of_names: bool = False) -> ColumnElement[str]:
    """In names a word that is not short is also found as the beginning of one."""
    return _query([_sought(word, of_names=of_names) for word in words], " | ")


async def rare(session: AsyncSession, scope: Scope, words: Asked) -> Rare:
    """By how many nodes the planner expects of each: a figure that is kept anyway, so that nothing is counted."""
    looks = ["name %> :whole"]
    values: dict[str, Any] = {"agent": scope.agent_id, "whole": words.whole}
    for place, word in enumerate(words.words):
        looks += [f"{NAME_WORDS} @@ to_tsquery('simple', :name{place})"]
        looks += [f"{PROPERTY_WORDS} @@ to_tsquery('simple', :property{place})"]
        values[f"name{place}"] = _sought(word, of_names=True)
        values[f"property{place}"] = _sought(word, of_names=False)
    each = (f"select from graph_nodes where agent_id = :agent and {look}" for look in looks)
    plan = await session.scalar(text(f"explain (format json) {' union all '.join(each)}"), values)
    few = [part["Plan Rows"] <= COMMON_NODES for part in plan[0]["Plan"]["Plans"]]
    return Rare(
        tuple(compress(words.words, few[1::2])), tuple(compress(words.words, few[2::2])), few[0]
    )


def _sought(word: str, *, of_names: bool) -> str:
    return _quoted(word, as_beginning=of_names and len(word) >= _SHORTEST_BEGINNING)


def _quoted(word: str, *, as_beginning: bool) -> str:
    quoted = "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"
    return f"{quoted}:*" if as_beginning else quoted


def _query(words: Sequence[str], joined_by: str) -> ColumnElement[str]:
    return func.to_tsquery("simple", joined_by.join(words), type_=TSQUERY)
