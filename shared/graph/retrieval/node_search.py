"""Search for nodes by words, meaning, types and times, at a bounded cost.

The statements are written out for the same reason as those of `shared.graph.retrieval.query`.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import IntEnum
from functools import cache, lru_cache
from itertools import compress
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, func, text
from sqlalchemy.dialects.postgresql import TSQUERY
from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing import embedding_cache
from shared.billing.embedding_cache import EmbeddingRequest, Vector
from shared.database import pgvector
from shared.database.statements import Direct
from shared.database.tables.graph import (
    AS_VECTOR,
    DIMENSIONS,
    NAME_IN_SMALL,
    NAME_WORDS,
    PROPERTY_WORDS,
)
from shared.graph.scope import OWNED_SQL, STANDS, Scope

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
    """What the statements of `shared.graph.retrieval.node_search` call by these names."""
    return {
        "whole": asked_for.whole,
        "patterns": _like_patterns(asked_for.words),
        "all_words": " & ".join(map(_quoted, asked_for.words)),
    }


def values_of_rare(asked_for: Asked, few: Rare) -> dict[str, Any]:
    """Likewise."""
    common = [word for word in asked_for.words if word not in few.in_properties]
    return {
        "any_in_names": " | ".join(map(_quoted, few.in_names)),
        "any_begins": " | ".join(map(_beginning, few.beginnings)),
        "any_in_properties": " | ".join(map(_quoted, few.in_properties)),
        "common_in_properties": _like_patterns(common),
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
    plan = await _EXPECTED_ALIKE.value(session, {"agent": scope.agent_id, "whole": words.whole})
    is_few: bool = plan[0]["Plan"]["Plan Rows"] <= COMMON_NODES
    return is_few


_FROM_OWN: Final = "select from graph_nodes where agent_id = :agent and"
_EXPECTED_ALIKE: Final = Direct(f"explain (format json) {_FROM_OWN} name %> :whole")


@cache
def _expected(words: int) -> Direct:
    """The plan whose parts say of how many nodes each is expected: all, the agent's, and those that hold the words."""
    looks = ["true"]
    for place in range(words):
        looks += [f"{NAME_WORDS} @@ to_tsquery('simple', :word{place})"]
        looks += [f"{PROPERTY_WORDS} @@ to_tsquery('simple', :word{place})"]
        looks += [f"{NAME_WORDS} @@ to_tsquery('simple', :beginning{place})"]
    own = (f"{_FROM_OWN} {look}" for look in looks)
    return Direct(f"explain (format json) {' union all '.join(['select from graph_nodes', *own])}")


def _quoted(word: str) -> str:
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"


def _beginning(word: str) -> str:
    return f"{_quoted(word)}:*"


def _like_patterns(words: Sequence[str]) -> list[str]:
    """Of texts that hold such a word anywhere; its signs mean themselves."""
    return ["%" + re.sub(r"([\\%_])", r"\\\1", word) + "%" for word in words]


_WORD: Final = re.compile(r"\w+")


class Way(IntEnum):
    """How a node was found: of two whose names hold as many words, the one found by the first of these is likelier."""

    NAMED = 0
    ALL_IN_NAME = 1
    ANY_IN_NAME = 2
    BEGINS = 3
    ALIKE = 4
    ALL_IN_PROPERTIES = 5
    ANY_IN_PROPERTIES = 6
    NEAR = 7
    """In meaning, where embeddings are configured."""
    NEWEST = 8


@dataclass(frozen=True)
class Candidate:
    id: UUID
    name: str
    updated_at: datetime
    way: int
    place: int = 0
    """Among those found the same way, where that way knows one."""


def ranked(candidates: Collection[Candidate], words: Asked | None = None) -> list[Candidate]:
    """Each once: of the very name, then with more of the words in it, then by how it was found; newer ones first."""
    first: dict[UUID, Candidate] = {}
    for each in candidates:
        if each.id not in first or each.way < first[each.id].way:
            first[each.id] = each
    newest = sorted(first.values(), key=lambda each: (-each.updated_at.timestamp(), each.id))
    return newest if words is None else sorted(newest, key=lambda each: _place(each, words))


