"""Waiting for an agent's work: its configuration, and an iteration whose progress is printed until it ends."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import typer
from rich.console import Console
from rich.markup import escape

from cli.client.client import Client
from cli.errors import AwayError, CommandError
from cli.main import INTERRUPTED
from cli.render.agents import describe_configuration, show_configuring, show_created
from cli.render.console import err, out, print_json
from cli.render.iterations import (
    ACTOR_OF,
    about,
    doing,
    round_of,
    step_name,
    waiting,
)
from cli.render.operations import Activity
from shared.schemas.base import (
    AgentDetails,
    ConclusionResponse,
    GraphCounts,
    IterationDetails,
    StepResponse,
)
from shared.wording import between, clip, plural

CONFIGURATION_POLL_SECONDS: Final = 0.2
ITERATION_POLL_SECONDS: Final = 0.4
MAX_MISSING_SHOWN: Final = 2
MAX_LINE_CHARS: Final = 110
INDENT: Final = 15

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
            err().print(f"The configuration continues. To check it: vigil agent show {created.id}")
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
    err().print(f"[warn]![/] {escape(agent.fault)}")


def is_usable(agent: AgentDetails) -> bool:
    """Whether its last configuration succeeded, even if it fell back to built-in prompts."""
    last = agent.configuration
    return agent.status == "ready" and last is not None and last.status in ("completed", "quiet")


class ProgressPrinter:
    """Prints what an iteration has done line by line, and below it what it is doing."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._printed: set[object] = set()
        self._activity = Activity(console)

    def begin(self, number: int, of: int | str | None) -> None:
        of_how_many = f" [quiet]of {of}[/]" if of else ""
        self._console.print(f"\n[title]Iteration {number}[/]{of_how_many}")

    def end(self, iteration: IterationDetails, before: GraphCounts, after: GraphCounts) -> None:
        mark = "[good]✓[/]" if iteration.status in ("completed", "quiet") else "[bad]✗[/]"
        grown = f"+{after.nodes - before.nodes} nodes, +{after.edges - before.edges} edges"
        self._console.print(
            f"  {mark} {iteration.status} in {between(iteration.started_at, iteration.ended_at)}: "
            f"{plural(after.nodes, 'node')} and {plural(after.edges, 'edge')} [quiet]({grown})[/]"
        )
        for error in iteration.errors:
            if error in self._printed:
                continue
            self._console.print(f"    [bad]{escape(error)}[/]")

    def say(self, text: str) -> None:
        """Shows what is being done or waited for."""
        self._activity.say(clip(text, MAX_LINE_CHARS))

    def stop(self) -> None:
        """Removes that line from the terminal. May be called at any time."""
        self._activity.end()

    def update(self, iteration: IterationDetails, conclusions: LoadConclusions) -> None:
        """Prints what is new in `iteration`. `conclusions` loads the agent's analyses and advice; called only if needed."""
        for step in iteration.steps:
            if step.status in ("completed", "failed") and self._is_new(step.id):
                self._print_ended(iteration, step, conclusions)
            elif step.error and step.status in ("pending", "running"):
                self._print_trouble(step)
        running = (step for step in iteration.steps if step.status in ("pending", "running"))
        if texts := [f"{step_name(step)}: {doing(iteration, step)}" for step in running]:
            self.say("; ".join(texts))

    def _print_ended(
        self, iteration: IterationDetails, step: StepResponse, conclusions: LoadConclusions
    ) -> None:
        result, name = step.result or {}, step_name(step)
        mark, details = "[good]✓[/]", list[tuple[str, str]]()
        if step.status == "failed":
            self._printed.add(f"{step.kind}: {step.error}")  # the iteration lists it too
            mark, text = "[bad]✗[/]", f"{name} failed: {step.error}"
        elif step.kind == "observe":
            planned = [
                each
                for each in iteration.steps
                if each.kind in ("query", "insight") and not round_of(each)
            ]
            queries = sum(each.kind == "query" for each in planned)
            insights = len(planned) - queries
            plan = f"plans {plural(queries, 'query')} and {plural(insights, 'insight')}"
            text = plan if planned else "finds nothing to do"
            details = [(step_name(each), about(each)) for each in planned]
        elif step.kind == "query":
            text = f"{name}: {plural(result['nodes'], 'node')}, {plural(result['edges'], 'edge')}"
            details = [("missing data", about(step))] if round_of(step) else []
        elif step.kind == "insight":
            analyses = _named(set(result.get("analyses", [])), conclusions)
            text = f"{name}: {plural(len(analyses), 'analysis')}"
            if not analyses:
                mark, text = "[warn]–[/]", f"{name}: not enough data for an analysis"
            details = [(analysis.word, analysis.summary) for analysis in analyses]
            details += [("missing", each) for each in result.get("missing", [])[:MAX_MISSING_SHOWN]]
        else:
            ids = {each["id"] for each in result.get("advice", [])}
            text = f"gives {plural(len(ids), 'advice')}"
            details = [(each.word, each.summary) for each in _named(ids, conclusions)]
            if not ids:
                text = "gives no advice, like most iterations"
                details = [("", result["reason"])] if result.get("reason") else []
        self._print_line(step, mark, text, between(step.started_at, step.ended_at))
        for label, detail in details:
            self._print_detail(label, detail)

    def _print_trouble(self, step: StepResponse) -> None:
        if step.error is None or not self._is_new((step.id, step.waiting_since or step.error)):
            return
        text = f"{step_name(step)} will be retried: {step.error}"
        if step.waiting_since is not None:
            reason = waiting(step.error, step.waiting_since, step.retry_at)
            text = f"{step_name(step)}: {reason}"
        self._print_line(step, "[warn]![/]", text, "", is_full=True)

    def _print_line(
        self, step: StepResponse, mark: str, text: str, took: str, *, is_full: bool = False
    ) -> None:
        line = escape(text if is_full or step.status == "failed" else clip(text, MAX_LINE_CHARS))
        service = f"[quiet]{ACTOR_OF[step.kind]:<10}[/]"
        self._console.print(f"  {mark} {service} {line} [quiet]{took}[/]")

    def _print_detail(self, label: str, text: str) -> None:
        labelled = f"[quiet]{escape(label)}[/]  " if label else ""
        width = min(self._console.width, MAX_LINE_CHARS + INDENT) - INDENT - len(label) - 2
        self._console.print(f"{' ' * INDENT}{labelled}{escape(clip(text, width))}")

    def _is_new(self, key: object) -> bool:
        is_printed = key in self._printed
        self._printed.add(key)
        return not is_printed


def _named(ids: set[str], conclusions: LoadConclusions) -> list[ConclusionResponse]:
    """The conclusions with these ids. They are loaded only if there are any."""
    return [each for each in conclusions() if str(each.id) in ids] if ids else []


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


@dataclass(frozen=True)
class IterationWatch:
    """Waits for iterations and prints their progress, until `deadline` (by the monotonic clock)."""

    client: Client
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
                    agent = self.client.agent(str(agent_id))
                    self.printer.say(why_not_started(agent, number))
            except AwayError:
                self.printer.say("waiting for the API")
            self.meanwhile()
            time.sleep(ITERATION_POLL_SECONDS)
        return None

    def _load(self, agent_id: UUID, number: int) -> IterationDetails | None:
        for newest in self.client.iterations(str(agent_id), limit=3):
            if newest.number == number:
                return self.client.iteration(newest.id)
        return None

    def _conclusions(self, agent_id: UUID) -> Sequence[ConclusionResponse]:
        return [
            *self.client.conclusions(str(agent_id), "analyses"),
            *self.client.conclusions(str(agent_id), "advice"),
        ]
