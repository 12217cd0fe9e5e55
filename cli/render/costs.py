"""Costs and budgets in a terminal."""

from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.render.console import listing
from shared.durations import format_duration
from shared.schemas.costs import (
    BudgetResponse,
    BudgetUsage,
    CostGroup,
    CostsResponse,
    CostTotals,
    ForecastResponse,
)
from shared.wording import ago, plural, usd

NOT_BILLED: Final = "not billed"
_HEADINGS: Final = {"day": "Day", "agent": "Agent", "phase": "Phase", "model": "Model"}


def show_costs(
    console: Console, view: CostsResponse, agent: str | None, *, sandbox: bool = False
) -> None:
    """The groups, their total, and the rest of today's budget; without dollars if nothing was billed."""
    if not view.groups:
        console.print(f"There were no calls from {view.since} to {view.until}.")
    else:
        console.print(_table(view))
        if not is_billed(view.totals):
            why = ": the sandbox answers." if sandbox else "."
            console.print(f"[quiet]Nothing was billed{why}[/]")
        if parts := view.totals.parts:
            console.print(f"\nTokens in, by part: {_shares(parts)}")
    if view.usage is None:
        return
    owner = "The installation" if agent is None else f"[agent]{escape(agent)}[/]"
    usage = _describe_usage(view.usage, sandbox=sandbox)
    console.print(f"\n{owner} today: {usage}")


def show_budget(
    console: Console, view: BudgetResponse | BudgetUsage, *, sandbox: bool = False
) -> None:
    if isinstance(view, BudgetUsage):
        usage = _describe_usage(view, sandbox=sandbox)
        console.print(f"The installation today: {usage}")
        return
    console.print(
        f"[agent]{escape(view.agent_name)}[/] today: {_describe_usage(view.usage, sandbox=sandbox)}"
    )
    if view.suspended_until is not None and view.suspended_until > datetime.now(UTC):
        console.print(f"  [warn]suspended; it resumes {ago(view.suspended_until)}[/]")


def describe_forecast(view: ForecastResponse) -> str:
    """One line, before an agent is made."""
    if not view.usd_per_day:
        return "Forecast: nothing is billed because the sandbox answers."
    fallback = ", at the fallback price because the model is not in the price list"
    price = "" if view.is_priced else fallback
    return (
        f"Forecast: about {usd(view.usd_per_day)} a day at one iteration every {format_duration(view.interval_seconds)}"
        f" with {view.model or 'your model'}"
        f" ({usd(view.model_usd)} for the model, {usd(view.search_usd)} for searches{price})."
    )


def _shares(parts: dict[str, int]) -> str:
    """Their shares, the largest first."""
    whole = sum(parts.values()) or 1
    largest_first = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{name} {tokens / whole:.0%}" for name, tokens in largest_first)


def _table(view: CostsResponse) -> Table:
    headings = (_HEADINGS[view.by], ">Calls", ">Tokens in", ">Cached", ">Tokens out", ">USD")
    columns = len(headings) if is_billed(view.totals) else len(headings) - 1
    rows = [(escape(group.key), *_cells(group)) for group in view.groups]
    rows.append(("[title]total[/]", *_cells(view.totals)))
    return listing(headings[:columns], (row[:columns] for row in rows))


def _cells(sums: CostTotals | CostGroup) -> tuple[str, ...]:
    cost = f"{sums.cost_usd:,.4f}" if is_billed(sums) else NOT_BILLED
    # The maximum cost of calls without a response.
    assumed = f" [warn]+{sums.assumed_usd:,.4f}?[/]" if sums.assumed_usd else ""
    return (
        f"{sums.calls:,}",
        f"{sums.input_tokens:,}",
        f"{sums.cached_tokens / sums.input_tokens:.0%}" if sums.input_tokens else "",
        f"{sums.output_tokens:,}",
        f"{cost}{assumed}",
    )


def is_billed(sums: CostTotals | CostGroup) -> bool:
    """False if there were calls and none cost anything: those of the sandbox, or of an own server."""
    return bool(sums.cost_usd or sums.assumed_usd or not sums.calls)


def _describe_usage(usage: BudgetUsage, *, sandbox: bool = False) -> str:
    """`sandbox`: nothing can be billed. Then, and where nothing was billed so far, there are no dollars."""
    is_free = sandbox or bool(usage.spent_calls and not usage.spent_usd and not usage.reserved_usd)
    text = f"{usd(usage.spent_usd)} and {plural(usage.spent_calls, 'call')} spent"
    if is_free:
        text = f"{plural(usage.spent_calls, 'call')}, {NOT_BILLED}"
    elif usage.reserved_calls:
        text += f", up to {usd(usage.reserved_usd)} in progress"
    caps = []
    if usage.usd_per_day is not None and not is_free:
        caps.append(f"{usd(usage.left_usd or 0.0)} of {usd(usage.usd_per_day)}")
    if usage.calls_per_day is not None:
        caps.append(f"{usage.left_calls or 0:,} of {plural(usage.calls_per_day, 'call')}")
    if not caps:
        return text if is_free else f"{text}; no budget is set"
    return f"{text}; {' and '.join(caps)} left"
