"""An iteration as a waterfall: rows from the iteration down to its calls, with bars on one time axis. Pure."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil
from typing import Any, Final, NamedTuple
from uuid import UUID

from services.api.resources.iterations.outcomes import step_name
from services.api.web.filters import host, phase
from shared.billing.budgets import SUSPENSION_WORDS
from shared.enums import CallKind, StepKind, StepStatus
from shared.schemas.iterations import IterationTrace, PhaseRun, TracedCall, TracedStep
from shared.wording import duration, plural

_MIN_TICKS, _MAX_TICKS = 4, 10
_MANTISSAS: Final = (1, 2, 2.5, 5)
_LONG_TICKS: Final = (60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200, 86_400)
_MIN_WIDTH: Final = 0.4
"""Percent of the axis, so that very short calls remain visible."""
_START_WIDTH: Final = 0.8
"""Percent of the axis: a start takes no time."""
_MIN_SECONDS: Final = 0.001


@dataclass(frozen=True)
class Axis:
    """`seconds` is a multiple of the distance between two ticks."""

    start: datetime
    seconds: float
    ticks: int

    @property
    def labels(self) -> list[tuple[float, str]]:
        """Positions in percent, with the time since the start; none at the end."""
        tick = self.seconds / self.ticks
        texts = ["0", *(duration(tick * place) for place in range(1, self.ticks))]
        return [(100 * place / self.ticks, text) for place, text in enumerate(texts)]

    def place(self, moment: datetime) -> float:
        """Percent of the axis."""
        return (moment - self.start).total_seconds() / self.seconds * 100


def build_axis(start: datetime, end: datetime) -> Axis:
    """Chooses the ticks with which the axis is hardly longer than the iteration."""
    seconds = max((end - start).total_seconds(), _MIN_SECONDS)
    choices = [
        (tick * max(ceil(round(seconds / tick, 9)), 1), ceil(round(seconds / tick, 9)))
        for tick in _tick_choices(seconds)
    ]
    fitting = [choice for choice in choices if _MIN_TICKS <= choice[1] <= _MAX_TICKS]
    length, ticks = min(fitting or [(seconds, _MIN_TICKS)])
    return Axis(start, length, ticks)


def _tick_choices(seconds: float) -> Iterator[float]:
    for exponent in range(-4, 2):
        yield from (mantissa * 10**exponent for mantissa in _MANTISSAS)
    days = ceil(seconds / 86_400 / _MAX_TICKS)
    yield from (*_LONG_TICKS, 86_400 * max(days, 1))


class Segment(NamedTuple):
    """A part of a bar, in percent of the axis. `kind` is `work`, or `wait`: for a worker, a provider or a retry."""

    x: float
    width: float
    kind: str


@dataclass(frozen=True)
class Row:
    """`key` is unique in the iteration, and stable. `end` is None while it runs."""

    key: str
    parent: str | None
    level: int
    kind: str
    icon: str
    name: str
    note: str = ""
    word: str = ""
    """Its state, where it is not simply done."""
    tone: str = ""
    segments: tuple[Segment, ...] = ()
    marks: tuple[float, ...] = ()
    """When attempts failed, in percent of the axis."""
    start: datetime | None = None
    end: datetime | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0
    calls: int = 0
    """0 for a single call and below."""
    has_children: bool = False
    is_timed: bool = True

    @property
    def seconds(self) -> float | None:
        return None if self.start is None or self.end is None else _seconds(self.start, self.end)


def _seconds(start: datetime, end: datetime) -> float:
    return max((end - start).total_seconds(), 0.0)


_LEGEND: Final = {
    "step": "step",
    "run": "phase run",
    "model": "model",
    "search": "search",
    "wait": "waiting",
    "bad": "failed",
}


@dataclass(frozen=True)
class Waterfall:
    axis: Axis
    rows: Sequence[Row]

    @property
    def steps(self) -> int:
        return sum(row.kind == "step" for row in self.rows)

    @property
    def legend(self) -> list[tuple[str, str]]:
        """The looks of bars that occur, with words."""
        bars = [row for row in self.rows if row.segments]
        kinds = {row.kind for row in bars}
        if any(segment.kind == "wait" for row in bars for segment in row.segments):
            kinds.add("wait")
        if any(row.tone == "bad" or row.marks for row in bars):
            kinds.add("bad")
        return [(kind, words) for kind, words in _LEGEND.items() if kind in kinds]


def build_waterfall(trace: IterationTrace, now: datetime) -> Waterfall:
    """Builds the rows in the order in which they are shown. `now` is the end of what runs."""
    axis = build_axis(trace.started_at, trace.ended_at or now)
    return Waterfall(axis, list(_Builder(trace, axis, now).rows()))


ROOT: Final = "iteration"
START: Final = "start"
_STEP_ICONS: Final = {
    StepKind.OBSERVE: "eye",
    StepKind.QUERY: "circle-help",
    StepKind.INSIGHT: "lightbulb",
    StepKind.ADVISE: "target",
}


_KEY: Final = re.compile(r"(step|run|call|tool)-([0-9a-f-]{36})(?:-(\d{1,4}))?")


class Key(NamedTuple):
    """What a row's key says. `place` is that of a tool among those of its call."""

    kind: str
    id: UUID
    place: int = 0


