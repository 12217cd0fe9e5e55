"""Waiting for an agent's work: its configuration, and an iteration whose progress is printed until it ends."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self
from uuid import UUID

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.spinner import Spinner
from rich.table import Table

from cli.client.client import Client
from cli.errors import AwayError, CommandError
from cli.render.agents import describe_configuration, show_configuring, show_created
from cli.render.console import between, clip, counted, err, out, print_json
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
from cli.render.operations import Activity
from shared.errors import TransientError
from shared.schemas.base import (
    AgentDetails,
    ConclusionResponse,
    GraphCounts,
    IterationDetails,
    StepResponse,
)

if TYPE_CHECKING:
    from shared.events.credentials import Credentials

INTERRUPTED: Final = 130
CONFIGURATION_POLL_SECONDS: Final = 0.2
ITERATION_POLL_SECONDS: Final = 0.4
"""How often the state is read if no event reports a change."""
JOIN_SECONDS: Final = 2.0
"""How long to wait for the thread of an EventListener to end."""
MAX_MISSING_SHOWN: Final = 2
MAX_LINE_CHARS: Final = 110
INDENT: Final = 15
LINE_SECONDS: Final = 30.0
"""Without a terminal: how often a line reports the progress of a long call, or that a step still waits."""

LoadConclusions = Callable[[], Sequence[ConclusionResponse]]


def wait_until_configured(
    client: Client,
    agent: AgentDetails,
    say: Callable[[str], None],
    out_of_time: Callable[[], bool] = lambda: False,
) -> AgentDetails:
    """Returns the agent when its latest configuration has ended, successfully or not, or when time is up."""
    while not out_of_time():
        try:
            configuration = client.configuration(str(agent.id))
            if configuration.ended_at is not None:
                return client.agent(str(agent.id))
            say(describe_configuration(agent.name, configuration))
        except AwayError:
            say("waiting for the API")
        time.sleep(CONFIGURATION_POLL_SECONDS)
    return client.agent(str(agent.id))


def report_configuration(
    client: Client, created: AgentDetails, *, wait: bool, as_json: bool
) -> None:
    """Prints the configured agent, or that it is being configured. Raises CommandError if the configuration failed."""
    agent = created
    if wait:
        try:
            with Activity(err()) as activity:
                agent = wait_until_configured(client, created, activity.say)
        except KeyboardInterrupt:
            err().print(
                f"The configuration continues. To check it: vigil agent show {created.id}",
                soft_wrap=True,
            )
            raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(agent)
    elif not wait:
        show_configuring(out(), agent)
    elif agent.fault is None or is_usable(agent):
        types, is_sandbox = client.types(str(agent.id)), client.is_sandbox()
        show_created(out(), agent, types, sandbox=is_sandbox)
    if agent.fault is None:
        return
    if not is_usable(agent):
        raise CommandError(f"{agent.name}: {agent.fault}")
    err().print(f"[warn]![/] {escape(agent.fault)}", soft_wrap=True)


def is_usable(agent: AgentDetails) -> bool:
    """Whether its last configuration succeeded, even if it fell back to built-in prompts."""
    last = agent.configuration
    return agent.status == "ready" and last is not None and last.status in ("completed", "quiet")


class EventListener:
    """Wakes a waiting thread when an event is published. Without NATS it only waits: events are hints."""

    def __init__(self, nats: "tuple[str, Credentials] | None") -> None:
        """`nats` is its URL and the credentials to present; None if it is not reachable."""
        self._nats = nats
        self._events: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="event-listener", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None

    def wait(self, seconds: float) -> None:
        """Returns at the next event, or after `seconds`."""
        try:
            self._events.get(timeout=seconds)
            while True:
                self._events.get_nowait()
        except queue.Empty:
            return

    def __enter__(self) -> Self:
        if self._nats is not None:
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._loop is not None and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)

    def _run(self) -> None:
        try:
            asyncio.run(self._listen())
        except (asyncio.CancelledError, TransientError):
            return

    async def _listen(self) -> None:
        from shared.events.stream_reader import connect_reader, follow

        assert self._nats is not None
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        async with connect_reader(*self._nats) as client:
            async for _ in follow(client):
                self._events.put(None)


class ProgressPrinter:
    """Prints what an iteration has done line by line, and below it the running steps while they run."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printed: set[object] = set()
        self._lines_at: dict[object, float] = {}
        """When a line was last printed about something that continues; by the monotonic clock."""
        self._live = Live(console=console, transient=True, refresh_per_second=8)

    def begin(self, number: int, of: int | str | None) -> None:
        of_how_many = f" [quiet]of {of}[/]" if of else ""
        self._console.print(f"\n[title]Iteration {number}[/]{of_how_many}")
        self._live.start()

    def end(self, iteration: IterationDetails, before: GraphCounts, after: GraphCounts) -> None:
        mark = "[good]✓[/]" if iteration.status in ("completed", "quiet") else "[bad]✗[/]"
        grown = f"+{after.nodes - before.nodes} nodes, +{after.edges - before.edges} edges"
        self._console.print(
            f"  {mark} {iteration.status} in {between(iteration.started_at, iteration.ended_at)}: "
            f"{counted(after.nodes, 'node')} and {counted(after.edges, 'edge')} [quiet]({grown})[/]"
        )
        for error in iteration.errors:
            if error in self._printed:
                continue
            self._console.print(f"    [bad]{escape(error)}[/]", soft_wrap=True)

    def stop(self) -> None:
        """Removes the running steps from the terminal. May be called at any time."""
        self._live.stop()

    def wait_for_api(self) -> None:
        """Shows that the API does not answer. The iteration continues without it."""
        if self._console.is_terminal:
            self._live.update("  [quiet]waiting for the API …[/]")

    def wait_for_start(self, agent: AgentDetails, number: int) -> None:
        """Shows why iteration `number` has not started yet."""
        reason = why_not_started(agent, number)
        if self._console.is_terminal:
            self._live.update(f"  [quiet]{escape(reason)} …[/]")
        elif self._is_new(reason):
            self._console.print(f"  [quiet]{escape(reason)}[/]", soft_wrap=True)

    def update(self, iteration: IterationDetails, conclusions: LoadConclusions) -> None:
        """Prints what is new in `iteration`. `conclusions` loads the agent's analyses and advice; called only if needed."""
        for step in iteration.steps:
            if step.status in ("completed", "failed") and self._is_new(step.id):
                self._print_ended(iteration, step, conclusions)
            elif step.error and step.status in ("pending", "running"):
                self._print_trouble(step)
        if self._console.is_terminal:
            self._live.update(_running_steps(iteration))
        else:
            self._print_calls(iteration)

    def _print_calls(self, iteration: IterationDetails) -> None:
        """Without a terminal nothing can be updated in place, so a line is printed from time to time."""
        steps = {step.id: step for step in iteration.steps}
        for call in iteration.running_calls:
            step = steps.get(call.step_id)
            if step is None or age_seconds(call) < LINE_SECONDS:
                continue
            if self._is_line_due(call.step_id):
                self._print_line(step, "[quiet]…[/]", f"{step_name(step)}: {growth(call)}", "")

    def _is_line_due(self, key: object) -> bool:
        """Whether the next line about `key` is due."""
        now = time.monotonic()
        last = self._lines_at.get(key)
        if last is not None and now - last < LINE_SECONDS:
            return False
        self._lines_at[key] = now
        return True

    def _print_ended(
        self, iteration: IterationDetails, step: StepResponse, conclusions: LoadConclusions
    ) -> None:
        took = between(step.started_at, step.ended_at)
        result = step.result or {}
        if step.status == "failed":
            self._printed.add(f"{step.kind}: {step.error}")  # the iteration lists it too
            self._print_line(step, "[bad]✗[/]", f"{step_name(step)} failed: {step.error}", took)
        elif step.kind == "observe":
            self._print_plan(iteration, step, took)
        elif step.kind == "query":
            learned = f"{counted(result['nodes'], 'node')}, {counted(result['edges'], 'edge')}"
            self._print_line(step, "[good]✓[/]", f"{step_name(step)}: {learned}", took)
            if round_of(step):
                self._print_detail("missing data", about(step))
        elif step.kind == "insight":
            self._print_insight(step, took, conclusions)
        else:
            self._print_advice(step, took, conclusions)

    def _print_plan(self, iteration: IterationDetails, step: StepResponse, took: str) -> None:
        work = [step for step in iteration.steps if step.kind in ("query", "insight")]
        planned = [step for step in work if not round_of(step)]
        queries = sum(step.kind == "query" for step in planned)
        insights = len(planned) - queries
        plan = f"plans {counted(queries, 'query')} and {counted(insights, 'insight')}"
        self._print_line(step, "[good]✓[/]", plan if planned else "finds nothing to do", took)
        for planned_step in planned:
            self._print_detail(step_name(planned_step), about(planned_step))

    def _print_insight(self, step: StepResponse, took: str, conclusions: LoadConclusions) -> None:
        result = step.result or {}
        ids = set(result.get("analyses", []))
        analyses = [row for row in conclusions() if str(row.id) in ids] if ids else []
        if analyses:
            text = f"{step_name(step)}: {counted(len(analyses), 'analysis')}"
            self._print_line(step, "[good]✓[/]", text, took)
            for analysis in analyses:
                self._print_detail(analysis.word, analysis.summary)
        else:
            self._print_line(
                step, "[warn]–[/]", f"{step_name(step)}: not enough data for an analysis", took
            )
        for missing in result.get("missing", [])[:MAX_MISSING_SHOWN]:
            self._print_detail("missing", missing)

    def _print_advice(self, step: StepResponse, took: str, conclusions: LoadConclusions) -> None:
        result = step.result or {}
        ids = {advice["id"] for advice in result.get("advice", [])}
        if not ids:
            self._print_line(step, "[good]✓[/]", "gives no advice, like most iterations", took)
            if reason := result.get("reason"):
                self._print_detail("", reason)
            return
        self._print_line(step, "[good]✓[/]", f"gives {counted(len(ids), 'advice')}", took)
        for advice in conclusions():
            if str(advice.id) in ids:
                self._print_detail(advice.word, advice.summary)

    def _print_trouble(self, step: StepResponse) -> None:
        if step.waiting_since is not None:
            # In a terminal the line of the running step keeps showing it.
            is_first = self._is_new((step.id, step.waiting_since))
            if is_first or not self._console.is_terminal:
                self._print_waiting(step, step.waiting_since)
            return
        if self._is_new((step.id, step.error)):
            text = f"{step_name(step)} will be retried: {step.error}"
            self._print_line(step, "[warn]![/]", text, "", is_full=True)

    def _print_waiting(self, step: StepResponse, since: datetime) -> None:
        if step.error and self._is_line_due((step.id, since)):
            text = f"{step_name(step)}: {waiting(step.error, since, step.retry_at)}"
            self._print_line(step, "[warn]![/]", text, "", is_full=True)

    def _print_line(
        self, step: StepResponse, mark: str, text: str, took: str, *, is_full: bool = False
    ) -> None:
        line = escape(text if is_full or step.status == "failed" else clip(text, MAX_LINE_CHARS))
        service = f"[quiet]{ACTOR_OF[step.kind]:<10}[/]"
        self._console.print(f"  {mark} {service} {line} [quiet]{took}[/]", soft_wrap=True)

    def _print_detail(self, label: str, text: str) -> None:
        labelled = f"[quiet]{escape(label)}[/]  " if label else ""
        width = min(self._console.width, MAX_LINE_CHARS + INDENT) - INDENT - len(label) - 2
        self._console.print(f"{' ' * INDENT}{labelled}{escape(clip(text, width))}", soft_wrap=True)

    def _is_new(self, key: object) -> bool:
        is_printed = key in self._printed
        self._printed.add(key)
        return not is_printed


