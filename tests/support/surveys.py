"""Surveys of a graph."""

from datetime import UTC, datetime
from typing import Final

from shared.graph.context import Survey

EMPTY_SURVEY: Final = Survey("An empty graph.", datetime(2026, 1, 1, tzinfo=UTC))
