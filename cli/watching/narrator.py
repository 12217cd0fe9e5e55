"""Tells an iteration while it happens: each thing once, as soon as it can be read."""

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table

from cli.render.console import between, clip, counted
from cli.render.iterations import (
    ACTOR_OF,
    about,
    age_seconds,
    doing,
    growth,
    round_of,
    step_name,
    waiting,
)
from shared.schemas.base import ConclusionView, CountsView, IterationDetails, StepView

MOST_MISSING: Final = 2
LINE_CHARACTERS: Final = 110
INDENT: Final = 15
LINE_SECONDS: Final = 30.0
"""Where there is no terminal: how often a line tells how far a long call has come, or that a step waits still."""

Conclusions = Callable[[], Sequence[ConclusionView]]


class Narrator:
    """Prints what is new for good, and shows what is being done below it for as long as it is."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._told: set[object] = set()
        self._lines_at: dict[object, float] = {}
        """When it was last told of something that goes on; a reading of the monotonic clock."""
        self._live = Live(console=console, transient=True, refresh_per_second=8)

    def begin(self, number: int, of: int | None) -> None:
        of_how_many = f" [quiet]of {of}[/]" if of else ""
        self._console.print(f"\n[title]Iteration {number}[/]{of_how_many}")
        self._live.start()

    def end(self, iteration: IterationDetails, before: CountsView, after: CountsView) -> None:
        mark = "[good]✓[/]" if iteration.status == "completed" else "[bad]✗[/]"
        grown = f"+{after.nodes - before.nodes} nodes, +{after.edges - before.edges} edges"
        self._console.print(
            f"  {mark} {iteration.status} in {between(iteration.started_at, iteration.ended_at)}: "
            f"{counted(after.nodes, 'node')} and {counted(after.edges, 'edge')} [quiet]({grown})[/]"
        )
        for error in iteration.errors:
            if error in self._told:
                continue
            self._console.print(f"    [bad]{escape(error)}[/]", soft_wrap=True)

    def stop(self) -> None:
        """Takes away what is shown for the moment; harmless when nothing is."""
        self._live.stop()

    def wait_for_api(self) -> None:
        """It does not answer just now; the iteration goes on without it."""
        if self._console.is_terminal:
            self._live.update("  [quiet]waiting for the api …[/]")

    def tell(self, iteration: IterationDetails, conclusions: Conclusions) -> None:
        """What is new in `iteration`; `conclusions` reads the agent's analyses and advice where they are needed."""
        for step in iteration.steps:
            if step.status in ("completed", "failed") and self._is_new(step.id):
                self._tell_ended(iteration, step, conclusions)
            elif step.error and step.status in ("pending", "running"):
                self._tell_trouble(step)
        if self._console.is_terminal:
            self._live.update(_at_work(iteration))
        else:
            self._tell_calls(iteration)

    def _tell_calls(self, iteration: IterationDetails) -> None:
        """Without a terminal there is nothing to update: a line now and then instead."""
        steps = {step.id: step for step in iteration.steps}
        for call in iteration.running_calls:
            step = steps.get(call.step_id)
            if step is None or age_seconds(call) < LINE_SECONDS:
                continue
            if self._is_time(call.step_id):
                self._line(step, "[quiet]…[/]", f"{step_name(step)}: {growth(call)}", "")

    def _is_time(self, thing: object) -> bool:
        """Whether a line about it is due again."""
        now = time.monotonic()
        last = self._lines_at.get(thing)
        if last is not None and now - last < LINE_SECONDS:
            return False
        self._lines_at[thing] = now
        return True

    def _tell_ended(
        self, iteration: IterationDetails, step: StepView, conclusions: Conclusions
    ) -> None:
        took = between(step.started_at, step.ended_at)
        result = step.result or {}
        if step.status == "failed":
            self._told.add(f"{step.kind}: {step.error}")  # as the iteration lists it again
            self._line(step, "[bad]✗[/]", f"{step_name(step)} failed: {step.error}", took)
        elif step.kind == "observe":
            self._tell_plan(iteration, step, took)
        elif step.kind == "query":
            learned = f"{counted(result['nodes'], 'node')}, {counted(result['edges'], 'edge')}"
            self._line(step, "[good]✓[/]", f"{step_name(step)}: {learned}", took)
            if round_of(step):
                self._detail("lacked", about(step))
        elif step.kind == "insight":
            self._tell_insight(step, took, conclusions)
        else:
            self._tell_advice(step, took, conclusions)

    def _tell_plan(self, iteration: IterationDetails, step: StepView, took: str) -> None:
        asked = [each for each in iteration.steps if each.kind in ("query", "insight")]
        planned = [each for each in asked if not round_of(each)]
        queries = sum(each.kind == "query" for each in planned)
        insights = len(planned) - queries
        what = f"plans {counted(queries, 'query')} and {counted(insights, 'insight')}"
        self._line(step, "[good]✓[/]", what if planned else "finds nothing to do", took)
        for each in planned:
            self._detail(step_name(each), about(each))

    def _tell_insight(self, step: StepView, took: str, conclusions: Conclusions) -> None:
        result = step.result or {}
        wanted = set(result.get("analyses", []))
        found = [each for each in conclusions() if str(each.id) in wanted] if wanted else []
        if found:
            what = f"{step_name(step)}: {counted(len(found), 'analysis')}"
            self._line(step, "[good]✓[/]", what, took)
            for analysis in found:
                self._detail(analysis.word, analysis.summary)
        else:
            self._line(
                step, "[warn]–[/]", f"{step_name(step)}: not enough data for an analysis", took
            )
        for missing in result.get("missing", [])[:MOST_MISSING]:
            self._detail("missing", missing)

    def _tell_advice(self, step: StepView, took: str, conclusions: Conclusions) -> None:
        result = step.result or {}
        given = {each["id"] for each in result.get("advice", [])}
        if not given:
            self._line(step, "[good]✓[/]", "advises nothing, as usual", took)
            if reason := result.get("reason"):
                self._detail("", reason)
            return
        self._line(step, "[good]✓[/]", f"gives {counted(len(given), 'advice')}", took)
        for advice in conclusions():
            if str(advice.id) in given:
                self._detail(advice.word, advice.summary)

    def _tell_trouble(self, step: StepView) -> None:
        if step.waiting_since is not None:
            # In a terminal the line of what is being done goes on telling it.
            is_first = self._is_new((step.id, step.waiting_since))
            if is_first or not self._console.is_terminal:
                self._tell_waiting(step, step.waiting_since)
            return
        if self._is_new((step.id, step.error)):
            what = f"{step_name(step)} is tried again: {step.error}"
            self._line(step, "[warn]![/]", what, "", whole=True)

    def _tell_waiting(self, step: StepView, since: datetime) -> None:
        if step.error and self._is_time((step.id, since)):
            what = f"{step_name(step)}: {waiting(step.error, since, step.retry_at)}"
            self._line(step, "[warn]![/]", what, "", whole=True)

    def _line(
        self, step: StepView, mark: str, what: str, took: str, *, whole: bool = False
    ) -> None:
        told = escape(what if whole or step.status == "failed" else clip(what, LINE_CHARACTERS))
        actor = f"[quiet]{ACTOR_OF[step.kind]:<10}[/]"
        self._console.print(f"  {mark} {actor} {told} [quiet]{took}[/]", soft_wrap=True)

    def _detail(self, label: str, what: str) -> None:
        labelled = f"[quiet]{escape(label)}[/]  " if label else ""
        width = min(self._console.width, LINE_CHARACTERS + INDENT) - INDENT - len(label) - 2
        self._console.print(f"{' ' * INDENT}{labelled}{escape(clip(what, width))}", soft_wrap=True)

    def _is_new(self, thing: object) -> bool:
        known = thing in self._told
        self._told.add(thing)
        return not known


def _at_work(iteration: IterationDetails) -> Table:
    """A line for each step that has not ended, those that wait for their turn left out."""
    table = Table.grid(padding=(0, 1))
    for step in iteration.steps:
        if step.status in ("pending", "running"):
            name = "" if step.kind in ("observe", "advise") else step_name(step)
            table.add_row(
                " ",
                Spinner("dots", style="quiet"),
                f"[quiet]{ACTOR_OF[step.kind]:<10}[/]",
                f"[quiet]{name}[/]",
                escape(clip(doing(iteration, step), 70)),
                f"[quiet]{between(step.started_at, None)}[/]",
            )
    return table
