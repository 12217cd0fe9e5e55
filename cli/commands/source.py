"""`vigil source …`: the pages that an agent has read, and those that are not believed."""

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from cli.options import AgentName, AsJson, Data, Url

if TYPE_CHECKING:
    from cli.client.client import Client
    from shared.schemas.provenance import RetractionView

Limit = Annotated[int, typer.Option(min=1, help="How many to show.")]
OfAgent = Annotated[
    str, typer.Option("--agent", metavar="AGENT", help="Name or id of the agent that has read it.")
]
Wait = Annotated[
    bool,
    typer.Option("--wait/--no-wait", help="Wait until all that rests on it has been gone through."),
]


def list_all(
    agent: AgentName,
    of: Annotated[
        str | None, typer.Option("--of", metavar="URL", help="Versions of this page only.")
    ] = None,
    retracted: Annotated[
        bool, typer.Option("--retracted", help="Those that are retracted only.")
    ] = False,
    limit: Limit = 20,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """List the pages that an agent has read, those fetched last first."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.provenance import show_sources

    with Client(api_url(url, data)) as client:
        found = list(client.sources(agent, limit, page_url=of, retracted=retracted or None))
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
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.provenance import show_source

    with Client(api_url(url, data)) as client:
        found = client.source(agent, source_id)
    if as_json:
        print_json(found)
    else:
        show_source(out(), found)


def retractions(
    agent: AgentName,
    limit: Limit = 20,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """List what was retracted and why, and what is in doubt because of it."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.provenance import show_retractions

    with Client(api_url(url, data)) as client:
        found = list(client.retractions(agent, limit))
    if as_json:
        print_json(found)
    else:
        show_retractions(out(), found)


def retract(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="URL of a page, for all its versions; or a source's id, for one."
        ),
    ],
    agent: OfAgent,
    because: Annotated[str, typer.Option(metavar="TEXT", help="Why, in a sentence.")],
    wait: Wait = True,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Have an agent believe a page no more: what rests on it alone is left out, what is concluded from it is in doubt."""
    from cli.client.client import Client
    from cli.config.discovery import api_url

    with Client(api_url(url, data)) as client:
        asked = [client.retract(agent, source, because)]
        _tell(client, agent, asked, wait=wait, as_json=as_json)


def restore(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="URL of a page, a source's id, or the id of a retraction."
        ),
    ],
    agent: OfAgent,
    wait: Wait = True,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Have an agent believe a page again: all is as it was before."""
    from cli import retracting
    from cli.client.client import Client
    from cli.config.discovery import api_url

    with Client(api_url(url, data)) as client:
        asked = retracting.restore(client, agent, source)
        _tell(client, agent, asked, wait=wait, as_json=as_json)


def _tell(
    client: "Client",
    agent: str,
    asked: "list[RetractionView]",
    *,
    wait: bool,
    as_json: bool,
) -> None:
    from cli.render.console import err, out, print_json
    from cli.render.operations import Activity
    from cli.render.provenance import show_retractions
    from cli.retracting import until_gone_through

    if wait:
        with Activity(err()) as activity:
            asked = until_gone_through(client, agent, asked, activity.say)
    if as_json:
        print_json(asked)
    else:
        show_retractions(out(), asked)
