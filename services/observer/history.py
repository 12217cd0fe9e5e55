"""The agent's recent queries and analyses, which a plan must not repeat."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

from sqlalchemy import and_, bindparam, func, select

from services.observer.deduplication import CoveringAnalysis
from shared.database.statements import (
    Batch,
    BoundQuery,
    CompiledStatement,
    PendingResult,
    Row,
    uuid_array,
)
from shared.database.tables import GraphNode, Iteration, KeptInsight, Step
from shared.enums import ANALYSIS_TYPE, StepKind, StepStatus
from shared.graph.conclusions import citations
from shared.graph.conclusions.citations import Kind
from shared.graph.conclusions.conclusions import forecast_fields
from shared.graph.context.history import lacks_something
from shared.graph.scope import (
    IS_OWNED_SQL,
    JOINS_TWO_NODES_SQL,
    OWNED_AGENT_ID,
    OWNED_AGENT_ID_SQL,
    GraphScope,
)
from shared.workflow import investigations
from shared.workflow.agent_clock import AgentClock
from shared.workflow.iterations import IterationRow

MAX_ITERATIONS: Final = 20
"""Number of previous iterations whose queries are considered."""
MAX_AGE: Final = timedelta(days=7)
"""Queries that were answered longer ago may be asked again."""
NOT_FOUND_AGE: Final = timedelta(days=1)
"""Queries that found nothing, or not all, longer ago may be asked again."""
MAX_ANALYSES: Final = 100
"""Number of newest analyses that are considered."""

_ASKED_QUERIES: Final = CompiledStatement(f"""
select step.input, step.status, step.result, step.ended_at, this.started_at
from iterations as this
join iterations as earlier on earlier.agent_id = this.agent_id
  and earlier.number < this.number and earlier.number >= this.number - {MAX_ITERATIONS}
join steps as step on step.iteration_id = earlier.id
where this.id = :of_iteration and this.agent_id = {OWNED_AGENT_ID_SQL}
  and step.kind = '{StepKind.QUERY}' and step.status = '{StepStatus.COMPLETED}'
  and step.ended_at > this.started_at - make_interval(secs => {MAX_AGE.total_seconds()})
order by step.ended_at desc, step.id
""")
_HAS_NODES: Final = CompiledStatement(
    f"select exists (select from graph_nodes where agent_id = {OWNED_AGENT_ID_SQL}) as has_nodes"
)
_ANALYSES: Final = CompiledStatement(
    select(
        GraphNode.id,
        GraphNode.name,
        GraphNode.properties,
        GraphNode.created_at,
        func.coalesce(Step.input, KeptInsight.input).label("input"),
    )
    .outerjoin(Step, Step.id == GraphNode.step_id)
    .outerjoin(
        KeptInsight,
        and_(KeptInsight.agent_id == GraphNode.agent_id, KeptInsight.step_id == GraphNode.step_id),
    )
    .where(
        GraphNode.agent_id == OWNED_AGENT_ID,
        GraphNode.type == ANALYSIS_TYPE,
        GraphNode.created_at
        < select(Iteration.started_at)
        .where(Iteration.id == bindparam("of_iteration"))
        .scalar_subquery(),
    )
    .order_by(GraphNode.updated_at.desc(), GraphNode.id)
    .limit(MAX_ANALYSES)
)
_ENDS: Final = CompiledStatement(f"""
select edge.id, source.id as source_id, source.updated_at as source_updated_at,
  target.id as target_id, target.updated_at as target_updated_at
from graph_edges as edge
join graph_nodes as source on source.id = edge.source_id
join graph_nodes as target on target.id = edge.target_id
where (edge.agent_id = {OWNED_AGENT_ID_SQL}) is true and edge.id = any(cast(:ids as uuid[]))
  and {JOINS_TWO_NODES_SQL}
""")
_UPDATED_AT: Final = CompiledStatement(
    f"select id, updated_at from graph_nodes where {IS_OWNED_SQL} and id = any(cast(:ids as uuid[]))"
)


@dataclass(frozen=True)
class AskedQuery:
    objective: str
    ended_at: datetime
    answers: Sequence[str] = ()
    """Ids of the requests that it was to answer."""


@dataclass(frozen=True)
class PlanHistory:
    """The state at the iteration's start, so that a resumed step judges the same plan in the same way."""

    asked: Sequence[AskedQuery]
    """Queries that were answered within MAX_AGE, or lacked something within NOT_FOUND_AGE, newest first."""
    analyses: Sequence[Row]
    """Unexpired analyses; those that still cover what they cite: see `prepare_covering`."""
    open_requests: Mapping[UUID, datetime]
    """Time at which each request was opened, by its id."""
    started_at: datetime
    """The start of the iteration."""
    now: datetime
    """The agent's now at that time, from which ages in the world are counted."""
    graph_is_empty: bool = False
    """Whether the agent has no nodes."""
    repeated_requests: Sequence[UUID] = ()
    """Open requests for a question that one of `open_requests` is for."""

    @property
    def waiting_requests(self) -> int:
        """Number of open requests that no query was for since they were opened."""
        return sum(
            not any(
                str(request_id) in query.answers and query.ended_at >= opened_at
                for query in self.asked
            )
            for request_id, opened_at in self.open_requests.items()
        )

    def asked_before(self, request_ids: Sequence[UUID]) -> list[str]:
        """Objectives that a query for these requests must not repeat.

        A query that ended before a request was opened did not satisfy it, so it may be repeated.
        """
        made_at = [self.open_requests[request_id] for request_id in request_ids]
        return [
            query.objective
            for query in self.asked
            if all(query.ended_at >= moment for moment in made_at)
        ]


