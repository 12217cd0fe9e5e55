"""Waiting until an agent is made of its mission."""

import time
from collections.abc import Callable
from typing import Final

import typer
from rich.markup import escape

from cli.client.client import Client
from cli.errors import AwayError, CommandError
from cli.render.agents import configuring, show_created, show_ordered
from cli.render.console import err, out, print_json
from cli.render.operations import Activity
from shared.schemas.base import AgentDetails

LOOK_SECONDS: Final = 0.2
INTERRUPTED: Final = 130


def until_configured(
    client: Client,
    agent: AgentDetails,
    say: Callable[[str], None],
    out_of_time: Callable[[], bool] = lambda: False,
) -> AgentDetails:
    """The agent when the configuration that was asked for last has ended, well or not; or time is up."""
    while not out_of_time():
        try:
            found = client.configuration(str(agent.id))
            if found.ended_at is not None:
                return client.agent(str(agent.id))
            say(configuring(agent.name, found))
        except AwayError:
            say("waiting for the api")
        time.sleep(LOOK_SECONDS)
    return client.agent(str(agent.id))


def tell_made(client: Client, ordered: AgentDetails, *, wait: bool, as_json: bool) -> None:
    """What was made, or on its way. Raises CommandError, with what to do, where it failed."""
    agent = ordered
    if wait:
        try:
            with Activity(err()) as activity:
                agent = until_configured(client, ordered, activity.say)
        except KeyboardInterrupt:
            err().print(f"It goes on without you: vigil agent show {ordered.id}", soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print_json(agent)
    elif not wait:
        show_ordered(out(), agent)
    elif agent.fault is None or is_usable(agent):
        show_created(out(), agent, client.types(str(agent.id)))
    if agent.fault is None:
        return
    if not is_usable(agent):
        raise CommandError(f"{agent.name}: {agent.fault}")
    err().print(f"[warn]![/] {escape(agent.fault)}", soft_wrap=True)


def is_usable(agent: AgentDetails) -> bool:
    """Whether its last configuration has ended well, be it with what is built in."""
    last = agent.configuration
    return agent.status == "ready" and last is not None and last.status == "completed"
