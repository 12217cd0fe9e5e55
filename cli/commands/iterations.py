"""`vigil iterations`, `iteration`, `analyses`, `advice` and `investigations`: an agent's work and its results."""

from collections.abc import Iterable
from enum import StrEnum
from functools import partial
from typing import Annotated, Final, Literal
from uuid import UUID

import typer

from cli.client.client import Client
from cli.command import Result, api_command
from cli.errors import BadInputError, CommandError
from cli.options import AgentName, Limit
from cli.references import ADVICE_TYPE, ANALYSIS_TYPE, Named, find_id, find_node, is_id_prefix
from cli.render.console import quoted
from cli.render.iterations import (
    show_conclusions,
    show_investigations,
    show_iteration,
    show_iterations,
)
from shared.schemas.base import ConclusionResponse, IterationDetails
from shared.schemas.conclusions import InvestigationRequestResponse
from shared.schemas.provenance import DoubtResponse

MAX_NUMBER_DIGITS: Final = 9
"""Of an iteration number; PostgreSQL's integer has ten."""

Conclusion = Annotated[
    str | None, typer.Argument(metavar="NAME", help="Show only this one (name or id).")
]
Doubted = Annotated[bool, typer.Option("--doubted", help="Show only those in doubt.")]


class Status(StrEnum):
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    QUIET = "quiet"


@api_command
def iterations(
    client: Client,
    agent: AgentName,
    status: Annotated[
        Status | None, typer.Option(help="Show only iterations with this status.")
    ] = None,
    limit: Limit = 20,
) -> Result:
    """List an agent's iterations, newest first."""
    rows = list(client.iterations(agent, limit, status=status))
    return Result(rows, partial(show_iterations, limit=limit))


@api_command
def iteration(
    client: Client,
    agent: AgentName,
    number: Annotated[
        str | None,
        typer.Argument(
            metavar="NUMBER", help="Number or id of the iteration.", show_default="the newest"
        ),
    ] = None,
    show_messages: Annotated[
        bool,
        typer.Option("--transcript", help="Include the model's messages and tool results."),
    ] = False,
) -> Result:
    """Show an iteration: its plan, its steps and their results."""
    details = _load_iteration(client, agent, number)
    return Result(details, partial(show_iteration, show_messages=show_messages))


@api_command
def analyses(
    client: Client,
    agent: AgentName,
    conclusion: Conclusion = None,
    doubted: Doubted = False,
    limit: Limit = 10,
) -> Result:
    """Show an agent's analyses, newest first, each with its citations.

    Analyses in doubt come first, with the time and the reason. --doubted shows only these.
    """
    return _conclusions(client, "analyses", agent, conclusion, limit, doubted=doubted)


@api_command
def advice(
    client: Client,
    agent: AgentName,
    conclusion: Conclusion = None,
    doubted: Doubted = False,
    limit: Limit = 10,
) -> Result:
    """Show an agent's advice, newest first, with the analyses that support it.

    Advice in doubt comes first, with the time and the reason. --doubted shows only this.
    """
    return _conclusions(client, "advice", agent, conclusion, limit, doubted=doubted)


@api_command
def investigations(
    client: Client,
    agent: AgentName,
    only_open: Annotated[
        bool, typer.Option("--open", help="Show only unanswered requests.")
    ] = False,
    limit: Limit = 20,
) -> Result:
    """Show an agent's investigation requests (data that its analyses lacked) and their state, newest first."""
    path = client.agent_path(agent, "investigation-requests")
    pages = client.pages(InvestigationRequestResponse, path, limit, open=only_open or None)
    requests = list(pages)
    return Result(
        requests,
        partial(show_investigations, only_open=only_open, limit=limit),
    )


def _conclusions(
    client: Client,
    kind: Literal["analyses", "advice"],
    agent: str,
    reference: str | None,
    limit: int,
    *,
    doubted: bool,
) -> Result:
    """`kind` is `analyses` or `advice`. One that is named is printed as an object, not a list."""
    noun = "analysis" if kind == "analyses" else kind
    if reference is not None:
        type_name = ADVICE_TYPE if kind == "advice" else ANALYSIS_TYPE
        node_id = find_node(client, agent, reference, type_name)
        conclusion = client.get(ConclusionResponse, client.agent_path(agent, kind, node_id))
        loaded = [conclusion]
    else:
        conclusion = None
        newest = client.conclusions(agent, kind, None if doubted else limit)
        loaded = select_conclusions(newest, limit, doubted=doubted)
    doubts = {
        each.id: doubts_of(client, each.id) for each in loaded if each.doubted_since is not None
    }
    return Result(
        conclusion or loaded,
        lambda console, _: show_conclusions(
            console, loaded, noun=noun, limit=limit, doubts=doubts, only_doubted=doubted
        ),
    )


def select_conclusions(
    newest_first: Iterable[ConclusionResponse], limit: int, *, doubted: bool
) -> list[ConclusionResponse]:
    """Those in doubt, then the newest others; `doubted` leaves these out. At most `limit`."""
    rows = list(newest_first)
    in_doubt = [each for each in rows if each.doubted_since is not None]
    others = [] if doubted else [each for each in rows if each.doubted_since is None]
    return [*in_doubt, *others][:limit]


def doubts_of(client: Client, conclusion_id: UUID) -> list[DoubtResponse]:
    """Why the conclusion is in doubt; empty if the API cannot say."""
    try:
        verification = client.verification(conclusion_id)
    except CommandError:
        return []
    return [
        doubt
        for conclusion in verification.conclusions
        if conclusion.id == conclusion_id
        for doubt in conclusion.doubts
    ]


def _load_iteration(client: Client, agent: str, reference: str | None) -> IterationDetails:
    if reference is None:
        newest = next(iter(client.iterations(agent, 1)), None)
        if newest is None:
            name = client.agent(agent).name
            raise CommandError(f"{name} has had no iteration yet: vigil run {quoted(name)}")
        return client.iteration(newest.id)
    number = reference.removeprefix("#")
    if number.isdecimal() and len(number) <= MAX_NUMBER_DIGITS:
        return client.get(IterationDetails, client.agent_path(agent, "iterations", int(number)))
    if not is_id_prefix(reference):
        raise BadInputError(f"{reference!r} is neither the number nor the id of an iteration")
    iteration_id = find_id(
        "iteration",
        reference,
        client.iterations(agent, None),
        lambda each: Named(each.id, [f"#{each.number}"]),
        see=f"vigil iterations {agent}",
    )
    return client.iteration(iteration_id)
