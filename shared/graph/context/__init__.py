"""What prompts show of the graph: a survey of all of it, and given nodes or analyses in full."""

from shared.graph.context.history import analyses_query, ask_nodes, ask_references, is_id
from shared.graph.context.named import FreshNode, fresh_nodes, named_nodes
from shared.graph.context.survey import (
    FOLDED,
    PAGES_READ,
    PinnedSurveys,
    Survey,
    ask_survey,
    build_survey,
    section_lines,
    without_types,
    written_lines,
)

__all__ = [
    "FOLDED",
    "PAGES_READ",
    "FreshNode",
    "PinnedSurveys",
    "Survey",
    "analyses_query",
    "ask_nodes",
    "ask_references",
    "ask_survey",
    "build_survey",
    "fresh_nodes",
    "is_id",
    "named_nodes",
    "section_lines",
    "without_types",
    "written_lines",
]
