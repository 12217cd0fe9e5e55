"""Finding nodes by words, types and times: whatever is asked of whatever graph, so many rows are looked at and no more.

The statements are written out for the same reason as those of `shared.graph.facts`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.meaning.meaning import Near
from shared.graph.meaning.nearest import AMONG, in_order, nearest
from shared.graph.ranking import Candidate, Way, holds_any, ranked
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.standing import STANDS
from shared.graph.words import (
    Asked,
    Rare,
    asked,
    is_spelling,
    rare,
    values_of_rare,
    values_of_words,
)
from shared.store.direct import Direct
from shared.store.tables.graph import NAME_IN_SMALL, NAME_WORDS, PROPERTY_WORDS

COMPARED: Final = 100
"""Nodes that are compared with one another; by each way to find some, no more are fetched."""
_READ: Final = 50
"""Of the nodes touched last, those whose properties are gone through for words that very many have."""
_STATEMENTS_KEPT: Final = 128


@dataclass(frozen=True)
class Sought:
    """What nodes must be; `types` and `ids` are any of them, and every one where there are none."""

    text: str | None = None
    types: Sequence[str] = ()
    ids: Sequence[UUID] = ()
    updated_since: datetime | None = None
    as_of: datetime | None = None
    """Left out is what all its evidence says was true at other times only."""
    near: Near | None = None
    """The text's meaning, where that is known."""


@dataclass(frozen=True)
class Found:
    """The best first."""

    ids: list[UUID]
    is_all: bool
    common: Sequence[str] = ()
    """Words that so many nodes hold that alone they were looked for among those touched last only."""


async def find(session: AsyncSession, scope: Scope, sought: Sought, limit: int) -> Found:
    """At most `limit` nodes: by how well they match the text, and then those touched last first."""
    words = asked(sought.text or "")
    if words is None:
        ways = [(Way.NEWEST, _GIVEN if sought.ids else _NEWEST)]
        found = await _candidates(session, scope, sought, ways, {})
        return _best(ranked(found), limit)
    values = values_of_words(words)
    if sought.ids:
        found = await _candidates(session, scope, sought, [(Way.NEWEST, _GIVEN_THAT_HOLD)], values)
        return _best(ranked(found, words), limit)
    few = await rare(session, scope, words)
    values |= values_of_rare(words, few)
    found = await _candidates(session, scope, sought, list(_ways(words, few)), values)
    if _may_be_misspelled(found, few) and await is_spelling(session, scope, words):
        ways = [(Way.ALIKE, _looked_up(_ALIKE, by_agent=not few.owns_many))]
        found += await _candidates(session, scope, sought, ways, values)
    if sought.near is not None:
        ids = await nearest(session, scope, sought.near)
        near = await _candidates(session, scope, sought, [(Way.NEAR, AMONG)], {"near_ids": ids})
        found += in_order(near, ids)
    return _best(ranked(found, words), limit, few.common)


def _may_be_misspelled(found: Sequence[Candidate], few: Rare) -> bool:
    """No name has a word of the text that would tell one from another, and nothing holds it all."""
    return bool(few.in_names) and not any(
        each.way == Way.ALL_IN_PROPERTIES or holds_any(each.name, few.in_names) for each in found
    )


def _best(candidates: Sequence[Candidate], limit: int, common: Sequence[str] = ()) -> Found:
    return Found([each.id for each in candidates[:limit]], len(candidates) <= limit, common)


async def _candidates(
    session: AsyncSession,
    scope: Scope,
    sought: Sought,
    ways: Sequence[tuple[Way, str]],
    values: Mapping[str, Any],
) -> list[Candidate]:
    """What the ways find, until there is enough: the likeliest and cheapest come first, the rest is not even begun then."""
    statement = _statement(
        tuple(ways),
        of_types=bool(sought.types),
        since=sought.updated_since is not None,
        as_of=sought.as_of is not None,
    )
    rows = await statement.rows(
        session,
        {
            **scope.bound,
            **values,
            "ids": list(sought.ids),
            "types": list(sought.types),
            "since": sought.updated_since,
            "as_of": sought.as_of,
        },
    )
    return [Candidate(*row) for row in rows]


@lru_cache(maxsize=_STATEMENTS_KEPT)
def _statement(
    ways: tuple[tuple[Way, str], ...], *, of_types: bool, since: bool, as_of: bool
) -> Direct:
    newest = (_NEWEST_OF_TYPES if of_types else _NEWEST_OF_ALL).format(
        agent=OWNED_SQL, since=_SINCE if since else ""
    )
    branches = [f"(select *, {int(way)} as way from ({sql}) found)" for way, sql in ways]
    statement = (
        f"select id, name, updated_at, way from ({' union all '.join(branches)}) candidates"
        f" where true{_SINCE if since else ''}{_AS_OF if as_of else ''}"
        f" limit {COMPARED}"
    )
    of_types_sql = _OF_TYPES if of_types else ""
    return Direct(statement.format(agent=OWNED_SQL, of_types=of_types_sql, newest=newest))


