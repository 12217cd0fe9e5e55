"""`vigil verify`: whether what an agent says can be proved, down to the bytes of the pages."""

from typing import Annotated
from uuid import UUID

import typer

from cli.options import AsJson, Data, Url


def verify(
    conclusion: Annotated[
        UUID | None,
        typer.Argument(metavar="[ADVICE|ANALYSIS]", help="Id of advice or an analysis."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All that agents know, not one conclusion.")
    ] = False,
    agent: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="With --all: of this agent only, by name or id."),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Follow advice or an analysis to the pages it rests on, and check every hash and link; no model is asked.

    Ends with 0 where everything holds, with 1 where anything is broken, and with 2 where the command is wrong.
    `vigil advice AGENT` and `vigil analyses AGENT` tell the ids.
    """
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.errors import BadInputError
    from cli.verifying import verify_all, verify_one

    if (conclusion is None) is not everything:
        raise BadInputError("name one advice or analysis by its id, or say --all")
    if agent is not None and not everything:
        raise BadInputError("--agent goes with --all: the id of a conclusion says whose it is")
    with Client(api_url(url, data)) as client:
        if conclusion is not None:
            holds = verify_one(client, conclusion, as_json=as_json)
        else:
            holds = verify_all(client, agent, as_json=as_json)
    if not holds:
        raise typer.Exit(1)
