"""Analyses and advice page by page, each with what it cites by name."""

from collections.abc import Sequence
from datetime import date, datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.pagination import Keyset, slice_of
from shared.database.tables import GraphNode
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph import labels
from shared.graph.conclusions.citations import Citation, parse
from shared.graph.conclusions.conclusions import committed, today
from shared.graph.labels import Named
from shared.graph.retraction import doubts
from shared.graph.scope import Scope
from shared.schemas.base import CitationView, ConclusionView, Page, Wanted

WORD_OF: Final = {ANALYSIS_TYPE: "type", ADVICE_TYPE: "action"}
"""The property that says what kind it is: `observation` or `pattern`; `BUY`, `SELL` or `HOLD`."""

_NEWEST = Keyset("conclusions", (GraphNode.updated_at, GraphNode.id))


async def page(
    session: AsyncSession, scope: Scope, type_name: str, wanted: Wanted
) -> Page[ConclusionView]:
    """Of one of the types in WORD_OF, the newest first."""
    found = await slice_of(session, _of_type(scope, type_name), _NEWEST, wanted)
    nodes = [node for (node,) in found.rows]
    return Page(items=await _views(session, scope, nodes), next=found.next)


async def find(
    session: AsyncSession, scope: Scope, type_name: str, node_id: UUID
) -> ConclusionView | None:
    """None where the agent has none of that id and type."""
    found = await session.scalar(_of_type(scope, type_name).where(GraphNode.id == node_id))
    return None if found is None else (await _views(session, scope, [found]))[0]


def _of_type(scope: Scope, type_name: str) -> Select[GraphNode]:
    return select(GraphNode).where(GraphNode.agent_id == scope.agent(), GraphNode.type == type_name)


async def _views(
    session: AsyncSession, scope: Scope, nodes: Sequence[GraphNode]
) -> list[ConclusionView]:
    citations = [parse(node.properties["content"]).citations for node in nodes]
    cited = {each.id for of_node in citations for each in of_node}
    names = await labels.named(session, scope.owner_id, scope.agent_id, cited)
    day = await today(session)
    doubted = await doubts.since(session, [node.id for node in nodes])
    return [
        _view(node, of_node, names, day, doubted.get(node.id))
        for node, of_node in zip(nodes, citations, strict=True)
    ]


def _view(
    node: GraphNode,
    citations: Sequence[Citation],
    names: dict[UUID, Named],
    day: date,
    doubted_since: datetime | None,
) -> ConclusionView:
    told = node.properties
    return ConclusionView(
        id=node.id,
        word=told[WORD_OF[node.type]],
        name=node.name,
        summary=told["summary"],
        content=told["content"],
        generated_at=told["generated_at"],
        iteration_id=node.iteration_id,
        citations=[_citation(each, names.get(each.id)) for each in citations],
        doubted_since=doubted_since,
        **committed(told, day),
    )


def _citation(citation: Citation, named: Named | None) -> CitationView:
    return CitationView(
        kind=citation.kind.value,
        id=citation.id,
        type=named.type if named else None,
        name=named.name if named else None,
    )