def _ways(words: Asked, few: Rare) -> Iterator[tuple[Way, str]]:
    def looked_up(condition: str) -> str:
        return _looked_up(condition, by_agent=not few.owns_many)

    yield Way.NAMED, _looked_up(_IS_NAMED)
    if few.in_names or len(words.words) > 1:
        yield Way.ALL_IN_NAME, looked_up(_ALL_IN_NAME)
    if few.in_names:
        yield Way.ANY_IN_NAME, looked_up(_ANY_IN_NAME)
    if few.beginnings:
        yield Way.BEGINS, looked_up(_BEGINS)
    if few.in_properties:
        yield Way.ALL_IN_PROPERTIES, looked_up(_ALL_IN_PROPERTIES)
        yield Way.ANY_IN_PROPERTIES, looked_up(_ANY_IN_PROPERTIES)
    yield Way.NEWEST, _NEWEST_NAMED
    if len(few.in_properties) < len(words.words):
        yield Way.NEWEST, _NEWEST_THAT_TELL


def _looked_up(condition: str, *, by_agent: bool = True) -> str:
    """`by_agent` where the index is to tell whose a node is, too."""
    # Planned as if all were wanted, so that it is the index that is asked, and yet fetched only as far as they are. With
    # the limit inside, PostgreSQL would at times rather go through the table until it has met enough.
    return (
        "with found as materialized (select id, name, updated_at, agent_id from graph_nodes"
        f" where {'agent_id = {agent} and ' if by_agent else ''}{condition} and {STANDS}{{of_types}})"
        f" select id, name, updated_at from found where agent_id = {{agent}} limit {COMPARED}"
    )


# The text stands behind a select, where PostgreSQL does not see it as it plans: so one plan does for every text. To plan
# for each takes as long as to look, in a large graph; and which words are rare is known before.
def _holds(words: ColumnElement[str], given: str) -> str:
    return f"{words} @@ (select to_tsquery('simple', :{given}))"


def _patterns(given: str) -> str:
    return f"(select cast(:{given} as text[]))::text[]"


_IS_NAMED: Final = f"{NAME_IN_SMALL} = lower(:whole)"
_ALL_IN_NAME: Final = _holds(NAME_WORDS, "all_words")
_ANY_IN_NAME: Final = _holds(NAME_WORDS, "any_in_names")
_BEGINS: Final = _holds(NAME_WORDS, "any_begins")
_ALL_IN_PROPERTIES: Final = _holds(PROPERTY_WORDS, "all_words")
_ANY_IN_PROPERTIES: Final = _holds(PROPERTY_WORDS, "any_in_properties")
_ALIKE: Final = "name %> :whole"

_OF_TYPES: Final = " and type = any(cast(:types as text[]))"
_NEWEST_OF_ALL: Final = (
    f"select * from graph_nodes where agent_id = {{agent}} and {STANDS}{{since}}"
    f" order by updated_at desc limit {COMPARED}"
)
# Each type through its own part of the index: one after the other, they could lie far apart.
_NEWEST_OF_TYPES: Final = (
    "select newest.* from unnest(cast(:types as text[])) given (type) cross join lateral"
    f" (select * from graph_nodes where agent_id = {{agent}} and {STANDS} and graph_nodes.type = given.type{{since}}"
    f" order by updated_at desc limit {COMPARED}) newest"
    f" order by updated_at desc limit {COMPARED}"
)
_SHOWN: Final = "select id, name, updated_at from"
_NEWEST: Final = f"{_SHOWN} ({{newest}}) newest"
_NEWEST_NAMED: Final = f"{_NEWEST} where name ilike any({_patterns('patterns')})"
_NEWEST_THAT_TELL: Final = (
    f"{_SHOWN} (select * from ({{newest}}) newest limit {_READ}) newest"
    f" where properties::text ilike any({_patterns('common_in_properties')})"
)
_GIVEN: Final = (
    f"{_SHOWN} graph_nodes where agent_id = {{agent}} and {STANDS}{{of_types}}"
    " and id = any(cast(:ids as uuid[]))"
)
_GIVEN_THAT_HOLD: Final = (
    f"{_GIVEN} and (name ilike any(cast(:patterns as text[]))"
    " or properties::text ilike any(cast(:patterns as text[])))"
)

_SINCE: Final = " and updated_at >= :since"
_AS_OF: Final = (
    " and (not exists (select from evidence where node_id = candidates.id)"
    " or exists (select from evidence where node_id = candidates.id"
    " and (valid_from is null or valid_from <= :as_of) and (valid_to is null or valid_to > :as_of)))"
)
