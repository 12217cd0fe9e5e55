"""The two consoles of a command: answers on stdout, everything said beside them on stderr."""

import sys
from typing import Final, TextIO

from rich.console import Console
from rich.theme import Theme

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


def out() -> Console:
    return _console(sys.stdout)


def err() -> Console:
    return _console(sys.stderr)


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else PLAIN_WIDTH
    return Console(file=stream, width=width, theme=THEME, highlight=False)
