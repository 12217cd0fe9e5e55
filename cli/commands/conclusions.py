"""`vigil analyses`, `vigil advice`: what an agent concluded."""

from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from cli.client.target import Address
from cli.options import AgentName, AsJson, Data, Url

One = Annotated[UUID | None, typer.Argument(metavar="ID", help="Only the one of this id, in full.")]
Limit = Annotated[int, typer.Option(min=1, help="How many to show.")]


def analyses(
    agent: AgentName,
    one: One = None,
    limit: Limit = 10,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Show an agent's analyses, the newest first, each with what it cites."""
    _conclusions("analyses", agent, one, limit, as_json, url, data)


def advice(
    agent: AgentName,
    one: One = None,
    limit: Limit = 10,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Show an agent's advice, the newest first, each with the analyses that it stands on."""
    _conclusions("advice", agent, one, limit, as_json, url, data)


def _conclusions(
    kind: str,
    agent: str,
    one: UUID | None,
    limit: int,
    as_json: bool,
    url: Address | None,
    data: Path | None,
) -> None:
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.iterations import show_conclusions

    with Client(api_url(url, data)) as client:
        if one is not None:
            found = [client.conclusion(agent, kind, one)]
        elif kind == "advice":
            found = list(client.advice(agent, limit))
        else:
            found = list(client.analyses(agent, limit))
    if as_json:
        print_json(found[0] if one is not None else found)
    else:
        show_conclusions(out(), found, noun="analysis" if kind == "analyses" else kind, limit=limit)
