"""Finding nodes by words, types and times: whatever is asked of whatever graph, so many rows are looked at and no more."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    Integer,
    Select,
    Text,
    case,
    cast,
    func,
    literal,
    or_,
    select,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import Scope
from shared.graph.words import Asked, Rare, all_of, any_of, asked, rare
from shared.store.tables import Evidence, GraphNode
from shared.store.tables.graph import NAME_IN_SMALL, NAME_WORDS, PROPERTY_WORDS

RANKED: Final = 200
"""Nodes that are compared with one another; of each way to find some, as many are fetched."""
_PROPERTIES_CHARACTERS: Final = 4_000
"""Of a node's properties that are read when it is ranked."""


@dataclass(frozen=True)
class Sought:
    """What nodes must be; `ids` and `types` are any of them, and every one where there are none."""

    text: str | None = None
    types: Sequence[str] = ()
    ids: Sequence[UUID] = ()
    updated_since: datetime | None = None
    as_of: datetime | None = None
    """Left out is what all evidence says was true at other times only."""


@dataclass(frozen=True)
class Found:
    """The best first, and in words what was not looked at."""

    nodes: list[GraphNode]
    is_all: bool
    common: list[str] = field(default_factory=list)
    """Words that so many nodes hold that only those touched last were looked through for them."""


async def find(session: AsyncSession, scope: Scope, sought: Sought, limit: int) -> Found:
    """At most `limit` nodes: by how well they match the text, and then those touched last first."""
    words = asked(sought.text or "")
    if words is None:
        newest = _without_words(scope, sought, limit)
        return _found(await _rows(session, scope, sought, newest, (), limit), limit)
    if sought.ids:
        given = select(GraphNode.id).where(GraphNode.id.in_(sought.ids), _holds(words))
        return _found(await _rows(session, scope, sought, given, _ranks(words), limit), limit)
    few = await rare(session, scope, words)
    ways = [_looked_up(scope, sought, way, n) for n, way in enumerate(_ways(words, few))]
    candidates = _any_of([*ways, _among_newest(scope, sought, words)])
    rows = await _rows(session, scope, sought, candidates, _ranks(words), limit)
    if few.is_spelling and not any(_shares_a_word(row.name, words) for row in rows):
        alike = _looked_up(scope, sought, _is_alike(words), len(ways))
        near = func.word_similarity(words.whole, GraphNode.name).desc()
        rows = [*await _rows(session, scope, sought, _any_of([alike]), [near], limit), *rows]
    looked_up = {*few.in_names, *few.in_properties}
    return _found(rows, limit, [word for word in words.words if word not in looked_up])


