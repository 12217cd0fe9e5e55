"""A temporary installation with one agent, which a command starts, watches and ends: `vigil demo` and `try-model`."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from cli.client.client import Client
from cli.local.data_directory import DataDirectory
from cli.local.errors import LocalError
from cli.local.supervisor import Stack
from cli.render.agents import show_made
from cli.render.operations import Activity, show_process_events
from cli.watch import IterationWatch, ProgressPrinter, wait_until_configured
from shared.schemas.base import AgentDetails, IterationDetails

INTERVAL_SECONDS: Final = 24 * 3600
"""Longer than any run: iterations are started one by one."""


@contextmanager
def temporary_directory(
    keep: Path | None, uninterrupted: Callable[[], AbstractContextManager[None]] = nullcontext
) -> Iterator[DataDirectory]:
    """A data directory that is deleted at the end, unless `keep` names one.

    `uninterrupted` defers signals, so that a directory that was made is deleted whole.
    """
    if keep is not None:
        yield DataDirectory(keep)
        return
    is_kept, root = False, None
    try:
        with uninterrupted():
            root = Path(tempfile.mkdtemp(prefix="vigil-demo-"))
        yield DataDirectory(root)
    except LocalError:
        is_kept = True  # its message refers to the logs
        raise
    finally:
        if root is not None and not is_kept:
            with uninterrupted():
                shutil.rmtree(root, ignore_errors=True)


@contextmanager
def watching(
    stack: Stack, console: Console, deadline: float, meanwhile: Callable[[], object] = lambda: None
) -> Iterator[IterationWatch]:
    """Watches the installation and restarts processes that die; `meanwhile` is called at every poll."""

    def look_after() -> None:
        show_process_events(console, stack.look_after())
        meanwhile()

    with Client(stack.api) as client:
        yield IterationWatch(client, ProgressPrinter(console), deadline, meanwhile=look_after)


def create_agent(
    console: Console,
    watch: IterationWatch,
    mission: str,
    on_created: Callable[[AgentDetails], object] = lambda _: None,
    *,
    advice_from_one_analysis: bool | None = None,
) -> AgentDetails:
    """Creates an agent and returns it when its configuration has ended, successfully or not.

    `on_created` gets the agent before its configuration is waited for.
    """
    client = watch.client
    created = client.create_agent(
        mission,
        interval_seconds=INTERVAL_SECONDS,
        advice_from_one_analysis=advice_from_one_analysis,
    )
    on_created(created)
    console.print(f"\n[title]{escape(created.name)}[/]\n  {escape(created.mission)}\n")

    def say(text: str) -> None:
        activity.say(text)
        watch.meanwhile()

    with Activity(console) as activity:
        agent = wait_until_configured(client, created, say, lambda: watch.out_of_time)
    if agent.status == "ready" and agent.configuration is not None:
        show_made(console, agent, client.types(str(agent.id)))
    if agent.fault:
        console.print(f"  [bad]✗[/] {escape(agent.fault)}")
    return agent


def run_iterations(
    watch: IterationWatch, agent: AgentDetails, count: int, of: int | str | None = None
) -> Iterator[IterationDetails]:
    """Yields each iteration when it has ended. Stops early when time is up, or while none has completed.

    `of` is shown as the total number, if it is not `count`.
    """
    any_completed = False
    for number in range(1, count + 1):
        if number > 1:  # the first starts because the agent is new
            watch.client.order(str(agent.id), "run")
        iteration = watch.watch_iteration(agent.id, number, of or count)
        if iteration is None:
            return
        yield iteration
        any_completed = any_completed or iteration.status == "completed"
        if not any_completed:
            return
