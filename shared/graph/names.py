"""Whose name is whose: a name is taken before its node is written, so that two who write it make one node.

Nodes that were written before names were kept are found by their exact name, and take it then.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sqlalchemy import func, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.errors import TransientError
from shared.graph import doubles, naming
from shared.graph.doubles import Double
from shared.graph.likeness import backwards, by_length
from shared.graph.lines import quoted
from shared.graph.scope import Scope
from shared.graph.turns import write_beside_others
from shared.graph.values import normal_name
from shared.store import ids
from shared.store.tables import GraphName, GraphNode
from shared.tools import ToolRefusalError

MAX_ALIASES: Final = 10
_MAX_ROUNDS: Final = 20
"""In each somebody else has taken one of our names meanwhile."""

Key = tuple[str, str]
"""A type, and the key of a name."""


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
class Known:
    """The node that a thing is, and the name that it has there."""

    node_id: UUID
    name: str


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


async def settle(session: AsyncSession, scope: Scope, things: Sequence[Called]) -> list[Known]:
    """For each thing its node: the one that has its name already, else one that is yet to be written.

    The names, and with them the new nodes, are taken until the transaction ends. One that adds several things must
    settle all of them at once, and then add them as they are known, in the order of their ids: else two wait for each other.
    Refuses aliases that other nodes have, and what may be a double of a node.
    """
    await write_beside_others(session, scope)
    wanted = [_wanted(thing) for thing in things]
    for _ in range(_MAX_ROUNDS):
        held = await _held(session, scope, wanted)
        missing: dict[Key, tuple[str, UUID]] = {}
        known = [await _settled(session, scope, each, held, missing) for each in wanted]
        if await _took_all(session, scope, missing):
            return known
    raise TransientError(f"{len(missing)} names are being taken by others, again and again")


async def of_node(session: AsyncSession, scope: Scope, node_id: UUID) -> list[str]:
    """What a node is called, as it was written, the first name first."""
    rows = await session.scalars(
        select(GraphName.name)
        .where(GraphName.agent_id == scope.agent(), GraphName.node_id == node_id)
        .order_by(GraphName.created_at, GraphName.key)
    )
    return list(rows)


def row(scope: Scope, key: Key, name: str, node_id: UUID) -> dict[str, object]:
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
    reading = naming.read(called.name, kind)
    aliases: dict[Key, str] = {}
    for alias in called.aliases:
        written = normal_name(alias, "aliases")
        aliases[kind, naming.read(written, kind).key] = written
    implied = {(kind, key): key for key in reading.also}
    return _Wanted(called, (kind, reading.key), implied, aliases)


async def _held(session: AsyncSession, scope: Scope, wanted: Sequence[_Wanted]) -> dict[Key, Known]:
    keys = sorted({key for each in wanted for key in each.all})
    rows = await session.execute(
        select(
            GraphName.type,
            GraphName.key,
            GraphName.node_id,
            func.coalesce(GraphNode.name, GraphName.name),
        )
        # Whose node this very transaction has yet to write.
        .join(GraphNode, GraphNode.id == GraphName.node_id, isouter=True)
        .where(GraphName.agent_id == scope.agent(), tuple_(GraphName.type, GraphName.key).in_(keys))
    )
    return {(kind, key): Known(node_id, name) for kind, key, node_id, name in rows}


async def _settled(
    session: AsyncSession,
    scope: Scope,
    wanted: _Wanted,
    held: dict[Key, Known],
    missing: dict[Key, tuple[str, UUID]],
) -> Known:
    """Its node; adds to `held` and `missing` what it takes of names that nobody has."""
    holder = held.get(wanted.main) or await _written_before(session, scope, wanted.called)
    if holder is None:
        await _refuse_double(session, scope, wanted, held)
        called = wanted.called
        holder = Known(ids.node_id(scope.agent_id, called.type_name, called.name), called.name)
    _refuse_names_of_others(wanted, held, holder)
    for key, name in wanted.all.items():
        if key not in held:
            held[key] = holder
            missing[key] = (name, holder.node_id)
    return holder


async def _written_before(session: AsyncSession, scope: Scope, called: Called) -> Known | None:
    """The node of exactly this name, from before names were kept."""
    node_id = await session.scalar(
        select(GraphNode.id).where(
            GraphNode.agent_id == scope.agent(),
            GraphNode.type == called.type_name,
            GraphNode.name == called.name,
        )
    )
    return None if node_id is None else Known(node_id, called.name)


async def _refuse_double(
    session: AsyncSession, scope: Scope, wanted: _Wanted, held: Mapping[Key, Known]
) -> None:
    called = wanted.called
    if called.likeness is None:
        return
    same = {held[key] for key in wanted.implied if key in held}
    told = [Double(each.node_id, each.name, 1.0) for each in same]
    kind, key = wanted.main
    alike = await doubles.likely(session, scope, kind, key, called.likeness)
    told += [each for each in alike if each.node_id not in {known.node_id for known in told}]
    doubles.refuse_undecided(told[: doubles.MOST], called.distinct_from)


def _refuse_names_of_others(wanted: _Wanted, held: Mapping[Key, Known], holder: Known) -> None:
    for key, alias in wanted.aliases.items():
        other = held.get(key, holder)
        if other.node_id != holder.node_id:
            raise ToolRefusalError(
                f"aliases: {quoted(alias)} is a name of [node:{other.node_id}] {quoted(other.name)}. If that is the "
                "same thing, add it under that name; if not, leave the alias out."
            )


async def _took_all(
    session: AsyncSession, scope: Scope, missing: Mapping[Key, tuple[str, UUID]]
) -> bool:
    """Whether all of them are ours now; where not, none is."""
    if not missing:
        return True
    # In one order, whoever takes them.
    rows = [row(scope, key, *missing[key]) for key in sorted(missing)]
    if len(rows) == 1:
        return await _took(session, rows) == 1
    async with session.begin_nested() as attempt:
        if await _took(session, rows) == len(rows):
            return True
        await attempt.rollback()
    return False


async def _took(session: AsyncSession, rows: Iterable[dict[str, object]]) -> int:
    statement = insert(GraphName).values(list(rows)).on_conflict_do_nothing()
    return len((await session.scalars(statement.returning(GraphName.key))).all())
