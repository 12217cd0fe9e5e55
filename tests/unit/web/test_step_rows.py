"""Steps on the time line of their iteration, and the layout of long texts."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from services.api.web import filters
from services.api.web.presenters.iterations import Bar, StepRow, step_rows
from shared.schemas.base import StepResponse
from shared.schemas.iterations import IterationOutline, IterationSums

STARTED_AT = datetime(2026, 1, 1, tzinfo=UTC)


def _at(seconds: float | None) -> datetime | None:
    return None if seconds is None else STARTED_AT + timedelta(seconds=seconds)


def _step(started_after: float | None, ended_after: float | None, **values: Any) -> StepResponse:
    defaults: dict[str, Any] = {
        "kind": "query",
        "index": 1,
        "status": "completed",
        "input": {},
        "result": None,
        "error": None,
        "attempts": 0,
        "republish_count": 0,
        "retry_at": None,
    }
    return StepResponse(
        id=uuid4(), started_at=_at(started_after), ended_at=_at(ended_after), **(defaults | values)
    )


def _row(step: StepResponse, *, ended_after: float | None, now: float = 10) -> StepRow:
    outline = IterationOutline(
        id=uuid4(),
        agent_id=uuid4(),
        number=1,
        why="due",
        status="completed",
        stage="ended",
        errors=[],
        started_at=STARTED_AT,
        ended_at=_at(ended_after),
        plan=None,
        deadline_at=STARTED_AT,
        steps=[step],
        runs=[],
        sums=IterationSums(),
        written=[],
    )
    (row,) = step_rows(outline, STARTED_AT + timedelta(seconds=now))
    return row


@pytest.mark.parametrize(
    ("started_after", "ended_after", "iteration_ended_after", "bar"),
    [
        (0, 10, 10, Bar(0, 100)),
        (2.5, 5, 10, Bar(25, 25)),
        (4, None, None, Bar(40, 60)),  # still running: up to now
        (10, 10, 10, Bar(99.4, 0.6)),  # took no time but stays visible
        (None, None, 10, None),
        (0, 0, 0, None),
    ],
)
def test_a_bar_has_the_position_of_its_step_in_time(
    started_after: float | None,
    ended_after: float | None,
    iteration_ended_after: float | None,
    bar: Bar | None,
) -> None:
    assert _row(_step(started_after, ended_after), ended_after=iteration_ended_after).bar == bar


def test_steps_are_numbered_from_one() -> None:
    second = _row(_step(0, 1, input={"round": 2}), ended_after=1)
    assert (second.name, second.round, second.took) == ("Query 2", 2, timedelta(seconds=1))
    assert _row(_step(0, 1, kind="advise", index=0), ended_after=1).name == "Adviser"


def test_json_is_indented_and_other_text_is_unchanged() -> None:
    assert filters.unpacked('{"a": [1]}') == '{\n  "a": [\n    1\n  ]\n}'
    assert filters.unpacked('{"a": ') == '{"a": '
    assert filters.unpacked("[" * 100_000) == "[" * 100_000


def test_a_truncated_text_says_how_much_is_missing() -> None:
    assert filters.cut("x" * filters.MAX_CHARS) == "x" * filters.MAX_CHARS
    assert filters.cut("x" * 21_500).endswith("x\n… 1,500 characters more")
