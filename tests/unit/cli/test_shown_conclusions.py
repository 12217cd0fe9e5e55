"""Conclusions and inbox items in a terminal: no raw citations, and what no longer stands says so."""

from datetime import UTC, datetime
from io import StringIO
from typing import Any, Final
from uuid import UUID

import pytest
from rich.console import Console

from cli.render.iterations import show_conclusions
from cli.render.notifications import show_inbox
from shared.enums import PositionState
from shared.schemas.base import (
    CitationResponse,
    ConclusionResponse,
    InboxItemResponse,
    PositionResponse,
)

ID: Final = UUID(int=7)
AT: Final = datetime(2026, 11, 30, tzinfo=UTC)
TEXT: Final = f"It grows [node:{ID}]."


def position(state: PositionState) -> PositionResponse:
    is_over = state in (PositionState.WITHDRAWN, PositionState.REPLACED)
    return PositionResponse(
        state=state,
        subject=[],
        confidence=0.5,
        horizon=None,
        confirmed_at=None,
        confirmations=0,
        ended_at=AT if is_over else None,
        replaced_by="Hold Ghana" if state is PositionState.REPLACED else None,
        replaced_by_id=None,
        reason="The order was cancelled.",
    )


def item(**fields: Any) -> InboxItemResponse:
    values: dict[str, Any] = {
        "id": ID,
        "kind": "advice",
        "agent_id": ID,
        "agent_name": "Ghana Watch",
        "node_id": ID,
        "action": "SELL",
        "title": "SELL: Sell Ghana",
        "summary": TEXT,
        "content": TEXT,
        "read_at": None,
        "created_at": AT,
    }
    return InboxItemResponse(**values | fields)


def shown(item: InboxItemResponse) -> str:
    written = StringIO()
    show_inbox(Console(file=written, width=200), [item], everything=True)
    return written.getvalue()


@pytest.mark.parametrize("state", [PositionState.WITHDRAWN, PositionState.REPLACED])
def test_advice_that_has_ended_says_so_beside_its_title(state: PositionState) -> None:
    first, *rest = shown(item(position=position(state))).splitlines()
    assert first.startswith(f"● SELL: Sell Ghana {state}  Ghana Watch")
    assert any("The order was cancelled." in line for line in rest)


def test_standing_advice_has_no_mark() -> None:
    first = shown(item(position=position(PositionState.STANDING))).splitlines()[0]
    assert first.startswith("● SELL: Sell Ghana  Ghana Watch")


def test_an_inbox_item_shows_no_raw_citations() -> None:
    text = shown(item())
    assert "It grows.\n" in text
    assert str(ID) not in text


def test_a_conclusion_shows_no_raw_citations() -> None:
    conclusion = ConclusionResponse(
        id=ID,
        word="BUY",
        name="Ghana grows",
        summary=TEXT,
        content=TEXT,
        confidence=1,
        generated_at="2026",
        iteration_id=None,
        citations=[CitationResponse(kind="node", id=ID, type="Country", name="Ghana")],
    )
    written = StringIO()
    show_conclusions(Console(file=written, width=200), [conclusion], noun="advice", limit=1)
    text = written.getvalue()
    assert "It grows.\n" in text
    assert f"It grows [node:{str(ID)[:8]}]." in text
    assert "[Ghana]" not in text
    assert str(ID) not in text