def parse_key(text: str) -> Key | None:
    """Returns None for what is no key of a row."""
    if text in (ROOT, START):
        return Key(text, UUID(int=0))
    match = _KEY.fullmatch(text)
    if match is None or (match[1] == "tool") != (match[3] is not None):
        return None
    try:
        return Key(match[1], UUID(match[2]), int(match[3] or 0))
    except ValueError:
        return None


class _Builder:
    def __init__(self, trace: IterationTrace, axis: Axis, now: datetime) -> None:
        self._trace = trace
        self._axis = axis
        self._now = trace.ended_at or now
        """Where everything without an end of its own ends."""
        self._runs: defaultdict[UUID | None, list[PhaseRun]] = defaultdict(list)
        for run in trace.runs:
            self._runs[run.step_id].append(run)
        self._calls: defaultdict[UUID, list[TracedCall]] = defaultdict(list)
        for call in trace.calls:
            self._calls[call.interaction_id].append(call)
        models = {run.model for run in trace.runs} | {
            call.model for call in trace.calls if call.model
        }
        self._only_model = models.pop() if len(models) == 1 else None
        """The model of all phase runs and calls, which is then said once."""

    def rows(self) -> Iterator[Row]:
        trace = self._trace
        root = Row(
            key=ROOT,
            parent=None,
            level=1,
            kind="iteration",
            icon="layers",
            name=f"Iteration {trace.number}",
            note=", ".join(filter(None, [plural(len(trace.steps), "step"), self._only_model])),
            segments=self._segments((trace.started_at, self._now, "work")),
            start=trace.started_at,
            end=trace.ended_at,
            has_children=True,
        )
        yield _with_sums(root, trace.calls)
        yield self._start()
        for step in trace.steps:
            yield from self._step(step)

    def _start(self) -> Row:
        """What started the iteration."""
        is_requested = self._trace.why == "run_now"
        return Row(
            key=START,
            parent=ROOT,
            level=2,
            kind="start",
            icon="play" if is_requested else "clock",
            name="Start",
            note="requested with Run now"
            if is_requested
            else "on schedule: the interval had passed",
            segments=(Segment(0, _START_WIDTH, "work"),),
        )

    def _step(self, step: TracedStep) -> Iterator[Row]:
        runs = self._runs[step.id]
        calls = [call for run in runs for call in self._calls[run.id]]
        word, tone = _step_state(step)
        row = Row(
            key=f"step-{step.id}",
            parent=ROOT,
            level=2,
            kind="step",
            icon=_STEP_ICONS[StepKind(step.kind)],
            name=step_name(step.kind, step.index),
            note=step_text(step),
            word=word,
            tone=tone,
            segments=self._step_segments(step, calls),
            start=step.started_at,
            end=step.ended_at or (self._trace.ended_at if step.started_at else None),
            has_children=bool(runs),
        )
        yield _with_sums(row, calls)
        for run in runs:
            yield from self._run(step, run, row.key)

    def _step_segments(self, step: TracedStep, calls: Sequence[TracedCall]) -> tuple[Segment, ...]:
        requested, started = step.first_requested_at, step.started_at
        if started is None:
            is_open = step.status == StepStatus.PENDING and requested is not None
            return self._segments((requested, self._now, "wait")) if is_open else ()
        parts = [(requested, started, "wait")]
        end = step.ended_at or self._now
        waits_from = None if step.ended_at else _waits_from(step, calls)
        if waits_from is None:
            return self._segments(*parts, (started, end, "work"))
        return self._segments(*parts, (started, waits_from, "work"), (waits_from, end, "wait"))

    def _run(self, step: TracedStep, run: PhaseRun, parent: str) -> Iterator[Row]:
        calls = self._calls[run.id]
        has_failed = run.completed_at is None and step.status == StepStatus.FAILED
        word, tone = _step_state(step) if has_failed else ("", "")
        end = run.completed_at or step.ended_at or self._trace.ended_at
        row = Row(
            key=f"run-{run.id}",
            parent=parent,
            level=3,
            kind="run",
            icon="route",
            name=phase(run.phase),
            note="" if run.model == self._only_model else run.model,
            word=word,
            tone="busy" if end is None else tone,
            segments=self._segments((run.created_at, end or self._now, "work")),
            start=run.created_at,
            end=end,
            has_children=bool(calls),
        )
        yield _with_sums(row, calls)
        number = 0
        for call in calls:
            is_answer = call.kind == CallKind.LLM and "embeds" not in call.request
            number += is_answer
            call_row = self._call(call, row.key, end, number)
            yield call_row
            yield from _tools(call, call_row)

    def _call(self, call: TracedCall, parent: str, run_end: datetime | None, number: int) -> Row:
        kind, icon, name, note = _call_words(call, number)
        note = "" if note == self._only_model else note
        failed_at = [failure.at for failure in call.failures]
        sent = max(call.sent_at or call.started_at, call.started_at)
        end = call.answered_at or (None if run_end is None else max([*failed_at, run_end]))
        word, tone = _call_state(call, run_end)
        return Row(
            key=f"call-{call.id}",
            parent=parent,
            level=4,
            kind=kind,
            icon=icon,
            name=name,
            note=note,
            word=word,
            tone=tone,
            segments=self._segments(
                (call.started_at, sent, "wait"), (sent, end or self._now, "work")
            ),
            marks=tuple(
                place for moment in failed_at if 0 <= (place := self._axis.place(moment)) <= 100
            ),
            start=call.started_at,
            end=end,
            input_tokens=call.input_tokens or 0,
            output_tokens=call.output_tokens or 0,
            cached_tokens=call.cached_tokens,
            cost_usd=call.cost_usd or 0.0,
            has_children=bool(call.tools),
        )

    def _segments(
        self, *parts: tuple[datetime | None, datetime | None, str]
    ) -> tuple[Segment, ...]:
        """Cuts the parts at the ends of the axis: a step that was retried later ends after it."""
        segments = []
        for start, end, kind in parts:
            if start is None or end is None or end < start:
                continue
            left, right = max(self._axis.place(start), 0), min(self._axis.place(end), 100)
            if left >= 100 or (kind == "wait" and right - left < _MIN_WIDTH):
                continue
            width = max(right - left, _MIN_WIDTH)
            left = min(left, 100 - width)
            segments.append(Segment(round(left, 2), round(width, 2), kind))
        return tuple(segments)


