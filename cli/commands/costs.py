"""`vigil costs` and `vigil budget`: what was spent, and what may be spent in a day."""

from enum import StrEnum
from typing import Annotated

import typer

from cli.client.client import Client
from cli.command import Result, api_command
from cli.config.durations import parse_day
from cli.errors import BadInputError
from cli.options import finite
from cli.render.costs import show_budget, show_costs
from shared.schemas.costs import BudgetResponse, BudgetUsage, CostsResponse


class By(StrEnum):
    DAY = "day"
    AGENT = "agent"
    PHASE = "phase"
    MODEL = "model"


@api_command
def costs(
    client: Client,
    agent: Annotated[
        str | None,
        typer.Argument(metavar="AGENT", help="Name or id of the agent. Default: all agents."),
    ] = None,
    by: Annotated[By, typer.Option(help="Group costs by this.")] = By.DAY,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="First day, such as 2026-01-31, or days back from today, such as 7d.",
            show_default="29 days ago",
        ),
    ] = None,
) -> Result:
    """Show what model and search calls cost, and how much of today's budget is left."""
    first_day = None if since is None else parse_day(since)
    name = agent and client.agent_name(agent)
    path = "/costs" if agent is None else client.agent_path(agent, "costs")
    query = {"by": by.value, "since": first_day and first_day.isoformat()}
    view = client.get(CostsResponse, path, **query)
    while view.next is not None:
        more = client.get(CostsResponse, path, **query, cursor=view.next)
        view = more.model_copy(update={"groups": [*view.groups, *more.groups]})
    return Result(
        view, lambda console, _: show_costs(console, view, name, sandbox=client.is_sandbox())
    )


@api_command
def budget(
    client: Client,
    agent: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="Name or id of the agent.")
    ] = None,
    of_installation: Annotated[
        bool, typer.Option("--installation", help="Use the budget of the whole installation.")
    ] = False,
    usd: Annotated[
        float | None,
        typer.Option("--usd", min=0, callback=finite, metavar="USD", help="Daily cap in USD."),
    ] = None,
    calls: Annotated[
        int | None, typer.Option("--calls", min=0, metavar="N", help="Daily cap on calls.")
    ] = None,
    none: Annotated[bool, typer.Option("--none", help="Remove the caps.")] = False,
) -> Result:
    """Show or set the daily budget (UTC) of an agent or of the whole installation.

    Caps that you do not name are not changed. An agent that has used up its budget is suspended until the next day, or until
    the budget is raised.
    """
    if (agent is None) != of_installation:
        raise BadInputError("name either an agent or --installation")
    if none and (usd is not None or calls is not None):
        raise BadInputError("--none removes both caps and cannot be combined with --usd or --calls")
    path = "/budget" if agent is None else client.agent_path(agent, "budget")
    shape: type[BudgetResponse | BudgetUsage] = BudgetUsage if agent is None else BudgetResponse
    view = client.get(shape, path)
    if none or usd is not None or calls is not None:
        caps = new_caps(
            view if isinstance(view, BudgetUsage) else view.usage, usd, calls, none=none
        )
        view = client.put(shape, path, caps)
    return Result(view, lambda console, _: show_budget(console, view, sandbox=client.is_sandbox()))


def new_caps(
    present: BudgetUsage, usd: float | None, calls: int | None, *, none: bool
) -> dict[str, float | int | None]:
    """Both caps, as the API takes them. One that is None stays as it is; `none` removes both."""
    if none:
        return {"usd_per_day": None, "calls_per_day": None}
    return {
        "usd_per_day": present.usd_per_day if usd is None else usd,
        "calls_per_day": present.calls_per_day if calls is None else calls,
    }
