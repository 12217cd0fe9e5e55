"""What the list of agents shows of each, and what the page of one says it has learned."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from services.api.queries.agents import DashboardCounters, NewestConclusion, RecentIteration
from services.api.web.filters import duration, plain
from services.api.web.presenters.outcomes import outcome
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.graph.system_types import ABOUT_TYPE
from shared.schemas.base import AgentResponse, IterationSummary
from shared.schemas.iterations import SupersededValue, WrittenElement

TREND_ITERATIONS: Final = 24


@dataclass(frozen=True)
class SparkBar:
    """`share` is the height from 0 to 1, of the highest bar. `number` is that of the iteration."""

    number: int
    share: float
    tone: str
    title: str


@dataclass(frozen=True)
class AgentRow:
    agent: AgentResponse
    counters: DashboardCounters
    trend: Sequence[SparkBar]
    conclusion: NewestConclusion | None


def trend(iterations: Sequence[RecentIteration]) -> list[SparkBar]:
    """A bar for each iteration: its height is the duration, its tone the outcome."""
    longest = max((iteration.seconds for iteration in iterations), default=0)
    return [
        SparkBar(
            number=iteration.number,
            share=iteration.seconds / longest if longest else 0,
            tone=became.tone,
            title=f"Iteration {iteration.number}: {became.word}, {duration(iteration.seconds)}",
        )
        for iteration in iterations
        for became in [outcome(iteration.status, is_stopped=iteration.is_stopped)]
    ]


MAX_NAMES_PER_TYPE: Final = 6
MAX_VALUE_CHARS: Final = 40
_CONCLUSIONS: Final = (ADVICE_TYPE, ANALYSIS_TYPE)
"""In the order in which they are shown."""


@dataclass(frozen=True)
class NewNodes:
    """New nodes of one type: the first ones, and how many more there are."""

    type: str
    nodes: Sequence[WrittenElement]
    more: int

    @property
    def count(self) -> int:
        return len(self.nodes) + self.more


@dataclass(frozen=True)
class Learned:
    """What the newest iteration that was not quiet added to the graph."""

    iteration: IterationSummary
    conclusions: Sequence[WrittenElement]
    """Advice first."""
    nodes: Sequence[NewNodes]
    """The types with the most nodes first."""
    edges: int
    superseded: Sequence[SupersededValue]
    """Short values, which can be compared at a glance."""
    texts: int
    """The number of longer texts that changed."""
    quiet_since: int
    """The number of quiet iterations after it."""

    @property
    def is_empty(self) -> bool:
        return not (self.conclusions or self.nodes or self.edges or self.superseded or self.texts)


def learned(
    iteration: IterationSummary,
    written: Sequence[WrittenElement],
    superseded: Sequence[SupersededValue],
    newest_number: int,
) -> Learned:
    conclusions = [element for element in written if element.type in _CONCLUSIONS]
    by_type: defaultdict[str, list[WrittenElement]] = defaultdict(list)
    for element in written:
        if element.kind == "node" and element.type not in _CONCLUSIONS:
            by_type[element.type].append(element)
    return Learned(
        iteration=iteration,
        conclusions=sorted(conclusions, key=lambda element: _CONCLUSIONS.index(element.type)),
        nodes=[
            NewNodes(name, nodes[:MAX_NAMES_PER_TYPE], max(0, len(nodes) - MAX_NAMES_PER_TYPE))
            for name, nodes in sorted(by_type.items(), key=lambda item: (-len(item[1]), item[0]))
        ],
        edges=sum(element.kind == "edge" and element.type != ABOUT_TYPE for element in written),
        superseded=[value for value in superseded if not _is_text(value)],
        texts=sum(_is_text(value) for value in superseded),
        quiet_since=newest_number - iteration.number,
    )


def _is_text(value: SupersededValue) -> bool:
    return any(len(plain(side)) > MAX_VALUE_CHARS for side in (value.before, value.after))
