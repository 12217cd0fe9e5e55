"""Queries for analyses and advice, page by page, with the names of what they cite."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Select, Text, cast, exists, false, func, select

from shared.database.pagination import Keyset, paginate
from shared.database.tables import Doubt, GraphNode, Position
from shared.database.transaction import Transaction
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph import labels
from shared.graph.conclusions import position_store, readings
from shared.graph.conclusions.citations import Citation, parse_citations
from shared.graph.conclusions.conclusions import forecast_fields
from shared.graph.labels import Label
from shared.graph.retraction import doubts
from shared.graph.scope import GraphScope
from shared.schemas.base import (
    CitationResponse,
    ConclusionResponse,
    Page,
    PageRequest,
    PositionResponse,
    ReadingResponse,
)
from shared.workflow.agent_clock import agent_clock

VERDICT_PROPERTIES: Final = {ANALYSIS_TYPE: "type", ADVICE_TYPE: "action"}
"""The property that holds the verdict: `observation` or `pattern`, or an action of the agent, such as `BUY`."""

_NEWEST = Keyset("conclusions", (GraphNode.updated_at, GraphNode.id))


@dataclass(frozen=True)
class ConclusionFilter:
    """Which conclusions are listed; None means all."""

    verdict: str | None = None
    doubted: bool | None = None
    expired: bool | None = None
    """Whether the horizon is over. A conclusion without one never expires."""


EVERY_CONCLUSION: Final = ConclusionFilter()


async def list_conclusions(
    transaction: Transaction,
    scope: GraphScope,
    type_name: str,
    page_request: PageRequest,
    only: ConclusionFilter = EVERY_CONCLUSION,
) -> Page[ConclusionResponse]:
    """List the conclusions of a type in VERDICT_PROPERTIES, the newest first."""
    statement = _select_of_type(scope, type_name)
    if only.verdict is not None:
        verdict = GraphNode.properties[VERDICT_PROPERTIES[type_name]].astext
        statement = statement.where(verdict == only.verdict)
    if only.doubted is not None:
        is_doubted = exists().where(
            Doubt.conclusion_id == GraphNode.id, Doubt.resolved_at.is_(None)
        )
        statement = statement.where(is_doubted if only.doubted else ~is_doubted)
    if only.expired is not None:
        # ISO dates are in the order of their texts.
        today = (await agent_clock(scope.agent_id).execute(transaction)).today.isoformat()
        confirmed = select(cast(Position.horizon, Text)).where(Position.advice_id == GraphNode.id)
        horizon = func.coalesce(confirmed.scalar_subquery(), GraphNode.properties["horizon"].astext)
        is_expired = func.coalesce(horizon < today, false())
        statement = statement.where(is_expired if only.expired else ~is_expired)
    page_slice = await paginate(transaction, statement, _NEWEST, page_request)
    nodes = [node for (node,) in page_slice.rows]
    return Page(items=await _views(transaction, scope, nodes), next=page_slice.next)


async def get_conclusion(
    transaction: Transaction, scope: GraphScope, type_name: str, node_id: UUID
) -> ConclusionResponse | None:
    """Load one conclusion; None if the agent has none of that id and type."""
    node = await transaction.scalar(
        _select_of_type(scope, type_name).where(GraphNode.id == node_id)
    )
    return None if node is None else (await _views(transaction, scope, [node]))[0]


def _select_of_type(scope: GraphScope, type_name: str) -> Select[GraphNode]:
    return select(GraphNode).where(
        GraphNode.agent_id == scope.owned_agent_id(), GraphNode.type == type_name
    )


async def _views(
    transaction: Transaction, scope: GraphScope, nodes: Sequence[GraphNode]
) -> list[ConclusionResponse]:
    citations = [parse_citations(node.properties["content"]).citations for node in nodes]
    cited = {citation.id for node_citations in citations for citation in node_citations}
    names = await labels.load_labels(transaction, scope, cited)
    clock = await agent_clock(scope.agent_id).execute(transaction)
    node_ids = [node.id for node in nodes]
    doubted = await doubts.doubted_since(transaction, node_ids)
    positions = await position_store.load_responses(
        transaction,
        scope.owner_id,
        {node.id: scope.agent_id for node in nodes if node.type == ADVICE_TYPE},
        {scope.agent_id: clock.today},
    )
    verdicts = await readings.load_verdicts(
        transaction, scope, [(node.id, node.name, node.properties) for node in nodes]
    )
    return [
        _view(
            node,
            node_citations,
            names,
            clock.today,
            doubted.get(node.id),
            positions.get(node.id),
            readings.summarize(node.name, node.properties, verdicts.get(node.id, ())),
        )
        for node, node_citations in zip(nodes, citations, strict=True)
    ]


def _view(
    node: GraphNode,
    citations: Sequence[Citation],
    names: dict[UUID, Label],
    day: date,
    doubted_since: datetime | None,
    position: PositionResponse | None,
    reading: ReadingResponse | None,
) -> ConclusionResponse:
    properties = node.properties
    return ConclusionResponse(
        id=node.id,
        word=properties[VERDICT_PROPERTIES[node.type]],
        name=node.name,
        summary=properties["summary"],
        content=properties["content"],
        generated_at=properties["generated_at"],
        iteration_id=node.iteration_id,
        citations=[_citation(citation, names.get(citation.id)) for citation in citations],
        doubted_since=doubted_since,
        reading=reading,
        **forecast_fields(properties, day, position),
    )


def _citation(citation: Citation, label: Label | None) -> CitationResponse:
    return CitationResponse(
        kind=citation.kind.value,
        id=citation.id,
        type=label.type if label else None,
        name=label.name if label else None,
    )
