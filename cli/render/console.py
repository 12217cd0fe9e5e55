"""The consoles of a command: text, JSON, numbers and untrusted text in a terminal."""

import errno
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TextIO, TypeVar

from pydantic import BaseModel, TypeAdapter
from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.theme import Theme

T = TypeVar("T")

_CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0))
_ALLOWED: Final = frozenset(map(ord, "\n\t"))
_TURNS: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_DROPPED: Final = dict.fromkeys({*_CONTROLS, *_TURNS} - _ALLOWED)
# JSON itself writes the lower ones so.
_ESCAPED: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_TURNS)}


def escape_control_chars(text: str) -> str:
    """`text` without terminal control characters; line breaks and tabs stay."""
    return text.translate(_DROPPED)


def harmless_json(text: str) -> str:
    """Escapes control characters in the JSON, so that it cannot control the terminal."""
    return text.translate(_ESCAPED)


PLAIN_WIDTH: Final = 140
"""The width of tables without a terminal, as in a pipe or a log."""

THEME: Final = Theme(
    {
        "good": "green",
        "bad": "red",
        "warn": "yellow",
        "quiet": "dim",
        "title": "bold",
        "agent": "cyan",
        "link": "blue",
    }
)


class SafeConsole(Console):
    """A console that removes control characters from every text, and leaves a closed output to `cli.main`.

    A text that is no table is not wrapped: what is copied or read by a program has no line breaks of the terminal.
    """

    def print(self, *objects: Any, **options: Any) -> None:
        options.setdefault("soft_wrap", all(isinstance(each, str) for each in objects))
        super().print(*objects, **options)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, "the output is closed")

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Removes escape sequences from the text; the console's own styles become escapes later."""
        for segment in super().render(renderable, options):
            text = escape_control_chars(segment.text)
            yield segment if segment.control else Segment(text, segment.style)


def indented(content: RenderableType, columns: int = 2, *, after: int = 0) -> Padding:
    """`content`, wrapped, that many columns from the left, with `after` empty lines below."""
    return Padding(content, (0, 0, after, columns), expand=False)


def listing(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    """A table. A heading that begins with `>` is over numbers, one with `=` over text that is not wrapped."""
    table = Table(box=None, pad_edge=False, header_style="quiet", padding=(0, 2, 0, 0))
    for heading in headings:
        is_number, is_whole = heading.startswith(">"), heading.startswith(("=", ">"))
        justify: JustifyMethod = "right" if is_number else "left"
        table.add_column(heading.lstrip("=>"), justify=justify, no_wrap=is_whole)
    for row in rows:
        table.add_row(*row)
    return table


def print_rows(
    console: Console,
    items: Sequence[T],
    columns: Mapping[str, Callable[[T], str]],
    *,
    empty: str = "",
    limit: int | None = None,
    which: str = "newest {limit}",
) -> None:
    """Prints a table with a row for each item, or that it is `empty`. The headings are those of `listing`."""
    if not items and empty:
        console.print(empty)
        return
    console.print(listing(columns, ([cell(each) for cell in columns.values()] for each in items)))
    if limit is not None:
        print_limit(console, len(items), limit, which)


def details(rows: Iterable[tuple[str, str]]) -> Table:
    """Names and values, without those that are empty."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="quiet", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        if value:
            table.add_row(f"  {name}", value)
    return table


def print_limit(console: Console, count: int, limit: int, which: str = "newest {limit}") -> None:
    """Says that there may be more than the `limit` that was asked for."""
    if count == limit:
        shown = which.format(limit=limit)
        console.print(f"[quiet]Only the {shown} are shown; raise --limit to see more.[/]")


def out() -> Console:
    return _console(sys.stdout)


def err() -> Console:
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else PLAIN_WIDTH
    return SafeConsole(file=stream, width=width, theme=THEME, highlight=False)


def print_json(value: BaseModel | Sequence[BaseModel]) -> None:
    """One value, indented, on stdout."""
    plain = TypeAdapter(Any).dump_python(value, mode="json")
    print(harmless_json(json.dumps(plain, indent=2, ensure_ascii=False)))


SHORT_ID_CHARS: Final = 8


def short_id(row_id: object) -> str:
    """The beginning of an id, which commands take in its place."""
    return str(row_id)[:SHORT_ID_CHARS]


def quoted(name: str) -> str:
    """A name as it is written in a shell: in quotes where it needs them."""
    if '"' not in name and not set(name) & set("$`\\!"):
        return name if re.fullmatch(r"[\w.@%+=:,/-]+", name) else f'"{name}"'
    return shlex.quote(name)


_CITATION: Final = re.compile(r"\[(node|edge):([0-9a-fA-F-]{36})\]")


def as_of(moment: datetime | None) -> str:
    """Formats the date as of which a value holds."""
    return f"as of {moment:%Y-%m-%d}" if moment else "date unknown"


def with_short_citations(content: str) -> str:
    """`content` with the beginnings of the ids that it cites, as lists of citations have them.

    Names would be words that no reader has compared with their sources.
    """
    return _CITATION.sub(lambda match: f"[{match[1]}:{short_id(match[2])}]", content)


def printable(text: str) -> str:
    """`text` with control characters escaped; line breaks stay."""
    return "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text
    )
