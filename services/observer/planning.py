"""Resolves a plan into inputs of steps; separates items that repeat known results or contain the instructions."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from services.observer.deduplication import Repeat, repeated_insight, repeated_query
from services.observer.history import PlanHistory, prepare_covering
from services.observer.prompts import ObserverPlan, PlannedQuery
from shared.database.statements import Batch, Executor, PendingResult
from shared.graph import context
from shared.graph.context import FreshNode
from shared.graph.grounding.quantities import SHARE, hint_of
from shared.graph.scope import GraphScope
from shared.llm.messages import section_content
from shared.llm.repair import bare_id
from shared.urls import page_key, urls_in, with_known_urls
from shared.workflow.investigations import request_id

FRESH: Final = timedelta(days=1)
"""A value that was confirmed longer ago may have changed, and may be asked for again."""
MIN_ID_CHARS: Final = 6
"""Length of the shortest beginning of an id that names a request."""
_ASKING: Final = r"(?:(?:find(?: out)?|determine|identify|establish|get|what (?:is|was|are|were))\s+)?(?:the\s+)?"
_YEAR: Final = r"(?:\s+(?:in|for)\s+(?P<year>\d{4}))?"
_WHAT: Final = r"(?P<what>[a-z][a-z -]*)"
_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_POWER: Final = re.compile(r"(?<=[a-z])_?(?:km|m)[23]$|Km[23]$")
"""A unit whose figure is no year: `area_km2`."""
_YEARS: Final = ("Year", "_year", " year")


def known_answer(objective: str, nodes: Sequence[FreshNode]) -> str | None:
    """The answer of the graph to `objective`, such as `Togo: population is 8500000`; None if it has none."""
    question = " ".join(objective.split()).rstrip(".?! ")
    names = Counter(node.name.casefold() for node in nodes)
    for node in nodes:
        if names[node.name.casefold()] > 1:
            continue  # It is not known which one is meant.
        for pattern in _patterns(node):
            if (match := re.fullmatch(pattern, question, re.IGNORECASE)) is not None:
                name = _property_of(node, match["what"].lower().split(), match["year"])
                if name is not None:
                    return f"{node.name}: {name} is {node.properties[name]}"
    return None


def _patterns(node: FreshNode) -> tuple[str, str]:
    """Questions about a property of `node`."""
    name = re.escape(node.name)
    of_type = r"\s+".join(_words(node.type))
    return (
        rf"{_ASKING}{_WHAT}\s+of\s+(?:the\s+)?(?:{of_type}\s+)?{name}{_YEAR}",
        rf"{_ASKING}{name}['’]s?\s+{_WHAT}{_YEAR}",
    )


def _property_of(node: FreshNode, asked: Sequence[str], year: str | None) -> str | None:
    """The property that has these words and, where it is of a year, that year; None if there is none."""
    for name in node.fresh:
        if not name.isascii() or not _is_figure(node.properties.get(name)):
            continue
        words = [word for word in _words(_POWER.sub("", name)) if not _is_unit(word)]
        own = [word for word in words if not word.isdigit()]
        years = [word for word in words if word.isdigit()]
        years += [str(node.properties[key]) for key in _year_keys(name) if key in node.properties]
        is_asked = len(own) == len(asked) and all(map(_is_same, own, asked))
        if is_asked and years == ([] if year is None else [year]):
            return name
    return None


def _words(name: str) -> list[str]:
    return [part.lower() for part in _PART.findall(name)]


def _is_same(own: str, asked: str) -> bool:
    """A property in the plural may be asked for in the singular, and not the other way: `owner` is not all owners."""
    return own in (asked, f"{asked}s")


def _is_unit(word: str) -> bool:
    # Behind another word, because many units are none alone; single letters such as in `population_f` are none at all.
    hint = hint_of(f"value_{word}")
    return len(word) > 1 and (hint.unit not in ("", SHARE) or bool(hint.scale))


def _year_keys(name: str) -> list[str]:
    """The properties that say of which year `name` is."""
    return [f"{name}{ending}" for ending in _YEARS] + ["year"]


def _is_figure(value: Any) -> bool:
    """Texts may be one answer of several: only figures are whole answers."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def known_addresses(message: str) -> dict[str, str]:
    """The addresses that a plan may name, by `page_key`: those of the mission, the owner's memories, the news and the pages
    that were read. `message` is the request for the plan; its titles, names and values may have others.
    """
    texts = [section_content(tag, message) for tag in ("mission", "memories")]
    graph_context = section_content("graph_context", message)
    texts += context.read_addresses(graph_context)
    found = [url for text in texts for url in urls_in(text)]
    # The address of an item stands behind its title.
    news = map(urls_in, section_content("news", message).splitlines())
    return {page_key(url): url for url in [*found, *(urls[-1] for urls in news if urls)]}


