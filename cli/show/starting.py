"""What is seen while an installation starts, runs and ends."""

import time
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from cli.doctor.finding import Finding
from cli.local.datadir import DataDirectory
from cli.local.running import Running
from cli.show.words import between
from shared.store.reading.access_shapes import SignInLinkView

FIRST_LINE_SECONDS: Final = 10.0
LINE_SECONDS: Final = 30.0
"""Without a terminal: when the first line is printed about what takes long, and how often then."""


class Activity:
    """A line that tells what is being done and leaves nothing behind; without a terminal, a line now and then where it
    takes long.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status = console.status("", spinner="dots", spinner_style="quiet")
        self._next_line_at: float | None = None
        """A reading of the monotonic clock; None while nothing is being done."""

    def say(self, what: str) -> None:
        if self._console.is_terminal:
            self._status.update(f"[quiet]{escape(what)} …[/]")
            self._status.start()
            return
        now = time.monotonic()
        if self._next_line_at is None:
            self._next_line_at = now + FIRST_LINE_SECONDS
        elif now >= self._next_line_at:
            self._next_line_at = now + LINE_SECONDS
            self._console.print(f"  [quiet]{escape(what)} …[/]", soft_wrap=True)

    def rest(self) -> None:
        """Nothing is being done, until something is said again."""
        self._next_line_at = None
        self._status.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.rest()


def show_ready(
    console: Console, running: Running, data: DataDirectory, sentence: str, taken: Iterable[int]
) -> None:
    """`taken` are the ports that it would have used, had they been free."""
    took = between(running.started_at, None)
    console.print(f"[good]●[/] [title]Vigil is up[/] [quiet]after {took}[/]")
    console.print(f"  {escape(sentence)}\n", soft_wrap=True)
    console.print(_addresses(running, data), soft_wrap=True)
    if others := ", ".join(map(str, taken)):
        console.print(f"\n  [warn]![/] Others listen on {others}, so free ports were taken.")
    console.print(
        '\n  [quiet]Now, in another terminal:[/] vigil agent create "what to watch, and to what end"'
        "[quiet],[/] vigil tail[quiet],[/] vigil doctor"
    )
    console.print("  [quiet]Ctrl-C ends all of it; the data stays.[/]\n")


def show_unreached(console: Console, findings: Iterable[Finding]) -> None:
    """What does not answer outside, and that the work waits for it."""
    for finding in findings:
        console.print(
            f"  [warn]![/] The {finding.name} at {escape(finding.told)}; {escape(finding.mend)}",
            soft_wrap=True,
        )
        console.print(
            "    [quiet]Steps that need it wait, use up no attempts, and go on by themselves when it answers.[/]",
            soft_wrap=True,
        )


def show_sign_in(console: Console, link: SignInLinkView) -> None:
    console.print(f"  [quiet]In a browser:[/] [link]{escape(link.url)}[/]", soft_wrap=True)
    console.print("  [quiet]Once, within 15 minutes; vigil sign-in-link prints another.[/]\n")


def show_happened(console: Console, lines: Iterable[str]) -> None:
    """What the supervisor saw: who died, and who runs again."""
    for line in lines:
        console.print(f"  [warn]![/] {escape(line)}", soft_wrap=True)


def _addresses(running: Running, data: DataDirectory) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, where in (
        ("API", running.api_url),
        ("NATS", running.nats_url),
        ("PostgreSQL", running.database_url),
        ("Data", str(data.root)),
        ("Logs", str(data.logs)),
    ):
        table.add_row(f"  [quiet]{name}[/]", escape(where))
    return table
