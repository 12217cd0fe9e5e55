"""Surveys of a graph."""

from typing import Final

from shared.graph.context import Survey

EMPTY_SURVEY: Final = Survey("An empty graph.", None)
