"""What prompts show of the graph: a survey of all of it, and given nodes or analyses in full."""

from shared.graph.context.cache import SharedSurvey, Survey
from shared.graph.context.history import describe_analyses, describe_nodes, resolve_references
from shared.graph.context.survey import build_survey

__all__ = [
    "SharedSurvey",
    "Survey",
    "build_survey",
    "describe_analyses",
    "describe_nodes",
    "resolve_references",
]
