"""What prompts show of the graph: a survey of all of it, and given nodes or analyses in full."""

from shared.graph.context.history import analyses_query, is_id, prepare_nodes, prepare_references
from shared.graph.context.named import FreshNode, fresh_nodes, named_nodes
from shared.graph.context.survey import (
    FOLDED,
    PAGES_READ,
    PinnedSurveys,
    Survey,
    build_survey,
    prepare_survey,
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
    "build_survey",
    "fresh_nodes",
    "is_id",
    "named_nodes",
    "prepare_nodes",
    "prepare_references",
    "prepare_survey",
    "section_lines",
    "without_types",
    "written_lines",
]
