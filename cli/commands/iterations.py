"""`vigil iterations`, `iteration`, `analyses`, `advice` and `investigations`: an agent's work and its results."""

from enum import StrEnum
from typing import Annotated, Final
from uuid import UUID

import typer

from cli.client.client import Client
from cli.command import Result, api_command
from cli.errors import BadInputError, CommandError
from cli.options import AgentName, Limit
from cli.render.iterations import (
    show_conclusions,
    show_investigations,
    show_iteration,
    show_iterations,
)
from shared.schemas.base import IterationDetails

MAX_NUMBER_DIGITS: Final = 9
"""Of an iteration number; PostgreSQL's integer has ten."""

ConclusionId = Annotated[
    UUID | None, typer.Argument(metavar="ID", help="Only the one with this complete id.")
]


class Status(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    QUIET = "quiet"


@api_command
def iterations(
    client: Client,
    agent: AgentName,
    status: Annotated[Status | None, typer.Option(help="Only with this status.")] = None,
    limit: Limit = 20,
) -> Result:
    """List an agent's iterations, newest first."""
    rows = list(client.iterations(agent, limit, status=status))
    return Result(rows, lambda console: show_iterations(console, rows, limit=limit))


@api_command
def iteration(
    client: Client,
    agent: AgentName,
    number: Annotated[
        str | None,
        typer.Argument(metavar="NUMBER", help="Its number or id.", show_default="the newest"),
    ] = None,
    show_messages: Annotated[
        bool,
        typer.Option(
            "--transcript", help="Also the model's messages and the results of its tools."
        ),
    ] = False,
) -> Result:
    """Show an iteration: its plan, its steps and their results."""
    details = _load_iteration(client, agent, number)
    return Result(
        details, lambda console: show_iteration(console, details, show_messages=show_messages)
    )


@api_command
def analyses(
    client: Client, agent: AgentName, conclusion_id: ConclusionId = None, limit: Limit = 10
) -> Result:
    """Show an agent's analyses, newest first, each with its citations."""
    return _conclusions(client, "analyses", agent, conclusion_id, limit)


@api_command
def advice(
    client: Client, agent: AgentName, conclusion_id: ConclusionId = None, limit: Limit = 10
) -> Result:
    """Show an agent's advice, newest first, each with the analyses it is based on."""
    return _conclusions(client, "advice", agent, conclusion_id, limit)


@api_command
def investigations(
    client: Client,
    agent: AgentName,
    only_open: Annotated[
        bool, typer.Option("--open", help="Only those without an answer yet.")
    ] = False,
    limit: Limit = 20,
) -> Result:
    """Show the data that an agent's analyses were missing, newest first, and what came of it."""
    requests = list(client.investigations(agent, only_open=only_open, limit=limit))
    return Result(
        requests,
        lambda console: show_investigations(console, requests, only_open=only_open, limit=limit),
    )


def _conclusions(
    client: Client, kind: str, agent: str, conclusion_id: UUID | None, limit: int
) -> Result:
    """`kind` is `analyses` or `advice`. One that is named by its id is printed as an object, not a list."""
    if conclusion_id is not None:
        conclusions = [client.conclusion(agent, kind, conclusion_id)]
    elif kind == "advice":
        conclusions = list(client.advice(agent, limit))
    else:
        conclusions = list(client.analyses(agent, limit))
    noun = "analysis" if kind == "analyses" else kind
    return Result(
        conclusions if conclusion_id is None else conclusions[0],
        lambda console: show_conclusions(console, conclusions, noun=noun, limit=limit),
    )


def _load_iteration(client: Client, agent: str, reference: str | None) -> IterationDetails:
    if reference is None:
        newest = next(iter(client.iterations(agent, 1)), None)
        if newest is None:
            raise CommandError(f"{agent} has had no iteration yet: vigil run {agent!r}")
        return client.iteration(newest.id)
    number = reference.removeprefix("#")
    if number.isdecimal() and len(number) <= MAX_NUMBER_DIGITS:
        return client.iteration_numbered(agent, int(number))
    try:
        return client.iteration(UUID(reference))
    except ValueError as error:
        raise BadInputError(
            f"{reference!r} is neither the number nor the id of an iteration"
        ) from error
