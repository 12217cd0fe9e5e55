"""The consoles of a command: text, JSON, numbers and untrusted text in a terminal."""

import errno
import json
import re
import shlex
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TextIO

from pydantic import BaseModel
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.theme import Theme

from shared.schemas.base import CitationResponse

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
    """A console that removes control characters from every text, and leaves a closed output to `cli.main`."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, "the output is closed")

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """Removes escape sequences from the text; the console's own styles become escapes later."""
        for segment in super().render(renderable, options):
            yield (
                segment
                if segment.control
                else Segment(escape_control_chars(segment.text), segment.style)
            )


def out() -> Console:
    return _console(sys.stdout)


def err() -> Console:
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else PLAIN_WIDTH
    return SafeConsole(file=stream, width=width, theme=THEME, highlight=False)


def print_json(value: BaseModel | Sequence[BaseModel]) -> None:
    """One value, indented, on stdout."""
    plain = (
        value.model_dump(mode="json")
        if isinstance(value, BaseModel)
        else [item.model_dump(mode="json") for item in value]
    )
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


def as_of(moment: datetime | None) -> str:
    """Formats the date as of which a value holds."""
    return f"as of {moment:%Y-%m-%d}" if moment else "date unknown"


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
    cut = line[: _grapheme_start(line, characters - 1)]
    at_word = cut.rsplit(" ", 1)[0]
    return f"{(at_word if len(at_word) > characters * 0.7 else cut).rstrip(' ,;:.')}…"


_JOINER: Final = "\u200d"
_MODIFIERS: Final = frozenset(["\ufe0e", "\ufe0f", *map(chr, range(0x1F3FB, 0x1F400))])
"""Variation selectors and skin tones."""


def _grapheme_start(text: str, index: int) -> int:
    """The last place at or before `index` where no character that readers see is cut."""
    while 0 < index < len(text) and (
        unicodedata.combining(text[index])
        or text[index] == _JOINER
        or text[index] in _MODIFIERS
        or text[index - 1] == _JOINER
        or _is_inside_flag(text, index)
    ):
        index -= 1
    return index


def _is_inside_flag(text: str, index: int) -> bool:
    """Whether `index` is between the two letters of a flag."""
    letters = 0
    while letters < index and 0x1F1E6 <= ord(text[index - 1 - letters]) <= 0x1F1FF:
        letters += 1
    return letters % 2 == 1 and 0x1F1E6 <= ord(text[index]) <= 0x1F1FF


def cited(content: str, citations: Iterable[CitationResponse]) -> str:
    """`content` with its citations replaced by names; unknown ids stay."""
    names: Mapping[str, str] = {
        str(citation.id): citation.name for citation in citations if citation.name
    }

    def name(match: re.Match[str]) -> str:
        label = names.get(match[2].lower())
        return f"[{label}]" if label else match[0]

    return _CITATION.sub(name, content)


def printable(text: str) -> str:
    """`text` with control characters escaped; line breaks stay."""
    return "".join(
        char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text
    )
