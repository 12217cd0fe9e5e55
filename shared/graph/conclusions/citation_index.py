"""Index of citations: which conclusions cite a node or edge.

The texts are authoritative; rows of `citations` are written with them. Conclusions from before that table have no
rows and are entered before a retraction is propagated.
"""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.statements import CompiledStatement
from shared.database.tables import Citation as CitationRow
from shared.database.tables import GraphNode
from shared.graph import labels
from shared.graph.conclusions.citations import Citation, Kind, parse_citations
from shared.graph.entity_resolution import redirects
from shared.graph.labels import Label
from shared.graph.scope import GraphScope
from shared.graph.types import RESERVED_TYPES
from shared.schemas.provenance import CitingConclusion
from shared.tools import Json

BATCH_SIZE: Final = 500
MAX_CITING: Final = 50
# No "on conflict" target: naming one would require the right to read the table.
_STORE: Final = CompiledStatement(
    "insert into citations (conclusion_id, cited_id)"
    " select :conclusion_id, unnest(cast(:cited as uuid[])) on conflict do nothing"
)


async def store_missing_citations(session: AsyncSession, agent_id: UUID) -> int:
    """Store the citations of conclusions that have none stored; returns the number of these conclusions."""
    last_id, count = UUID(int=0), 0
    while rows := await _conclusions_without_citations(session, agent_id, last_id):
        for conclusion_id, properties in rows:
            if cited := sorted(set(cited_ids(properties))):
                await _STORE.run(session, {"conclusion_id": conclusion_id, "cited": cited})
        last_id, count = rows[-1][0], count + len(rows)
    return count


def cited_ids(properties: Json) -> list[UUID]:
    """The ids that a conclusion's properties cite."""
    return parse_citations(
        str(properties.get("content", "")), str(properties.get("summary", ""))
    ).ids()


async def list_citing_conclusions(
    session: AsyncSession, scope: GraphScope, cited_id: UUID
) -> list[CitingConclusion]:
    """The newest MAX_CITING conclusions that cite the element, or an element merged into it."""
    earlier = (await redirects.earlier_ids(session, [cited_id])).get(cited_id, [])
    rows = await session.execute(
        select(GraphNode.id, GraphNode.type, GraphNode.name, GraphNode.created_at)
        .join(CitationRow, CitationRow.conclusion_id == GraphNode.id)
        .where(
            GraphNode.agent_id == scope.owned_agent_id(),
            CitationRow.cited_id.in_([cited_id, *earlier]),
        )
        .distinct()
        .order_by(GraphNode.created_at.desc(), GraphNode.id)
        .limit(MAX_CITING)
    )
    return [CitingConclusion(id=row.id, type=row.type, name=row.name) for row in rows]


async def _conclusions_without_citations(
    session: AsyncSession, agent_id: UUID, last_id: UUID
) -> Sequence[tuple[UUID, Json]]:
    # An equality, written as a range with an order, so that PostgreSQL reads the index. While its statistics count no
    # citations, it would compare each conclusion with each of them.
    first_citation = (
        select(CitationRow.conclusion_id)
        .where(CitationRow.conclusion_id >= GraphNode.id, CitationRow.conclusion_id <= GraphNode.id)
        .order_by(CitationRow.conclusion_id)
        .limit(1)
    )
    rows = await session.execute(
        select(GraphNode.id, GraphNode.properties)
        .where(
            GraphNode.agent_id == agent_id,
            GraphNode.type.in_(RESERVED_TYPES),
            GraphNode.id > last_id,
            first_citation.scalar_subquery().is_(None),
        )
        .order_by(GraphNode.id)
        .limit(BATCH_SIZE)
    )
    return [(row.id, row.properties) for row in rows]


async def load_cited_labels(
    session: AsyncSession, scope: GraphScope, citations: Iterable[Citation]
) -> dict[Citation, Label]:
    """Load the labels of cited elements; those that do not exist as the cited kind are left out."""
    citation_list, by_citation = list(citations), dict[Citation, Label]()
    loaders = {Kind.NODE: labels.load_node_labels, Kind.EDGE: labels.load_edge_labels}
    for kind, load in loaders.items():
        ids = [citation.id for citation in citation_list if citation.kind == kind]
        names = await load(session, scope, ids)
        by_citation |= {Citation(kind, element_id): label for element_id, label in names.items()}
    return by_citation