def holds_any(name: str, words: Collection[str]) -> bool:
    small = name.lower()
    return any(word in small for word in words)


def _place(candidate: Candidate, words: Asked) -> tuple[bool, int, int, int]:
    name = candidate.name.lower()
    name_words = set(_WORD.findall(name))
    hits = sum((word in name) + (word in name_words) for word in words.words)
    return name != words.whole.lower(), -hits, candidate.way, candidate.place


@dataclass(frozen=True)
class Near:
    """What nodes are to be near to."""

    vector: Vector
    model: str
    least: float


@dataclass(frozen=True)
class Meaning:
    """By whom, and from which nearness on: the cosine of the two vectors, 0 to 1."""

    model: str
    least: float

    def request(self, text: str | None) -> EmbeddingRequest | None:
        """None where there is nothing in it."""
        words = asked(text or "")
        return None if words is None else EmbeddingRequest(self.model, (words.whole,))

    async def near(self, session: AsyncSession, scope: Scope, text: str | None) -> Near | None:
        """None where the ledger has no vector of it, or the server cannot compare any."""
        request = self.request(text)
        if request is None or not await pgvector.is_there(session):
            return None
        found = await embedding_cache.find(session, scope.agent(), request)
        return None if found is None else Near(found[0], self.model, self.least)


SHOWN: Final = 10
"""Nodes that one search adds for their meaning."""
COMPARED_EXACTLY: Final = 5_000
"""An agent's vectors up to so many are all compared, which costs milliseconds and misses none; of more the index gives
the nearest, which it may miss some of."""
_LOOKED_AT: Final = 100
"""The nearest, of which types and times then leave some out."""


async def nearest(session: AsyncSession, scope: Scope, near: Near) -> list[UUID]:
    """Nodes near enough, the nearest first."""
    given = {
        **scope.bound,
        "vector": list(near.vector),
        "model": near.model,
        "farthest": 1 - near.least,
        "most": COMPARED_EXACTLY,
    }
    few = await session.scalar(text(_FEW), given)
    if not few:
        # One index holds the vectors of all agents: it goes on until enough of this one's are found. In order it would
        # leave out what it comes upon late; they are put in order behind it.
        await session.execute(text("set local hnsw.iterative_scan = relaxed_order"))
    found = await session.execute(text(_OF_FEW if few else OF_MANY), given)
    return list(found.scalars())


def in_order(candidates: Sequence[Candidate], ids: Sequence[UUID]) -> list[Candidate]:
    """The first of them as they stand in `ids`."""
    places = {node_id: place for place, node_id in enumerate(ids)}
    placed = [replace(each, place=places[each.id]) for each in candidates]
    return sorted(placed, key=lambda each: each.place)[:SHOWN]


AMONG: Final = (
    f"select id, name, updated_at from graph_nodes where agent_id = {{agent}} and {STANDS}{{of_types}}"
    " and id = any(cast(:near_ids as uuid[]))"
)
"""As the other ways of `shared.graph.retrieval.node_search`."""

_OWN_VECTORS: Final = f"agent_id = {OWNED_SQL} and model = :model"
_FAR: Final = f"<=> cast(cast(:vector as real[]) as vector({DIMENSIONS}))"
_FEW: Final = (
    "select count(*) <= :most from"
    f" (select from node_embeddings where {_OWN_VECTORS} limit cast(:most as bigint) + 1) own"
)
# Materialized, so that it is this agent's vectors that are gone through, and not the index.
_OF_FEW: Final = (
    f"with own as materialized (select node_id, {AS_VECTOR} as meaning from node_embeddings where {_OWN_VECTORS})"
    f" select node_id from own where meaning {_FAR} <= :farthest"
    f" order by meaning {_FAR} limit {_LOOKED_AT}"
)
OF_MANY: Final = (
    "select node_id from ("
    f"select node_id, {AS_VECTOR} {_FAR} as far from node_embeddings where {_OWN_VECTORS}"
    f" order by {AS_VECTOR} {_FAR} limit {_LOOKED_AT}) nearest"
    # Added nothing to, it would count as being in order already.
    " where far <= :farthest order by far + 0"
)


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
