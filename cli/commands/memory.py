"""`vigil memory …`: what an agent remembers of what it was told."""

from typing import Annotated
from uuid import UUID

import typer

from cli.options import AgentName, AsJson, Data, Url


def list_all(
    agent: AgentName,
    forgotten: Annotated[
        bool, typer.Option("--forgotten", help="Those that were forgotten.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """List the wishes and facts that an agent was told."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.agents import show_memories
    from cli.render.console import out, print_json

    with Client(api_url(url, data)) as client:
        found = list(client.memories(agent, forgotten=forgotten))
    if as_json:
        print_json(found)
    else:
        show_memories(out(), found, forgotten=forgotten)


def add(
    agent: AgentName,
    content: Annotated[
        str, typer.Argument(metavar="TEXT", help="The wish or fact, in a sentence.")
    ],
    fact: Annotated[
        bool, typer.Option("--fact", help="It is something that is so, and no wish.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Tell an agent a wish or a fact; its next plan heeds it."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import print_json

    with Client(api_url(url, data)) as client:
        memory = client.remember(agent, "fact" if fact else "wish", content)
    if as_json:
        print_json(memory)
    else:
        typer.echo(f"Remembered as a {memory.kind}, {memory.id}; the next plan heeds it.")


def forget(
    agent: AgentName,
    memory_id: Annotated[
        UUID, typer.Argument(metavar="ID", help="As `vigil memory list` shows it.")
    ],
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Have an agent forget a wish or a fact."""
    import json

    from cli.client.client import Client
    from cli.config.discovery import api_url

    with Client(api_url(url, data)) as client:
        client.forget(agent, memory_id)
    typer.echo(json.dumps({"forgotten": str(memory_id)}) if as_json else "Forgotten.")
