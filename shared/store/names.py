"""Names of agents, each once among its owner's whatever the case."""

from collections.abc import Iterator
from itertools import count
from typing import Final
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.storable import refuse_nul
from shared.store.tables import Agent

NAME_CHARACTERS: Final = (1, 80)


def checked(text: str) -> str:
    """`text` as an agent's name, its blanks folded. Raises ValueError where it can be none."""
    name = " ".join(text.split())
    shortest, longest = NAME_CHARACTERS
    if not shortest <= len(name) <= longest:
        raise ValueError(f"a name has {shortest} to {longest} characters, this one {len(name)}")
    if "/" in name or not any(character.isalnum() for character in name):
        raise ValueError("a name has a letter or digit and no slash, for it stands in addresses")
    return refuse_nul(name)


async def free(
    session: AsyncSession, owner_id: UUID, wanted: str, *, but: UUID | None = None
) -> str:
    """The first of the names after `wanted` that none of the owner's agents has; that of `but` is not counted.

    Another transaction may take it before this one is committed.
    """
    others = select(func.lower(Agent.name)).where(Agent.owner_id == owner_id)
    if but is not None:
        others = others.where(Agent.id != but)
    taken = set(await session.scalars(others))
    return next(name for name in names_after(wanted) if name.lower() not in taken)


def names_after(name: str) -> Iterator[str]:
    """`name`, then `name 2`, `name 3`, and so on."""
    yield name
    for number in count(2):
        yield f"{name} {number}"
