"""Dead letters, findings of `vigil doctor` and the start of an installation, in a terminal."""

import json
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.status import Status
from rich.table import Table

from cli.local.data_directory import DataDirectory, Running
from cli.render.console import ago, between, clip, counted, printable, short_id
from shared.schemas.accounts import SignInLinkResponse
from shared.schemas.operations import (
    DeadLetterDetails,
    DeadLetterResponse,
    RetainedKind,
    RetainedTable,
    RetentionResponse,
)

if TYPE_CHECKING:
    from cli.config.providers import CheckedCorpus
    from cli.doctor import Finding

MAX_TEXT_CHARS: Final = 4000
MAX_HEX_BYTES: Final = 256
BYTES_PER_LINE: Final = 16


def show_retention(console: Console, view: RetentionResponse) -> None:
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    table.add_column("Kind", no_wrap=True)
    for column in ("Kept for", "Rows", "Size"):
        table.add_column(column, justify="right", no_wrap=True)
    for column in ("Oldest", "Last deleted", "Next pass"):
        table.add_column(column, no_wrap=True)
    for kind in view.kinds:
        deleted = (
            "–" if kind.pruned_at is None else f"{ago(kind.pruned_at)}, {kind.all_rows:,} in all"
        )
        table.add_row(
            kind.label,
            _kept_for(kind),
            *_sizes(kind.tables, kind.bytes),
            "–" if kind.oldest_at is None else ago(kind.oldest_at),
            deleted,
            "–" if kind.next_at is None else f"{kind.next_at.astimezone():%H:%M}",
        )
    table.add_row("Knowledge and costs", "ever", *_sizes(view.kept), "–", "–", "–")
    console.print(table)


def _kept_for(kind: RetainedKind) -> str:
    if not kind.is_known:
        return "–"
    age = "ever" if kind.days is None else f"{kind.days:g} days"
    return age if kind.max_bytes is None else f"{age}, at most {_mebibytes(kind.max_bytes)}"


def _sizes(tables: Sequence[RetainedTable], row_bytes: int | None = None) -> tuple[str, str]:
    size = _mebibytes(sum(table.bytes for table in tables))
    of_rows = "" if row_bytes is None else f", {_mebibytes(row_bytes)} in rows"
    return f"{sum(table.rows for table in tables):,}", f"{size}{of_rows}"


def _mebibytes(size_bytes: int) -> str:
    return f"{size_bytes / 1024**2:,.1f} MiB"


def show_dead_letters(
    console: Console, dead_letters: Sequence[DeadLetterResponse], *, limit: int
) -> None:
    if not dead_letters:
        console.print("There are no dead letters.", soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    for column in ("Id", "When", "Service", "Message", "About", "Error"):
        table.add_column(column, no_wrap=column != "Error")
    for dead_letter in dead_letters:
        table.add_row(
            short_id(dead_letter.id),
            f"[quiet]{ago(dead_letter.stored_at)}[/]",
            escape(dead_letter.service),
            escape(dead_letter.subject),
            escape(clip(_about(dead_letter), 32)),
            f"{_waits(dead_letter)}[bad]{dead_letter.code}[/] {escape(clip(dead_letter.error, 70))}",
        )
    console.print(table)
    if len(dead_letters) == limit:
        console.print(f"[quiet]Only the newest {limit} are shown; raise --limit to see more.[/]")


def show_dead_letter(console: Console, dead_letter: DeadLetterDetails) -> None:
    console.print(
        f"[title]{escape(dead_letter.subject)}[/]  [quiet]{short_id(dead_letter.id)}[/]",
        soft_wrap=True,
    )
    table = Table.grid(padding=(0, 2))
    table.add_column(style="quiet", no_wrap=True)
    table.add_row("  Error", f"[bad]{dead_letter.code}[/] {escape(dead_letter.error)}")
    table.add_row(
        "  Service",
        f"{escape(dead_letter.service)}, after {counted(dead_letter.attempts, 'attempt')}",
    )
    table.add_row("  When", _when(dead_letter))
    table.add_row("  About", escape(_about(dead_letter)) or "[quiet]no step[/]")
    table.add_row("  Next", _next_commands(dead_letter))
    console.print(table)
    console.print(f"\n[quiet]  Payload ({len(dead_letter.payload):,} bytes):[/]")
    console.print(Padding(escape(readable(dead_letter)), (0, 0, 0, 2), expand=False))


def readable(dead_letter: DeadLetterDetails) -> str:
    """Indented JSON, plain text, or the first bytes in hex; long payloads are cut."""
    if dead_letter.text is None:
        head = dead_letter.payload[:MAX_HEX_BYTES]
        lines = [head[at : at + BYTES_PER_LINE] for at in range(0, len(head), BYTES_PER_LINE)]
        return _cut("\n".join(map(_hex, lines)), len(dead_letter.payload) > MAX_HEX_BYTES)
    text = _pretty(dead_letter.text)
    return _cut(printable(text[:MAX_TEXT_CHARS]), len(text) > MAX_TEXT_CHARS)


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text or "nothing"


def _hex(line: bytes) -> str:
    text = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in line)
    return f"{line.hex(' '):<{3 * BYTES_PER_LINE}} {text}"


def _cut(text: str, is_cut: bool) -> str:
    return f"{text}\n… shortened; use --json to see the whole text" if is_cut else text


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
        text = (
            f"[bad]{escape(finding.message)}[/]"
            if finding.verdict == "bad"
            else escape(finding.message)
        )
        table.add_row(_MARKS[finding.verdict], finding.name, f"{text}{fix}")
    console.print(table)
    wrong = sum(finding.verdict == "bad" for finding in findings)
    verdict = (
        f"[bad]{counted(wrong, 'problem')} found.[/]" if wrong else "[good]No problems found.[/]"
    )
    console.print(f"\n{verdict}")


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
        self._console.print(f"  [quiet]{escape(self._text)} …[/]", soft_wrap=True)

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
    console.print(f"  {escape(sentence)}\n", soft_wrap=True)
    console.print(_addresses(running, data), soft_wrap=True)
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
            f"  [warn]![/] The {finding.name} at {escape(finding.message)}; {escape(finding.fix)}",
            soft_wrap=True,
        )
        console.print(
            "    [quiet]Steps that need it wait without using up attempts and continue when it answers.[/]",
            soft_wrap=True,
        )


def show_corpus(console: Console, corpus: "CheckedCorpus", *, sandbox_model: bool) -> None:
    """How many documents a chosen corpus has, and what of it is not used. Prints nothing for the default corpus."""
    if corpus.documents is None:
        return
    skipped = f"; skipped: {corpus.skipped}" if corpus.skipped else ""
    documents = counted(corpus.documents, "document")
    console.print(f"  [quiet]{documents}{escape(skipped)}[/]", soft_wrap=True)
    if corpus.foreign_documents and sandbox_model:
        console.print(
            f"  [warn]![/] The sandbox's model reads only English: {corpus.foreign_documents} of {documents} "
            f"are in other languages and are not used ({escape(corpus.foreign)}). It uses "
            f"{escape(corpus.english)}.",
            soft_wrap=True,
        )


def show_sign_in(console: Console, link: SignInLinkResponse) -> None:
    console.print(f"  [quiet]In a browser:[/] [link]{escape(link.url)}[/]", soft_wrap=True)
    console.print(
        "  [quiet]The link works once and expires after 15 minutes. For another, run `vigil sign-in-link`.[/]\n"
    )


def show_process_events(console: Console, lines: Iterable[str]) -> None:
    """Processes that died or were restarted, as the supervisor reports them."""
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
