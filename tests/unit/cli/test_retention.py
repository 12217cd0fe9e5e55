"""`vigil retention`: limits of age and of size, and what was measured."""

import pytest

from cli.render.operations import show_retention
from shared.schemas.operations import RetainedKind, RetainedTable, RetentionResponse
from tests.support.cli.console import printed


def kind(**values: object) -> RetainedKind:
    usual = {
        "kind": "pages",
        "label": "Pages",
        "contents": "pages that nothing cites",
        "is_known": True,
        "days": 30.0,
        "max_bytes": None,
        "bytes": None,
        "tables": [RetainedTable(name="sources", rows=3, bytes=4 * 1024**2)],
        "oldest_at": None,
        "pruned_at": None,
        "last_rows": 0,
        "all_rows": 0,
        "ended_at": None,
        "next_at": None,
    }
    return RetainedKind.model_validate(usual | values)


@pytest.mark.parametrize(
    ("values", "kept", "size"),
    [
        ({}, "30 days", "4 MiB"),
        ({"days": None}, "ever", "4 MiB"),
        (
            {"max_bytes": 2 * 1024**2, "bytes": 1024**2},
            "30 days, at most 2 MiB",
            "4 MiB, 1 MiB in rows",
        ),
        ({"days": None, "max_bytes": 1024**3}, "ever, at most 1.0 GiB", "4 MiB"),
        ({"is_known": False}, "–", "4 MiB"),
    ],
)
def test_each_limit_is_shown(values: dict[str, object], kept: str, size: str) -> None:
    view = RetentionResponse(kinds=[kind(**values)], kept=[])
    lines = printed(show_retention, view).splitlines()
    [row] = [line for line in lines if line.startswith("Pages")]
    cells = [cell.strip() for cell in row.split("  ") if cell.strip()]
    assert cells[1:4] == [kept, "3", size]
