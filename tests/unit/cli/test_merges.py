"""Doubles and merges in a terminal."""

import io
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from rich.console import Console

from cli.render.console import THEME
from cli.render.graph import show_duplicates, show_merge, show_merges, show_unmerge
from shared.schemas.graph import DuplicateView, MergeView, NodeRef

ID = UUID("a1b2c3d4-0000-4000-8000-000000000001")
OTHER = UUID("a1b2c3d4-0000-4000-8000-000000000002")
WHEN = datetime(2026, 1, 31, 12, tzinfo=UTC)


def made(**values: Any) -> MergeView:
    known: dict[str, Any] = {
        "id": ID,
        "type": "Company",
        "kept_id": ID,
        "kept_name": "Nvidia [bold]",
        "merged_id": OTHER,
        "merged_name": "NVIDIA Corp",
        "reason": "One [/] company.",
        "names": 2,
        "evidence": 1,
        "edges": 0,
        "dropped_edges": 0,
        "made_at": WHEN,
        "undone_at": None,
    }
    return MergeView(**(known | values))


def shown(show: Callable[..., None], *what: Any) -> str:
    file = io.StringIO()
    show(Console(file=file, theme=THEME, width=200), *what)
    return file.getvalue()


def test_a_merge_is_told_with_how_to_undo_it() -> None:
    told = shown(show_merge, "Chips", made())
    assert (
        "NVIDIA Corp is merged into Nvidia [bold]: 2 names, 1 span of evidence, no edges." in told
    )
    assert f'vigil node unmerge "Chips" {ID}' in told
    assert "NVIDIA Corp is restored" in shown(show_unmerge, made(undone_at=WHEN))


def test_merges_are_listed_with_why_and_what_became_of_them() -> None:
    told = shown(show_merges, [made(), made(kept_name=None, undone_at=WHEN)])
    first, second = told.splitlines()
    assert "NVIDIA Corp → Nvidia [bold]  One [/] company." in first
    assert "undone" not in first
    assert "a node that was merged itself since" in second
    assert "undone" in second
    assert shown(show_merges, []) == "No nodes have been merged yet.\n"


def test_doubles_are_listed_with_what_to_name_them_by() -> None:
    pair = DuplicateView(
        node=NodeRef(id=ID, type="Company", name="Nvidia"),
        other=NodeRef(id=OTHER, type="Company", name="Nvidea [x]"),
        similarity=0.6,
    )
    told = shown(show_duplicates, [pair])
    assert told.startswith("0.60  Nvidia")
    assert all(each in told for each in ("Nvidea [x]", str(ID), str(OTHER), "Company"))
    assert shown(show_duplicates, []) == "No two nodes have similar names.\n"
