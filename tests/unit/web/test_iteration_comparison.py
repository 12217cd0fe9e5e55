"""Two iterations compared: figures, phases, plans."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from services.api.web.presenters.comparison import (
    PlannedItem,
    compare_figures,
    compare_phases,
    compare_plans,
)
from shared.schemas.iterations import (
    CallUsage,
    Gained,
    IterationOutline,
    IterationSums,
    PhaseSums,
)

STARTED_AT = datetime(2026, 1, 1, tzinfo=UTC)


def _outline(seconds: float, *, plan: Any = None, nodes: int = 0, **spent: Any) -> IterationOutline:
    return IterationOutline(
        id=uuid4(),
        agent_id=uuid4(),
        number=1,
        why="due",
        status="completed",
        stage="ended",
        errors=[],
        started_at=STARTED_AT,
        ended_at=STARTED_AT + timedelta(seconds=seconds),
        plan=plan,
        deadline_at=STARTED_AT,
        steps=[],
        runs=[],
        sums=IterationSums(gained=Gained(nodes=nodes), spent=CallUsage(**spent)),
        written=[],
    )


def test_figures_have_the_change_and_the_shares_of_the_larger() -> None:
    before = _outline(8, nodes=4, calls=2, input_tokens=2_000)
    after = _outline(6, nodes=5, calls=2, input_tokens=500)
    figures = {figure.name: figure for figure in compare_figures(before, after)}
    duration = figures["Duration"]
    assert (duration.before, duration.after, duration.change) == ("8 s", "6 s", "−2 s")
    assert (duration.grows, duration.shares) == (-1, (1.0, 0.75))
    assert (figures["Nodes"].change, figures["Nodes"].grows) == ("+1", 1)
    assert (figures["Calls"].change, figures["Calls"].grows) == ("", 0)
    assert figures["Input tokens"].change == "−1.5k"
    assert figures["Edges"].shares == (0.0, 0.0)
    assert "Cost" not in figures
    billed = compare_figures(before, _outline(6, cost_usd=0.25))
    assert [figure.change for figure in billed if figure.name == "Cost"] == ["+$0.25"]


def test_phases_are_compared_even_where_only_one_ran_them() -> None:
    def sums(phase: str, calls: int, seconds: float) -> PhaseSums:
        spent = CallUsage(calls=calls, input_tokens=calls, output_tokens=calls)
        return PhaseSums(phase=phase, spent=spent, seconds=seconds)

    observer, advice = compare_phases(
        [sums("observer", 1, 2)], [sums("observer", 3, 1), sums("advice_generation", 1, 1)]
    )
    assert observer.name == "Observer"
    assert [(figure.name, figure.change) for figure in observer.figures] == [
        ("Time", "−1 s"),
        ("Calls", "+2"),
        ("Tokens", "+4"),
    ]
    assert advice.name == "Advice generation"
    # What did not run took no time of 0 ms.
    assert [figure.before for figure in advice.figures] == ["–", "–", "–"]
    assert [figure.change for figure in advice.figures] == ["+1 s", "+1", "+2"]


def test_plans_are_compared_by_their_texts() -> None:
    before = _outline(1, plan={"queries": [{"objective": "A"}, {"objective": "B"}]})
    after = _outline(1, plan={"queries": [{"objective": "B"}], "insights": [{"observation": "C"}]})
    assert compare_plans(before, after) == [
        PlannedItem("query", "A", "before"),
        PlannedItem("query", "B", "both"),
        PlannedItem("insight", "C", "after"),
    ]
    assert compare_plans(_outline(1), _outline(1)) == []
