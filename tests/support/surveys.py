"""Surveys of a graph."""

from datetime import UTC, datetime
from typing import Final

from shared.graph.context import Survey

EMPTY_SURVEY: Final = Survey("An empty graph.", None)
NOW: Final = datetime(2026, 5, 1, 12, 30, tzinfo=UTC)
