"""Iterations in a terminal: lists, details, events, conclusions, investigation requests."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cli.references import short_ids
from cli.render.console import ago, between, cited, clip, counted
from cli.render.provenance import describe_doubt
from shared.enums import RequestState, StepKind
from shared.events import models
from shared.events.envelope import Event
from shared.schemas.base import (
    AnswerEvent,
    ConclusionResponse,
    FailedSending,
    ForecastTerms,
    InteractionEvent,
    InteractionResponse,
    IterationDetails,
    IterationSummary,
    Json,
    ProviderOutage,
    RepairEvent,
    RunningCall,
    StepResponse,
    ToolResultEvent,
)
from shared.schemas.conclusions import InvestigationRequestResponse
from shared.schemas.iterations import plan_notes, step_notes
from shared.schemas.provenance import DoubtResponse

if TYPE_CHECKING:
    from shared.events.stream_reader import StoredEvent

LONG_CALL_SECONDS: Final = 10.0
"""A call that takes longer is shown with its progress."""

ACTOR_OF: Final = {
    "observe": "Observer",
    "query": "Researcher",
    "insight": "Analyzer",
    "advise": "Adviser",
}
_THINKS: Final = {
    "observer": "reads the graph and plans",
    "knowledge_acquisition": "decides where to search",
    "graph_construction": "compares the document with the graph",
    "analysis_generation": "evaluates the nodes",
    "advice_generation": "evaluates the analyses",
    "entailment_check": "compares quotes with claims",
}


def step_name(step: StepResponse) -> str:
    """`query 2`, or `query 4, round 2`; without a number for kinds that occur once."""
    if step.kind not in ("query", "insight"):
        return step.kind
    again = f", round {round_of(step) + 1}" if round_of(step) else ""
    return f"{step.kind} {step.index + 1}{again}"


def round_of(step: StepResponse) -> int:
    """The feedback round of a step: 0 if it was planned, higher if it follows up missing data."""
    number = step.input.get("round", 0)
    return number if isinstance(number, int) else 0


def about(step: StepResponse) -> str:
    """The objective of a query, or the observation of an insight."""
    return str(step.input.get("objective") or step.input.get("observation") or "")


def doing(iteration: IterationDetails, step: StepResponse) -> str:
    """What a step that has not ended is doing."""
    if step.error is not None and step.status == "pending":
        if step.waiting_since is not None:
            return f"waiting{_next_try(step.retry_at)}: {step.error}"
        return f"waiting to retry: {step.error}"
    runs = [run for run in iteration.interactions if run.step_id == step.id]
    if step.status != "running" or not runs:
        return "waiting for a worker"
    calls = [call for call in iteration.running_calls if call.step_id == step.id]
    if calls and age_seconds(calls[0]) >= LONG_CALL_SECONDS:
        return growth(calls[0])
    return _in_phase(runs[-1])


def outage_sentence(outage: ProviderOutage) -> str:
    """`The model server at … has been unavailable since 14:02; next attempt in 12 s; 14 steps wait.`"""
    name = f"{outage.name[:1].upper()}{outage.name[1:]}"
    since = outage.since.astimezone()
    day = "" if since.date() == datetime.now().astimezone().date() else f"{since:%Y-%m-%d} "
    state = outage.state
    if outage.is_quota:
        state += f" (since {day}{since:%H:%M})"
    elif outage.is_unavailable:
        state = f"has been unavailable since {day}{since:%H:%M}"
    verb = "waits" if outage.waiting_steps == 1 else "wait"
    return (
        f"{name} {state}{_next_try(outage.next_attempt_at, '; ')};"
        f" {counted(outage.waiting_steps, 'step')} {verb}: {outage.error}"
    )


def waiting(error: str, since: datetime, retry_at: datetime | None) -> str:
    """Why and how long a step has been waiting for a provider, and when it retries."""
    return f"waiting for {between(since, None)}: {error}{_next_try(retry_at, '; ')}"


def _next_try(retry_at: datetime | None, separator: str = ", ") -> str:
    when = "" if retry_at is None else ago(retry_at)
    return f"{separator}next attempt {when}" if when.startswith("in ") else ""


def growth(call: RunningCall) -> str:
    """The progress of a running call."""
    took = between(call.sent_at, None)
    if call.kind == "search":
        return f"waiting for the search service, {took}"
    if not call.received_chars:
        return f"waiting for the first token, {took}"
    return f"receiving the answer: {call.received_chars:,} characters after {took}"


def age_seconds(call: RunningCall) -> float:
    return (datetime.now(UTC) - call.sent_at).total_seconds()


def _in_phase(run: InteractionResponse) -> str:
    answers = [event for event in run.events if isinstance(event, AnswerEvent)]
    calls = _tool_calls(answers[-1]) if answers else []
    searches = [(name, arguments) for name, arguments in calls if name.startswith("tavily")]
    if searches:
        return _searching(*searches[-1])
    additions = sum(name.startswith("add") for answer in answers for name, _ in _tool_calls(answer))
    if additions:
        return f"writes to the graph ({additions} so far)"
    return _THINKS.get(run.phase, phase_name(run.phase))


def _searching(tool: str, arguments: Json) -> str:
    about = arguments.get("query") or arguments.get("input") or ", ".join(arguments.get("urls", []))
    verb = {"tavilyExtract": "reads", "tavilyResearch": "researches"}.get(tool, "searches")
    return f"{verb} “{about}”"


def _tool_calls(answer: AnswerEvent) -> list[tuple[str, Json]]:
    calls = (answer.message or {}).get("tool_calls") or []
    return [(call["function"]["name"], _arguments(call["function"]["arguments"])) for call in calls]


def _arguments(text: str) -> Json:
    """Empty if the model did not write a JSON object."""
    try:
        arguments = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


STYLES: Final = {"completed": "good", "quiet": "quiet", "failed": "bad", "running": "agent"}
MAX_RESULT_CHARS: Final = 200


def show_iterations(
    console: Console, iterations: Sequence[IterationSummary], *, limit: int
) -> None:
    if not iterations:
        console.print("No iterations match.")
        return
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    for column in ("#", "Status", "Why", "Started", "Took", "Errors"):
        table.add_column(column)
    for iteration in iterations:
        state = iteration.stage if iteration.ended_at is None else iteration.status
        table.add_row(
            str(iteration.number),
            f"[{STYLES.get(iteration.status, 'quiet')}]{state}[/]",
            escape(iteration.why),
            f"[quiet]{ago(iteration.started_at)}[/]",
            between(iteration.started_at, iteration.ended_at),
            f"[bad]{escape(clip('; '.join(iteration.errors), 80))}[/]",
        )
    console.print(table)
    if len(iterations) == limit:
        console.print(f"[quiet]Only the newest {limit} are shown; raise --limit to see more.[/]")


def show_iteration(console: Console, iteration: IterationDetails, *, show_messages: bool) -> None:
    """With `show_messages` also the answers and tool results of every phase."""
    style = STYLES.get(iteration.status, "quiet")
    state = iteration.stage if iteration.ended_at is None else iteration.status
    console.print(
        f"[agent]{escape(iteration.agent_name)}[/] #{iteration.number}  [{style}]{state}[/]  [quiet]"
        f"{ago(iteration.started_at)}, {between(iteration.started_at, iteration.ended_at)}[/]",
        soft_wrap=True,
    )
    for error in iteration.errors:
        console.print(f"  [bad]✗[/] {escape(error)}", soft_wrap=True)
    for step in iteration.steps:
        if step.kind == StepKind.OBSERVE:
            for note in plan_notes(step.result or {}):
                console.print(f"  [quiet]{escape(note)}[/]", soft_wrap=True)
    if iteration.plan is not None:
        _plan(console, iteration.plan)
    for step in iteration.steps:
        _step(
            console,
            step,
            [run for run in iteration.interactions if run.step_id == step.id],
            show_messages,
        )
        for call in iteration.running_calls:
            if call.step_id == step.id:
                console.print(f"  [agent]…[/] {phase_name(call.phase)}: {growth(call)}")
    calls = iteration.calls
    console.print(
        f"\n[quiet]{counted(calls.llm_calls, 'model call')}, "
        f"{counted(calls.search_calls, 'search')}, {calls.input_tokens + calls.output_tokens:,} tokens[/]"
    )


def _plan(console: Console, plan: Json) -> None:
    queries, insights = plan.get("queries", []), plan.get("insights", [])
    counts = f"{_number(queries, 'query')}, {_number(insights, 'insight')}"
    console.print(f"\n[title]Plan[/]  [quiet]{counts}[/]")
    for query in queries:
        console.print(f"  [agent]?[/] {escape(str(query.get('objective', '')))}", soft_wrap=True)
        if query.get("reasoning"):
            console.print(f"    [quiet]{escape(query['reasoning'])}[/]", soft_wrap=True)
    for insight in insights:
        console.print(
            f"  [agent]![/] {escape(str(insight.get('observation', '')))}", soft_wrap=True
        )

    for item in plan.get("skipped", []):
        console.print(
            f"  [quiet]- skipped: {escape(str(item.get('title') or item.get('url')))}: "
            f"{escape(str(item.get('reason')))}[/]",
            soft_wrap=True,
        )


def _number(items: Sequence[Json], noun: str) -> str:
    return counted(len(items), noun)


def _step(
    console: Console, step: StepResponse, runs: Sequence[InteractionResponse], show_messages: bool
) -> None:
    style = STYLES.get(step.status, "quiet")
    tries = f", {counted(step.attempts, 'attempt')} failed" if step.attempts else ""
    console.print(
        f"\n[title]{step_name(step)}[/]  [{style}]{step.status}[/]  "
        f"[quiet]{between(step.started_at, step.ended_at)}{tries}[/]"
    )
    if round_of(step):
        # The plan shows the first round.
        console.print(f"  [agent]?[/] {escape(about(step))}", soft_wrap=True)
    if step.error and step.waiting_since is not None and step.ended_at is None:
        reason = waiting(step.error, step.waiting_since, step.retry_at)
        console.print(f"  [warn]![/] {escape(reason)}", soft_wrap=True)
    elif step.error:
        console.print(f"  [bad]✗[/] {escape(step.error)}", soft_wrap=True)
    for note in step_notes(step) if step.kind != StepKind.OBSERVE else ():
        console.print(f"  [quiet]{escape(note)}[/]", soft_wrap=True)
    for run in runs:
        answers = [event for event in run.events if isinstance(event, AnswerEvent)]
        tools = [event for event in run.events if isinstance(event, ToolResultEvent)]
        counts = f"{counted(len(answers), 'answer')}, {counted(len(tools), 'tool result')}"
        console.print(
            f"  {phase_name(run.phase)} [quiet]{escape(run.model)}, {counts}[/]", soft_wrap=True
        )
        for line in (*_failures(run.failures), *_lines(run.events)) if show_messages else ():
            console.print(Padding(line, (0, 0, 0, 4), expand=False))


def _failures(failures: Sequence[FailedSending]) -> Iterator[str]:
    for failure in failures:
        cost = "its maximum cost" if failure.cost_usd is None else f"{failure.cost_usd:f} USD"
        yield f"[bad]✗ {escape(failure.error)}[/] [quiet]{failure.kind}, charged at {cost}[/]"
        if failure.response:
            yield f"[quiet]response: {escape(clip(failure.response, MAX_RESULT_CHARS))}[/]"


def _lines(events: Sequence[InteractionEvent]) -> Iterator[str]:
    for event in events:
        if isinstance(event, ToolResultEvent):
            result = (
                "expired" if event.result is None else json.dumps(event.result, ensure_ascii=False)
            )
            yield f"[quiet]← {escape(event.name)}: {escape(clip(result, MAX_RESULT_CHARS))}[/]"
            continue
        if isinstance(event, RepairEvent):
            yield f"[warn]repaired {escape(event.subject)}:[/] {escape('; '.join(event.repairs))}"
            continue
        if event.text:
            yield escape(event.text)
        for call in event.tool_calls:
            yield f"[link]→ {escape(call.name)}[/] {escape(clip(call.arguments, MAX_RESULT_CHARS))}"


MIN_AGE_SHOWN_SECONDS: Final = 5.0
"""Events older than this are shown with their age."""

_STYLES: Final[Mapping[str, str]] = {
    "requested": "blue",
    "started": "agent",
    "produced": "magenta",
    "completed": "good",
    "failed": "bad",
}


def line_of(event: "StoredEvent", agent_name: str) -> str:
    """Time, age, subject, agent and summary of an event, in console markup."""
    verb = event.subject.rpartition(".")[2]
    style = _STYLES.get(verb, "quiet")
    age_seconds = (datetime.now(UTC) - event.stored_at).total_seconds()
    age = ago(event.stored_at) if age_seconds > MIN_AGE_SHOWN_SECONDS else ""
    clock = event.stored_at.astimezone().strftime("%H:%M:%S")
    text = (
        "this version of Vigil cannot read this event"
        if event.event is None
        else summary(event.event)
    )
    return (
        f"[quiet]{clock} {age:>10}[/]  [{style}]{event.subject:<20}[/] "
        f"[agent]{escape(clip(agent_name, 28))}[/]  {escape(text)}"
    )


def summary(event: Event) -> str:
    """The event in a few words."""
    match event:
        case models.IterationStarted():
            why = "requested" if event.why == "run_now" else "due"
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
            return f"{counted(len(event.analysis_ids), 'analysis')} to consider"
        case models.AdviceProduced():
            return f"{event.action}; see `vigil inbox`"
        case models.AdviceCompleted():
            return counted(event.advice, "advice")
        case models.IterationCompleted():
            return _describe_completion(event)
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
            return "from its mission"
        case models.ConfigurationCompleted():
            return "ready"
        case models.AnswerRequested():
            return "received a message"
        case models.AnswerCompleted():
            return "answered; see `vigil chat`"
        case _:
            return ""


def _describe_completion(event: models.IterationCompleted) -> str:
    kinds = (
        (event.queries, "query"),
        (event.insights, "insight"),
        (event.analyses, "analysis"),
        (event.advice, "advice"),
    )
    counts = ", ".join(counted(number, noun) for number, noun in kinds if number) or "nothing to do"
    errors = f"; {counted(len(event.errors), 'error')}" if event.errors else ""
    return f"iteration {event.number}: {counts}{errors}"


def short(agent_id: UUID) -> str:
    """The short id of an agent without a name, such as a deleted one."""
    return str(agent_id)[:8]


def show_investigations(
    console: Console,
    requests: Sequence[InvestigationRequestResponse],
    *,
    only_open: bool,
    limit: int,
) -> None:
    if not requests:
        console.print("No data is missing." if only_open else "No data has been missing so far.")
    for request in requests:
        console.print(
            f"{_state(request)} [title]{escape(request.objective)}[/]  "
            f"[quiet]missing in iteration {request.iteration_number}, {ago(request.created_at)}[/]",
            soft_wrap=True,
        )
        console.print(Padding(f"[quiet]{escape(request.reasoning)}[/]", (0, 0, 0, 2), expand=False))
        if request.not_found and request.state in (RequestState.NOT_FOUND, RequestState.ANSWERED):
            console.print(Padding(f"not found: {escape(request.not_found)}", (0, 0, 0, 2)))
    if len(requests) == limit:
        console.print(f"[quiet]Only the newest {limit} are shown; raise --limit to see more.[/]")


def _state(request: InvestigationRequestResponse) -> str:
    if request.answered_at is not None:
        with_ids = request.answered_with or {}
        counts = [
            counted(len(ids), noun)
            for noun, ids in (("node", with_ids.get("nodes")), ("edge", with_ids.get("edges")))
            if ids
        ]
        what = f" with {' and '.join(counts)}" if counts else ""
        part = " in part" if request.not_found else ""
        return f"[good]answered{part} {ago(request.answered_at)}{what}[/]"
    if request.state == RequestState.NOT_FOUND and request.not_found_at is not None:
        return f"[warn]not found {ago(request.not_found_at)}[/]"
    if request.dropped_at is not None:
        return f"[quiet]dropped {ago(request.dropped_at)}[/]"
    return "[warn]open[/]"


def commitment_lines(terms: ForecastTerms, *, with_confidence: bool = False) -> list[str]:
    """The terms of a forecast; no lines for a notice, or for advice stored before terms existed."""
    lines = []
    if terms.replaced_by is not None:
        lines.append(f"[warn]Replaced by: {escape(terms.replaced_by)}[/]")
    if with_confidence and terms.confidence is not None:
        lines.append(f"[quiet]Confidence: {terms.confidence:.2f}[/]")
    if terms.horizon is not None:
        until = f"Valid until {terms.horizon}"
        lines.append(
            f"[warn]Expired: it was valid until {terms.horizon}[/]" if terms.expired else until
        )
    if terms.invalidation is not None:
        lines.append(f"[quiet]Would be proved wrong by: {escape(terms.invalidation)}[/]")
    return lines


def phase_name(phase: str) -> str:
    """`knowledge acquisition`, as in the glossary."""
    return phase.replace("_", " ")


def _doubt_lines(conclusion: ConclusionResponse, doubts: Sequence[DoubtResponse]) -> Iterator[str]:
    if conclusion.doubted_since is None:
        return
    yield from map(describe_doubt, doubts)
    if not doubts:
        yield f"[warn]In doubt since {conclusion.doubted_since:%Y-%m-%d}.[/]"


def show_conclusions(
    console: Console,
    conclusions: Sequence[ConclusionResponse],
    *,
    noun: str,
    limit: int,
    doubts: Mapping[UUID, Sequence[DoubtResponse]] | None = None,
    only_doubted: bool = False,
) -> None:
    """`doubts`: why conclusions are in doubt."""
    if not conclusions:
        console.print(f"No {noun} is in doubt." if only_doubted else f"There is no {noun} yet.")
    ids = short_ids([conclusion.id for conclusion in conclusions])
    for conclusion in conclusions:
        confidence = (
            "" if conclusion.confidence is None else f", confidence {conclusion.confidence:.2f}"
        )
        console.print(
            f"[title]{escape(conclusion.name)}[/]  [quiet]{conclusion.word}{confidence}, "
            f"{conclusion.generated_at}, {ids[conclusion.id]}[/]",
            soft_wrap=True,
        )
        for line in _doubt_lines(conclusion, (doubts or {}).get(conclusion.id, ())):
            console.print(Padding(line, (0, 0, 0, 2), expand=False))
        console.print(Padding(escape(conclusion.summary), (0, 0, 0, 2), expand=False))
        for line in commitment_lines(conclusion):
            console.print(Padding(line, (0, 0, 0, 2), expand=False))
        content = escape(cited(conclusion.content, conclusion.citations))
        console.print(Padding(f"[quiet]{content}[/]", (0, 0, 1, 2), expand=False))
    if len(conclusions) == limit:
        console.print(f"[quiet]Only the newest {limit} are shown; raise --limit to see more.[/]")
