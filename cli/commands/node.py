"""`vigil node …`: nodes that are one thing made one, and made two again."""

from typing import Annotated
from uuid import UUID

import typer

from cli.options import AgentName, AsJson, Data, Url

Limit = Annotated[int, typer.Option(min=1, help="How many to show.")]


def merge(
    agent: AgentName,
    kept: Annotated[str, typer.Argument(metavar="KEPT", help="Name or id of the node that stays.")],
    gone: Annotated[
        str, typer.Argument(metavar="GONE", help="Name or id of the one that goes into it.")
    ],
    because: Annotated[
        str, typer.Option("--because", metavar="TEXT", help="Why they are one, in a sentence.")
    ],
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Make two nodes one: names, evidence and edges of GONE become those of KEPT. It can be undone."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.graphing import node_id
    from cli.render.console import out, print_json
    from cli.render.graph import show_made

    with Client(api_url(url, data)) as client:
        made = client.merge(
            agent,
            kept=node_id(client, agent, kept),
            gone=node_id(client, agent, gone),
            reason=because,
        )
    if as_json:
        print_json(made)
    else:
        show_made(out(), agent, made)


def unmerge(
    agent: AgentName,
    merge_id: Annotated[
        UUID, typer.Argument(metavar="MERGE", help="As `vigil node merges` shows it.")
    ],
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Make two nodes again of what a merge made one; what was learned since stays with the one that was kept."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.graph import show_undone

    with Client(api_url(url, data)) as client:
        undone = client.undo_merge(agent, merge_id)
    if as_json:
        print_json(undone)
    else:
        show_undone(out(), undone)


def merges(
    agent: AgentName,
    limit: Limit = 20,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """List which nodes were made one, the newest first."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.graph import show_merges

    with Client(api_url(url, data)) as client:
        found = list(client.merges(agent, limit))
    if as_json:
        print_json(found)
    else:
        show_merges(out(), found)


def doubles(
    agent: AgentName,
    limit: Limit = 20,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """List nodes that may be one thing, by their names: among those touched last first."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.graph import show_doubles

    with Client(api_url(url, data)) as client:
        found = list(client.doubles(agent, limit))
    if as_json:
        print_json(found)
    else:
        show_doubles(out(), found)
