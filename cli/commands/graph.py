"""`vigil graph`: what an agent knows."""

from typing import Annotated

import typer

from cli.options import AgentName, AsJson, Data, Url


def graph(
    agent: AgentName,
    type_name: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Nodes of this type only.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Nodes and edges to show.")] = 20,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Show an agent's knowledge graph: its types, and the nodes and edges touched last."""
    from cli.client import Client
    from cli.errors import CommandError
    from cli.installation import api_url
    from cli.show.console import out
    from cli.show.graph import show_graph
    from cli.show.json import print_json

    with Client(api_url(url, data)) as client:
        found = client.graph(agent, type_name=type_name, limit=limit)
        known = {each.name for each in found.node_types}
        if type_name and type_name not in known:
            listed = ", ".join(sorted(known)) or "none yet"
            raise CommandError(f"there is no node type {type_name!r}; there are: {listed}")
        if as_json:
            print_json(found)
        else:
            show_graph(out(), client.agent(agent), found)
