"""Agents, their configuration and memories in a terminal."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.markup import escape

from cli.references import short_ids
from cli.render.console import details, indented, print_rows, quoted
from cli.render.iterations import (
    LONG_CALL_SECONDS,
    STYLES,
    age_seconds,
    growth,
    next_try,
    outage_sentence,
    waiting,
)
from shared.durations import format_duration
from shared.schemas.agents import ConfigurationDetails, PromptResponse, TypesResponse
from shared.schemas.base import (
    AgentDetails,
    AgentResponse,
    CallTotals,
    GraphCounts,
    ProviderOutage,
    Trouble,
)
from shared.schemas.conversation import MemoryResponse
from shared.wording import ago, between, clip, plural, usd

SANDBOX_COSTS: Final = "nothing, because the sandbox answers"


def show_agents(console: Console, agents: Sequence[AgentResponse]) -> None:
    columns: Mapping[str, Callable[[AgentResponse], str]] = {
        "Agent": lambda agent: f"[agent]{escape(agent.name)}[/]",
        "Every": _intervals,
        "Next": _next,
        "Last iteration": _last,
        "Mission": lambda agent: f"[quiet]{escape(clip(agent.mission, 60))}[/]",
    }
    empty = 'There are no agents yet. Create one with `vigil agent create "what to watch and why"`.'
    print_rows(console, agents, columns, empty=empty)


def _intervals(agent: AgentResponse) -> str:
    shortest = format_duration(agent.interval_seconds)
    if agent.max_interval_seconds is None:
        return shortest
    return f"{shortest} to {format_duration(agent.max_interval_seconds)}"


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
    console.print(f"[agent]{escape(agent.name)}[/]")
    console.print(f"  {escape(agent.mission)}\n")
    feedback = f"up to {plural(agent.feedback_rounds, 'round')} per iteration, for data that its analyses lacked"
    cap_usd = agent.verification_usd_per_day
    cap = "" if cap_usd is None else f"; up to {usd(cap_usd)} a day"
    reading = (
        f"conclusions and what they cite, and {agent.entailment_share:.3g} of new evidence{cap}"
    )
    archive = f"works as if each day were {agent.archive_date}" if agent.archive_date else ""
    rows = [
        ("Runs", f"every {_intervals(agent)}, next {_next(agent)}"),
        ("Feedback", feedback if agent.feedback_rounds else ""),
        ("Advice", "may cite a single analysis" if agent.advice_from_one_analysis else ""),
        ("Actions", escape("; ".join(f"{word}: {text}" for word, text in agent.actions.items()))),
        ("Reads", "" if sandbox else "nothing: the limit for it is 0" if cap_usd == 0 else reading),
        ("Prefers", escape(", ".join(agent.preferred_domains))),
        ("Bars", escape(", ".join(agent.barred_domains))),
        ("Corpus", escape(agent.corpus or "")),
        ("Archive", archive),
        *(("Model", f"{escape(model)} for {phase}") for phase, model in agent.models.items()),
        ("Budget", SANDBOX_COSTS if sandbox else _budget(agent)),
        ("Knows", _knowledge(counts)),
        ("Calls", _calls(calls)),
        ("Last", _last(agent)),
    ]
    console.print(details(rows))
    if agent.fault:
        console.print(f"  [bad]✗[/] {escape(agent.fault)}")
    elif (last := agent.configuration) and last.ended_at is None and last.error:
        state = f"being configured again after an error: {last.error}"
        if last.waiting_since is not None:
            state = f"configured: {waiting(last.error, last.waiting_since, last.retry_at)}"
        console.print(f"  [warn]![/] It is {escape(state)}")
    if agent.attention:
        attention = f"{agent.attention.reason} {agent.attention.advice}"
        console.print(f"  [bad]✗[/] {escape(attention)}")
    for error in (
        agent.last_iteration.errors if agent.last_iteration and not agent.attention else ()
    ):
        console.print(f"  [bad]✗[/] {escape(error)}")

    def is_explained(trouble: Trouble) -> bool:
        return any(outage.explains(trouble.error) for outage in outages)

    explained = list(filter(is_explained, agent.trouble))
    warnings = [
        *map(escape, agent.server_notes),
        *(escape(outage_sentence(outage)) for outage in outages),
        *([_waiting_steps(explained)] if explained else []),
        *(_in_trouble(trouble) for trouble in agent.trouble if trouble not in explained),
    ]
    for warning in warnings:
        console.print(f"  [warn]![/] {warning}")
    for call in agent.running_calls:
        if age_seconds(call) >= LONG_CALL_SECONDS:
            model = f" [quiet]({escape(call.model)})[/]" if call.model else ""
            console.print(f"  [agent]…[/] {call.phase}: {growth(call)}{model}")


def _budget(agent: AgentResponse) -> str:
    caps = []
    if agent.budget_usd_per_day is not None:
        caps.append(usd(agent.budget_usd_per_day))
    if agent.budget_calls_per_day is not None:
        caps.append(plural(agent.budget_calls_per_day, "call"))
    return f"{' and '.join(caps)} a day (UTC)" if caps else "no cap"


def _knowledge(counts: GraphCounts) -> str:
    kinds = ((counts.nodes, "node"), (counts.edges, "edge"), (counts.analyses, "analysis"))
    parts = [plural(number, noun) for number, noun in kinds]
    total = ", ".join([*parts, plural(counts.advice, "advice")])
    return f"at least {total}" if counts.has_more else total


def _calls(calls: CallTotals) -> str:
    tokens = calls.input_tokens + calls.output_tokens
    searches = plural(calls.search_calls, "search")
    cost = f", {usd(calls.cost_usd)}" if calls.cost_usd else ""
    if calls.assumed_usd:
        cost += f"{' and' if cost else ','} up to {usd(calls.assumed_usd)} assumed"
    unknown = (
        f" and {calls.unpriced_calls} without a price" if cost and calls.unpriced_calls else ""
    )
    return f"{plural(calls.llm_calls, 'model call')} ({tokens:,} tokens), {searches}{cost}{unknown}"


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
    style = STYLES.get(last.status, "quiet")
    if last.ended_at is None:
        state = f"[{style}]#{last.number} {last.stage}[/] [quiet]for {between(last.started_at, None)}[/]"
        return f"{state} [warn]has problems[/]" if agent.trouble else state
    state = f"[{style}]#{last.number} {last.status}[/] [quiet]{ago(last.ended_at)}[/]"
    return f"{state} [bad]needs attention[/]" if agent.attention else state


def _waiting_steps(troubles: Sequence[Trouble]) -> str:
    """`2 steps wait for it: query 1 and query 2 of iteration 7`."""
    verb = "waits" if len(troubles) == 1 else "wait"
    steps = dict.fromkeys(f"{each.step} of iteration {each.iteration_number}" for each in troubles)
    return f"{plural(len(troubles), 'step')} of this agent {verb} for it: {', '.join(steps)}"


def _in_trouble(trouble: Trouble) -> str:
    if trouble.waiting_since is not None:
        reason = waiting(trouble.error, trouble.waiting_since, trouble.retry_at)
        return f"{trouble.step} of iteration {trouble.iteration_number} is {escape(reason)}"
    failed = f"{plural(trouble.attempts, 'attempt')} failed{next_try(trouble.retry_at)}"
    where = f"{trouble.step} of iteration {trouble.iteration_number}"
    return f"{where} is being retried ({failed}): {escape(trouble.error)}"


def show_created(
    console: Console, agent: AgentDetails, types: TypesResponse, *, sandbox: bool = False
) -> None:
    name = escape(agent.name)
    runs = "it runs now, then" if agent.active else "it is paused and, when resumed, runs"
    every = format_duration(agent.interval_seconds)
    console.print(f"[good]●[/] [agent]{name}[/] is ready: {runs} every {every}.")
    console.print(f"  It has {_counts(agent, types)}.")
    _show_cap(console, agent, sandbox=sandbox)
    for command in ("tail --agent", "agent show", "agent prompts", "agent types"):
        console.print(f"  [quiet]vigil {command}[/] {escape(quoted(agent.name))}")


def _show_cap(console: Console, agent: AgentResponse, *, sandbox: bool = False) -> None:
    if sandbox:
        console.print(f"  It costs {SANDBOX_COSTS}.")
        return
    budget = f"vigil budget {escape(quoted(agent.name))}"
    if agent.budget_usd_per_day is None and agent.budget_calls_per_day is None:
        text = f"It has no budget. To set one, use [quiet]{budget} --usd N[/]."
    else:
        text = (
            f"It may spend {_budget(agent)}, then it is suspended until the next day. To change this, use "
            f"[quiet]{budget} --usd N[/]."
        )
    console.print(f"  {text}")


def show_made(console: Console, agent: AgentDetails, types: TypesResponse) -> None:
    """One line, for `vigil demo` and `try-model`."""
    last = agent.configuration
    took = between(last.requested_at, last.ended_at) if last else ""
    console.print(
        f"  [good]✓[/] [agent]{escape(agent.name)}[/] is configured: {_counts(agent, types)} [quiet]{took}[/]"
    )


def _counts(agent: AgentDetails, types: TypesResponse) -> str:
    kinds = (
        (len(agent.prompts), "prompt"),
        (len(types.node_types), "node type"),
        (len(types.edge_types), "edge type"),
    )
    return ", ".join(plural(number, noun) for number, noun in kinds)


def show_configuring(console: Console, agent: AgentDetails) -> None:
    name = escape(agent.name)
    console.print(f"[good]●[/] [agent]{name}[/] is being configured.")
    _show_cap(console, agent)
    console.print(f"  [quiet]vigil agent show[/] {escape(quoted(agent.name))}")


def describe_configuration(name: str, configuration: ConfigurationDetails) -> str:
    """The state of a running configuration, in one line."""
    if configuration.error and configuration.waiting_since is not None:
        return f"configuring {name}: {waiting(configuration.error, configuration.waiting_since, configuration.retry_at)}"
    if configuration.error:
        return f"{name} cannot be configured yet{next_try(configuration.retry_at)}: {configuration.error}"
    if configuration.interaction is None:
        return f"{name} is waiting to be configured"
    answers = sum(event.type == "answer" for event in configuration.interaction.events)
    text = f"configuring {name}: {'its types' if answers else 'its name and prompts'}"
    calls = configuration.running_calls
    if calls and age_seconds(calls[0]) >= LONG_CALL_SECONDS:
        return f"{text}: {growth(calls[0])}"
    return text


def show_prompts(
    console: Console, prompts: Sequence[PromptResponse], *, empty: str = "There are no prompts yet."
) -> None:
    if not prompts:
        console.print(empty)
    for prompt in prompts:
        made = f", {ago(prompt.created_at)} by {prompt.made_by}" if prompt.created_at else ""
        console.print(f"[title]{prompt.phase}[/] [quiet]version {prompt.version}{made}[/]\n")
        console.print(indented(escape(prompt.prompt), after=1))


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
            f"[title]{memory_kind(memory)}[/] {escape(memory.content)}  [quiet]{when}  {ids[memory.id]}[/]"
        )
