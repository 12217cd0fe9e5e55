"""Iterations in a terminal: lists, details, events, conclusions, investigation requests."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cli.render.console import ago, between, cited, clip, counted
from shared.events import models
from shared.events.envelope import Event
from shared.events.stream_reader import Told
from shared.schemas.base import (
    AnswerEvent,
    CommitmentView,
    ConclusionView,
    FailedSending,
    InteractionEvent,
    InteractionView,
    IterationDetails,
    IterationView,
    Json,
    RepairEvent,
    RunningCall,
    StepView,
    ToolResultEvent,
)
from shared.schemas.conclusions import InvestigationRequestView

LONG_CALL_SECONDS: Final = 10.0
"""After so many it is shown how far the answer to a call has come."""

ACTOR_OF: Final = {
    "observe": "Observer",
    "query": "Researcher",
    "insight": "Analyzer",
    "advise": "Adviser",
}
_THINKS: Final = {
    "observer": "reads the graph and plans",
    "knowledge_acquisition": "asks where to look",
    "graph_construction": "reads the document against the graph",
    "analysis_generation": "weighs the nodes",
    "advice_generation": "weighs the analyses",
}


def step_name(step: StepView) -> str:
    """`query 2`, or `query 4, round 2`; of some kinds there is only one."""
    if step.kind not in ("query", "insight"):
        return step.kind
    again = f", round {round_of(step) + 1}" if round_of(step) else ""
    return f"{step.kind} {step.index + 1}{again}"


def round_of(step: StepView) -> int:
    """0 of what was planned; of what Analyzers lacked, and of their being asked again, the round after it."""
    number = step.input.get("round", 0)
    return number if isinstance(number, int) else 0


def about(step: StepView) -> str:
    """What a query or an insight asks."""
    return str(step.input.get("objective") or step.input.get("observation") or "")


def doing(iteration: IterationDetails, step: StepView) -> str:
    """What `step`, which has not ended, is about."""
    if step.error is not None and step.status == "pending":
        if step.waiting_since is not None:
            return f"waits{_next_try(step.retry_at)}: {step.error}"
        return f"rests, and tries again: {step.error}"
    runs = [each for each in iteration.interactions if each.step_id == step.id]
    if step.status != "running" or not runs:
        return "waits for a worker"
    calls = [call for call in iteration.running_calls if call.step_id == step.id]
    if calls and age_seconds(calls[0]) >= LONG_CALL_SECONDS:
        return growth(calls[0])
    return _in_phase(runs[-1])


def waiting(error: str, since: datetime, retry_at: datetime | None) -> str:
    """Why a step waits for a provider, for how long it has, and when it looks again."""
    return f"waiting for {between(since, None)}: {error}{_next_try(retry_at, '; ')}"


def _next_try(retry_at: datetime | None, separator: str = ", ") -> str:
    when = "" if retry_at is None else ago(retry_at)
    return f"{separator}next try {when}" if when.startswith("in ") else ""


def growth(call: RunningCall) -> str:
    """How far the answer to a call has come."""
    took = between(call.sent_at, None)
    if call.kind == "search":
        return f"waiting for the search service, {took}"
    if not call.received_chars:
        return f"waiting for the first token, {took}"
    return f"the answer grows: {call.received_chars:,} characters after {took}"


def age_seconds(call: RunningCall) -> float:
    return (datetime.now(UTC) - call.sent_at).total_seconds()


def _in_phase(run: InteractionView) -> str:
    answers = [event for event in run.events if isinstance(event, AnswerEvent)]
    calls = _tool_calls(answers[-1]) if answers else []
    searches = [each for each in calls if each[0].startswith("tavily")]
    if searches:
        return _searching(*searches[-1])
    written = sum(name.startswith("add") for answer in answers for name, _ in _tool_calls(answer))
    if written:
        return f"writes to the graph ({written} so far)"
    return _THINKS.get(run.phase, run.phase)


def _searching(tool: str, arguments: Json) -> str:
    about = arguments.get("query") or arguments.get("input") or ", ".join(arguments.get("urls", []))
    verb = {"tavilyExtract": "reads", "tavilyResearch": "researches"}.get(tool, "searches")
    return f"{verb} “{about}”"


def _tool_calls(answer: AnswerEvent) -> list[tuple[str, Json]]:
    asked = (answer.message or {}).get("tool_calls") or []
    return [(call["function"]["name"], _arguments(call["function"]["arguments"])) for call in asked]


def _arguments(written: str) -> Json:
    """What the model wrote may be no JSON at all."""
    try:
        arguments = json.loads(written)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


STYLES: Final = {"completed": "good", "failed": "bad", "running": "agent"}
RESULT_CHARACTERS: Final = 200


def show_iterations(console: Console, found: Sequence[IterationView], *, limit: int) -> None:
    if not found:
        console.print("There are no such iterations.")
        return
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    for column in ("#", "Status", "Why", "Began", "Took", "Errors"):
        table.add_column(column)
    for each in found:
        state = each.stage if each.ended_at is None else each.status
        table.add_row(
            str(each.number),
            f"[{STYLES.get(each.status, 'quiet')}]{state}[/]",
            escape(each.why),
            f"[quiet]{ago(each.started_at)}[/]",
            between(each.started_at, each.ended_at),
            f"[bad]{escape(clip('; '.join(each.errors), 80))}[/]",
        )
    console.print(table)
    if len(found) == limit:
        console.print(f"[quiet]The newest {limit}; more with --limit.[/]")


def show_iteration(console: Console, found: IterationDetails, *, said: bool) -> None:
    """With `said`, every phase's answers and tool results too."""
    style = STYLES.get(found.status, "quiet")
    state = found.stage if found.ended_at is None else found.status
    console.print(
        f"[agent]{escape(found.agent_name)}[/] #{found.number}  [{style}]{state}[/]  [quiet]"
        f"{ago(found.started_at)}, {between(found.started_at, found.ended_at)}, {found.id}[/]",
        soft_wrap=True,
    )
    for error in found.errors:
        console.print(f"  [bad]✗[/] {escape(error)}", soft_wrap=True)
    if found.plan is not None:
        _plan(console, found.plan)
    for step in found.steps:
        _step(console, step, [run for run in found.interactions if run.step_id == step.id], said)
        for call in found.running_calls:
            if call.step_id == step.id:
                console.print(f"  [agent]…[/] {call.phase}: {growth(call)}")
    calls = found.calls
    console.print(
        f"\n[quiet]{counted(calls.llm_calls, 'call')} of the model, "
        f"{counted(calls.search_calls, 'search')}, {calls.input_tokens + calls.output_tokens:,} tokens[/]"
    )


