"""`vigil source …`: the pages that an agent has read."""

from typing import Annotated
from uuid import UUID

import typer

from cli.options import AgentName, AsJson, Data, Url


def list_all(
    agent: AgentName,
    address: Annotated[
        str | None,
        typer.Option("--address", metavar="URL", help="Versions of the page there only."),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to show.")] = 20,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """List the pages that an agent has read, those fetched last first."""
    from cli.client import Client
    from cli.installation import api_url
    from cli.show.console import out
    from cli.show.json import print_json
    from cli.show.sources import show_sources

    with Client(api_url(url, data)) as client:
        found = list(client.sources(agent, limit, url=address))
    if as_json:
        print_json(found)
    else:
        show_sources(out(), found, limit=limit)


def show(
    agent: AgentName,
    source_id: Annotated[
        UUID, typer.Argument(metavar="ID", help="As `vigil source list` shows it.")
    ],
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Show a page as it was when it was fetched."""
    from cli.client import Client
    from cli.installation import api_url
    from cli.show.console import out
    from cli.show.json import print_json
    from cli.show.sources import show_source

    with Client(api_url(url, data)) as client:
        found = client.source(agent, source_id)
    if as_json:
        print_json(found)
    else:
        show_source(out(), found)
