"""`vigil source …` and `vigil verify`: the pages an agent has read, retractions, and checks of its provenance."""

import re
import time
from collections.abc import Callable
from typing import Annotated, Final
from uuid import UUID

import typer

from cli.client.client import Client
from cli.command import Result, api_command, command_group
from cli.errors import BadInputError, CommandError
from cli.options import AgentName, AsJson, Limit
from cli.render.console import counted, err, out, print_json
from cli.render.operations import Activity
from cli.render.provenance import (
    show_breaks,
    show_chain,
    show_retractions,
    show_source,
    show_sources,
    show_summary,
)
from cli.verification import AgentVerified, verify_agent
from shared.schemas.provenance import RetractionResponse

POLL_SECONDS: Final = 0.2

source_commands = command_group(
    "source", "The pages an agent has read: list, show, retract and restore them."
)

OfAgent = Annotated[
    str, typer.Option("--agent", metavar="AGENT", help="Name or id of the agent that read it.")
]
Wait = Annotated[
    bool,
    typer.Option("--wait/--no-wait", help="Wait until everything based on it is re-evaluated."),
]


@source_commands.command("list")
@api_command
def list_sources(
    client: Client,
    agent: AgentName,
    of: Annotated[
        str | None, typer.Option("--of", metavar="URL", help="Only versions of this page.")
    ] = None,
    retracted: Annotated[bool, typer.Option("--retracted", help="Only retracted ones.")] = False,
    limit: Limit = 20,
) -> Result:
    """List the pages an agent has read, most recently fetched first."""
    sources = list(client.sources(agent, limit, page_url=of, retracted=retracted or None))
    return Result(sources, lambda console: show_sources(console, sources, limit=limit))


@source_commands.command("show")
@api_command
def show(
    client: Client,
    agent: AgentName,
    source_id: Annotated[
        UUID, typer.Argument(metavar="ID", help="As `vigil source list` shows it.")
    ],
) -> Result:
    """Show a page as it was when it was fetched."""
    source = client.source(agent, source_id)
    return Result(source, lambda console: show_source(console, source))


@source_commands.command("retract")
@api_command
def retract(
    client: Client,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="URL of a page, for all its versions; or the id of one source.",
        ),
    ],
    agent: OfAgent,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, in a sentence.")],
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Retract a page: what rests only on it is left out, and conclusions drawn from it are in doubt."""
    retractions = [client.retract(agent, source, reason)]
    _report_retractions(client, agent, retractions, wait=wait, as_json=as_json)


@source_commands.command("restore")
@api_command
def restore(
    client: Client,
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE", help="URL of a page, a source's id, or the id of a retraction."
        ),
    ],
    agent: OfAgent,
    wait: Wait = True,
    as_json: AsJson = False,
) -> None:
    """Undo a retraction: everything is as it was before."""
    retractions = restore_source(client, agent, source)
    _report_retractions(client, agent, retractions, wait=wait, as_json=as_json)


@source_commands.command("retractions")
@api_command
def list_retractions(client: Client, agent: AgentName, limit: Limit = 20) -> Result:
    """List retractions with their reasons, and what is in doubt because of them."""
    retractions = list(client.retractions(agent, limit))
    return Result(retractions, lambda console: show_retractions(console, retractions))


@api_command
def verify(
    client: Client,
    conclusion: Annotated[
        UUID | None,
        typer.Argument(metavar="[ADVICE|ANALYSIS]", help="Id of advice or an analysis."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything agents know, not one conclusion.")
    ] = False,
    agent: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="With --all: only this agent, by name or id."),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="ROOT",
            help="With --agent: whether its history still has this root, which an earlier check, an event"
            " iteration.completed or an export shows, and every row is as the history says. Quotes are not read again.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Follow advice or an analysis to its sources, and check every hash and link. No model is called.

    Exits with 0 if everything is intact, 1 if anything is broken, and 2 if the command is invalid.
    `vigil advice AGENT` and `vigil analyses AGENT` show the ids.
    """
    if (conclusion is None) is not everything:
        raise BadInputError("name one advice or analysis by its id, or say --all")
    if agent is not None and not everything:
        raise BadInputError("--agent needs --all: the id of a conclusion already names its agent")
    if since is not None and agent is None:
        raise BadInputError("--since needs --all and --agent: a root is that of one agent's graph")
    if since is not None and re.fullmatch("[0-9a-fA-F]{64}", since) is None:
        raise BadInputError("--since is no root: that is 64 hexadecimal digits")
    if conclusion is not None:
        intact = _verify_conclusion(client, conclusion, as_json=as_json)
    else:
        intact = _verify_agents(client, agent, since and since.lower(), as_json=as_json)
    if not intact:
        raise typer.Exit(1)


def restore_source(client: Client, agent: str, reference: str) -> list[RetractionResponse]:
    """Undoes the active retractions of a URL or source id, or the retraction with this id.

    Raises CommandError if there is none.
    """
    active = list(client.retractions(agent, None, active=True, source=reference))
    if active:
        return [client.restore(agent, retraction.id) for retraction in active]
    try:
        retraction_id = UUID(reference)
    except ValueError:
        raise CommandError(
            f"there is no active retraction of {reference!r}; to list them: "
            f'vigil source retractions "{agent}"'
        ) from None
    return [client.restore(agent, retraction_id)]


def wait_until_propagated(
    client: Client, agent: str, retractions: list[RetractionResponse], say: Callable[[str], None]
) -> list[RetractionResponse]:
    """Returns the retractions when everything based on them is re-evaluated."""
    present = retractions
    while any(retraction.is_pending for retraction in present):
        remaining = sum(retraction.left for retraction in present)
        say(f"re-evaluating what is based on it: {counted(remaining, 'quote')} left")
        time.sleep(POLL_SECONDS)
        present = [client.retraction(agent, retraction.id) for retraction in retractions]
    return present


def _report_retractions(
    client: Client, agent: str, retractions: list[RetractionResponse], *, wait: bool, as_json: bool
) -> None:
    if wait:
        with Activity(err()) as activity:
            retractions = wait_until_propagated(client, agent, retractions, activity.say)
    if as_json:
        print_json(retractions)
    else:
        show_retractions(out(), retractions)


def _verify_conclusion(client: Client, conclusion_id: UUID, *, as_json: bool) -> bool:
    """Shows the chain of a conclusion; returns whether it is intact."""
    verification = client.verification(conclusion_id)
    if as_json:
        print_json(verification)
    else:
        show_chain(out(), verification)
        show_summary(out(), verification)
    return verification.holds


def _verify_agents(client: Client, agent: str | None, since: str | None, *, as_json: bool) -> bool:
    """Checks one agent or all, printing each as it is done; returns whether everything is intact."""
    agents = list(client.agents()) if agent is None else [client.agent(agent)]
    verified: list[AgentVerified] = []
    for details in agents:
        verified.append(verify_agent(client, details, since))
        if not as_json:
            show_breaks(out(), verified[-1])
    if as_json:
        print_json(verified)
    elif not agents:
        out().print("There are no agents, so there is nothing to verify.")
    return all(result.holds for result in verified)
