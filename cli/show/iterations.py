"""Iterations in a terminal: in a row, and one from its plan to its end."""

import json
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cli.show.words import ago, between, clip, counted
from cli.show.work import about, growth, round_of, step_name, waiting
from shared.store.reading.shapes import (
    AnswerEvent,
    FailedSending,
    InteractionEvent,
    InteractionView,
    IterationDetails,
    IterationView,
    Json,
    RepairEvent,
    StepView,
    ToolResultEvent,
)

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
