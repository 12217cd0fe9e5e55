"""`vigil iterations`, `vigil iteration`: what an agent did, and all that happened in one turn."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import AgentName, AsJson, Data, Url

if TYPE_CHECKING:
    from cli.client.client import Client
    from shared.schemas.base import IterationDetails


MOST_DIGITS = 9
"""Of the number of an iteration; PostgreSQL's integer has ten."""


class Status(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


def iterations(
    agent: AgentName,
    status: Annotated[Status | None, typer.Option(help="Of this status only.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many to show.")] = 20,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """List an agent's iterations, the newest first."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.iterations import show_iterations

    with Client(api_url(url, data)) as client:
        found = list(client.iterations(agent, limit, status=status))
    if as_json:
        print_json(found)
    else:
        show_iterations(out(), found, limit=limit)


def iteration(
    agent: AgentName,
    number: Annotated[
        str | None,
        typer.Argument(metavar="NUMBER", help="Its number or id.", show_default="the newest"),
    ] = None,
    said: Annotated[
        bool, typer.Option("--said", help="Also what the model said, and what its tools found.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Show an iteration: its plan, its steps, and what was said in them."""
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.render.console import out, print_json
    from cli.render.iterations import show_iteration

    with Client(api_url(url, data)) as client:
        found = _found(client, agent, number)
    if as_json:
        print_json(found)
    else:
        show_iteration(out(), found, said=said)


def _found(client: "Client", agent: str, reference: str | None) -> "IterationDetails":
    from uuid import UUID

    from cli.errors import BadInputError, CommandError

    if reference is None:
        newest = next(iter(client.iterations(agent, 1)), None)
        if newest is None:
            raise CommandError(f"{agent} has had no iteration yet: vigil run {agent!r}")
        return client.iteration(newest.id)
    number = reference.removeprefix("#")
    if number.isdecimal() and len(number) <= MOST_DIGITS:
        return client.iteration_numbered(agent, int(number))
    try:
        return client.iteration(UUID(reference))
    except ValueError as error:
        raise BadInputError(
            f"{reference!r} is neither a number nor an id of an iteration"
        ) from error
