"""Resolves a plan into inputs of steps; separates items that repeat known results or contain the instructions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from services.observer.deduplication import Repeat, repeated_insight, repeated_query
from services.observer.history import PlanHistory
from services.observer.known import FRESH, known_answer
from services.observer.prompts import ObserverPlan, PlannedQuery
from shared.database.statements import Executor
from shared.graph import context
from shared.graph.context import FreshNode
from shared.graph.context.history import request_id_in
from shared.graph.scope import GraphScope

Input = dict[str, Any]


@dataclass
class ResolvedPlan:
    """`repeats` are not among the queries and insights."""

    queries: list[Input] = field(default_factory=list)
    insights: list[Input] = field(default_factory=list)
    repeats: list[Repeat] = field(default_factory=list)
    dropped_references: list[str] = field(default_factory=list)
    dropped_requests: list[str] = field(default_factory=list)
    skipped: list[Input] = field(default_factory=list)
    """Items of news that no query is to read, each with the reason."""

    @property
    def is_empty(self) -> bool:
        return not self.queries and not self.insights

    @property
    def as_json(self) -> Input:
        """As stored with the iteration; `dropped` counts repeats."""
        plan = {
            "queries": self.queries,
            "insights": self.insights,
            "dropped": len(self.repeats),
        }
        return {**plan, "skipped": self.skipped} if self.skipped else plan

    @property
    def counts(self) -> Input:
        return {
            "queries": len(self.queries),
            "insights": len(self.insights),
            "dropped_references": self.dropped_references,
            "dropped_requests": self.dropped_requests,
            "dropped_repeats": len(self.repeats),
        }


async def resolve_plan(
    session: Executor,
    scope: GraphScope,
    past: PlanHistory,
    plan: ObserverPlan,
) -> ResolvedPlan:
    """Resolves references to nodes and requests into ids; unknown ones are dropped and reported."""
    plan_inputs = ResolvedPlan(skipped=[each.model_dump() for each in plan.skipped])
    nodes: Sequence[FreshNode] = ()
    if plan.queries and not past.graph_is_empty:
        objectives = ".\n".join(query.objective for query in plan.queries)
        fresh = context.fresh_nodes(scope, objectives, past.started_at - FRESH, past.started_at)
        nodes = await fresh.answer(session)
    for query in plan.queries:
        _add_query(plan_inputs, past, query, nodes)
    references = await context.resolve_references(
        session, scope, [insight.relevant_node_ids for insight in plan.insights]
    )
    for insight, (node_ids, unknown) in zip(plan.insights, references, strict=True):
        # A query of this plan may add what has no node yet.
        names = [each for each in unknown if each.strip() and not context.is_id(each)]
        plan_inputs.dropped_references += [each for each in unknown if each not in names]
        text = f"{insight.observation}.\n{insight.synthesis_direction}"
        analysis = repeated_insight(set(node_ids), text, past.analyses)
        if analysis is not None:
            plan_inputs.repeats.append(Repeat("insight", insight.observation, analysis.name))
            continue
        insight_input = insight.model_dump()
        if names:
            listed = ", ".join(names)
            direction = f"{insight.synthesis_direction} Look in the graph for: {listed}.".strip()
            insight_input["synthesis_direction"] = direction
        plan_inputs.insights.append(
            insight_input | {"relevant_node_ids": [str(node_id) for node_id in node_ids]}
        )
    return plan_inputs


def _add_query(
    plan_inputs: ResolvedPlan,
    past: PlanHistory,
    query: PlannedQuery,
    nodes: Sequence[FreshNode],
) -> None:
    request_ids, unknown = _requests(query.answers, past.open_requests)
    plan_inputs.dropped_requests += unknown
    repeated = repeated_query(query.objective, past.asked_before(request_ids))
    if repeated is None and not request_ids:
        repeated = known_answer(query.objective, nodes)
    if repeated is not None:
        plan_inputs.repeats.append(Repeat("query", query.objective, repeated))
        return
    answers = [str(request_id) for request_id in request_ids]
    plan_inputs.queries.append(query.model_dump() | {"answers": answers})


def _requests(
    references: Sequence[str], open_requests: Mapping[UUID, object]
) -> tuple[list[UUID], list[str]]:
    """The ids of open requests among the references, without repetitions, and the unknown references."""
    request_ids: dict[UUID, None] = {}
    unknown = []
    for text in dict.fromkeys(references):
        request_id = request_id_in(text)
        if request_id in open_requests and request_id is not None:
            request_ids[request_id] = None
        else:
            unknown.append(text)
    return list(request_ids), unknown
