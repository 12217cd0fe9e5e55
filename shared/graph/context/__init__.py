"""What prompts show of the graph: a survey of all of it, and given nodes or analyses in full."""

from shared.graph.context.history import analyses_query, ask_nodes, resolve_references
from shared.graph.context.named import FreshNode, fresh_nodes, named_nodes
from shared.graph.context.pinned import PinnedSurveys, Survey
from shared.graph.context.survey import FOLDED, ask_survey, build_survey
from shared.graph.context.written import written_lines

__all__ = [
    "FOLDED",
    "FreshNode",
    "PinnedSurveys",
    "Survey",
    "analyses_query",
    "ask_nodes",
    "ask_survey",
    "build_survey",
    "fresh_nodes",
    "named_nodes",
    "resolve_references",
    "written_lines",
]
