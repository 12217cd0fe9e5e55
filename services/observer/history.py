"""The agent's recent queries and analyses, which a plan must not repeat."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import DateTime, Integer, bindparam, select

from services.observer.deduplication import CoveringAnalysis
from shared.database.statements import ANY_OF_IDS, CompiledStatement, Executor, Row, uuid_array
from shared.database.tables import GraphEdge, GraphNode, Iteration, Step
from shared.enums import ANALYSIS_TYPE, StepKind, StepStatus
from shared.graph.conclusions import citations
from shared.graph.conclusions.citations import Kind
from shared.graph.conclusions.conclusions import forecast_fields
from shared.graph.context.history import has_written
from shared.graph.scope import OWNED_AGENT_ID, OWNED_AGENT_ID_SQL, GraphScope
from shared.workflow import investigations
from shared.workflow.iterations import IterationRow

MAX_ITERATIONS: Final = 20
"""Number of previous iterations whose queries are considered."""
MAX_AGE: Final = timedelta(days=7)
"""Queries that were answered longer ago may be asked again."""
MAX_ANALYSES: Final = 100
"""Number of newest analyses that are considered."""

_ITERATION_NUMBER: Final = bindparam("number", type_=Integer)
_ANSWERED_QUERIES: Final = CompiledStatement(
    select(Step.input, Step.status, Step.result, Step.ended_at)
    .join(Iteration, Iteration.id == Step.iteration_id)
    .where(
        Iteration.agent_id == OWNED_AGENT_ID,
        Iteration.number < _ITERATION_NUMBER,
        Iteration.number >= _ITERATION_NUMBER - MAX_ITERATIONS,
        Step.kind == StepKind.QUERY,
        Step.status == StepStatus.COMPLETED,
        Step.ended_at > bindparam("since", type_=DateTime(timezone=True)),
    )
    .order_by(Step.ended_at.desc(), Step.id)
)
_HAS_NODES: Final = CompiledStatement(
    f"select exists (select from graph_nodes where agent_id = {OWNED_AGENT_ID_SQL}) as has_nodes"
)
_ANALYSES: Final = CompiledStatement(
    select(GraphNode.id, GraphNode.name, GraphNode.properties, GraphNode.created_at, Step.input)
    .outerjoin(Step, Step.id == GraphNode.step_id)
    .where(
        GraphNode.agent_id == OWNED_AGENT_ID,
        GraphNode.type == ANALYSIS_TYPE,
        GraphNode.created_at < bindparam("before", type_=DateTime(timezone=True)),
    )
    .order_by(GraphNode.updated_at.desc(), GraphNode.id)
    .limit(MAX_ANALYSES)
)
_ENDS: Final = CompiledStatement(
    select(GraphEdge.id, GraphEdge.source_id, GraphEdge.target_id).where(
        GraphEdge.agent_id == OWNED_AGENT_ID, GraphEdge.id == ANY_OF_IDS
    )
)
_UPDATED_AT: Final = CompiledStatement(
    select(GraphNode.id, GraphNode.updated_at).where(
        GraphNode.agent_id == OWNED_AGENT_ID, GraphNode.id == ANY_OF_IDS
    )
)


@dataclass(frozen=True)
class AnsweredQuery:
    objective: str
    ended_at: datetime


@dataclass(frozen=True)
class PlanHistory:
    """The state at the iteration's start, so that a resumed step judges the same plan in the same way."""

    answered: Sequence[AnsweredQuery]
    """Queries that wrote something, newest first."""
    analyses: Sequence[CoveringAnalysis]
    """Unexpired analyses whose nodes have not changed since."""
    open_requests: Mapping[UUID, datetime]
    """Creation time by request id."""
    graph_is_empty: bool = False
    """Whether the agent has no nodes."""

    def answered_before(self, request_ids: Sequence[UUID]) -> list[str]:
        """Objectives that a query for these requests must not repeat.

        A query that was answered before a request was made did not satisfy it, so it may be repeated.
        """
        made_at = [self.open_requests[request_id] for request_id in request_ids]
        return [
            query.objective
            for query in self.answered
            if all(query.ended_at >= moment for moment in made_at)
        ]


async def load_history(
    session: Executor, scope: GraphScope, iteration: IterationRow
) -> PlanHistory:
    requests = await investigations.list_open_requests(scope.agent_id).answer(session)
    return PlanHistory(
        await _list_answered_queries(session, scope, iteration),
        await _analyses(session, scope, iteration),
        {request.id: request.created_at for request in requests},
        not await _HAS_NODES.value(session, scope.sql_params),
    )


async def _list_answered_queries(
    session: Executor, scope: GraphScope, iteration: IterationRow
) -> Sequence[AnsweredQuery]:
    params = {"number": iteration.number, "since": iteration.started_at - MAX_AGE}
    return [
        AnsweredQuery(query.input.get("objective", ""), query.ended_at)
        for query in await _ANSWERED_QUERIES.rows(session, {**scope.sql_params, **params})
        if has_written(query)
    ]


async def _analyses(
    session: Executor, scope: GraphScope, iteration: IterationRow
) -> Sequence[CoveringAnalysis]:
    today = iteration.started_at.astimezone(UTC).date()
    current = [
        row
        for row in await _ANALYSES.rows(
            session, {**scope.sql_params, "before": iteration.started_at}
        )
        if not forecast_fields(row.properties, today)["expired"]
    ]
    texts = {row.id: row.properties.get("content", "") for row in current}
    cited = await _cited_nodes(session, scope, texts)
    updated_at = await _updated_at(session, scope, set().union(*cited.values()))
    return [
        CoveringAnalysis(row.name, cited[row.id], _full_text(row))
        for row in current
        if all(updated_at.get(node, row.created_at) <= row.created_at for node in cited[row.id])
    ]


def _full_text(analysis: Row) -> str:
    """The full text of the analysis and of its insight."""
    insight = analysis.input or {}
    content = citations.replace_citations(analysis.properties.get("content", ""), lambda _: "")
    parts = [analysis.name, analysis.properties.get("summary", ""), content]
    parts += [str(insight.get(key, "")) for key in ("observation", "synthesis_direction")]
    return ".\n".join(parts)


async def _cited_nodes(
    session: Executor, scope: GraphScope, texts: Mapping[UUID, str]
) -> dict[UUID, frozenset[UUID]]:
    """The nodes that each text cites, including the ends of the edges that it cites."""
    parsed = {analysis_id: citations.parse_citations(text) for analysis_id, text in texts.items()}
    ends = await _ends(
        session, scope, {edge_id for cited in parsed.values() for edge_id in cited.ids(Kind.EDGE)}
    )
    return {
        analysis_id: frozenset(cited.ids(Kind.NODE)).union(
            *(ends.get(edge, ()) for edge in cited.ids(Kind.EDGE))
        )
        for analysis_id, cited in parsed.items()
    }


async def _ends(
    session: Executor, scope: GraphScope, edge_ids: Collection[UUID]
) -> dict[UUID, tuple[UUID, UUID]]:
    if not edge_ids:
        return {}
    rows = await _ENDS.rows(session, {**scope.sql_params, "ids": uuid_array(edge_ids)})
    return {row.id: (row.source_id, row.target_id) for row in rows}


async def _updated_at(
    session: Executor, scope: GraphScope, node_ids: Collection[UUID]
) -> dict[UUID, datetime]:
    if not node_ids:
        return {}
    rows = await _UPDATED_AT.rows(session, {**scope.sql_params, "ids": uuid_array(node_ids)})
    return {row.id: row.updated_at for row in rows}
