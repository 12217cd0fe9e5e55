"""What the agent has asked and concluded lately, as a plan is compared with it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import DateTime, Integer, bindparam, select
from sqlalchemy.ext.asyncio import AsyncSession

from services.observer.deduplication import Covered
from shared.database.statements import ANY_OF_IDS, Direct, Row, listed
from shared.database.tables import GraphEdge, GraphNode, Iteration, Step
from shared.enums import ANALYSIS_TYPE, StepKind, StepStatus
from shared.graph.conclusions import citations
from shared.graph.conclusions.citations import Kind
from shared.graph.conclusions.conclusions import committed
from shared.graph.context.history import has_written
from shared.graph.scope import OWNED, OWNED_SQL, Scope
from shared.workflow import investigations
from shared.workflow.iterations import IterationRow

ITERATIONS: Final = 20
"""Queries of so many iterations before are looked at."""
FRESH: Final = timedelta(days=7)
"""What was found out longer ago may be asked again."""
ANALYSES: Final = 100
"""So many of the newest are looked at."""

_NUMBER: Final = bindparam("number", type_=Integer)
_ANSWERED: Final = Direct(
    select(Step.input, Step.status, Step.result, Step.ended_at)
    .join(Iteration, Iteration.id == Step.iteration_id)
    .where(
        Iteration.agent_id == OWNED,
        Iteration.number < _NUMBER,
        Iteration.number >= _NUMBER - ITERATIONS,
        Step.kind == StepKind.QUERY,
        Step.status == StepStatus.COMPLETED,
        Step.ended_at > bindparam("since", type_=DateTime(timezone=True)),
    )
    .order_by(Step.ended_at.desc(), Step.id)
)
_HAS_NODES: Final = Direct(
    f"select exists (select from graph_nodes where agent_id = {OWNED_SQL}) as has_nodes"
)
_ANALYSES: Final = Direct(
    select(GraphNode.id, GraphNode.name, GraphNode.properties, GraphNode.created_at, Step.input)
    .outerjoin(Step, Step.id == GraphNode.step_id)
    .where(
        GraphNode.agent_id == OWNED,
        GraphNode.type == ANALYSIS_TYPE,
        GraphNode.created_at < bindparam("before", type_=DateTime(timezone=True)),
    )
    .order_by(GraphNode.updated_at.desc(), GraphNode.id)
    .limit(ANALYSES)
)
_ENDS: Final = Direct(
    select(GraphEdge.id, GraphEdge.source_id, GraphEdge.target_id).where(
        GraphEdge.agent_id == OWNED, GraphEdge.id == ANY_OF_IDS
    )
)
_TOUCHED: Final = Direct(
    select(GraphNode.id, GraphNode.updated_at).where(
        GraphNode.agent_id == OWNED, GraphNode.id == ANY_OF_IDS
    )
)


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
    graph_is_empty: bool = False
    """Whether the agent has no node at all."""

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


async def look_back(session: AsyncSession, scope: Scope, iteration: IterationRow) -> Past:
    requests = await investigations.open_of(scope.agent_id).answer(session)
    return Past(
        await _answered(session, scope, iteration),
        await _analyses(session, scope, iteration),
        {request.id: request.created_at for request in requests},
        not await _HAS_NODES.value(session, scope.bound),
    )


async def _answered(
    session: AsyncSession, scope: Scope, iteration: IterationRow
) -> Sequence[Answered]:
    lately = {"number": iteration.number, "since": iteration.started_at - FRESH}
    return [
        Answered(query.input.get("objective", ""), query.ended_at)
        for query in await _ANSWERED.rows(session, {**scope.bound, **lately})
        if has_written(query)
    ]


async def _analyses(
    session: AsyncSession, scope: Scope, iteration: IterationRow
) -> Sequence[Covered]:
    today = iteration.started_at.astimezone(UTC).date()
    found = [
        each
        for each in await _ANALYSES.rows(session, {**scope.bound, "before": iteration.started_at})
        if not committed(each.properties, today)["expired"]
    ]
    texts = {each.id: each.properties.get("content", "") for each in found}
    cited = await _cited(session, scope, texts)
    touched = await _touched(session, scope, set().union(*cited.values()))
    return [
        Covered(each.name, cited[each.id], _told(each))
        for each in found
        if all(touched.get(node, each.created_at) <= each.created_at for node in cited[each.id])
    ]


def _told(analysis: Row) -> str:
    """All that is said in it, and in the insight that it was drawn from."""
    insight = analysis.input or {}
    content = citations.replaced(analysis.properties.get("content", ""), lambda _: "")
    parts = [analysis.name, analysis.properties.get("summary", ""), content]
    parts += [str(insight.get(key, "")) for key in ("observation", "synthesis_direction")]
    return ".\n".join(parts)


async def _cited(
    session: AsyncSession, scope: Scope, texts: Mapping[UUID, str]
) -> dict[UUID, frozenset[UUID]]:
    """The nodes that each text cites, those at the ends of the edges that it cites among them."""
    parsed = {of: citations.parse(text) for of, text in texts.items()}
    ends = await _ends(
        session, scope, {each for cited in parsed.values() for each in cited.ids(Kind.EDGE)}
    )
    return {
        of: frozenset(cited.ids(Kind.NODE)).union(
            *(ends.get(edge, ()) for edge in cited.ids(Kind.EDGE))
        )
        for of, cited in parsed.items()
    }


async def _ends(
    session: AsyncSession, scope: Scope, edge_ids: Collection[UUID]
) -> dict[UUID, tuple[UUID, UUID]]:
    if not edge_ids:
        return {}
    rows = await _ENDS.rows(session, {**scope.bound, "ids": listed(edge_ids)})
    return {row.id: (row.source_id, row.target_id) for row in rows}


async def _touched(
    session: AsyncSession, scope: Scope, node_ids: Collection[UUID]
) -> dict[UUID, datetime]:
    if not node_ids:
        return {}
    rows = await _TOUCHED.rows(session, {**scope.bound, "ids": listed(node_ids)})
    return {row.id: row.updated_at for row in rows}
