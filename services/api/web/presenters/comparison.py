"""Two iterations side by side: figures, phases, plans and what each wrote. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from services.api.web.filters import NONE, compact, count, duration, phase, usd
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE, Phase
from shared.schemas.iterations import (
    IterationOutline,
    PhaseSums,
    SupersededValue,
    WrittenElement,
)

_CONCLUSIONS: Final = (ANALYSIS_TYPE, ADVICE_TYPE)


@dataclass(frozen=True)
class Side:
    iteration: IterationOutline
    conclusions: Sequence[WrittenElement]
    nodes: Sequence[WrittenElement]
    edges: Sequence[WrittenElement]
    superseded: Sequence[SupersededValue]


def comparison_side(iteration: IterationOutline, superseded: Sequence[SupersededValue]) -> Side:
    """Sorts what the iteration wrote into conclusions, other nodes, and edges."""
    nodes = [element for element in iteration.written if element.kind == "node"]
    return Side(
        iteration=iteration,
        conclusions=[node for node in nodes if node.type in _CONCLUSIONS],
        nodes=[node for node in nodes if node.type not in _CONCLUSIONS],
        edges=[element for element in iteration.written if element.kind == "edge"],
        superseded=superseded,
    )


@dataclass(frozen=True)
class Figure:
    """A figure of both iterations, and by how much the second differs. `shares` are parts of the larger, for bars."""

    name: str
    before: str
    after: str
    change: str
    grows: int
    """-1, 0 or 1."""
    shares: tuple[float, float]


Format = Callable[[float], str]


def _figure(name: str, first: float | None, second: float | None, text: Format) -> Figure:
    """None is what one of them does not have: it counts as 0 in the change, but is not shown as 0."""
    before, after = first or 0, second or 0
    difference = after - before
    sign = "+" if difference > 0 else "−"
    most = max(before, after)
    return Figure(
        name=name,
        before=NONE if first is None else text(first),
        after=NONE if second is None else text(second),
        change=f"{sign}{text(abs(difference))}" if difference else "",
        grows=(difference > 0) - (difference < 0),
        shares=(before / most, after / most) if most else (0.0, 0.0),
    )


def compare_figures(before: IterationOutline, after: IterationOutline) -> list[Figure]:
    """The cost only where one of them was billed."""
    figures: list[tuple[str, Callable[[IterationOutline], float], Format]] = [
        ("Duration", _seconds, duration),
        ("Calls", lambda each: each.sums.spent.calls, count),
        ("Input tokens", lambda each: each.sums.spent.input_tokens, compact),
        ("Output tokens", lambda each: each.sums.spent.output_tokens, compact),
        ("Cost", lambda each: each.sums.spent.cost_usd, usd),
        ("Failed steps", lambda each: each.sums.failed, count),
        ("Nodes", lambda each: each.sums.gained.nodes, count),
        ("Edges", lambda each: each.sums.gained.edges, count),
        ("Analyses", lambda each: each.sums.gained.analyses, count),
        ("Advice", lambda each: each.sums.gained.advice, count),
    ]
    return [
        _figure(name, read(before), read(after), text)
        for name, read, text in figures
        if name != "Cost" or read(before) or read(after)
    ]


def _seconds(iteration: IterationOutline) -> float:
    end = iteration.ended_at
    return 0.0 if end is None else (end - iteration.started_at).total_seconds()


@dataclass(frozen=True)
class PhaseFigures:
    name: str
    figures: Sequence[Figure]


def compare_phases(before: Sequence[PhaseSums], after: Sequence[PhaseSums]) -> list[PhaseFigures]:
    """The phases that one of them ran: time, calls, tokens, and cost where one of them was billed."""
    first, second = ({each.phase: each for each in sums} for sums in (before, after))
    is_billed = any(each.spent.cost_usd for each in (*before, *after))
    return [
        PhaseFigures(phase(name), _phase_figures(name, first, second, is_billed=is_billed))
        for name in Phase
        if name in first or name in second
    ]


def _phase_figures(
    name: str, first: Mapping[str, PhaseSums], second: Mapping[str, PhaseSums], *, is_billed: bool
) -> list[Figure]:
    before, after = first.get(name), second.get(name)
    figures: list[tuple[str, Callable[[PhaseSums], float], Format]] = [
        ("Time", lambda each: each.seconds, duration),
        ("Calls", lambda each: each.spent.calls, count),
        (
            "Tokens",
            lambda each: each.spent.input_tokens + each.spent.output_tokens,
            compact,
        ),
        ("Cost", lambda each: each.spent.cost_usd, usd),
    ]
    return [
        _figure(
            title,
            None if before is None else read(before),
            None if after is None else read(after),
            text,
        )
        for title, read, text in figures
        if title != "Cost" or is_billed
    ]


@dataclass(frozen=True)
class PlannedItem:
    """`place` is `both`, `before` or `after`."""

    kind: str
    text: str
    place: str


def compare_plans(before: IterationOutline, after: IterationOutline) -> list[PlannedItem]:
    """What only the first planned, what both planned, and what only the second planned."""
    first, second = _planned(before), _planned(after)
    return [
        *(PlannedItem(*item, "before") for item in first if item not in second),
        *(PlannedItem(*item, "both") for item in first if item in second),
        *(PlannedItem(*item, "after") for item in second if item not in first),
    ]


def _planned(iteration: IterationOutline) -> list[tuple[str, str]]:
    plan: Mapping[str, Any] = iteration.plan or {}
    queries = [("query", str(item.get("objective", ""))) for item in plan.get("queries") or []]
    insights = [
        ("insight", str(item.get("observation", ""))) for item in plan.get("insights") or []
    ]
    return list(dict.fromkeys([*queries, *insights]))
