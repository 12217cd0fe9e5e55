"""Formatting of numbers, times and texts."""

from datetime import UTC, datetime
from uuid import UUID

import pytest

from cli.config.durations import parse_seconds
from cli.errors import BadInputError
from cli.render.console import cited, with_short_citations
from shared.durations import format_duration
from shared.schemas.base import CitationResponse

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
GHANA = UUID(int=1)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("2h", 7200), ("1d", 86_400), ("90", 90)]
)
def test_formatted_durations_can_be_parsed(text: str, seconds: int) -> None:
    assert parse_seconds(text) == seconds
    assert parse_seconds(format_duration(seconds)) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5 weeks", "-3m", "1.5h"])
def test_an_invalid_duration_is_rejected_with_an_example(text: str) -> None:
    with pytest.raises(BadInputError, match="5m"):
        parse_seconds(text)


def test_citations_are_replaced_by_names_and_unknown_ones_are_short() -> None:
    citation = CitationResponse(kind="node", id=GHANA, type="Country", name="Ghana")
    unknown = CitationResponse(kind="edge", id=UUID(int=2), type=None, name=None)
    content = f"Gold [node:{GHANA}] and more [edge:{unknown.id}]."
    assert cited(content, [citation, unknown]) == "Gold [Ghana] and more [edge:00000000]."
    assert (
        with_short_citations(content) == f"Gold [node:{str(GHANA)[:8]}] and more [edge:00000000]."
    )
