"""Dead letters, findings of `vigil doctor` and the start of an installation, in a terminal."""

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console
from rich.markup import escape
from rich.status import Status
from rich.table import Table

from cli.local.data_directory import DataDirectory, Running
from cli.render.console import details, indented, listing, print_rows, printable, short_id
from shared.schemas.accounts import SignInLinkResponse
from shared.schemas.operations import (
    DeadLetterDetails,
    DeadLetterResponse,
    RetainedKind,
    RetainedTable,
    RetentionResponse,
)
from shared.wording import NONE, ago, between, bytes_of, clip, plural

if TYPE_CHECKING:
    from cli.config.local_servers import LocalServer
    from cli.config.providers import CheckedCorpus
    from cli.findings import Finding

MAX_TEXT_CHARS: Final = 4000
MAX_HEX_CHARS: Final = 768


def show_retention(console: Console, view: RetentionResponse) -> None:
    rows = []
    for kind in view.kinds:
        oldest = ago(kind.oldest_at) if kind.oldest_at else NONE
        pruned = f"{ago(kind.pruned_at)}, {kind.all_rows:,} in all" if kind.pruned_at else NONE
        planned = f"{kind.next_at.astimezone():%H:%M}" if kind.next_at else NONE
        sizes = _sizes(kind.tables, kind.bytes)
        rows.append((kind.label, _kept_for(kind), *sizes, oldest, pruned, planned))
    rows.append(("Knowledge and costs", "ever", *_sizes(view.kept), NONE, NONE, NONE))
    headings = ("=Kind", ">Kept for", ">Rows", ">Size", "=Oldest", "=Last deleted", "=Next pass")
    console.print(listing(headings, rows))


def _kept_for(kind: RetainedKind) -> str:
    if not kind.is_known:
        return NONE
    age = "ever" if kind.days is None else f"{kind.days:g} days"
    return age if kind.max_bytes is None else f"{age}, at most {bytes_of(kind.max_bytes)}"


def _sizes(tables: Sequence[RetainedTable], row_bytes: int | None = None) -> tuple[str, str]:
    size = bytes_of(sum(table.bytes for table in tables))
    of_rows = "" if row_bytes is None else f", {bytes_of(row_bytes)} in rows"
    return f"{sum(table.rows for table in tables):,}", f"{size}{of_rows}"


def show_dead_letters(
    console: Console, dead_letters: Sequence[DeadLetterResponse], *, limit: int
) -> None:
    columns: Mapping[str, Callable[[DeadLetterResponse], str]] = {
        "=Id": lambda each: short_id(each.id),
        "=When": lambda each: f"[quiet]{ago(each.stored_at)}[/]",
        "=Service": lambda each: escape(each.service),
        "=Message": lambda each: escape(each.subject),
        "=About": lambda each: escape(clip(_about(each), 32)),
        "Error": lambda each: f"{_waits(each)}[bad]{each.code}[/] {escape(clip(each.error, 70))}",
    }
    print_rows(console, dead_letters, columns, empty="There are no dead letters.", limit=limit)


def show_dead_letter(console: Console, dead_letter: DeadLetterDetails) -> None:
    console.print(f"[title]{escape(dead_letter.subject)}[/]  [quiet]{short_id(dead_letter.id)}[/]")
    attempts = plural(dead_letter.attempts, "attempt")
    rows = {
        "Failed": escape(
            " ".join(
                filter(None, (dead_letter.title and f"{dead_letter.title}.", dead_letter.cause))
            )
        ),
        "Error": f"[bad]{dead_letter.code}[/] {escape(dead_letter.error)}",
        "Advice": escape(dead_letter.advice),
        "Service": f"{escape(dead_letter.service)}, after {attempts}",
        "When": _when(dead_letter),
        "About": escape(_about(dead_letter)) or "[quiet]no step[/]",
        "Next": _next_commands(dead_letter),
    }
    console.print(details(rows.items()))
    console.print(f"\n[quiet]  Payload ({len(dead_letter.payload):,} bytes):[/]")
    console.print(indented(escape(readable(dead_letter))))


