"""What the Observer meant by the nodes it named."""

import unicodedata
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.moves import current_ids
from shared.graph.scope import Scope
from shared.graph.values import one_line
from shared.store.tables import GraphNode

MAX_REFERENCES = 200
_MAX_NODES_OF_A_NAME = 5


async def resolve(
    session: AsyncSession, scope: Scope, references: Sequence[str]
) -> tuple[list[UUID], list[str]]:
    """The nodes that `references` mean, each once and in their order, and the references that mean none.

    A reference is a node's id (bare, or as the citation `[node:uuid]`) or its name, whatever the case; a name that
    nodes of several types bear means all of them.
    """
    asked = list(dict.fromkeys(references))
    by_id = {text: node_id for text in asked[:MAX_REFERENCES] if (node_id := _as_id(text))}
    moved = await current_ids(session, scope, by_id.values())
    by_id = {text: moved.get(node_id, node_id) for text, node_id in by_id.items()}
    names = [_name(text) for text in asked[:MAX_REFERENCES] if text not in by_id]
    existing = await _existing(session, scope, list(by_id.values()))
    named = await _named(session, scope, names)
    resolved: dict[UUID, None] = {}
    dropped = []
    for text in asked:
        meant = [by_id[text]] if by_id.get(text) in existing else named.get(_name(text).lower(), [])
        resolved.update(dict.fromkeys(meant))
        if not meant:
            dropped.append(text)
    return list(resolved), dropped


def _as_id(text: str) -> UUID | None:
    bare = text.strip().removeprefix("[").removesuffix("]").removeprefix("node:")
    try:
        return UUID(bare.strip())
    except ValueError:
        return None


def _name(text: str) -> str:
    # PostgreSQL refuses NUL even in a question.
    return unicodedata.normalize("NFC", one_line(text.replace("\x00", " ")))


async def _existing(session: AsyncSession, scope: Scope, ids: Sequence[UUID]) -> set[UUID]:
    return set(
        await session.scalars(
            select(GraphNode.id).where(GraphNode.agent_id == scope.agent(), GraphNode.id.in_(ids))
        )
    )


async def _named(
    session: AsyncSession, scope: Scope, names: Sequence[str]
) -> dict[str, list[UUID]]:
    """Ids by name in small letters, the nodes touched last first."""
    rows = await session.execute(
        select(GraphNode.name, GraphNode.id)
        .where(
            GraphNode.agent_id == scope.agent(),
            func.lower(GraphNode.name).in_([func.lower(name) for name in names]),
        )
        .order_by(GraphNode.updated_at.desc(), GraphNode.id)
    )
    found: dict[str, list[UUID]] = {}
    for name, node_id in rows:
        found.setdefault(name.lower(), []).append(node_id)
    return {name: ids[:_MAX_NODES_OF_A_NAME] for name, ids in found.items()}
