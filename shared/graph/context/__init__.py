"""What prompts show of the graph: a survey of all of it, and given nodes or analyses in full."""

from shared.graph.context.history import analyses_query, is_id, prepare_nodes, prepare_references
from shared.graph.context.named import FreshNode, fresh_nodes, known_facts, named_nodes
from shared.graph.context.survey import (
    FOLDED,
    PinnedSurveys,
    Survey,
    build_survey,
    has_section,
    pages_read,
    prepare_survey,
    read_addresses,
    written_lines,
)

__all__ = [
    "FOLDED",
    "FreshNode",
    "PinnedSurveys",
    "Survey",
    "analyses_query",
    "build_survey",
    "fresh_nodes",
    "has_section",
    "is_id",
    "known_facts",
    "named_nodes",
    "pages_read",
    "prepare_nodes",
    "prepare_references",
    "prepare_survey",
    "read_addresses",
    "written_lines",
]
