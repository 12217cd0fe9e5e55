"""Dead letters in a terminal."""

import json
from collections.abc import Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cli.show.words import ago, clip, counted, printable
from shared.store.reading.letter_shapes import DeadLetterDetails, DeadLetterView

ID_CHARACTERS: Final = 8
TEXT_CHARACTERS: Final = 4000
BYTES_SHOWN: Final = 256
BYTES_A_LINE: Final = 16


def show_letters(console: Console, letters: Sequence[DeadLetterView], *, limit: int) -> None:
    if not letters:
        console.print("There are no dead letters: everything could be handled.", soft_wrap=True)
        return
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    for column in ("Id", "When", "Actor", "Message", "About", "Error"):
        table.add_column(column, no_wrap=column != "Error")
    for letter in letters:
        table.add_row(
            str(letter.id)[:ID_CHARACTERS],
            f"[quiet]{ago(letter.kept_at)}[/]",
            escape(letter.actor),
            escape(letter.subject),
            escape(clip(_about(letter), 32)),
            f"{_waits(letter)}[bad]{letter.code}[/] {escape(clip(letter.error, 70))}",
        )
    console.print(table)
    if len(letters) == limit:
        console.print(f"[quiet]The newest {limit}; more with --limit.[/]")


def show_letter(console: Console, letter: DeadLetterDetails) -> None:
    console.print(f"[title]{escape(letter.subject)}[/]  [quiet]{letter.id}[/]", soft_wrap=True)
    table = Table.grid(padding=(0, 2))
    table.add_column(style="quiet", no_wrap=True)
    table.add_row("  Error", f"[bad]{letter.code}[/] {escape(letter.error)}")
    table.add_row("  Actor", f"{escape(letter.actor)}, after {counted(letter.attempts, 'attempt')}")
    table.add_row("  When", _when(letter))
    table.add_row("  About", escape(_about(letter)) or "[quiet]no step[/]")
    table.add_row("  Now", _what_to_do(letter))
    console.print(table)
    console.print(f"\n[quiet]  What it says ({len(letter.payload):,} bytes):[/]")
    console.print(Padding(escape(readable(letter)), (0, 0, 0, 2), expand=False))


def readable(letter: DeadLetterDetails) -> str:
    """JSON with its lines, text as it is, and of anything else the first bytes in hex; cut where it is long."""
    if letter.text is None:
        shown = letter.payload[:BYTES_SHOWN]
        lines = [shown[at : at + BYTES_A_LINE] for at in range(0, len(shown), BYTES_A_LINE)]
        return _cut("\n".join(map(_hex, lines)), len(letter.payload) > BYTES_SHOWN)
    text = _pretty(letter.text)
    return _cut(printable(text[:TEXT_CHARACTERS]), len(text) > TEXT_CHARACTERS)


def _pretty(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text or "nothing"


def _hex(line: bytes) -> str:
    letters = "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in line)
    return f"{line.hex(' '):<{3 * BYTES_A_LINE}} {letters}"


def _cut(text: str, is_cut: bool) -> str:
    return f"{text}\n… cut here; all of it with --json" if is_cut else text


def _about(letter: DeadLetterView) -> str:
    step = letter.step
    if step is None:
        return ""
    return f"{step.kind} {step.index + 1} of {step.agent_name} #{step.iteration_number}"


def _waits(letter: DeadLetterView) -> str:
    return "[warn]retry asked[/] " if letter.retry_requested_at else ""


def _when(letter: DeadLetterView) -> str:
    last = f"{letter.kept_at.astimezone():%Y-%m-%d %H:%M:%S} [quiet]({ago(letter.kept_at)})[/]"
    again = letter.kept_at != letter.created_at
    return f"{last}, first {ago(letter.created_at)}" if again else last


def _what_to_do(letter: DeadLetterView) -> str:
    short = str(letter.id)[:ID_CHARACTERS]
    discard = f"[link]vigil dead-letters discard {short}[/]"
    if letter.retry_requested_at is not None:
        return f"its retry was asked for {ago(letter.retry_requested_at)}, and waits for the scheduler and NATS"
    if letter.refusal is not None:
        return f"{escape(letter.refusal)}; or {discard}"
    return f"[link]vigil dead-letters retry {short}[/], or {discard}"
