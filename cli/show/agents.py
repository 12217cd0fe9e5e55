"""Agents in a terminal."""

from collections.abc import Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.show.costs import usd
from cli.show.words import ago, between, clip, counted, interval
from cli.show.work import LONG_CALL_SECONDS, age_seconds, growth, waiting
from shared.store.reading.configuring_shapes import TypesView
from shared.store.reading.shapes import (
    AgentDetails,
    AgentView,
    CallTotals,
    CountsView,
    IterationView,
    Trouble,
)

_STYLES = {"completed": "good", "failed": "bad", "running": "agent"}


def show_agents(console: Console, agents: Sequence[AgentView]) -> None:
    if not agents:
        console.print(
            'There is no agent yet: vigil agent create "what to watch, and to what end"',
            soft_wrap=True,
        )
        return
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    for column in ("Agent", "Every", "Next", "Last iteration", "Mission"):
        table.add_column(column)
    for agent in agents:
        table.add_row(
            f"[agent]{escape(agent.name)}[/]",
            interval(agent.interval_seconds),
            _next(agent),
            _last(agent),
            f"[quiet]{escape(clip(agent.mission, 60))}[/]",
        )
    console.print(table)


def show_agent(
    console: Console, agent: AgentDetails, counts: CountsView, calls: CallTotals
) -> None:
    console.print(f"[agent]{escape(agent.name)}[/]  [quiet]{agent.id}[/]", soft_wrap=True)
    console.print(f"  {escape(agent.mission)}\n")
    table = Table.grid(padding=(0, 2))
    table.add_column(style="quiet", no_wrap=True)
    table.add_row("  Runs", f"every {interval(agent.interval_seconds)}, next {_next(agent)}")
    if agent.feedback_rounds:
        rounds = counted(agent.feedback_rounds, "round")
        table.add_row("  Feedback", f"{rounds} an iteration, of what its Analyzers lack")
    for phase, model in agent.models.items():
        table.add_row("  Model", f"{escape(model)} for {phase}")
    table.add_row("  Budget", _budget(agent))
    table.add_row("  Knows", _knows(counts))
    table.add_row("  Asked", _asked(calls))
    table.add_row("  Last", _last(agent))
    console.print(table)
    if agent.fault:
        console.print(f"  [bad]✗[/] {escape(agent.fault)}", soft_wrap=True)
    elif (last := agent.configuration) and last.ended_at is None and last.error:
        told = f"configured again: {last.error}"
        if last.waiting_since is not None:
            told = f"configured: {waiting(last.error, last.waiting_since, last.retry_at)}"
        console.print(f"  [warn]![/] It is {escape(told)}", soft_wrap=True)
    if agent.last_iteration:
        _errors(console, agent.last_iteration)
    for trouble in agent.trouble:
        console.print(f"  [warn]![/] {_in_trouble(trouble)}", soft_wrap=True)
    for call in agent.running_calls:
        if age_seconds(call) >= LONG_CALL_SECONDS:
            model = f" [quiet]({escape(call.model)})[/]" if call.model else ""
            console.print(f"  [agent]…[/] {call.phase}: {growth(call)}{model}", soft_wrap=True)


def _budget(agent: AgentView) -> str:
    caps = []
    if agent.budget_usd_per_day is not None:
        caps.append(usd(agent.budget_usd_per_day))
    if agent.budget_calls_per_day is not None:
        caps.append(counted(agent.budget_calls_per_day, "call"))
    return f"{' and '.join(caps)} a day (UTC)" if caps else "no cap"


def _knows(counts: CountsView) -> str:
    kinds = ((counts.nodes, "node"), (counts.edges, "edge"), (counts.analyses, "analysis"))
    told = [counted(number, noun) for number, noun in kinds]
    whole = ", ".join([*told, counted(counts.advice, "advice")])
    return f"at least {whole}" if counts.has_more else whole


def _asked(calls: CallTotals) -> str:
    tokens = calls.input_tokens + calls.output_tokens
    searches = counted(calls.search_calls, "search")
    cost = f", {calls.cost_usd:.4f} USD" if calls.cost_usd else ""
    unknown = (
        f" and {calls.unpriced_calls} of unknown price" if cost and calls.unpriced_calls else ""
    )
    return f"the model {calls.llm_calls} times ({tokens:,} tokens), {searches}{cost}{unknown}"


