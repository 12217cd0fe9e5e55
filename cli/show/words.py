"""Numbers, times and texts, as people like to read them."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from shared.store.reading.shapes import CitationView

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
