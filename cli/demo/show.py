"""The demo from its first line to its last."""

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from cli.client import Client
from cli.corpus import CheckedCorpus
from cli.demo.account import Account, account_of
from cli.demo.perform import perform
from cli.local.datadir import DataDirectory
from cli.local.errors import LocalError
from cli.local.roster import demo_ports
from cli.local.session import installation
from cli.local.stack import Stack
from cli.outside import Outside
from cli.show.account import show_account
from cli.show.agents import show_made
from cli.show.console import err, out
from cli.show.starting import Activity, show_happened
from cli.show.words import duration
from cli.watching.configuring import until_configured
from cli.watching.narrator import Narrator
from cli.watching.nudges import Nudges
from cli.watching.watch import Watch
from shared.store.reading.shapes import AgentDetails

INTERVAL_SECONDS: Final = 24 * 3600
"""Longer than a demo: its iterations are asked for."""
INTERRUPTED: Final = 130


@dataclass(frozen=True)
class Demo:
    """`started` is a reading of the monotonic clock; the timeout counts from there."""

    mission: str
    outside: Outside
    corpus: CheckedCorpus | None
    """None where the sandbox is not needed."""
    iterations: int
    keep: Path | None
    started: float
    timeout_seconds: float
    as_json: bool


def put_on(demo: Demo) -> int:
    """Runs it; returns the exit code. Raises VigilError where it could not be begun."""
    console = err() if demo.as_json else out()
    _announce(console, demo)
    try:
        with (
            _directory(demo.keep) as directory,
            Activity(console) as activity,
            installation(directory, demo.outside, demo_ports, activity.say) as stack,
        ):
            activity.rest()
            told = duration(time.monotonic() - demo.started)
            console.print(f"  [good]●[/] PostgreSQL, NATS, actors and API are up [quiet]{told}[/]")
            account, model = _perform(console, demo, stack)
            if demo.as_json:
                _print_json(demo, account, model)
            elif account.completed:
                show_account(console, account)
    except KeyboardInterrupt:
        console.print("\n[quiet]interrupted; everything is ended.[/]")
        return INTERRUPTED
    if not account.completed:
        console.print(
            "\n[bad]No iteration completed.[/] [quiet]`vigil doctor` tells what is wrong.[/]"
        )
        return 1
    if not demo.as_json:
        _what_next(console, demo)
    return 0


def _announce(console: Console, demo: Demo) -> None:
    console.print("[title]Vigil demo[/]")
    console.print(f"  {escape(demo.outside.sentence())}", soft_wrap=True)
    if demo.corpus and demo.corpus.documents is not None:
        skipped = f"; passed over: {demo.corpus.skipped} files" if demo.corpus.skipped else ""
        console.print(f"  [quiet]{demo.corpus.documents} documents{escape(skipped)}[/]")


def _perform(console: Console, demo: Demo, stack: Stack) -> tuple[Account, str]:
    with Client(stack.api) as client, Nudges(stack.running.nats_url) as nudges:
        model = client.outside().model
        deadline = demo.started + demo.timeout_seconds

        def look_after() -> None:
            show_happened(console, stack.look_after())

        watch = Watch(client, nudges, Narrator(console), deadline, meanwhile=look_after)
        agent = _made(console, demo, watch)
        ready = agent.status == "ready"
        ended = list(perform(watch, agent, demo.iterations)) if ready else []
        if watch.out_of_time:
            console.print(
                f"\n[bad]The {demo.timeout_seconds:.0f} seconds of --timeout are over[/] "
                "before the last iteration ended."
            )
        seconds = time.monotonic() - demo.started
        return account_of(client, str(agent.id), ended, seconds), model


def _made(console: Console, demo: Demo, watch: Watch) -> AgentDetails:
    """The agent with its prompts and types, or with what kept it from having them."""
    client = watch.client
    ordered = client.create_agent(demo.mission, interval_seconds=INTERVAL_SECONDS)
    console.print(f"\n[title]{escape(ordered.name)}[/]\n  {escape(ordered.mission)}\n")

    def say(what: str) -> None:
        activity.say(what)
        watch.meanwhile()

    with Activity(console) as activity:
        agent = until_configured(client, ordered, say, lambda: watch.out_of_time)
    if agent.status == "ready" and agent.configuration is not None:
        show_made(console, agent, client.types(str(agent.id)))
    elif agent.fault:
        console.print(f"  [bad]✗[/] {escape(agent.fault)}", soft_wrap=True)
    return agent


def _print_json(demo: Demo, account: Account, model: str) -> None:
    corpus = demo.outside.corpus if demo.outside.needs_sandbox else None
    print(json.dumps(account.as_json(corpus=corpus, model=model), ensure_ascii=False), flush=True)


def _what_next(console: Console, demo: Demo) -> None:
    console.print("\n[title]Next[/]")
    if demo.keep:
        console.print(f"  vigil up --data {demo.keep}   [quiet]goes on with this agent[/]")
    console.print(
        '  vigil demo --corpus FOLDER --mission "…"   [quiet]documents of your own[/]\n'
        '  vigil up, then vigil agent create "…"      [quiet]agents that stay[/]'
    )
    if demo.outside.needs_sandbox:
        console.print(
            "  OPENAI_API_KEY=… TAVILY_API_KEY=… vigil demo   [quiet]a real model, and the web[/]"
        )


@contextmanager
def _directory(keep: Path | None) -> Iterator[DataDirectory]:
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