async def by_ids(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> list[GraphNode]:
    """Those of them that the agent has, in this order."""
    if not ids:
        return []
    found = await find(session, scope, Sought(ids=ids), len(ids))
    by_id = {node.id: node for node in found.nodes}
    return [by_id[each] for each in ids if each in by_id]


def _found(rows: Sequence[GraphNode], limit: int, common: Sequence[str] = ()) -> Found:
    nodes = list({row.id: row for row in rows}.values())
    return Found(nodes[:limit], len(nodes) <= limit, list(common))


async def _rows(
    session: AsyncSession,
    scope: Scope,
    sought: Sought,
    candidates: Select[Any],
    ranks: Iterable[ColumnElement[Any]],
    limit: int,
) -> list[GraphNode]:
    """One more than `limit`, where there are as many: so it is known whether that is all."""
    rows = await session.scalars(
        select(GraphNode)
        .where(GraphNode.agent_id == scope.agent(), GraphNode.id.in_(candidates), *_filters(sought))
        .order_by(*ranks, GraphNode.updated_at.desc(), GraphNode.id)
        .limit(limit + 1)
        .execution_options(populate_existing=True)
    )
    return list(rows)


def _without_words(scope: Scope, sought: Sought, limit: int) -> Select[Any]:
    if sought.ids:
        return select(GraphNode.id).where(GraphNode.id.in_(sought.ids))
    wanted = limit + 1 if sought.as_of is None else RANKED
    return select(_newest(scope, sought, wanted).subquery().c.id)


def _any_of(ways: Sequence[Select[Any]]) -> Select[Any]:
    """PostgreSQL goes from one to the next and stops where it has enough: so the likeliest and cheapest come first."""
    return select(union_all(*ways).limit(RANKED).subquery().c.id)


def _ways(words: Asked, few: Rare) -> Iterator[ColumnElement[bool]]:
    """Conditions that an index answers, none of them alone true of very many nodes."""
    yield func.lower(words.whole) == NAME_IN_SMALL
    if few.in_names or len(words.words) > 1:
        yield NAME_WORDS.op("@@")(all_of(words.words))
    if few.in_names:
        yield NAME_WORDS.op("@@")(any_of(few.in_names, of_names=True))
    if few.in_properties:
        yield PROPERTY_WORDS.op("@@")(all_of(words.words))
        yield PROPERTY_WORDS.op("@@")(any_of(few.in_properties))


def _is_alike(words: Asked) -> ColumnElement[bool]:
    """Some part of the name is spelt much as the text is."""
    return GraphNode.name.op("%>")(words.whole)


def _shares_a_word(name: str, words: Asked) -> bool:
    small = name.lower()
    return any(word in small for word in words.words)


def _looked_up(scope: Scope, sought: Sought, way: ColumnElement[bool], number: int) -> Select[Any]:
    # Planned as if all were wanted, so that it is the index that is asked, and fetched only as far as they are: with the
    # limit inside, PostgreSQL would at times rather go through the table until it has met enough.
    found = (
        select(GraphNode.id, GraphNode.updated_at)
        .where(GraphNode.agent_id == scope.agent(), *_of_types(sought), way)
        .cte(f"way_{number}")
        .prefix_with("materialized")
    )
    some = select(found).limit(RANKED).subquery()
    since = [] if sought.updated_since is None else [some.c.updated_at >= sought.updated_since]
    return select(some.c.id).where(*since)


def _among_newest(scope: Scope, sought: Sought, words: Asked) -> Select[Any]:
    newest = _newest(scope, sought, RANKED).subquery()
    return select(GraphNode.id).join(newest, newest.c.id == GraphNode.id).where(_holds(words))


def _newest(scope: Scope, sought: Sought, limit: int) -> Select[Any]:
    """Ids of those touched last. Each type through its own part of the index: one after the other could be far apart."""
    since = [] if sought.updated_since is None else [GraphNode.updated_at >= sought.updated_since]
    each = [
        select(
            select(GraphNode.id, GraphNode.updated_at)
            .where(GraphNode.agent_id == scope.agent(), *of_type, *since)
            .order_by(GraphNode.updated_at.desc(), GraphNode.id)
            .limit(limit)
            .subquery()
        )
        for of_type in ([[GraphNode.type == name] for name in sought.types] or [[]])
    ]
    all_types = union_all(*each).subquery()
    return (
        select(all_types.c.id).order_by(all_types.c.updated_at.desc(), all_types.c.id).limit(limit)
    )


def _of_types(sought: Sought) -> list[ColumnElement[bool]]:
    return [GraphNode.type.in_(sought.types)] if sought.types else []


def _filters(sought: Sought) -> Iterator[ColumnElement[bool]]:
    yield from _of_types(sought)
    if sought.updated_since is not None:
        yield GraphNode.updated_at >= sought.updated_since
    if sought.as_of is not None:
        known = select(1).where(Evidence.node_id == GraphNode.id).correlate(GraphNode)
        began = or_(Evidence.valid_from.is_(None), Evidence.valid_from <= sought.as_of)
        lasted = or_(Evidence.valid_to.is_(None), Evidence.valid_to > sought.as_of)
        yield or_(~known.exists(), known.where(began, lasted).exists())


def _holds(words: Asked) -> ColumnElement[bool]:
    return or_(*(or_(_in_name(word), _in_properties(word)) for word in words.words))


def _ranks(words: Asked) -> Iterator[ColumnElement[Any]]:
    """The same name, then more words of it, then more words of the properties."""
    yield (func.lower(words.whole) == NAME_IN_SMALL).desc()
    yield _sum(
        [
            case((NAME_WORDS.op("@@")(all_of([word])), 2), (_in_name(word), 1), else_=0)
            for word in words.words
        ]
    ).desc()
    yield _sum([cast(_in_properties(word), Integer) for word in words.words]).desc()


def _sum(counts: Sequence[ColumnElement[int]]) -> ColumnElement[int]:
    total: ColumnElement[int] = literal(0)
    for count in counts:
        total = total + count
    return total


def _in_name(word: str) -> ColumnElement[bool]:
    return GraphNode.name.icontains(word, autoescape=True)


def _in_properties(word: str) -> ColumnElement[bool]:
    start = func.left(cast(GraphNode.properties, Text), _PROPERTIES_CHARACTERS)
    return start.icontains(word, autoescape=True)
