"""Iterations in a terminal: lists, details, events, conclusions, investigation requests."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from rich.console import Console
from rich.markup import escape

from cli.references import short_ids
from cli.render.console import indented, print_limit, print_rows, with_short_citations
from cli.render.provenance import describe_doubt
from shared.enums import PositionState, RequestState, StepKind
from shared.errors import USED_UP
from shared.graph.conclusions.citations import without_citations
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
from shared.wording import NOT_READ, ago, between, clip, plural

LONG_CALL_SECONDS: Final = 10.0
"""A call that takes longer is shown with its progress."""

ACTOR_OF: Final = {
    "observe": "Observer",
    "query": "Researcher",
    "insight": "Analyzer",
    "advise": "Adviser",
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
            return f"waiting{next_try(_own_attempt(step.error, step.retry_at))}: {step.error}"
        return f"waiting to retry: {step.error}"
    calls = [call for call in iteration.running_calls if call.step_id == step.id]
    if calls and age_seconds(calls[0]) >= LONG_CALL_SECONDS:
        return growth(calls[0])
    runs = [run for run in iteration.interactions if run.step_id == step.id]
    is_running = step.status == "running" and runs
    return phase_name(runs[-1].phase) if is_running else "waiting for a worker"


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
        f"{name} {state}{next_try(outage.next_attempt_at, '; ')};"
        f" {plural(outage.waiting_steps, 'step')} {verb}: {outage.error}"
    )


def waiting(error: str, since: datetime, retry_at: datetime | None) -> str:
    """Why and how long a step has been waiting for a provider, and when it retries."""
    attempt = next_try(_own_attempt(error, retry_at), "; ")
    return f"waiting for {between(since, None)}: {error}{attempt}"


def _own_attempt(error: str, retry_at: datetime | None) -> datetime | None:
    """When a step calls the provider that it waits for.

    None while a quota is used up: the step only checks its state, and the outage says when the provider is called.
    """
    return None if USED_UP in error else retry_at


def next_try(retry_at: datetime | None, separator: str = ", ") -> str:
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


STYLES: Final = {"completed": "good", "quiet": "quiet", "failed": "bad", "running": "agent"}
MAX_RESULT_CHARS: Final = 200


def show_iterations(
    console: Console, iterations: Sequence[IterationSummary], *, limit: int
) -> None:
    columns: Mapping[str, Callable[[IterationSummary], str]] = {
        "#": lambda each: str(each.number),
        "Status": _status,
        "Why": lambda each: escape(each.why),
        "Started": lambda each: f"[quiet]{ago(each.started_at)}[/]",
        "Took": lambda each: between(each.started_at, each.ended_at),
        "Errors": lambda each: f"[bad]{escape(clip('; '.join(each.errors), 80))}[/]",
    }
    print_rows(console, iterations, columns, empty="No iterations match.", limit=limit)


def _status(iteration: IterationSummary) -> str:
    state = iteration.stage if iteration.ended_at is None else iteration.status
    return f"[{STYLES.get(iteration.status, 'quiet')}]{state}[/]"


def show_iteration(console: Console, iteration: IterationDetails, *, show_messages: bool) -> None:
    """With `show_messages` also the answers and tool results of every phase."""
    console.print(
        f"[agent]{escape(iteration.agent_name)}[/] #{iteration.number}  {_status(iteration)}  [quiet]"
        f"{ago(iteration.started_at)}, {between(iteration.started_at, iteration.ended_at)}[/]"
    )
    for error in iteration.errors:
        console.print(f"  [bad]✗[/] {escape(error)}")
    for step in iteration.steps:
        if step.kind == StepKind.OBSERVE:
            for note in plan_notes(step.result or {}):
                console.print(f"  [quiet]{escape(note)}[/]")
    if iteration.plan is not None:
        _plan(console, iteration.plan)
    for step in iteration.steps:
        runs = [run for run in iteration.interactions if run.step_id == step.id]
        _step(console, step, runs, show_messages)
        for call in iteration.running_calls:
            if call.step_id == step.id:
                console.print(f"  [agent]…[/] {phase_name(call.phase)}: {growth(call)}")
    calls = iteration.calls
    console.print(
        f"\n[quiet]{plural(calls.llm_calls, 'model call')}, "
        f"{plural(calls.search_calls, 'search')}, {calls.input_tokens + calls.output_tokens:,} tokens[/]"
    )


def _plan(console: Console, plan: Json) -> None:
    queries, insights = plan.get("queries", []), plan.get("insights", [])
    counts = f"{plural(len(queries), 'query')}, {plural(len(insights), 'insight')}"
    console.print(f"\n[title]Plan[/]  [quiet]{counts}[/]")
    for query in queries:
        console.print(f"  [agent]?[/] {escape(str(query.get('objective', '')))}")
        if query.get("reasoning"):
            console.print(f"    [quiet]{escape(query['reasoning'])}[/]")
    for insight in insights:
        console.print(f"  [agent]![/] {escape(str(insight.get('observation', '')))}")
    for item in plan.get("skipped", []):
        skipped = f"{item.get('title') or item.get('url')}: {item.get('reason')}"
        console.print(f"  [quiet]- skipped: {escape(skipped)}[/]")


def _step(
    console: Console, step: StepResponse, runs: Sequence[InteractionResponse], show_messages: bool
) -> None:
    style = STYLES.get(step.status, "quiet")
    tries = f", {plural(step.attempts, 'attempt')} failed" if step.attempts else ""
    console.print(
        f"\n[title]{step_name(step)}[/]  [{style}]{step.status}[/]  "
        f"[quiet]{between(step.started_at, step.ended_at)}{tries}[/]"
    )
    if round_of(step):
        # The plan shows the first round.
        console.print(f"  [agent]?[/] {escape(about(step))}")
    if step.error and step.waiting_since is not None and step.ended_at is None:
        reason = waiting(step.error, step.waiting_since, step.retry_at)
        console.print(f"  [warn]![/] {escape(reason)}")
    elif step.error:
        console.print(f"  [bad]✗[/] {escape(step.error)}")
    for note in step_notes(step) if step.kind != StepKind.OBSERVE else ():
        console.print(f"  [quiet]{escape(note)}[/]")
    for run in runs:
        answers = [event for event in run.events if isinstance(event, AnswerEvent)]
        tools = [event for event in run.events if isinstance(event, ToolResultEvent)]
        counts = f"{plural(len(answers), 'answer')}, {plural(len(tools), 'tool result')}"
        console.print(f"  {phase_name(run.phase)} [quiet]{escape(run.model)}, {counts}[/]")
        for line in (*_failures(run.failures), *_lines(run.events)) if show_messages else ():
            console.print(indented(line, 4))


def _failures(failures: Sequence[FailedSending]) -> Iterator[str]:
    for failure in failures:
        cost = "its maximum cost" if failure.cost_usd is None else f"{failure.cost_usd:f} USD"
        yield f"[bad]✗ {escape(failure.error)}[/] [quiet]{failure.kind}, charged at {cost}[/]"
        if failure.response:
            yield f"[quiet]response: {escape(clip(failure.response, MAX_RESULT_CHARS))}[/]"


def _lines(events: Sequence[InteractionEvent]) -> Iterator[str]:
    for event in events:
        if isinstance(event, ToolResultEvent):
            is_expired = event.result is None
            result = "expired" if is_expired else json.dumps(event.result, ensure_ascii=False)
            yield f"[quiet]← {escape(event.name)}: {escape(clip(result, MAX_RESULT_CHARS))}[/]"
            continue
        if isinstance(event, RepairEvent):
            yield f"[warn]repaired {escape(event.subject)}:[/] {escape('; '.join(event.repairs))}"
            continue
        if event.text:
            yield escape(event.text)
        for call in event.tool_calls:
            yield f"[link]→ {escape(call.name)}[/] {escape(clip(call.arguments, MAX_RESULT_CHARS))}"


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
            f"[quiet]missing in iteration {request.iteration_number}, {ago(request.created_at)}[/]"
        )
        console.print(indented(f"[quiet]{escape(request.reasoning)}[/]"))
        if request.not_found and request.state in (RequestState.NOT_FOUND, RequestState.ANSWERED):
            console.print(indented(f"not found: {escape(request.not_found)}"))
    print_limit(console, len(requests), limit)


def _state(request: InvestigationRequestResponse) -> str:
    if request.answered_at is not None:
        with_ids = request.answered_with or {}
        nouns = [(noun, with_ids.get(f"{noun}s")) for noun in ("node", "edge")]
        counts = [plural(len(ids), noun) for noun, ids in nouns if ids]
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
    if (position := terms.position) is not None:
        style = "quiet" if position.state is PositionState.STANDING else "warn"
        lines.append(f"[{style}]{escape(position.sentence)}[/]")
    if terms.change is not None:
        lines.append(f"What changed, or why both hold: {escape(terms.change)}")
    if with_confidence and terms.confidence is not None:
        lines.append(f"[quiet]Confidence: {terms.confidence:.2f}[/]")
    if terms.horizon is not None:
        expired = f"[warn]Expired: it was valid until {terms.horizon}[/]"
        lines.append(expired if terms.expired else f"Valid until {terms.horizon}")
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
        facts = [conclusion.word, conclusion.generated_at, ids[conclusion.id]]
        if conclusion.confidence is not None:
            facts.insert(1, f"confidence {conclusion.confidence:.2f}")
        facts.append(escape(conclusion.reading.in_words) if conclusion.reading else NOT_READ)
        console.print(f"[title]{escape(conclusion.name)}[/]  [quiet]{', '.join(facts)}[/]")
        for line in _doubt_lines(conclusion, (doubts or {}).get(conclusion.id, ())):
            console.print(indented(line))
        console.print(indented(escape(without_citations(conclusion.summary))))
        for line in commitment_lines(conclusion):
            console.print(indented(line))
        content = escape(with_short_citations(conclusion.content))
        console.print(indented(f"[quiet]{content}[/]", after=1))
    print_limit(console, len(conclusions), limit)
