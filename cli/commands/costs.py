"""`vigil costs`: where the money went."""

from enum import StrEnum
from typing import Annotated

import typer

from cli.options import AsJson, Data, Url


class By(StrEnum):
    DAY = "day"
    AGENT = "agent"
    PHASE = "phase"
    MODEL = "model"


def costs(
    agent: Annotated[
        str | None,
        typer.Argument(metavar="AGENT", help="Name or id of the agent; without it, all agents."),
    ] = None,
    by: Annotated[By, typer.Option(help="What to sum up by.")] = By.DAY,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The first day: 2026-01-31, or how long ago it is (7d).",
            show_default="29 days ago",
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Show what calls of the model and the search service have cost, and what is left of today's budget."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.config.durations import day_of
    from cli.render.console import out, print_json
    from cli.render.costs import show_costs

    first = None if since is None else day_of(since)
    with Client(api_url(url, data)) as client:
        told = client.costs(agent, by=by.value, since=first)
    if as_json:
        print_json(told)
    else:
        show_costs(out(), told, agent)
