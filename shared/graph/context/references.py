"""What the Observer meant by the nodes it named."""

import unicodedata
from collections.abc import Collection, Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.listing import ANY_OF_IDS, listed
from shared.graph.moves import current_ids
from shared.graph.scope import OWNED, OWNED_SQL, Scope
from shared.graph.values import one_line
from shared.store.direct import Direct
from shared.store.tables import GraphNode
from shared.store.tables.graph import NAME_IN_SMALL

MAX_REFERENCES = 200
_MAX_NODES_OF_A_NAME = 5

_EXISTING: Final = Direct(
    select(GraphNode.id).where(GraphNode.agent_id == OWNED, GraphNode.id == ANY_OF_IDS)
)
_NAMED: Final = Direct(f"""
select name, id from graph_nodes
where agent_id = {OWNED_SQL}
  and {NAME_IN_SMALL} = any(array(select lower(each) from unnest(cast(:names as text[])) as each))
order by updated_at desc, id
""")


async def resolve(
    session: AsyncSession, scope: Scope, references: Sequence[str]
) -> tuple[list[UUID], list[str]]:
    """The nodes that `references` mean, each once and in their order, and the references that mean none.

    A reference is a node's id (bare, or as the citation `[node:uuid]`) or its name, whatever the case; a name that
    nodes of several types bear means all of them.
    """
    asked = list(dict.fromkeys(references))
    by_id = {text: node_id for text in asked[:MAX_REFERENCES] if (node_id := _as_id(text))}
    names = [_name(text) for text in asked[:MAX_REFERENCES] if text not in by_id]
    current = await _current(session, scope, set(by_id.values()))
    named = await _named(session, scope, names)
    resolved: dict[UUID, None] = {}
    dropped = []
    for text in asked:
        node_id = current.get(by_id[text]) if text in by_id else None
        meant = [node_id] if node_id else named.get(_name(text).lower(), [])
        resolved.update(dict.fromkeys(meant))
        if not meant:
            dropped.append(text)
    return list(resolved), dropped


def _as_id(text: str) -> UUID | None:
    bare = text.strip(" \t\n\"'`<>").removeprefix("[").removesuffix("]").removeprefix("node:")
    try:
        return UUID(bare.strip(" \"'`"))
    except ValueError:
        return None


def _name(text: str) -> str:
    # PostgreSQL refuses NUL even in a question.
    return unicodedata.normalize("NFC", one_line(text.replace("\x00", " ")))


async def _current(session: AsyncSession, scope: Scope, ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Of `ids`, those of nodes, each with the id under which its node is found: a merge may have moved it."""
    existing = await _existing(session, scope, ids)
    moved = await current_ids(session, scope, set(ids) - existing)
    kept = await _existing(session, scope, moved.values())
    return {each: each for each in existing} | {
        gone: node_id for gone, node_id in moved.items() if node_id in kept
    }


async def _existing(session: AsyncSession, scope: Scope, ids: Collection[UUID]) -> set[UUID]:
    if not ids:
        return set()
    rows = await _EXISTING.rows(session, {**scope.bound, "ids": listed(ids)})
    return {row.id for row in rows}


async def _named(
    session: AsyncSession, scope: Scope, names: Sequence[str]
) -> dict[str, list[UUID]]:
    """Ids by name in small letters, the nodes touched last first."""
    if not names:
        return {}
    found: dict[str, list[UUID]] = {}
    for name, node_id in await _NAMED.rows(session, {**scope.bound, "names": list(names)}):
        found.setdefault(name.lower(), []).append(node_id)
    return {name: ids[:_MAX_NODES_OF_A_NAME] for name, ids in found.items()}
