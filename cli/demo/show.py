"""The demo from its first line to its last."""

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from cli.config.providers import CheckedCorpus, Outside
from cli.demo.account import Account, account_of
from cli.demo.perform import perform
from cli.doctor.outside import unreached
from cli.local.members import demo_ports
from cli.local.supervisor import Stack, installation
from cli.render.account import show_account
from cli.render.console import duration, err, out
from cli.render.operations import Activity, show_unreached
from cli.throwaway import created, throwaway_directory, watched
from shared.runtime.settings import Settings

INTERRUPTED: Final = 130


@dataclass(frozen=True)
class Demo:
    """`started` is a reading of the monotonic clock; the timeout counts from there."""

    mission: str
    settings: Settings
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
            throwaway_directory(demo.keep) as directory,
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
    show_unreached(console, unreached(demo.settings, demo.outside))


def _perform(console: Console, demo: Demo, stack: Stack) -> tuple[Account, str]:
    deadline = demo.started + demo.timeout_seconds
    with watched(stack, console, deadline) as watch:
        client = watch.client
        model = client.outside().model
        agent = created(console, watch, demo.mission)
        ready = agent.status == "ready"
        ended = list(perform(watch, agent, demo.iterations)) if ready else []
        if watch.out_of_time:
            console.print(
                f"\n[bad]The {demo.timeout_seconds:.0f} seconds of --timeout are over[/] "
                "before the last iteration ended."
            )
        seconds = time.monotonic() - demo.started
        return account_of(client, str(agent.id), ended, seconds), model


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