def _with_sums(row: Row, calls: Sequence[TracedCall]) -> Row:
    return replace(
        row,
        input_tokens=sum(call.input_tokens or 0 for call in calls),
        output_tokens=sum(call.output_tokens or 0 for call in calls),
        cached_tokens=sum(call.cached_tokens for call in calls),
        cost_usd=sum(call.cost_usd or 0.0 for call in calls),
        calls=len(calls),
    )


def step_text(step: TracedStep) -> str:
    """What the step was about, in words of the plan."""
    text = step.input.get("objective") or step.input.get("observation") or ""
    number = step.input.get("round", 0)
    return f"Round {number}: {text}" if number else str(text)


def _step_state(step: TracedStep) -> tuple[str, str]:
    tries = step.attempts + 1
    match StepStatus(step.status):
        case StepStatus.COMPLETED:
            return (
                (f"{plural(step.attempts, 'retry', 'retries')}", "warn")
                if step.attempts
                else ("", "")
            )
        case StepStatus.FAILED if SUSPENSION_WORDS in (step.error or ""):
            return "stopped", "warn"
        case StepStatus.FAILED:
            return "failed", "bad"
        case StepStatus.PLANNED:
            return "planned", ""
        case _ if step.waiting_since is not None:
            return "waiting for the provider", "warn"
        case StepStatus.PENDING if step.error is None:
            return "waiting for a worker", ""
        case StepStatus.PENDING:
            return "waiting for a retry", "warn"
        case StepStatus.RUNNING:
            return (f"running, attempt {tries}", "warn") if step.error else ("running", "busy")


