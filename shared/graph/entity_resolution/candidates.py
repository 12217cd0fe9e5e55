"""Duplicate candidates: nodes whose names are alike.

To search all names for trigrams takes hundreds of milliseconds among a million. So only those are compared that stand
next to the new one in one of three orders: by the key, which finds names that begin alike; by the key read backwards,
for those that end alike; by its words, the longest first, for the same words in another order. What that costs does
not depend on how many there are.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.statements import Direct, spelled
from shared.graph.entity_resolution.normalization import marks
from shared.graph.prompt_format import quoted
from shared.graph.scope import OWNED_SQL, Scope
from shared.tools import ToolRefusalError


def backwards(key: str) -> str:
    return key[::-1]


def by_length(key: str) -> str:
    """The words of a key, the longest first: names of the same words stand together whatever their order."""
    return " ".join(sorted(key.split(), key=lambda word: (-len(word), word)))


def likeness(one: str, other: str) -> float:
    """Of two keys: how many of their trigrams they share, 0 to 1."""
    return _shared(_trigrams(one), _trigrams(other))


@dataclass(frozen=True)
class Alike:
    key: str
    likeness: float


def alike(key: str, others: Iterable[str], least: float) -> Iterator[Alike]:
    """Those of `others` that read like `key` at least so much, and whose numbers and dates are the same."""
    wanted, own_marks = _trigrams(key), marks(key)
    fewest = int(least * len(wanted))
    for other in dict.fromkeys(others):
        # What costs least comes first. A key has no more trigrams than characters and one.
        if len(other) + 1 < fewest or marks(other) != own_marks:
            continue
        shared = _shared(wanted, _trigrams(other))
        if shared >= least:
            yield Alike(other, shared)


def _trigrams(key: str) -> set[str]:
    padded = [f"  {word} " for word in key.split()]
    return {word[at : at + 3] for word in padded for at in range(len(word) - 2)}


def _shared(one: set[str], other: set[str]) -> float:
    both = len(one & other)
    return both / (len(one) + len(other) - both)


LIKENESS: Final = 0.55
"""From which on two names may mean the same thing, unless settings say otherwise."""
MOST: Final = 5
_BESIDE: Final = 12
"""Names compared before and behind the new one, in each order."""
_NAMES: Final = (
    f"select id, name from graph_nodes where agent_id = {OWNED_SQL} and id in ({{values}})"
)


@dataclass(frozen=True)
class Double:
    """A node that may be the one that is meant."""

    node_id: UUID
    name: str
    likeness: float


async def likely(
    session: AsyncSession,
    scope: Scope,
    type_name: str,
    key: str,
    least: float,
    *,
    but: UUID | None = None,
) -> list[Double]:
    """At most MOST nodes of the type that are called like `key`, the likest first; `but` the one that is asked for."""
    found = await _BESIDE_IT.rows(session, beside(scope, type_name, key))
    holders = {key: node_id for key, node_id in found if node_id != but}
    return await likest(session, scope, key, holders, least)


async def likest(
    session: AsyncSession, scope: Scope, key: str, holders: Mapping[str, UUID], least: float
) -> list[Double]:
    """As `likely`, of those that stand beside it: by their keys the nodes that have them."""
    best = best_of(key, holders, least)
    names = await _names(session, scope, list(best))
    return [Double(each, names[each], best[each]) for each in best if each in names]


def best_of(key: str, holders: Mapping[str, UUID], least: float) -> dict[UUID, float]:
    """How much alike, of those that are called most like `key`: MOST of them, the likest first."""
    best: dict[UUID, float] = {}
    for each in alike(key, holders, least):
        holder = holders[each.key]
        best[holder] = max(each.likeness, best.get(holder, 0.0))
    order = sorted(best, key=lambda node_id: (-best[node_id], node_id))[:MOST]
    return {node_id: best[node_id] for node_id in order}


def refuse_undecided(doubles: Sequence[Double], distinct_from: Collection[UUID]) -> None:
    """Raises ToolRefusalError unless the model has said of every one of `doubles` that it is another thing."""
    if all(each.node_id in distinct_from for each in doubles):
        return
    told = ", ".join(
        f"[node:{each.node_id}] {quoted(each.name)} ({each.likeness:.2f})" for each in doubles
    )
    ids = ", ".join(f'"{each.node_id}"' for each in doubles)
    raise ToolRefusalError(
        f"There is {told}, which may be the same thing. If one of them is, add it under that name; "
        f"if none is, call again with distinctFrom: [{ids}]."
    )


async def _names(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> dict[UUID, str]:
    if not ids:
        return {}
    statement, given = spelled(_NAMES, "id", ids)
    return {row.id: row.name for row in await statement.rows(session, {**scope.bound, **given})}


def beside(scope: Scope, type_name: str, key: str) -> dict[str, Any]:
    """What `BESIDE_SQL` is given."""
    of_key = {"key": key, "backwards": backwards(key), "by_length": by_length(key)}
    return {**scope.bound, "type": type_name, **of_key}


def windows(value: str) -> str:
    """Keys, and whose they are, beside one. `value` is what each column of it is called, with `{}` for the column."""
    return " union ".join(
        f"(select key, node_id from graph_names where agent_id = {OWNED_SQL}"
        f" and type = {value.format('type')} and {column} {comes} {value.format(column)}"
        f" order by {column} {order} limit {_BESIDE})"
        for column in ("key", "backwards", "by_length")
        for comes, order in ((">=", "asc"), ("<", "desc"))
    )


BESIDE_SQL: Final = windows(":{}")
"""Keys, and whose they are, beside one."""
_BESIDE_IT: Final = Direct(BESIDE_SQL)