def _plan(console: Console, plan: Json) -> None:
    queries, insights = plan.get("queries", []), plan.get("insights", [])
    told = f"{_number(queries, 'query')}, {_number(insights, 'insight')}"
    console.print(f"\n[title]Plan[/]  [quiet]{told}[/]")
    for query in queries:
        console.print(f"  [agent]?[/] {escape(str(query.get('objective', '')))}", soft_wrap=True)
        if query.get("reasoning"):
            console.print(f"    [quiet]{escape(query['reasoning'])}[/]", soft_wrap=True)
    for insight in insights:
        console.print(
            f"  [agent]![/] {escape(str(insight.get('observation', '')))}", soft_wrap=True
        )


def _number(items: Sequence[Json], noun: str) -> str:
    return counted(len(items), noun)


def _step(console: Console, step: StepView, runs: Sequence[InteractionView], said: bool) -> None:
    style = STYLES.get(step.status, "quiet")
    tries = f", {counted(step.attempts, 'attempt')} failed" if step.attempts else ""
    console.print(
        f"\n[title]{step_name(step)}[/]  [{style}]{step.status}[/]  "
        f"[quiet]{between(step.started_at, step.ended_at)}{tries}[/]"
    )
    if round_of(step):
        # What was planned stands in the plan.
        console.print(f"  [agent]?[/] {escape(about(step))}", soft_wrap=True)
    if step.error and step.waiting_since is not None and step.ended_at is None:
        told = waiting(step.error, step.waiting_since, step.retry_at)
        console.print(f"  [warn]![/] {escape(told)}", soft_wrap=True)
    elif step.error:
        console.print(f"  [bad]✗[/] {escape(step.error)}", soft_wrap=True)
    for run in runs:
        answers = [event for event in run.events if isinstance(event, AnswerEvent)]
        tools = [event for event in run.events if isinstance(event, ToolResultEvent)]
        told = f"{counted(len(answers), 'answer')}, {counted(len(tools), 'tool result')}"
        console.print(
            f"  {run.phase} [quiet]{escape(run.model)}, {told}, {run.id}[/]", soft_wrap=True
        )
        for line in (*_failures(run.failures), *_lines(run.events)) if said else ():
            console.print(Padding(line, (0, 0, 0, 4), expand=False))