def with_known_addresses(plan: ObserverPlan, known: Mapping[str, str]) -> ObserverPlan:
    """The plan whose queries and insights name no other addresses: the Researcher may read what its query names."""
    queries = [
        query.model_copy(
            update={
                "objective": with_known_urls(query.objective, known),
                "reasoning": with_known_urls(query.reasoning, known),
                "search_hints": [with_known_urls(hint, known) for hint in query.search_hints],
            }
        )
        for query in plan.queries
    ]
    insights = [
        insight.model_copy(
            update={
                "observation": with_known_urls(insight.observation, known),
                "synthesis_direction": with_known_urls(insight.synthesis_direction, known),
            }
        )
        for insight in plan.insights
    ]
    return plan.model_copy(update={"queries": queries, "insights": insights})


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
        """The plan as JSON for the iteration's row; `dropped` counts repeats."""
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
    transaction: Executor,
    scope: GraphScope,
    past: PlanHistory,
    plan: ObserverPlan,
) -> ResolvedPlan:
    """Resolves references to nodes and requests into ids; unknown ones are dropped and reported."""
    plan_inputs = ResolvedPlan(skipped=[each.model_dump() for each in plan.skipped])
    batch = Batch()
    fresh: PendingResult[list[FreshNode]] | None = None
    if plan.queries and not past.graph_is_empty:
        objectives = ".\n".join(query.objective for query in plan.queries)
        fresh = batch.add(context.fresh_nodes(scope, objectives, past.now - FRESH, past.started_at))
    covering = prepare_covering(batch, scope, past.analyses if plan.insights else ())
    resolve = context.prepare_references(
        batch, scope, [insight.relevant_node_ids for insight in plan.insights]
    )
    await batch.execute(transaction)
    for query in plan.queries:
        _add_query(plan_inputs, scope.agent_id, past, query, fresh.value if fresh else ())
    for insight, (node_ids, unknown) in zip(plan.insights, await resolve(transaction), strict=True):
        # A query of this plan may add what has no node yet.
        names = [each for each in unknown if each.strip() and not context.is_id(each)]
        plan_inputs.dropped_references += [each for each in unknown if each not in names]
        text = f"{insight.observation}.\n{insight.synthesis_direction}"
        analysis = repeated_insight(set(node_ids), text, covering.value)
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
    agent_id: UUID,
    past: PlanHistory,
    query: PlannedQuery,
    nodes: Sequence[FreshNode],
) -> None:
    request_ids, unknown = resolve_requests(agent_id, query.answers, past.open_requests)
    plan_inputs.dropped_requests += unknown
    repeated = repeated_query(query.objective, past.asked_before(request_ids))
    if repeated is None and not request_ids:
        repeated = known_answer(query.objective, nodes)
    if repeated is not None:
        plan_inputs.repeats.append(Repeat("query", query.objective, repeated))
        return
    answers = [str(request_id) for request_id in request_ids]
    plan_inputs.queries.append(query.model_dump() | {"answers": answers})


def resolve_requests(
    agent_id: UUID, references: Sequence[str], open_requests: Mapping[UUID, object]
) -> tuple[list[UUID], list[str]]:
    """The ids of open requests among the references, without repetitions, and the unknown references.

    A reference is an id, the beginning of one that no other request has, or the objective of a request.
    """
    request_ids: dict[UUID, None] = {}
    unknown = []
    for text in dict.fromkeys(references):
        digits = bare_id(text).replace("-", "").lower()
        named = [each for each in open_requests if each.hex.startswith(digits)]
        by_objective = request_id(agent_id, text)
        if len(named) == 1 and len(digits) >= MIN_ID_CHARS:
            request_ids[named[0]] = None
        elif by_objective in open_requests:
            request_ids[by_objective] = None
        else:
            unknown.append(text)
    return list(request_ids), unknown
