"""Agents, their configuration and memories in a terminal."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cli.references import short_ids
from cli.render.console import ago, between, clip, counted, interval, quoted
from cli.render.costs import usd
from cli.render.iterations import (
    LONG_CALL_SECONDS,
    age_seconds,
    growth,
    outage_sentence,
    waiting,
)
from shared.schemas.agents import ConfigurationDetails, PromptResponse, TypesResponse
from shared.schemas.base import (
    AgentDetails,
    AgentResponse,
    CallTotals,
    GraphCounts,
    IterationSummary,
    Json,
    ProviderOutage,
    Trouble,
)
from shared.schemas.conversation import MemoryResponse
from shared.schemas.graph import EdgeTypeDetails, TypeDetails

SANDBOX_COSTS: Final = "nothing, because the sandbox answers"
_STYLES = {"completed": "good", "quiet": "quiet", "failed": "bad", "running": "agent"}


def show_agents(console: Console, agents: Sequence[AgentResponse]) -> None:
    if not agents:
        console.print(
            'There are no agents yet. Create one with `vigil agent create "what to watch and why"`.',
            soft_wrap=True,
        )
        return
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    for column in ("Agent", "Every", "Next", "Last iteration", "Mission"):
        table.add_column(column)
    for agent in agents:
        table.add_row(
            f"[agent]{escape(agent.name)}[/]",
            _intervals(agent),
            _next(agent),
            _last(agent),
            f"[quiet]{escape(clip(agent.mission, 60))}[/]",
        )
    console.print(table)


def _intervals(agent: AgentResponse) -> str:
    shortest = interval(agent.interval_seconds)
    if agent.max_interval_seconds is None:
        return shortest
    return f"{shortest} to {interval(agent.max_interval_seconds)}"


def show_agent(
    console: Console,
    agent: AgentDetails,
    counts: GraphCounts,
    calls: CallTotals,
    *,
    sandbox: bool = False,
    outages: Sequence[ProviderOutage] = (),
) -> None:
    """`sandbox`: nothing is billed. Each of the `outages` is shown once, not for each step that waits for it."""
    console.print(f"[agent]{escape(agent.name)}[/]", soft_wrap=True)
    console.print(f"  {escape(agent.mission)}\n")
    table = Table.grid(padding=(0, 2))
    table.add_column(style="quiet", no_wrap=True)
    table.add_row("  Runs", f"every {_intervals(agent)}, next {_next(agent)}")
    if agent.feedback_rounds:
        rounds = counted(agent.feedback_rounds, "round")
        table.add_row(
            "  Feedback", f"up to {rounds} per iteration, for data that its analyses lacked"
        )
    if agent.advice_from_one_analysis:
        table.add_row("  Advice", "may cite a single analysis")
    if agent.entailment_usd_per_day:
        share = (
            f"{agent.entailment_share:.3g} of new evidence, and all evidence that advice rests on"
        )
        table.add_row("  Checks", f"{share}; up to {agent.entailment_usd_per_day:g} USD a day")
    if agent.preferred_domains:
        table.add_row("  Prefers", escape(", ".join(agent.preferred_domains)))
    if agent.barred_domains:
        table.add_row("  Bars", escape(", ".join(agent.barred_domains)))
    if agent.corpus is not None:
        table.add_row("  Corpus", escape(agent.corpus))
    for phase, model in agent.models.items():
        table.add_row("  Model", f"{escape(model)} for {phase}")
    table.add_row("  Budget", SANDBOX_COSTS if sandbox else _budget(agent))
    table.add_row("  Knows", _knowledge(counts))
    table.add_row("  Calls", _calls(calls))
    table.add_row("  Last", _last(agent))
    console.print(table)
    if agent.fault:
        console.print(f"  [bad]✗[/] {escape(agent.fault)}", soft_wrap=True)
    elif (last := agent.configuration) and last.ended_at is None and last.error:
        state = f"being configured again after an error: {last.error}"
        if last.waiting_since is not None:
            state = f"configured: {waiting(last.error, last.waiting_since, last.retry_at)}"
        console.print(f"  [warn]![/] It is {escape(state)}", soft_wrap=True)
    if agent.attention:
        console.print(
            f"  [bad]✗[/] {escape(agent.attention.reason)} {escape(agent.attention.advice)}",
            soft_wrap=True,
        )
    elif agent.last_iteration:
        _errors(console, agent.last_iteration)
    for outage in outages:
        console.print(f"  [warn]![/] {escape(outage_sentence(outage))}", soft_wrap=True)
    explained = [
        trouble
        for trouble in agent.trouble
        if any(outage.explains(trouble.error) for outage in outages)
    ]
    if explained:
        console.print(f"  [warn]![/] {_waiting_steps(explained)}", soft_wrap=True)
    for trouble in agent.trouble:
        if trouble not in explained:
            console.print(f"  [warn]![/] {_in_trouble(trouble)}", soft_wrap=True)
    for call in agent.running_calls:
        if age_seconds(call) >= LONG_CALL_SECONDS:
            model = f" [quiet]({escape(call.model)})[/]" if call.model else ""
            console.print(f"  [agent]…[/] {call.phase}: {growth(call)}{model}", soft_wrap=True)


def _budget(agent: AgentResponse) -> str:
    caps = []
    if agent.budget_usd_per_day is not None:
        caps.append(usd(agent.budget_usd_per_day))
    if agent.budget_calls_per_day is not None:
        caps.append(counted(agent.budget_calls_per_day, "call"))
    return f"{' and '.join(caps)} a day (UTC)" if caps else "no cap"


def _knowledge(counts: GraphCounts) -> str:
    kinds = ((counts.nodes, "node"), (counts.edges, "edge"), (counts.analyses, "analysis"))
    parts = [counted(number, noun) for number, noun in kinds]
    total = ", ".join([*parts, counted(counts.advice, "advice")])
    return f"at least {total}" if counts.has_more else total


def _calls(calls: CallTotals) -> str:
    tokens = calls.input_tokens + calls.output_tokens
    searches = counted(calls.search_calls, "search")
    cost = f", {calls.cost_usd:.4f} USD" if calls.cost_usd else ""
    unknown = (
        f" and {calls.unpriced_calls} without a price" if cost and calls.unpriced_calls else ""
    )
    return (
        f"{counted(calls.llm_calls, 'model call')} ({tokens:,} tokens), {searches}{cost}{unknown}"
    )


def _next(agent: AgentResponse) -> str:
    if agent.status == "configuring":
        return "[agent]configuring[/]"
    if agent.status == "failed":
        return "[bad]configuration failed[/]"
    if not agent.active and agent.run_requested_at is None:
        return "[warn]paused[/]"
    if agent.suspended_until is not None and agent.suspended_until > datetime.now(UTC):
        until = f"{agent.suspended_until.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        return f"[warn]suspended until {until}: daily budget reached[/]"
    if agent.run_requested_at is not None:
        return "now, as requested"
    when = ago(agent.next_run_at)
    return when if when.startswith("in ") else "now"


def _last(agent: AgentResponse) -> str:
    last = agent.last_iteration
    if last is None:
        return "[quiet]none yet[/]"
    style = _STYLES.get(last.status, "quiet")
    if last.ended_at is None:
        state = f"[{style}]#{last.number} {last.stage}[/] [quiet]for {between(last.started_at, None)}[/]"
        return f"{state} [warn]has problems[/]" if agent.trouble else state
    state = f"[{style}]#{last.number} {last.status}[/] [quiet]{ago(last.ended_at)}[/]"
    return f"{state} [bad]needs attention[/]" if agent.attention else state


def _errors(console: Console, iteration: IterationSummary) -> None:
    for error in iteration.errors:
        console.print(f"  [bad]✗[/] {escape(error)}", soft_wrap=True)


def _waiting_steps(troubles: Sequence[Trouble]) -> str:
    """`2 steps wait for it: query 1 and query 2 of iteration 7`."""
    verb = "waits" if len(troubles) == 1 else "wait"
    steps = ", ".join(
        dict.fromkeys(f"{each.step} of iteration {each.iteration_number}" for each in troubles)
    )
    return f"{counted(len(troubles), 'step')} of this agent {verb} for it: {steps}"


def _in_trouble(trouble: Trouble) -> str:
    if trouble.waiting_since is not None:
        reason = waiting(trouble.error, trouble.waiting_since, trouble.retry_at)
        return f"{trouble.step} of iteration {trouble.iteration_number} is {escape(reason)}"
    retry = "" if trouble.retry_at is None else f", next attempt {ago(trouble.retry_at)}"
    retry = retry if "in " in retry else ""
    failed = counted(trouble.attempts, "attempt")
    where = f"{trouble.step} of iteration {trouble.iteration_number}"
    return f"{where} is being retried ({failed} failed{retry}): {escape(trouble.error)}"


def show_created(
    console: Console, agent: AgentDetails, types: TypesResponse, *, sandbox: bool = False
) -> None:
    name = escape(agent.name)
    runs = (
        "it runs now, then every" if agent.active else "it is paused and, when resumed, runs every"
    )
    console.print(
        f"[good]●[/] [agent]{name}[/] is ready: {runs} {interval(agent.interval_seconds)}.",
        soft_wrap=True,
    )
    console.print(f"  It has {_counts(agent, types)}.", soft_wrap=True)
    _show_cap(console, agent, sandbox=sandbox)
    for command in ("tail --agent", "agent show", "agent prompts", "agent types"):
        console.print(f"  [quiet]vigil {command}[/] {escape(quoted(agent.name))}", soft_wrap=True)


def _show_cap(console: Console, agent: AgentResponse, *, sandbox: bool = False) -> None:
    if sandbox:
        console.print(f"  It costs {SANDBOX_COSTS}.", soft_wrap=True)
        return
    budget = f"vigil budget {escape(quoted(agent.name))}"
    if agent.budget_usd_per_day is None and agent.budget_calls_per_day is None:
        text = f"It has no budget. To set one, use [quiet]{budget} --usd N[/]."
    else:
        text = (
            f"It may spend {_budget(agent)}, then it is suspended until the next day. To change this, use "
            f"[quiet]{budget} --usd N[/]."
        )
    console.print(f"  {text}", soft_wrap=True)


def show_made(console: Console, agent: AgentDetails, types: TypesResponse) -> None:
    """One line, for `vigil demo` and `try-model`."""
    last = agent.configuration
    took = between(last.requested_at, last.ended_at) if last else ""
    console.print(
        f"  [good]✓[/] [agent]{escape(agent.name)}[/] is configured: {_counts(agent, types)} [quiet]{took}[/]",
        soft_wrap=True,
    )


def _counts(agent: AgentDetails, types: TypesResponse) -> str:
    kinds = (
        (len(agent.prompts), "prompt"),
        (len(types.node_types), "node type"),
        (len(types.edge_types), "edge type"),
    )
    return ", ".join(counted(number, noun) for number, noun in kinds)


def show_configuring(console: Console, agent: AgentDetails) -> None:
    name = escape(agent.name)
    console.print(f"[good]●[/] [agent]{name}[/] is being configured.", soft_wrap=True)
    _show_cap(console, agent)
    console.print(f"  [quiet]vigil agent show[/] {escape(quoted(agent.name))}", soft_wrap=True)


def describe_configuration(name: str, configuration: ConfigurationDetails) -> str:
    """The state of a running configuration, in one line."""
    if configuration.error and configuration.waiting_since is not None:
        return f"configuring {name}: {waiting(configuration.error, configuration.waiting_since, configuration.retry_at)}"
    if configuration.error:
        retry = (
            ""
            if configuration.retry_at is None
            else f", next attempt {ago(configuration.retry_at)}"
        )
        return f"{name} cannot be configured yet{retry if 'in ' in retry else ''}: {configuration.error}"
    if configuration.interaction is None:
        return f"{name} is waiting to be configured"
    answers = sum(event.type == "answer" for event in configuration.interaction.events)
    text = f"configuring {name}: {'its types' if answers else 'its name and prompts'}"
    calls = configuration.running_calls
    if calls and age_seconds(calls[0]) >= LONG_CALL_SECONDS:
        return f"{text}: {growth(calls[0])}"
    return text


def show_prompts(console: Console, prompts: Sequence[PromptResponse]) -> None:
    for prompt in prompts:
        _show_prompt(console, prompt)


def show_history(console: Console, versions: Sequence[PromptResponse]) -> None:
    if not versions:
        console.print("The prompts have not been changed yet.")
    for prompt in versions:
        _show_prompt(console, prompt)


def _show_prompt(console: Console, prompt: PromptResponse) -> None:
    author = "" if prompt.created_at is None else f", {ago(prompt.created_at)} by {prompt.made_by}"
    console.print(f"[title]{prompt.phase}[/] [quiet]version {prompt.version}{author}[/]\n")
    console.print(Padding(escape(prompt.prompt), (0, 0, 1, 2), expand=False))


def show_types(console: Console, types: TypesResponse) -> None:
    console.print(f"[title]{counted(len(types.node_types), 'node type')}[/]")
    for node in types.node_types:
        _show_type(console, f"[agent]{escape(node.name)}[/]", node)
    console.print(f"\n[title]{counted(len(types.edge_types), 'edge type')}[/]")
    for edge in types.edge_types:
        _show_type(console, f"[agent]{escape(edge.name)}[/]  {_ends(edge)}", edge)


def _show_type(console: Console, heading: str, kind: TypeDetails) -> None:
    maker = (
        "" if kind.created_by == "configuration" else f" [quiet](by {escape(kind.created_by)})[/]"
    )
    console.print(f"\n  {heading}{maker}", soft_wrap=True)
    console.print(f"  {escape(kind.description)}", soft_wrap=True)
    properties = kind.properties_schema.get("properties", {})
    if properties:
        required = kind.properties_schema.get("required", [])
        console.print(Padding(_properties(properties, required), (0, 0, 0, 4), expand=False))
    if kind.example_properties:
        example = json.dumps(kind.example_properties, ensure_ascii=False)
        console.print(f"    [quiet]for example[/] {escape(example)}", soft_wrap=True)


def _properties(properties: Json, required: Sequence[str]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, style="quiet")
    table.add_column(overflow="fold", style="quiet")
    for name, schema in properties.items():
        mark = "*" if name in required else ""
        table.add_row(
            f"{escape(name)}{mark}", escape(_kind(schema)), escape(schema.get("description", ""))
        )
    return table


def _kind(schema: Json) -> str:
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"])
    return str(schema.get("format") or schema.get("type", ""))


def _ends(edge: EdgeTypeDetails) -> str:
    sources, targets = (
        " or ".join(names) or "any" for names in (edge.source_types, edge.target_types)
    )
    return f"[quiet]{escape(sources)} → {escape(targets)}[/]"


def memory_kind(memory: MemoryResponse) -> str:
    """What people call the kind of a memory; the API names a preference `wish`."""
    return "preference" if memory.kind == "wish" else memory.kind


def show_memories(console: Console, memories: Sequence[MemoryResponse], *, forgotten: bool) -> None:
    if not memories:
        text = (
            "The agent has forgotten nothing." if forgotten else "The agent remembers nothing yet."
        )
        console.print(
            f"{text} [quiet]To tell it something, use `vigil memory add` or `vigil chat`.[/]"
        )
    ids = short_ids([memory.id for memory in memories])
    for memory in memories:
        when = ago(memory.forgotten_at or memory.created_at)
        console.print(
            f"[title]{memory_kind(memory)}[/] {escape(memory.content)}  [quiet]{when}  {ids[memory.id]}[/]",
            soft_wrap=True,
        )