def _failures(failures: Sequence[FailedSending]) -> Iterator[str]:
    for failed in failures:
        cost = "the most it can cost" if failed.cost_usd is None else f"{failed.cost_usd:f} USD"
        yield f"[bad]✗ {escape(failed.error)}[/] [quiet]{failed.kind}, booked at {cost}[/]"
        if failed.said:
            yield f"[quiet]it said: {escape(clip(failed.said, RESULT_CHARACTERS))}[/]"


def _lines(events: Sequence[InteractionEvent]) -> Iterator[str]:
    for event in events:
        if isinstance(event, ToolResultEvent):
            result = (
                "expired" if event.result is None else json.dumps(event.result, ensure_ascii=False)
            )
            yield f"[quiet]← {escape(event.name)}: {escape(clip(result, RESULT_CHARACTERS))}[/]"
            continue
        if isinstance(event, RepairEvent):
            yield f"[warn]repaired {escape(event.subject)}:[/] {escape('; '.join(event.repairs))}"
            continue
        if event.text:
            yield escape(event.text)
        for call in event.tool_calls:
            yield f"[link]→ {escape(call.name)}[/] {escape(clip(call.arguments, RESULT_CHARACTERS))}"


LONG_AGO_SECONDS: Final = 5.0
"""What is older is told with its age."""

_STYLES: Final[Mapping[str, str]] = {
    "requested": "blue",
    "started": "agent",
    "produced": "magenta",
    "completed": "good",
    "failed": "bad",
}


def line_of(told: Told, agent_name: str) -> str:
    """Time, age, event, agent, and what it says; in console markup."""
    verb = told.subject.rpartition(".")[2]
    style = _STYLES.get(verb, "quiet")
    age_seconds = (datetime.now(UTC) - told.told_at).total_seconds()
    age = ago(told.told_at) if age_seconds > LONG_AGO_SECONDS else ""
    clock = told.told_at.astimezone().strftime("%H:%M:%S")
    what = "cannot be read by this version" if told.event is None else summary(told.event)
    return (
        f"[quiet]{clock} {age:>10}[/]  [{style}]{told.subject:<20}[/] "
        f"[agent]{escape(clip(agent_name, 28))}[/]  {escape(what)}"
    )


