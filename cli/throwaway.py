"""A throwaway installation that a command starts, watches and ends: what `vigil demo` and `vigil try-model` share."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from cli.client.client import Client
from cli.local.data_directory import DataDirectory
from cli.local.errors import LocalError
from cli.local.supervisor import Stack
from cli.render.agents import show_made
from cli.render.operations import Activity, show_happened
from cli.watching.configuring import until_configured
from cli.watching.narrator import Narrator
from cli.watching.nudges import Nudges
from cli.watching.watch import Watch
from shared.schemas.base import AgentDetails

INTERVAL_SECONDS: Final = 24 * 3600
"""Longer than any such run: its iterations are asked for."""


@contextmanager
def throwaway_directory(keep: Path | None) -> Iterator[DataDirectory]:
    """A data directory that is removed at the end; `keep` names one that stays."""
    if keep is not None:
        yield DataDirectory(keep)
        return
    root = Path(tempfile.mkdtemp(prefix="vigil-demo-"))
    try:
        yield DataDirectory(root)
    except LocalError:
        raise  # its message points at the logs, which are kept for that
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    shutil.rmtree(root, ignore_errors=True)


@contextmanager
def watched(
    stack: Stack, console: Console, deadline: float, meanwhile: Callable[[], object] = lambda: None
) -> Iterator[Watch]:
    """A view of the installation that restarts what dies; `meanwhile` is called between two looks."""

    def look_after() -> None:
        show_happened(console, stack.look_after())
        meanwhile()

    with Client(stack.api) as client, Nudges(stack.nats) as nudges:
        yield Watch(client, nudges, Narrator(console), deadline, meanwhile=look_after)


def created(
    console: Console,
    watch: Watch,
    mission: str,
    on_ordered: Callable[[AgentDetails], object] = lambda _: None,
) -> AgentDetails:
    """A new agent with its prompts and types, or with what kept it from having them.

    `on_ordered` is given the agent before its configuration begins to be waited for.
    """
    client = watch.client
    ordered = client.create_agent(mission, interval_seconds=INTERVAL_SECONDS)
    on_ordered(ordered)
    console.print(f"\n[title]{escape(ordered.name)}[/]\n  {escape(ordered.mission)}\n")

    def say(what: str) -> None:
        activity.say(what)
        watch.meanwhile()

    with Activity(console) as activity:
        agent = until_configured(client, ordered, say, lambda: watch.out_of_time)
    if agent.status == "ready" and agent.configuration is not None:
        show_made(console, agent, client.types(str(agent.id)))
    if agent.fault:
        console.print(f"  [bad]✗[/] {escape(agent.fault)}", soft_wrap=True)
    return agent
