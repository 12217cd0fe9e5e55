"""Who has which names, and which names stand beside them: in one statement, before any of them is taken."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.doubles import BESIDE_SQL, beside
from shared.graph.scope import OWNED_SQL, Scope
from shared.graph.spelled import spelled

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
