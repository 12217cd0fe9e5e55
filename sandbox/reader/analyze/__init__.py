"""The analysis generation phase: a conclusion that cites what it stands on, or what is missing for one."""

import re

from sandbox.reader.analyze.conclusion import Conclusion
from sandbox.reader.analyze.figures import compare_figures
from sandbox.reader.analyze.insight import Insight, parse_insight
from sandbox.reader.analyze.missing import ask_for_missing
from sandbox.reader.analyze.sharing import compare_edges
from sandbox.reader.answer import Answer, ToolCall
from sandbox.reader.graph_view import GraphView
from sandbox.reader.request import ChatRequest

EDGE_INSIGHT = re.compile(r"\bhave an edge\b|\bshare", re.IGNORECASE)
MAX_TRIES = 3
LINK_TYPES = ("about", "concerns", "analyzes", "supports", "derived_from", "based_on")
"""Edge types that may lead from an analysis to what it is about, if the agent has one."""


def analyze(request: ChatRequest) -> Answer:
    """At most one analysis for an insight; asks the graph once where what was shown does not suffice."""
    insight = parse_insight(request)
    conclusion = _conclude(insight)
    if conclusion is None and _may_look(request, insight):
        return Answer(calls=(_look(insight),))
    if conclusion is None:
        return ask_for_missing(request, insight)
    written = request.results("addAgentAnalysisNode")
    tries = sum(one.name == "addAgentAnalysisNode" for one in request.exchanges)
    if not written and tries < MAX_TRIES and "addAgentAnalysisNode" in request.tools:
        return Answer(calls=(_write(conclusion),))
    links = _links(request, conclusion)
    return Answer(calls=links) if links else Answer(_report(request, conclusion))


def _conclude(insight: Insight) -> Conclusion | None:
    """By edges where the insight speaks of an edge, else by figures first."""
    if EDGE_INSIGHT.search(insight.observation):
        return compare_edges(insight) or compare_figures(insight)
    return compare_figures(insight) or compare_edges(insight)


def _may_look(request: ChatRequest, insight: Insight) -> bool:
    asked = any(one.name == "queryGraph" for one in request.exchanges)
    return bool(insight.node_ids) and not asked and "queryGraph" in request.tools


def _look(insight: Insight) -> ToolCall:
    return ToolCall.of("queryGraph", nodeIds=list(insight.node_ids), neighbours=True, limit=20)


def _write(conclusion: Conclusion) -> ToolCall:
    return ToolCall.of(
        "addAgentAnalysisNode",
        name=conclusion.name,
        type=conclusion.type,
        summary=conclusion.summary,
        content=conclusion.content,
        confidence=conclusion.confidence,
    )


def _links(request: ChatRequest, conclusion: Conclusion) -> tuple[ToolCall, ...]:
    """From the new analysis to its first node, where the agent has an edge type for that."""
    written = request.results("addAgentAnalysisNode")
    known = GraphView(request.section("graph_context")).edge_types
    link = next((name for name in LINK_TYPES if name in known), None)
    made = any(one.name == "addGraphEdge" for one in request.exchanges)
    if not written or not link or made or "addGraphEdge" not in request.tools:
        return ()
    source = str((written[-1].result or {}).get("nodeId", ""))
    return (
        ToolCall.of("addGraphEdge", type=link, sourceId=source, targetId=conclusion.node_ids[0]),
    )


def _report(request: ChatRequest, conclusion: Conclusion) -> str:
    refused = [f"{one.name} was refused: {one.refused}" for one in request.exchanges if one.refused]
    return "\n".join([conclusion.summary, *refused])