def readable(dead_letter: DeadLetterDetails) -> str:
    """Indented JSON, plain text, or the first bytes in hex; long payloads are cut."""
    text, most = dead_letter.text, MAX_TEXT_CHARS
    if text is None:
        text, most = dead_letter.payload.hex(" "), MAX_HEX_CHARS
    else:
        with suppress(ValueError, RecursionError):
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    more = "\n… shortened; use --json to see the whole text" if len(text) > most else ""
    return f"{printable(text[:most]) or 'nothing'}{more}"


def _about(dead_letter: DeadLetterResponse) -> str:
    step = dead_letter.step
    if step is None:
        return ""
    return f"{step.kind} {step.index + 1} of {step.agent_name} #{step.iteration_number}"


def _waits(dead_letter: DeadLetterResponse) -> str:
    return "[warn]retry requested[/] " if dead_letter.retry_requested_at else ""


def _when(dead_letter: DeadLetterResponse) -> str:
    last = f"{dead_letter.stored_at.astimezone():%Y-%m-%d %H:%M:%S} [quiet]({ago(dead_letter.stored_at)})[/]"
    again = dead_letter.stored_at != dead_letter.created_at
    return f"{last}, first {ago(dead_letter.created_at)}" if again else last


def _next_commands(dead_letter: DeadLetterResponse) -> str:
    short = short_id(dead_letter.id)
    discard = f"[link]vigil dead-letters discard {short}[/]"
    if dead_letter.retry_requested_at is not None:
        return f"a retry was requested {ago(dead_letter.retry_requested_at)} and is waiting for the scheduler and NATS"
    if dead_letter.refusal is not None:
        return f"{escape(dead_letter.refusal)}; or {discard}"
    return f"[link]vigil dead-letters retry {short}[/], or {discard}"


_MARKS: Final = {
    "good": "[good]✓[/]",
    "note": "[quiet]·[/]",
    "bad": "[bad]✗[/]",
}


def show_findings(console: Console, findings: "Sequence[Finding]") -> None:
    table = Table.grid(padding=(0, 1))
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        fix = f"\n[quiet]→ {escape(finding.fix)}[/]" if finding.fix else ""
        text = escape(finding.message)
        text = f"[bad]{text}[/]" if finding.verdict == "bad" else text
        table.add_row(_MARKS[finding.verdict], finding.name, f"{text}{fix}")
    console.print(table)
    wrong = sum(finding.verdict == "bad" for finding in findings)
    problems = f"[bad]{plural(wrong, 'problem')} found.[/]"
    console.print(f"\n{problems if wrong else '[good]No problems found.[/]'}")


def print_findings(findings: "Sequence[Finding]") -> None:
    print(json.dumps([asdict(finding) for finding in findings], indent=2, ensure_ascii=False))


FIRST_LINE_SECONDS: Final = 1.0
LINE_SECONDS: Final = 30.0
"""Without a terminal: when the first line about a long activity is printed, and how often after that."""


