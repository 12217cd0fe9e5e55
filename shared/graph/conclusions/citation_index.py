"""Index of citations: which conclusions cite a node or edge.

The texts are authoritative; rows of `citations` are written with them. Conclusions from before that table have no
rows and are entered before a retraction is propagated.
"""

from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from shared.database.statements import CompiledStatement, uuid_array
from shared.database.transaction import Transaction
from shared.graph import labels
from shared.graph.conclusions.citations import Citation, Kind, parse_citations
from shared.graph.entity_resolution import redirects
from shared.graph.labels import Label
from shared.graph.scope import IS_OWNED_SQL, GraphScope
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


async def store_missing_citations(transaction: Transaction, agent_id: UUID) -> int:
    """Store the citations of conclusions that have none stored; returns the number of these conclusions."""
    last_id, count = UUID(int=0), 0
    while rows := await _conclusions_without_citations(transaction, agent_id, last_id):
        for conclusion_id, properties in rows:
            if cited := sorted(set(cited_ids(properties))):
                await _STORE.run(transaction, {"conclusion_id": conclusion_id, "cited": cited})
        last_id, count = rows[-1][0], count + len(rows)
    return count


def cited_ids(properties: Json) -> list[UUID]:
    """The ids that a conclusion's properties cite."""
    return parse_citations(
        str(properties.get("content", "")), str(properties.get("summary", ""))
    ).ids()


async def list_citing_conclusions(
    transaction: Transaction, scope: GraphScope, cited_id: UUID
) -> list[CitingConclusion]:
    """The newest MAX_CITING conclusions that cite the element, or an element merged into it."""
    earlier = (await redirects.earlier_ids(transaction, [cited_id])).get(cited_id, [])
    params = {**scope.sql_params, "ids": uuid_array([cited_id, *earlier])}
    rows = await _CITING.rows(transaction, params)
    return [CitingConclusion(id=row.id, type=row.type, name=row.name) for row in rows]


async def _conclusions_without_citations(
    transaction: Transaction, agent_id: UUID, last_id: UUID
) -> Sequence[tuple[UUID, Json]]:
    params = {"of_agent": agent_id, "types": sorted(RESERVED_TYPES), "last": last_id}
    rows = await _WITHOUT_CITATIONS.rows(transaction, params)
    return [(row.id, row.properties) for row in rows]


_CITING: Final = CompiledStatement(f"""
select distinct id, type, name, created_at from graph_nodes join citations on conclusion_id = id
where cited_id = any(cast(:ids as uuid[])) and {IS_OWNED_SQL}
order by created_at desc, id limit {MAX_CITING}
""")
# An equality, written as a range with an order, so that PostgreSQL reads the index. While its statistics count no
# citations, it would compare each conclusion with each of them.
_WITHOUT_CITATIONS: Final = CompiledStatement(f"""
select id, properties from graph_nodes
where agent_id = :of_agent and type = any(cast(:types as text[])) and id > :last and (
  select conclusion_id from citations
  where conclusion_id >= graph_nodes.id and conclusion_id <= graph_nodes.id
  order by conclusion_id limit 1) is null
order by id limit {BATCH_SIZE}
""")


async def load_cited_labels(
    transaction: Transaction, scope: GraphScope, citations: Iterable[Citation]
) -> dict[Citation, Label]:
    """Load the labels of cited elements; those that do not exist as the cited kind are left out."""
    citation_list, by_citation = list(citations), dict[Citation, Label]()
    loaders = {Kind.NODE: labels.load_node_labels, Kind.EDGE: labels.load_edge_labels}
    for kind, load in loaders.items():
        ids = [citation.id for citation in citation_list if citation.kind == kind]
        names = await load(transaction, scope, ids)
        by_citation |= {Citation(kind, element_id): label for element_id, label in names.items()}
    return by_citation