def prepare_history(
    batch: Batch, scope: GraphScope
) -> Callable[[IterationRow, AgentClock], PlanHistory]:
    """Loads the history of the scope's iteration with `batch`. The returned function reads what was loaded."""
    params = {**scope.sql_params, "of_iteration": scope.iteration_id}
    requests = batch.add(investigations.list_open_requests(scope.agent_id))
    queries = batch.add(BoundQuery(_ASKED_QUERIES, params, _asked_queries))
    analyses = batch.add(BoundQuery(_ANALYSES, params, list))
    has_nodes = batch.add(BoundQuery(_HAS_NODES, scope.sql_params, lambda rows: rows[0].has_nodes))

    def read(iteration: IterationRow, clock: AgentClock) -> PlanHistory:
        now = clock.at(iteration.started_at)
        today = now.astimezone(UTC).date()
        current = [
            row for row in analyses.value if not forecast_fields(row.properties, today)["expired"]
        ]
        return PlanHistory(
            queries.value,
            current,
            {request.id: request.opened_at for request in requests.value},
            iteration.started_at,
            now,
            not has_nodes.value,
            [each for request in requests.value for each in request.repeated_by],
        )

    return read


def _asked_queries(rows: Sequence[Row]) -> Sequence[AskedQuery]:
    return [
        AskedQuery(query.input.get("objective", ""), query.ended_at, query.input.get("answers", ()))
        for query in rows
        if not lacks_something(query) or query.started_at - query.ended_at < NOT_FOUND_AGE
    ]


def prepare_covering(
    batch: Batch, scope: GraphScope, analyses: Sequence[Row]
) -> PendingResult[Sequence[CoveringAnalysis]]:
    """Loads with `batch` those whose cited nodes, including the ends of cited edges, have not changed since."""
    cited = {
        row.id: citations.parse_citations(row.properties.get("content", "")) for row in analyses
    }
    edge_ids = {edge_id for each in cited.values() for edge_id in each.ids(Kind.EDGE)}
    node_ids = {node_id for each in cited.values() for node_id in each.ids(Kind.NODE)}
    edges = batch.add(_by_ids(_ENDS, scope, edge_ids)) if edge_ids else None
    nodes = batch.add(_by_ids(_UPDATED_AT, scope, node_ids)) if node_ids else None
    return batch.then(
        lambda: _covering(
            analyses, cited, edges.value if edges else (), nodes.value if nodes else ()
        )
    )


def _covering(
    analyses: Sequence[Row],
    cited: Mapping[UUID, citations.ParsedCitations],
    edges: Sequence[Row],
    nodes: Sequence[Row],
) -> Sequence[CoveringAnalysis]:
    updated_at: dict[UUID, datetime] = {}
    ends: dict[UUID, tuple[UUID, UUID]] = {}
    for edge_id, source_id, source_updated_at, target_id, target_updated_at in edges:
        ends[edge_id] = (source_id, target_id)
        updated_at |= {source_id: source_updated_at, target_id: target_updated_at}
    updated_at |= dict(nodes)
    covering = []
    for row in analyses:
        of_row = cited[row.id]
        covered = frozenset(of_row.ids(Kind.NODE)).union(
            *(ends.get(edge_id, ()) for edge_id in of_row.ids(Kind.EDGE))
        )
        if all(updated_at.get(node, row.created_at) <= row.created_at for node in covered):
            covering.append(CoveringAnalysis(row.name, covered, _full_text(row)))
    return covering


def _by_ids(
    statement: CompiledStatement, scope: GraphScope, ids: Iterable[UUID]
) -> BoundQuery[list[Row]]:
    return BoundQuery(statement, {**scope.sql_params, "ids": uuid_array(ids)}, list)


def _full_text(analysis: Row) -> str:
    """The full text of the analysis and of its insight."""
    insight = analysis.input or {}
    content = citations.replace_citations(analysis.properties.get("content", ""), lambda _: "")
    parts = [analysis.name, analysis.properties.get("summary", ""), content]
    parts += [str(insight.get(key, "")) for key in ("observation", "synthesis_direction")]
    return ".\n".join(parts)
