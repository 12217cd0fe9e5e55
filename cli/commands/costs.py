"""`vigil costs` and `vigil budget`: what was spent, and what may be spent in a day."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Self

import typer

from cli.client.client import Client
from cli.command import Result, api_command
from cli.config.durations import parse_day
from cli.errors import BadInputError
from cli.options import finite
from cli.render.costs import show_budget, show_costs
from shared.schemas.costs import BudgetResponse, BudgetUsage


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
    view = client.costs(agent, by=by.value, since=first_day)
    name = agent and client.agent_reference(agent)
    return Result(
        view, lambda console: show_costs(console, view, name, sandbox=client.is_sandbox())
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
    change = BudgetChange.from_options(
        agent, of_installation=of_installation, usd=usd, calls=calls, none=none
    )
    view = change.apply(client)
    return Result(view, lambda console: show_budget(console, view, sandbox=client.is_sandbox()))


@dataclass(frozen=True)
class BudgetChange:
    """New caps of an agent, or of the installation where `agent` is None. A cap that is None is not changed."""

    agent: str | None
    usd: float | None = None
    calls: int | None = None
    none: bool = False
    """Remove both caps."""

    @classmethod
    def from_options(
        cls,
        agent: str | None,
        *,
        of_installation: bool,
        usd: float | None,
        calls: int | None,
        none: bool,
    ) -> Self:
        """Raises BadInputError if the options contradict each other."""
        if (agent is None) != of_installation:
            raise BadInputError("name either an agent or --installation")
        if none and (usd is not None or calls is not None):
            raise BadInputError(
                "--none removes both caps and cannot be combined with --usd or --calls"
            )
        return cls(agent, usd, calls, none)

    @property
    def changes_anything(self) -> bool:
        return self.none or self.usd is not None or self.calls is not None

    def caps(self, present: BudgetUsage) -> dict[str, float | int | None]:
        """Both caps after the change, as the API takes them."""
        if self.none:
            return {"usd_per_day": None, "calls_per_day": None}
        usd = present.usd_per_day if self.usd is None else self.usd
        calls = present.calls_per_day if self.calls is None else self.calls
        return {"usd_per_day": usd, "calls_per_day": calls}

    def apply(self, client: Client) -> BudgetResponse | BudgetUsage:
        """Sets the caps if there is anything to change; returns the budget afterwards."""
        if self.agent is None:
            usage = client.installation_budget()
            if not self.changes_anything:
                return usage
            return client.set_installation_budget(self.caps(usage))
        budget = client.budget(self.agent)
        if not self.changes_anything:
            return budget
        return client.set_budget(str(budget.agent_id), self.caps(budget.usage))
