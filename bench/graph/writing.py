"""How a node and an edge are written in the measurement: as a Researcher's tools write them."""

from typing import Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph import edges, nodes
from shared.graph.entity_resolution.candidates import LIKENESS
from shared.graph.provenance.evidence import Ground
from shared.graph.provenance.sources import keep_pages
from shared.graph.scope import Scope
from shared.graph.validation import Validators
from shared.tools import Json

_QUOTE: Final = "Of all that was shipped, a third went through this port."
_PAGE: Final = {
    "url": "https://bench.example/page",
    "title": "A page",
    "content": " ".join([*("Nothing of note happened on this day." for _ in range(400)), _QUOTE]),
}
"""Of the length of a long article, and the quote at its end."""
_GROUNDS: Final = (Ground(_PAGE["url"], _QUOTE),)


async def read(session: AsyncSession, scope: Scope) -> None:
    """Keeps the page on which all rests that is written."""
    await keep_pages(session, scope, {"results": [_PAGE]})


async def add_node(
    session: AsyncSession,
    scope: Scope,
    validators: Validators,
    *,
    type_name: str,
    name: str,
    properties: Json,
) -> UUID:
    added = await nodes.add(
        session,
        scope,
        validators,
        type_name=type_name,
        name=name,
        properties=properties,
        grounds=_GROUNDS,
        likeness=LIKENESS,
    )
    return added.id


async def add_edge(
    session: AsyncSession,
    scope: Scope,
    validators: Validators,
    *,
    type_name: str,
    source_id: UUID,
    target_id: UUID,
) -> None:
    await edges.add(
        session,
        scope,
        validators,
        type_name=type_name,
        source_id=source_id,
        target_id=target_id,
        properties={"share": "a third"},
        grounds=_GROUNDS,
    )
