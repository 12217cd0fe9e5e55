"""`vigil investigations`: what an agent lacks for its conclusions."""

from typing import Annotated

import typer

from cli.options import AgentName, AsJson, Data, Url


def investigations(
    agent: AgentName,
    only_open: Annotated[
        bool, typer.Option("--open", help="Only those that nobody has answered yet.")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, help="How many to show.")] = 20,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Show the data that an agent's Analyzers lacked, the newest first, and what became of it."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.iterations import show_investigations

    with Client(api_url(url, data)) as client:
        found = list(client.investigations(agent, only_open=only_open, limit=limit))
    if as_json:
        print_json(found)
    else:
        show_investigations(out(), found, only_open=only_open, limit=limit)
