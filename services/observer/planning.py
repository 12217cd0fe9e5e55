"""A plan as steps' inputs: what it refers to is resolved; what repeats, and what tells instructions, is set apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from services.observer.deduplication import Repeat, repeated_insight, repeated_query
from services.observer.history import Past
from services.observer.prompts import ObserverPlan, PlannedQuery
from shared.graph import context
from shared.graph.context.history import request_id_in
from shared.graph.scope import Scope
from shared.llm.prompt_leak_guard import Secret

Input = dict[str, Any]


@dataclass
class Resolved:
    """`repeats` and `telling` are neither among the queries nor the insights."""

    queries: list[Input] = field(default_factory=list)
    insights: list[Input] = field(default_factory=list)
    repeats: list[Repeat] = field(default_factory=list)
    telling: list[str] = field(default_factory=list)
    """Items that tell the instructions of who planned them, by their place: `query 1`. A query goes out to the web."""
    dropped_references: list[str] = field(default_factory=list)
    dropped_requests: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.queries and not self.insights

    @property
    def stored(self) -> Input:
        """As the iteration keeps it; `dropped` counts what was left out because it repeats, or tells instructions."""
        dropped = len(self.repeats) + len(self.telling)
        return {"queries": self.queries, "insights": self.insights, "dropped": dropped}

    @property
    def counts(self) -> Input:
        return {
            "queries": len(self.queries),
            "insights": len(self.insights),
            "dropped_references": self.dropped_references,
            "dropped_requests": self.dropped_requests,
            "dropped_repeats": len(self.repeats),
            "dropped_telling": len(self.telling),
        }


async def resolved(
    session: AsyncSession, scope: Scope, past: Past, plan: ObserverPlan, secret: Secret
) -> Resolved:
    """References to nodes and requests become ids, and those that name none are dropped and told.

    Nothing that tells the `secret` is among the queries and insights.
    """
    found = Resolved()
    for place, query in enumerate(plan.queries, start=1):
        if secret.stands_in(query.objective, query.reasoning, *query.search_hints):
            found.telling.append(f"query {place}")
        else:
            _add_query(found, past, query)
    for place, insight in enumerate(plan.insights, start=1):
        if secret.stands_in(insight.observation, insight.synthesis_direction):
            found.telling.append(f"insight {place}")
            continue
        node_ids, unknown = await context.resolve(session, scope, insight.relevant_node_ids)
        found.dropped_references += unknown
        told = f"{insight.observation}.\n{insight.synthesis_direction}"
        covering = repeated_insight(set(node_ids), told, past.analyses)
        if covering is not None:
            found.repeats.append(Repeat("insight", insight.observation, covering.name))
            continue
        given = insight.model_dump()
        found.insights.append(given | {"relevant_node_ids": [str(node_id) for node_id in node_ids]})
    return found


def _add_query(found: Resolved, past: Past, query: PlannedQuery) -> None:
    request_ids, unknown = _requests(query.answers, past.open_requests)
    found.dropped_requests += unknown
    asked = repeated_query(query.objective, past.answered_before(request_ids))
    if asked is not None:
        found.repeats.append(Repeat("query", query.objective, asked))
        return
    answers = [str(request_id) for request_id in request_ids]
    found.queries.append(query.model_dump() | {"answers": answers})


def _requests(
    references: Sequence[str], known: Mapping[UUID, object]
) -> tuple[list[UUID], list[str]]:
    """The open requests that are meant, each once, and the references that mean none."""
    meant: dict[UUID, None] = {}
    unknown = []
    for text in dict.fromkeys(references):
        request_id = request_id_in(text)
        if request_id in known and request_id is not None:
            meant[request_id] = None
        else:
            unknown.append(text)
    return list(meant), unknown
