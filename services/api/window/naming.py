"""What texts cite, by name: for texts that come without their citations."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.citations import parse
from shared.store.reading import graph
from shared.store.reading.shapes import CitationView


async def citations_of(
    session: AsyncSession, owner_id: UUID, texts: Iterable[tuple[UUID, str]]
) -> Mapping[UUID, list[CitationView]]:
    """By agent, of texts given with whose they are. What does not exist (any more) has no name."""
    wanted: defaultdict[UUID, list[str]] = defaultdict(list)
    for agent_id, text in texts:
        wanted[agent_id].append(text)
    found: dict[UUID, list[CitationView]] = {}
    for agent_id, of_agent in wanted.items():
        citations = parse(*of_agent).citations
        names = await graph.named(session, owner_id, agent_id, [each.id for each in citations])
        found[agent_id] = [
            CitationView(
                kind=each.kind.value,
                id=each.id,
                type=names[each.id].type if each.id in names else None,
                name=names[each.id].name if each.id in names else None,
            )
            for each in citations
        ]
    return found
