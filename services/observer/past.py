"""What the agent has asked and concluded lately, as a plan is compared with it."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from services.observer.repeats import Covered
from shared.graph import citations
from shared.graph.citations import Kind
from shared.graph.context.asked import has_written
from shared.graph.scope import Scope
from shared.store import investigations
from shared.store.reading.committed import committed
from shared.store.tables import GraphEdge, GraphNode, Iteration, Step
from shared.store.words import ANALYSIS_TYPE, StepKind, StepStatus

ITERATIONS: Final = 20
"""Queries of so many iterations before are looked at."""
FRESH: Final = timedelta(days=7)
"""What was found out longer ago may be asked again."""
ANALYSES: Final = 100
"""So many of the newest are looked at."""


@dataclass(frozen=True)
class Answered:
    objective: str
    ended_at: datetime


@dataclass(frozen=True)
class Past:
    """As of the iteration's start, so that a plan that is read again after a crash is judged alike."""

    answered: Sequence[Answered]
    """Queries that found something, the newest first."""
    analyses: Sequence[Covered]
    """Those that still hold, and none of whose nodes was touched since."""
    open_requests: Mapping[UUID, datetime]
    """When each was made."""

    def answered_before(self, request_ids: Sequence[UUID]) -> list[str]:
        """Objectives that bear on a query which is to answer these requests.

        What was found before somebody lacked it did not answer it, so that it may be asked again.
        """
        made_at = [self.open_requests[request_id] for request_id in request_ids]
        return [
            each.objective
            for each in self.answered
            if all(each.ended_at >= moment for moment in made_at)
        ]


async def look_back(session: AsyncSession, scope: Scope, iteration: Iteration) -> Past:
    requests = await investigations.open_of(session, scope.agent_id)
    return Past(
        await _answered(session, scope, iteration),
        await _analyses(session, scope, iteration),
        {request.id: request.created_at for request in requests},
    )


async def _answered(
    session: AsyncSession, scope: Scope, iteration: Iteration
) -> Sequence[Answered]:
    lately = select(Iteration.id).where(
        Iteration.agent_id == scope.agent(),
        Iteration.number < iteration.number,
        Iteration.number >= iteration.number - ITERATIONS,
    )
    rows = await session.scalars(
        select(Step)
        .where(
            Step.iteration_id.in_(lately),
            Step.kind == StepKind.QUERY,
            Step.status == StepStatus.COMPLETED,
            Step.ended_at > iteration.started_at - FRESH,
        )
        .order_by(Step.ended_at.desc(), Step.id)
    )
    return [
        Answered(step.input.get("objective", ""), step.ended_at)
        for step in rows
        if step.ended_at is not None and has_written(step)
    ]


async def _analyses(session: AsyncSession, scope: Scope, iteration: Iteration) -> Sequence[Covered]:
    rows = await session.execute(
        select(GraphNode, Step.input)
        .outerjoin(Step, Step.id == GraphNode.step_id)
        .where(
            GraphNode.agent_id == scope.agent(),
            GraphNode.type == ANALYSIS_TYPE,
            GraphNode.created_at < iteration.started_at,
        )
        .order_by(GraphNode.updated_at.desc(), GraphNode.id)
        .limit(ANALYSES)
    )
    today = iteration.started_at.astimezone(UTC).date()
    found = [
        (node, given or {})
        for node, given in rows
        if not committed(node.properties, today)["expired"]
    ]
    texts = {node.id: node.properties.get("content", "") for node, _ in found}
    cited = await _cited(session, scope, texts)
    touched = await _touched(session, scope, set().union(*cited.values()))
    return [
        Covered(node.name, cited[node.id], _told(node, given))
        for node, given in found
        if all(touched.get(each, node.created_at) <= node.created_at for each in cited[node.id])
    ]


def _told(analysis: GraphNode, insight: Mapping[str, object]) -> str:
    """All that is said in it, and in the insight that it was drawn from."""
    content = citations.replaced(analysis.properties.get("content", ""), lambda _: "")
    parts = [analysis.name, analysis.properties.get("summary", ""), content]
    parts += [str(insight.get(key, "")) for key in ("observation", "synthesis_direction")]
    return ".\n".join(parts)


async def _cited(
    session: AsyncSession, scope: Scope, texts: Mapping[UUID, str]
) -> dict[UUID, frozenset[UUID]]:
    """The nodes that each text cites, those at the ends of the edges that it cites among them."""
    parsed = {of: citations.parse(text) for of, text in texts.items()}
    edge_ids = {each for cited in parsed.values() for each in cited.ids(Kind.EDGE)}
    ends: dict[UUID, tuple[UUID, UUID]] = {}
    if edge_ids:
        rows = await session.execute(
            select(GraphEdge.id, GraphEdge.source_id, GraphEdge.target_id).where(
                GraphEdge.agent_id == scope.agent(), GraphEdge.id.in_(edge_ids)
            )
        )
        ends = {row.id: (row.source_id, row.target_id) for row in rows}
    return {
        of: frozenset(cited.ids(Kind.NODE)).union(
            *(ends.get(edge, ()) for edge in cited.ids(Kind.EDGE))
        )
        for of, cited in parsed.items()
    }


async def _touched(
    session: AsyncSession, scope: Scope, node_ids: Set[UUID]
) -> dict[UUID, datetime]:
    if not node_ids:
        return {}
    rows = await session.execute(
        select(GraphNode.id, GraphNode.updated_at).where(
            GraphNode.agent_id == scope.agent(), GraphNode.id.in_(node_ids)
        )
    )
    return {row.id: row.updated_at for row in rows}