def _waits_from(step: TracedStep, calls: Sequence[TracedCall]) -> datetime | None:
    """Since when the step waits: for its provider, or after a failed attempt, whose end is its last call's."""
    if step.waiting_since is not None:
        return step.waiting_since
    if step.status != StepStatus.PENDING:
        return None
    ends = [call.answered_at for call in calls if call.answered_at is not None]
    ends += [failure.at for call in calls for failure in call.failures]
    return max(ends, default=step.started_at)


_TOOL_WORDS: Final = {
    "tavilySearch": ("search", "Search"),
    "tavilyExtract": ("file-text", "Read pages"),
    "tavilyResearch": ("telescope", "Research"),
}


def _call_words(call: TracedCall, number: int) -> tuple[str, str, str, str]:
    """Returns kind, icon, name and note."""
    request: Mapping[str, Any] = call.request
    if call.kind == CallKind.SEARCH:
        tool = str(request.get("tool", "search"))
        icon, name = _TOOL_WORDS.get(tool, ("search", tool))
        urls = request.get("urls") or []
        note = request.get("query") or request.get("input") or ", ".join(map(host, urls))
        return "search", icon, name, str(note)
    if embeds := request.get("embeds"):
        return "model", "waypoints", "Embedding", plural(embeds, "text")
    return "model", "brain", f"Model call {number}", call.model or ""


def _call_state(call: TracedCall, run_end: datetime | None) -> tuple[str, str]:
    failed = len(call.failures)
    if call.answered_at is not None:
        if failed:
            return plural(failed, "retry", "retries"), "warn"
        return (plural(call.repairs, "repair"), "warn") if call.repairs else ("", "")
    if run_end is not None:
        return ("failed", "bad") if failed else ("not answered", "bad")
    if failed:
        return f"attempt {failed + 1}", "warn"
    if call.received_chars:
        return f"{call.received_chars:,} characters so far", "busy"
    return "waiting for the answer", "busy"


def _tools(call: TracedCall, parent: Row) -> Iterator[Row]:
    """Yields a row for each of the graph's tools that the answer used. The ledger has no times of them."""
    for place, tool in enumerate(call.tools):
        yield Row(
            key=f"tool-{call.id}-{place}",
            parent=parent.key,
            level=5,
            kind="tool",
            icon="wrench",
            name=tool.name,
            note=f"× {tool.uses}" if tool.uses > 1 else "",
            word=f"{tool.refused} refused" if tool.refused else "",
            tone="warn" if tool.refused else "",
            is_timed=False,
        )
