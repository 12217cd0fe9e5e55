"""Who has which names, and which names stand beside them: in one statement, before any of them is taken."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.doubles import BESIDE_SQL
from shared.graph.likeness import backwards, by_length
from shared.graph.scope import OWNED_SQL, Scope

Key = tuple[str, str]
"""A type, and the key of a name."""
Name = tuple[str, str]
"""A type, and a name as it is written."""


@dataclass(frozen=True)
class Known:
    """The node that a thing is, and the name that it has there."""

    node_id: UUID
    name: str
    is_there: bool = True
    """Or yet to be written."""


@dataclass(frozen=True)
class Seen:
    held: dict[Key, Known] = field(default_factory=dict)
    written: dict[Name, UUID] = field(default_factory=dict)
    """Nodes of exactly these names."""
    beside: dict[Key, dict[str, UUID]] = field(default_factory=dict)
    """For keys that nobody has, those beside them and whose they are."""


# The node of a name may be one that this very transaction has yet to write.
_LOOK: Final = text(
    f"""
    select 'held' as how, held.type, held.key, held.node_id,
           coalesce(node.name, held.name) as told, node.id is not null as is_there
    from unnest(cast(:types as text[]), cast(:keys as text[])) as asked (type, key)
    join graph_names held
        on held.agent_id = {OWNED_SQL} and held.type = asked.type and held.key = asked.key
    left join graph_nodes node on node.id = held.node_id
    union all
    select 'written', node.type, node.name, node.id, node.name, true
    from unnest(cast(:of_types as text[]), cast(:called as text[])) as asked (type, name)
    join graph_nodes node
        on node.agent_id = {OWNED_SQL} and node.type = asked.type and node.name = asked.name
    union all
    select 'beside', wanted.type, wanted.key, beside.node_id, beside.key, true
    from unnest(
        cast(:new_types as text[]), cast(:new_keys as text[]),
        cast(:new_backwards as text[]), cast(:new_by_length as text[])
    ) as wanted (type, key, backwards, by_length)
    cross join lateral ({BESIDE_SQL}) as beside
    where not exists (
        select from graph_names
        where agent_id = {OWNED_SQL} and type = wanted.type and key = wanted.key
    )
    """
)


async def look(
    session: AsyncSession,
    scope: Scope,
    keys: Sequence[Key],
    names: Sequence[Name],
    new: Sequence[Key],
) -> Seen:
    """Who has `keys`, which nodes are called `names`, and for those of `new` that nobody has what stands beside them."""
    types, texts = _columns(keys)
    of_types, called = _columns(names)
    new_types, new_keys = _columns(new)
    rows = await session.execute(
        _LOOK,
        {
            **scope.bound,
            "types": types,
            "keys": texts,
            "of_types": of_types,
            "called": called,
            "new_types": new_types,
            "new_keys": new_keys,
            "new_backwards": [backwards(key) for key in new_keys],
            "new_by_length": [by_length(key) for key in new_keys],
        },
    )
    seen = Seen()
    for how, kind, key, node_id, told, is_there in rows:
        if how == "beside":
            seen.beside.setdefault((kind, key), {})[told] = node_id
        elif how == "held":
            seen.held[kind, key] = Known(node_id, told, is_there)
        else:
            seen.written[kind, key] = node_id
    return seen


def _columns(pairs: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [kind for kind, _ in pairs], [text for _, text in pairs]