class Activity:
    """Shows the present activity in one line that disappears. Without a terminal, prints a line from time to time if it
    takes long.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status = console.status("", spinner="dots", spinner_style="quiet")
        self._text = ""
        self._timer = threading.Timer(FIRST_LINE_SECONDS, self._print_line)
        """Prints the first line while nothing calls `say`."""
        self._next_line_at: float | None = None
        """By the monotonic clock; None while there is no activity."""

    def say(self, text: str) -> None:
        if self._console.is_terminal:
            self._status.update(f"[quiet]{escape(text)} …[/]")
            self._status.start()
            return
        self._text = text
        now = time.monotonic()
        if self._next_line_at is None:
            self._next_line_at = now + FIRST_LINE_SECONDS
            self._timer = threading.Timer(FIRST_LINE_SECONDS, self._print_line)
            self._timer.daemon = True
            self._timer.start()
        elif now >= self._next_line_at:
            self._print_line()

    def _print_line(self) -> None:
        self._timer.cancel()
        self._next_line_at = time.monotonic() + LINE_SECONDS
        self._console.print(f"  [quiet]{escape(self._text)} …[/]")

    def end(self) -> None:
        """Ends the current activity."""
        self._timer.cancel()
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
        self.end()


def show_ready(
    console: Console,
    running: Running,
    data: DataDirectory,
    sentence: str,
    busy_ports: Iterable[int],
) -> None:
    """`busy_ports` are the usual ports that were not free."""
    took = between(running.started_at, None)
    console.print(f"[good]●[/] [title]Vigil is running[/] [quiet]after {took}[/]")
    console.print(f"  {escape(sentence)}\n")
    addresses = {
        "API": escape(running.api_url),
        "NATS": escape(running.nats_url),
        "PostgreSQL": escape(running.database_url),
        "Data": escape(str(data.root)),
        "Logs": escape(str(data.logs)),
    }
    console.print(details(addresses.items()), soft_wrap=True)
    if busy := list(map(str, busy_ports)):
        text = f"Port {busy[0]} is in use, so another port was chosen."
        if len(busy) > 1:
            text = f"Ports {' and '.join(busy)} are in use, so other ports were chosen."
        console.print(f"\n  [warn]![/] {text}")
    console.print(
        '\n  [quiet]Next, in another terminal:[/] vigil agent create "what to watch and why"'
        "[quiet],[/] vigil tail[quiet],[/] vigil doctor"
    )
    console.print("  [quiet]Press Ctrl-C to stop everything. The data is kept.[/]\n")


def show_unreached(console: Console, findings: "Iterable[Finding]") -> None:
    """Providers that do not answer, and what that means for the work."""
    for finding in findings:
        console.print(
            f"  [warn]![/] The {finding.name} at {escape(finding.message)}; {escape(finding.fix)}\n"
            "    [quiet]Steps that need it wait without using up attempts and continue when it answers.[/]"
        )


def show_corpus(console: Console, corpus: "CheckedCorpus", *, sandbox_model: bool) -> None:
    """How many documents a chosen corpus has, and what of it is not used. Prints nothing for the default corpus."""
    if corpus.documents is None:
        return
    skipped = f"; skipped: {corpus.skipped}" if corpus.skipped else ""
    documents = plural(corpus.documents, "document")
    console.print(f"  [quiet]{documents}{escape(skipped)}[/]")
    if sandbox_model:
        console.print(
            "  [warn]![/] Without a model, the sandbox reads labelled figures and tables, but no prose: it found "
            f"{escape(corpus.figures)}.",
        )


def show_local_servers(console: Console, servers: "Iterable[LocalServer]", command: str) -> None:
    """Offers the model servers of this machine in place of the sandbox's model."""
    for server in servers:
        more = f" and {len(server.models) - 1} more" if len(server.models) > 1 else ""
        console.print(
            f"  [warn]![/] {server.name} runs on this machine and has {escape(server.models[0])}{more}. To use it: "
            f"OPENAI_BASE_URL={server.url} OPENAI_MODEL={escape(server.models[0])} {command}",
            soft_wrap=True,
        )


def show_sign_in(console: Console, link: SignInLinkResponse) -> None:
    console.print(f"  [quiet]In a browser:[/] [link]{escape(link.url)}[/]")
    console.print(
        "  [quiet]The link works once and expires after 15 minutes. For another, run `vigil sign-in-link`.[/]\n"
    )


def show_process_events(console: Console, lines: Iterable[str]) -> None:
    """Processes that died or were restarted, as the supervisor reports them."""
    for line in lines:
        console.print(f"  [warn]![/] {escape(line)}")
