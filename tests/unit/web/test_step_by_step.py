"""Where steps lie in their iteration's time, and how long texts are laid out."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from services.api.web import filters
from services.api.web.presenters.iterations import Bar, StepRow, step_rows
from shared.schemas.base import StepView
from shared.schemas.iterations import IterationOutline, IterationSums

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def _at(seconds: float | None) -> datetime | None:
    return None if seconds is None else BEGAN + timedelta(seconds=seconds)


def _step(begun: float | None, ended: float | None, **other: Any) -> StepView:
    known: dict[str, Any] = {
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
    return StepView(id=uuid4(), started_at=_at(begun), ended_at=_at(ended), **(known | other))


def _one(step: StepView, *, ended: float | None, now: float = 10) -> StepRow:
    outline = IterationOutline(
        id=uuid4(),
        agent_id=uuid4(),
        number=1,
        why="due",
        status="completed",
        stage="ended",
        errors=[],
        started_at=BEGAN,
        ended_at=_at(ended),
        plan=None,
        deadline_at=BEGAN,
        steps=[step],
        runs=[],
        sums=IterationSums(),
        written=[],
    )
    (found,) = step_rows(outline, BEGAN + timedelta(seconds=now))
    return found


@pytest.mark.parametrize(
    ("begun", "ended", "whole", "bar"),
    [
        (0, 10, 10, Bar(0, 100)),
        (2.5, 5, 10, Bar(25, 25)),
        (4, None, None, Bar(40, 60)),  # runs still: to the present
        (10, 10, 10, Bar(99.4, 0.6)),  # took no time, and is seen still
        (None, None, 10, None),
        (0, 0, 0, None),
    ],
)
def test_a_bar_lies_where_its_step_does(
    begun: float | None, ended: float | None, whole: float | None, bar: Bar | None
) -> None:
    assert _one(_step(begun, ended), ended=whole).bar == bar


def test_steps_are_named_as_people_count_them() -> None:
    second = _one(_step(0, 1, input={"round": 2}), ended=1)
    assert (second.name, second.round, second.took) == ("Query 2", 2, timedelta(seconds=1))
    assert _one(_step(0, 1, kind="advise", index=0), ended=1).name == "Adviser"


def test_json_is_laid_out_and_what_is_none_stands_as_it_was() -> None:
    assert filters.unpacked('{"a": [1]}') == '{\n  "a": [\n    1\n  ]\n}'
    assert filters.unpacked('{"a": ') == '{"a": '
    assert filters.unpacked("[" * 100_000) == "[" * 100_000


def test_what_is_cut_says_how_much_is_left_out() -> None:
    assert filters.cut("x" * filters.MAX_CHARS) == "x" * filters.MAX_CHARS
    assert filters.cut("x" * 21_500).endswith("x\n… 1,500 characters more")
