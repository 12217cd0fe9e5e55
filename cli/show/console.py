"""The two consoles of a command: answers on stdout, everything said beside them on stderr."""

import sys
from collections.abc import Iterable
from typing import Final, TextIO

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.theme import Theme

from cli.show.harmless import harmless

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
