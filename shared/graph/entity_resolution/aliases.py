"""Aliases: a name is taken before its node is written, so that one thing becomes one node.

Nodes that were written before names were kept are found by their exact name, and take it then.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database import ids
from shared.database.locks import write_beside_others
from shared.database.statements import spelled
from shared.database.tables import GraphName
from shared.errors import TransientError
from shared.graph import upsert
from shared.graph.entity_resolution import candidates, normalization
from shared.graph.entity_resolution.candidates import (
    BESIDE_SQL,
    Double,
    backwards,
    beside,
    by_length,
)
from shared.graph.prompt_format import quoted
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.validation import normal_name
from shared.tools import ToolRefusalError

Key = tuple[str, str]
"""A type, and the key of a name."""


@dataclass(frozen=True)
class Known:
    """The node that a thing is, and the name that it has there."""

    node_id: UUID
    name: str
    is_there: bool = True
    """Or yet to be written."""


@dataclass(frozen=True)
class Seen:
    """What there is for one thing."""

    held: dict[Key, Known] = field(default_factory=dict)
    written: UUID | None = None
    """The node of exactly its name."""
    beside: dict[str, UUID] = field(default_factory=dict)
    """The keys that stand beside its own, and whose they are; none where it is held."""


# The node of a name may be one that this very transaction has yet to write.
_LOOK: Final = f"""
    select 'held' as how, held.key, held.node_id,
           coalesce(node.name, held.name) as told, node.id is not null as is_there
    from graph_names held left join graph_nodes node on node.id = held.node_id
    where held.agent_id = {OWNED_SQL} and held.type = :type and held.key in ({{values}})
    union all
    select 'written', name, id, name, true from graph_nodes
    where agent_id = {OWNED_SQL} and type = :type and name = :called
    union all
    select 'beside', key, node_id, key, true from ({BESIDE_SQL}) as beside
    where cast(:is_compared as boolean) and not exists (
        select from graph_names where agent_id = {OWNED_SQL} and type = :type and key = :key
    )
    """


async def look(
    session: AsyncSession,
    scope: Scope,
    main: Key,
    others: Iterable[Key],
    name: str,
    *,
    is_compared: bool,
) -> Seen:
    """Of a thing called `name`, whose key is `main`; what stands beside that only where it `is_compared`."""
    kind, key = main
    statement, keys = spelled(_LOOK, "key", [key, *(other for _, other in others)])
    asked = {**beside(scope, kind, key), "called": name, "is_compared": is_compared}
    rows = await statement.tuples(session, {**asked, **keys})
    seen = Seen()
    for how, held, node_id, told, is_there in rows:
        if how == "beside":
            seen.beside[held] = node_id
        elif how == "held":
            seen.held[kind, held] = Known(node_id, told, is_there)
        else:
            seen = replace(seen, written=node_id)
    return seen


MAX_ALIASES: Final = 10
MAX_ROUNDS: Final = 20
"""In each somebody else has taken one of our names meanwhile."""

Row = dict[str, object]


@dataclass(frozen=True)
class Called:
    """A thing by its name, which is normal, and by what else it is called."""

    type_name: str
    name: str
    aliases: Sequence[str] = ()
    distinct_from: Collection[UUID] = ()
    """Nodes that it is not, however alike they are called."""
    likeness: float | None = None
    """From which on similar names are put to who adds it before a new node is made; None asks nobody."""


@dataclass(frozen=True)
class _Wanted:
    """The keys of one thing, each with the name as it is written."""

    called: Called
    main: Key
    implied: Mapping[Key, str]
    """By its name itself: a ticker, initials. Where another has them, it does without."""
    aliases: Mapping[Key, str]

    @property
    def all(self) -> dict[Key, str]:
        return {**self.implied, **self.aliases, self.main: self.called.name}


@dataclass(frozen=True)
class Settled:
    """For each thing its node, and the names that are theirs once they are taken, in the order in which everybody does."""

    known: Sequence[Known]
    missing: Sequence[Row]


async def settle(session: AsyncSession, scope: Scope, things: Sequence[Called]) -> Sequence[Known]:
    """For each thing its node: the one that has its name already, else one that is yet to be written.

    The names, and with them the new nodes, are taken until the transaction ends. One that adds several things must
    settle all of them at once, and then add them as they are known, in the order of their ids: else two wait for each other.
    Refuses as `find` does.
    """
    await write_beside_others(session, scope.agent_id)
    for _ in range(MAX_ROUNDS):
        settled = await find(session, scope, things)
        async with session.begin_nested() as attempt:
            if await take(session, settled.missing):
                return settled.known
            await attempt.rollback()
    raise TransientError(f"{len(settled.missing)} names are being taken by others, again and again")


async def find(session: AsyncSession, scope: Scope, things: Sequence[Called]) -> Settled:
    """What `settle` takes; the turn is had before. Refuses aliases that other nodes have, and what may be a double."""
    wanted = [_wanted(thing) for thing in things]
    seen = [await _look(session, scope, each) for each in wanted]
    held = {key: known for each in seen for key, known in each.held.items()}
    missing: dict[Key, tuple[str, UUID]] = {}
    known = [
        await _settled(session, scope, each, found, held, missing)
        for each, found in zip(wanted, seen, strict=True)
    ]
    return Settled(known, [row(scope, key, *missing[key]) for key in sorted(missing)])


async def take(session: AsyncSession, rows: Sequence[Row]) -> bool:
    """False where another has one of them; the others must be given back then."""
    return not rows or await upsert.take(session, rows)


async def of_node(session: AsyncSession, scope: Scope, node_id: UUID) -> list[str]:
    """What a node is called, as it was written, the first name first."""
    rows = await session.scalars(
        select(GraphName.name)
        .where(GraphName.agent_id == scope.agent(), GraphName.node_id == node_id)
        .order_by(GraphName.created_at, GraphName.key)
    )
    return list(rows)


async def of_nodes(
    session: AsyncSession, scope: Scope, node_ids: Collection[UUID]
) -> dict[UUID, dict[str, str]]:
    """As `of_node`, of many, each name by its key; nodes without any are left out."""
    rows = await session.execute(
        select(GraphName.node_id, GraphName.key, GraphName.name)
        .where(GraphName.agent_id == scope.agent(), GraphName.node_id.in_(node_ids))
        .order_by(GraphName.created_at, GraphName.key)
    )
    found: dict[UUID, dict[str, str]] = {}
    for node_id, key, name in rows:
        found.setdefault(node_id, {})[key] = name
    return found


def row(scope: Scope, key: Key, name: str, node_id: UUID) -> Row:
    """The columns of a name that is taken now."""
    type_name, text = key
    return {
        "agent_id": scope.agent_id,
        "type": type_name,
        "key": text,
        "backwards": backwards(text),
        "by_length": by_length(text),
        "name": name,
        "node_id": node_id,
        "step_id": scope.step_id,
    }


def _wanted(called: Called) -> _Wanted:
    if len(called.aliases) > MAX_ALIASES:
        raise ToolRefusalError(
            f"aliases: {len(called.aliases)} are more than the {MAX_ALIASES} that are kept; "
            "give those that texts use."
        )
    kind = called.type_name
    reading = normalization.read(called.name, kind)
    aliases: dict[Key, str] = {}
    for alias in called.aliases:
        written = normal_name(alias, "aliases")
        aliases[kind, normalization.read(written, kind).key] = written
    implied = {(kind, key): key for key in reading.also}
    return _Wanted(called, (kind, reading.key), implied, aliases)


async def _look(session: AsyncSession, scope: Scope, wanted: _Wanted) -> Seen:
    called = wanted.called
    others = [key for key in wanted.all if key != wanted.main]
    is_compared = called.likeness is not None
    return await look(session, scope, wanted.main, others, called.name, is_compared=is_compared)


async def _settled(
    session: AsyncSession,
    scope: Scope,
    wanted: _Wanted,
    seen: Seen,
    held: dict[Key, Known],
    missing: dict[Key, tuple[str, UUID]],
) -> Known:
    """Its node; adds to `held` and `missing` what it takes of names that nobody has."""
    called = wanted.called
    holder = held.get(wanted.main)
    if holder is None and seen.written is not None:
        # From before names were kept.
        holder = Known(seen.written, called.name)
    if holder is None:
        await _refuse_double(session, scope, wanted, seen.beside, held)
        node_id = ids.node_id(scope.agent_id, called.type_name, called.name)
        holder = Known(node_id, called.name, is_there=False)
    _refuse_names_of_others(wanted, held, holder)
    for key, name in wanted.all.items():
        if key not in held:
            held[key] = holder
            missing[key] = (name, holder.node_id)
    return holder


async def _refuse_double(
    session: AsyncSession,
    scope: Scope,
    wanted: _Wanted,
    beside: Mapping[str, UUID],
    held: Mapping[Key, Known],
) -> None:
    called = wanted.called
    if called.likeness is None:
        return
    same = {held[key] for key in wanted.implied if key in held}
    told = [Double(each.node_id, each.name, 1.0) for each in same]
    _, key = wanted.main
    alike = await candidates.likest(session, scope, key, beside, called.likeness)
    told += [each for each in alike if each.node_id not in {known.node_id for known in told}]
    candidates.refuse_undecided(told[: candidates.MOST], called.distinct_from)


def _refuse_names_of_others(wanted: _Wanted, held: Mapping[Key, Known], holder: Known) -> None:
    for key, alias in wanted.aliases.items():
        other = held.get(key, holder)
        if other.node_id != holder.node_id:
            raise ToolRefusalError(
                f"aliases: {quoted(alias)} is a name of [node:{other.node_id}] {quoted(other.name)}. If that is the "
                "same thing, add it under that name; if not, leave the alias out."
            )