def summary(event: Event) -> str:
    """What the event says, in a few words."""
    match event:
        case models.IterationStarted():
            why = "asked for" if event.why == "run_now" else "due"
            return f"iteration {event.number}, {why}"
        case models.PlanProduced():
            return f"{counted(event.queries, 'query')}, {counted(event.insights, 'insight')}"
        case models.QueryRequested():
            return clip(event.query.objective, 90)
        case models.QueryCompleted():
            return f"{counted(event.nodes, 'node')}, {counted(event.edges, 'edge')}"
        case models.InsightRequested():
            return clip(event.insight.observation, 90)
        case models.InsightCompleted():
            missing = f"; missing: {clip('; '.join(event.missing), 70)}" if event.missing else ""
            return f"{counted(event.analyses, 'analysis')}{missing}"
        case models.AnalysisProduced():
            return f"{counted(len(event.analysis_ids), 'analysis')} to weigh"
        case models.AdviceProduced():
            return f"{event.action}: see `vigil inbox`"
        case models.AdviceCompleted():
            return counted(event.advice, "advice")
        case models.IterationCompleted():
            return _ended(event)
        case models.IterationFailed():
            return f"iteration {event.number}: {clip('; '.join(event.errors), 120)}"
        case (
            models.PlanFailed()
            | models.QueryFailed()
            | models.InsightFailed()
            | models.AdviceFailed()
            | models.ConfigurationFailed()
            | models.AnswerFailed()
        ):
            return clip(event.error, 120)
        case models.ConfigurationRequested():
            return "to be made from its mission"
        case models.ConfigurationCompleted():
            return "ready"
        case models.AnswerRequested():
            return "somebody has written to it"
        case models.AnswerCompleted():
            return "it has answered: see `vigil chat`"
        case _:
            return ""


def _ended(event: models.IterationCompleted) -> str:
    kinds = (
        (event.queries, "query"),
        (event.insights, "insight"),
        (event.analyses, "analysis"),
        (event.advice, "advice"),
    )
    told = ", ".join(counted(number, noun) for number, noun in kinds if number) or "nothing to do"
    errors = f"; {counted(len(event.errors), 'error')}" if event.errors else ""
    return f"iteration {event.number}: {told}{errors}"


def short(agent_id: UUID) -> str:
    """For an agent whose name is not known, as after its end."""
    return str(agent_id)[:8]


def show_investigations(
    console: Console, found: Sequence[InvestigationRequestView], *, only_open: bool, limit: int
) -> None:
    if not found:
        console.print("Nothing is lacking." if only_open else "Nothing was lacking yet.")
    for each in found:
        console.print(
            f"{_state(each)} [title]{escape(each.objective)}[/]  "
            f"[quiet]lacking in iteration {each.iteration_number}, {ago(each.created_at)}, {each.id}[/]",
            soft_wrap=True,
        )
        console.print(Padding(f"[quiet]{escape(each.reasoning)}[/]", (0, 0, 0, 2), expand=False))
    if len(found) == limit:
        console.print(f"[quiet]The newest {limit}; more with --limit.[/]")


def _state(request: InvestigationRequestView) -> str:
    if request.answered_at is not None:
        return f"[good]answered {ago(request.answered_at)}[/]"
    if request.dropped_at is not None:
        return f"[quiet]dropped {ago(request.dropped_at)}[/]"
    return "[warn]open[/]"


def commitment_lines(told: CommitmentView, *, with_confidence: bool = False) -> list[str]:
    """None where it commits itself to nothing: it is older than that, or a notice."""
    lines = []
    if with_confidence and told.confidence is not None:
        lines.append(f"[quiet]Confidence: {told.confidence:.2f}[/]")
    if told.horizon is not None:
        until = f"Holds until {told.horizon}"
        lines.append(f"[warn]Expired: it held until {told.horizon}[/]" if told.expired else until)
    if told.invalidation is not None:
        lines.append(f"[quiet]Proved wrong by: {escape(told.invalidation)}[/]")
    return lines


def show_conclusions(
    console: Console, found: Sequence[ConclusionView], *, noun: str, limit: int
) -> None:
    if not found:
        console.print(f"There is no {noun} yet.")
    for each in found:
        sure = "" if each.confidence is None else f", confidence {each.confidence:.2f}"
        console.print(
            f"[title]{escape(each.name)}[/]  [quiet]{each.word}{sure}, {each.generated_at}, {each.id}[/]",
            soft_wrap=True,
        )
        console.print(Padding(escape(each.summary), (0, 0, 0, 2), expand=False))
        for line in commitment_lines(each):
            console.print(Padding(line, (0, 0, 0, 2), expand=False))
        content = escape(cited(each.content, each.citations))
        console.print(Padding(f"[quiet]{content}[/]", (0, 0, 1, 2), expand=False))
    if len(found) == limit:
        console.print(f"[quiet]The newest {limit}; more with --limit.[/]")