def why_not_started(agent: AgentDetails, number: int) -> str:
    """What iteration `number` of the agent waits for, in words."""
    last = agent.last_iteration
    if agent.status == "configuring":
        return "waiting until the agent is configured"
    if last is not None and last.ended_at is None and last.number < number:
        return f"waiting for iteration {last.number} to end"
    if agent.suspended_until is not None:
        return f"suspended until {agent.suspended_until:%Y-%m-%d %H:%M} UTC: daily budget reached"
    return "waiting for the scheduler"


def _running_steps(iteration: IterationDetails) -> Table:
    """A line for each step that has not ended."""
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


@dataclass(frozen=True)
class IterationWatch:
    """Waits for iterations and prints their progress, until `deadline` (by the monotonic clock)."""

    client: Client
    events: EventListener
    printer: ProgressPrinter
    deadline: float
    meanwhile: Callable[[], object] = lambda: None
    """Called at every poll."""

    @property
    def out_of_time(self) -> bool:
        return time.monotonic() > self.deadline

    def watch_iteration(
        self, agent_id: UUID, number: int, of: int | str | None = None
    ) -> IterationDetails | None:
        """Returns the ended iteration; None if time is up first. `of` is the total number, if known, as it is shown."""
        self.printer.begin(number, of)
        counts_before = self.client.graph(str(agent_id), limit=0).counts
        try:
            iteration = self._wait_until_ended(agent_id, number)
        finally:
            self.printer.stop()
        if iteration is not None:
            self.printer.end(
                iteration, counts_before, self.client.graph(str(agent_id), limit=0).counts
            )
        return iteration

    def _wait_until_ended(self, agent_id: UUID, number: int) -> IterationDetails | None:
        while not self.out_of_time:
            try:
                iteration = self._load(agent_id, number)
                if iteration is not None:
                    self.printer.update(iteration, lambda: self._conclusions(agent_id))
                    if iteration.ended_at is not None:
                        return iteration
                else:
                    self.printer.wait_for_start(self.client.agent(str(agent_id)), number)
            except AwayError:
                self.printer.wait_for_api()
            self.meanwhile()
            self.events.wait(ITERATION_POLL_SECONDS)
        return None

    def _load(self, agent_id: UUID, number: int) -> IterationDetails | None:
        for newest in self.client.iterations(str(agent_id), limit=3):
            if newest.number == number:
                return self.client.iteration(newest.id)
        return None

    def _conclusions(self, agent_id: UUID) -> Sequence[ConclusionResponse]:
        return [*self.client.analyses(str(agent_id)), *self.client.advice(str(agent_id))]
