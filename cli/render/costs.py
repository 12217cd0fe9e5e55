"""Money in a terminal."""

from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.render.console import ago, counted
from shared.schemas.costs import AllowanceView, BudgetView, CostGroup, CostsView, CostTotals

NOT_BILLED: Final = "not billed"
_HEADS: Final = {"day": "Day", "agent": "Agent", "phase": "Phase", "model": "Model"}


def show_costs(console: Console, told: CostsView, agent: str | None) -> None:
    """By what was asked for, the sum, and what is left today."""
    if not told.groups:
        console.print(f"Nothing was asked from {told.since} to {told.until}.")
    else:
        console.print(_table(told))
    if told.allowance is None:
        return
    whose = "The installation" if agent is None else f"[agent]{escape(agent)}[/]"
    console.print(f"\n{whose} today: {_left(told.allowance)}", soft_wrap=True)


def show_budget(console: Console, told: BudgetView | AllowanceView) -> None:
    if isinstance(told, AllowanceView):
        console.print(f"The installation today: {_left(told)}", soft_wrap=True)
        return
    console.print(
        f"[agent]{escape(told.agent_name)}[/] today: {_left(told.allowance)}", soft_wrap=True
    )
    if told.resting_until is not None and told.resting_until > datetime.now(UTC):
        console.print(f"  [warn]rests; it wakes {ago(told.resting_until)}[/]")


def usd(amount: float) -> str:
    """In cents where that is enough to tell it by, finer where it is less."""
    return f"{amount:,.2f} USD" if amount >= 1 or amount == 0 else f"{amount:.4f} USD"


def _table(told: CostsView) -> Table:
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    table.add_column(_HEADS[told.by])
    for column in ("Calls", "Tokens in", "Tokens out", "USD"):
        table.add_column(column, justify="right")
    for group in told.groups:
        table.add_row(escape(group.key), *_cells(group))
    table.add_row("[title]in all[/]", *_cells(told.totals))
    return table


def _cells(sums: CostTotals | CostGroup) -> tuple[str, str, str, str]:
    cost = f"{sums.cost_usd:,.4f}" if is_billed(sums) else NOT_BILLED
    # Sendings of which no answer came: what they can have cost at most.
    presumed = f" [warn]+{sums.presumed_usd:,.4f}?[/]" if sums.presumed_usd else ""
    return (
        f"{sums.calls:,}",
        f"{sums.input_tokens:,}",
        f"{sums.output_tokens:,}",
        f"{cost}{presumed}",
    )


def is_billed(sums: CostTotals | CostGroup) -> bool:
    """False where there were calls and none of them cost anything: the sandbox's, or those of a server of one's own."""
    return bool(sums.cost_usd or sums.presumed_usd or not sums.calls)


def _left(allowance: AllowanceView) -> str:
    money = usd(allowance.spent_usd)
    if allowance.spent_calls and not allowance.spent_usd:
        money = f"{money} ({NOT_BILLED})"
    spent = f"{money} and {counted(allowance.spent_calls, 'call')} spent"
    if allowance.reserved_calls:
        spent += f", up to {usd(allowance.reserved_usd)} under way"
    caps = []
    if allowance.usd_per_day is not None:
        caps.append(f"{usd(allowance.left_usd or 0.0)} of {usd(allowance.usd_per_day)}")
    if allowance.calls_per_day is not None:
        caps.append(f"{allowance.left_calls or 0:,} of {counted(allowance.calls_per_day, 'call')}")
    return f"{spent}; " + (f"{' and '.join(caps)} left" if caps else "no budget is set")
