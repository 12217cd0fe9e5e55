"""The consoles of a command: text, JSON, numbers and untrusted text in a terminal."""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TextIO

from pydantic import BaseModel
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.theme import Theme

from shared.schemas.base import CitationView

_CONTROLS: Final = (*range(0x20), *range(0x7F, 0xA0))
_KEPT: Final = frozenset(map(ord, "\n\t"))
_TURNS: Final = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_DROPPED: Final = dict.fromkeys({*_CONTROLS, *_TURNS} - _KEPT)
# JSON itself writes the lower ones so.
_ESCAPED: Final = {code: f"\\u{code:04x}" for code in (*range(0x7F, 0xA0), *_TURNS)}


def harmless(text: str) -> str:
    """`text` without what a terminal would obey; lines and tabs stay."""
    return text.translate(_DROPPED)


def harmless_json(written: str) -> str:
    """The same JSON, spelt so that a terminal obeys nothing of it."""
    return written.translate(_ESCAPED)


PLAIN_WIDTH: Final = 140
"""Of tables where there is no terminal to ask for its width, as in a pipe or a log."""

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
    """Whose terminal obeys us, and nothing that stands in a text."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Without the escapes that came with what is shown; its own styles become escapes after this."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(harmless(segment.text), segment.style)


def out() -> Console:
    return _console(sys.stdout)


def err() -> Console:
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else PLAIN_WIDTH
    return SafeConsole(file=stream, width=width, theme=THEME, highlight=False)


def print_json(what: BaseModel | Sequence[BaseModel]) -> None:
    """One value, indented, on stdout."""
    plain = (
        what.model_dump(mode="json")
        if isinstance(what, BaseModel)
        else [each.model_dump(mode="json") for each in what]
    )
    print(harmless_json(json.dumps(plain, indent=2, ensure_ascii=False)))


_CITATION: Final = re.compile(r"\[(node|edge):([0-9a-fA-F-]{36})\]")


def counted(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`, `no nodes`."""
    if noun == "advice":  # English counts it in pieces
        return (
            f"{number} {'piece' if number == 1 else 'pieces'} of advice" if number else "no advice"
        )
    return f"{number or 'no'} {noun if number == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith("sis"):
        return f"{noun[:-2]}es"
    if noun.endswith("y"):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "ch")) else f"{noun}s"


def duration(seconds: float) -> str:
    """`0.4 s`, `42 s`, `3 min`, `5 h`, `2 d`."""
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s"
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def interval(seconds: int) -> str:
    """In the largest unit that divides it: `5m`, as the commands take it."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds % length == 0:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def ago(moment: datetime, now: datetime | None = None) -> str:
    """How long ago, or how far ahead."""
    seconds = ((now or datetime.now(UTC)) - moment).total_seconds()
    return f"{duration(seconds)} ago" if seconds >= 0 else f"in {duration(-seconds)}"


def between(start: datetime | None, end: datetime | None) -> str:
    """The time from one moment to another, or to now; '' before the start."""
    if start is None:
        return ""
    return duration(((end or datetime.now(UTC)) - start).total_seconds())


def clip(text: str, characters: int) -> str:
    """On one line and not longer than that, cut at a word where that is near."""
    line = " ".join(text.split())
    if len(line) <= characters:
        return line
    cut = line[: characters - 1]
    at_word = cut.rsplit(" ", 1)[0]
    return f"{(at_word if len(at_word) > characters * 0.7 else cut).rstrip(' ,;:.')}…"


def cited(content: str, citations: Iterable[CitationView]) -> str:
    """`content` with what it cites by name; what does not exist stays as it is."""
    names: Mapping[str, str] = {str(each.id): each.name for each in citations if each.name}

    def name(match: re.Match[str]) -> str:
        found = names.get(match[2].lower())
        return f"[{found}]" if found else match[0]

    return _CITATION.sub(name, content)


def printable(text: str) -> str:
    """`text` with whatever a terminal would obey written out; lines stay."""
    return "".join(
        letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in text
    )