def _next(agent: AgentView) -> str:
    if agent.status == "configuring":
        return "[agent]configuring[/]"
    if agent.status == "failed":
        return "[bad]not configured[/]"
    if agent.resting_until is not None and agent.resting_until > datetime.now(UTC):
        return f"[warn]{ago(agent.resting_until)}: it rests, for a budget is used up[/]"
    if agent.run_requested_at is not None:
        return "now, as asked"
    if not agent.active:
        return "[warn]paused[/]"
    told = ago(agent.next_run_at)
    return told if told.startswith("in ") else "now"


def _last(agent: AgentView) -> str:
    last = agent.last_iteration
    if last is None:
        return "[quiet]none yet[/]"
    style = _STYLES.get(last.status, "quiet")
    if last.ended_at is None:
        told = f"[{style}]#{last.number} {last.stage}[/] [quiet]for {between(last.started_at, None)}[/]"
        return f"{told} [warn]in trouble[/]" if agent.trouble else told
    return f"[{style}]#{last.number} {last.status}[/] [quiet]{ago(last.ended_at)}[/]"


def _errors(console: Console, iteration: IterationView) -> None:
    for error in iteration.errors:
        console.print(f"  [bad]✗[/] {escape(error)}", soft_wrap=True)


def _in_trouble(trouble: Trouble) -> str:
    if trouble.waiting_since is not None:
        told = waiting(trouble.error, trouble.waiting_since, trouble.retry_at)
        return f"{trouble.step} of iteration {trouble.iteration_number} is {escape(told)}"
    retry = "" if trouble.retry_at is None else f", next try {ago(trouble.retry_at)}"
    retry = retry if "in " in retry else ""
    return (
        f"{trouble.step} of iteration {trouble.iteration_number} is tried again "
        f"({counted(trouble.attempts, 'attempt')} failed{retry}): {escape(trouble.error)}"
    )


def show_created(console: Console, agent: AgentDetails, types: TypesView) -> None:
    name = escape(agent.name)
    runs = "it runs now, and every" if agent.active else "it is paused; resumed, it runs every"
    console.print(
        f"[good]●[/] [agent]{name}[/] keeps watch: {runs} {interval(agent.interval_seconds)}.",
        soft_wrap=True,
    )
    console.print(f"  It has {_made(agent, types)}.", soft_wrap=True)
    _show_cap(console, agent)
    for command in ("tail --agent", "agent show", "agent prompts", "agent types"):
        console.print(f"  [quiet]vigil {command}[/] {_quoted(name)}", soft_wrap=True)


def _show_cap(console: Console, agent: AgentView) -> None:
    budget = f"vigil budget {_quoted(escape(agent.name))}"
    if agent.budget_usd_per_day is None and agent.budget_calls_per_day is None:
        told = f"Its spending has no cap; [quiet]{budget} --usd N[/] sets one."
    else:
        told = (
            f"It may spend {_budget(agent)}, then it rests until the next day; "
            f"[quiet]{budget} --usd N[/] changes that."
        )
    console.print(f"  {told}", soft_wrap=True)


def show_made(console: Console, agent: AgentDetails, types: TypesView) -> None:
    """In the course of something else."""
    last = agent.configuration
    took = between(last.requested_at, last.ended_at) if last else ""
    console.print(
        f"  [good]✓[/] [agent]{escape(agent.name)}[/] is made of it: {_made(agent, types)} [quiet]{took}[/]",
        soft_wrap=True,
    )


def _made(agent: AgentDetails, types: TypesView) -> str:
    kinds = (
        (len(agent.prompts), "prompt"),
        (len(types.node_types), "node type"),
        (len(types.edge_types), "edge type"),
    )
    return ", ".join(counted(number, noun) for number, noun in kinds)


def show_ordered(console: Console, agent: AgentDetails) -> None:
    name = escape(agent.name)
    console.print(f"[good]●[/] [agent]{name}[/] is being configured.", soft_wrap=True)
    _show_cap(console, agent)
    console.print(f"  [quiet]vigil agent show[/] {agent.id}", soft_wrap=True)


def _quoted(name: str) -> str:
    return f'"{name}"' if " " in name else name
