"""Numbers, money, durations and long texts in words, the same on pages and in the terminal."""

import unicodedata
from datetime import UTC, datetime, timedelta
from typing import Final

NONE: Final = "–"
"""In place of a value that is not there."""
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_JOINER: Final = "\u200d"
_MODIFIERS: Final = frozenset(["\ufe0e", "\ufe0f", *map(chr, range(0x1F3FB, 0x1F400))])
"""Variation selectors and skin tones."""


def plural(number: int, singular: str, many: str | None = None) -> str:
    """`3 queries`, `1 analysis`, `2 pieces of advice`."""
    if singular == "advice" and many is None:  # English counts it in pieces
        singular, many = "piece of advice", "pieces of advice"
    return f"{number:,} {singular if number == 1 else many or _plural(singular)}"


def _plural(noun: str) -> str:
    if noun.endswith("sis"):
        return f"{noun[:-2]}es"
    if noun.endswith("y") and not noun.endswith(("ay", "ey", "oy")):
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "ch")) else f"{noun}s"


def duration(seconds: float | timedelta | None) -> str:
    """At most two units: 850 ms, 12.4 s, 3 min 20 s, 5 h, 2 d 4 h."""
    if seconds is None:
        return NONE
    total = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
    if total < 1:
        return f"{max(total, 0.0) * 1000:.0f} ms"
    if total < 60:
        return f"{total:.1f} s".replace(".0 s", " s")
    rest = round(total)
    place = next(place for place, (_, length) in enumerate(_UNITS) if rest >= length)
    parts = []
    for unit, length in _UNITS[place : place + 2]:
        number, rest = divmod(rest, length)
        parts += [f"{number} {unit}"] if number else []
    return " ".join(parts)


def between(start: datetime | None, end: datetime | None) -> str:
    """The time from one moment to another, or to now; empty before the start."""
    return "" if start is None else duration((end or datetime.now(UTC)) - start)


def ago(moment: datetime, now: datetime | None = None) -> str:
    """How long ago, or how far ahead."""
    passed = (now or datetime.now(UTC)) - moment
    return f"{duration(passed)} ago" if passed >= timedelta(0) else f"in {duration(-passed)}"


def usd(amount: float | None) -> str:
    """Two decimals from a cent on; below, as many as are significant."""
    if amount is None:
        return NONE
    return f"${amount:,.2f}" if amount == 0 or amount >= 0.01 else f"${amount:.4f}"


def compact(number: float) -> str:
    """At most three digits and a unit: 940, 12.3k, 4.5M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if number >= size:
            share = number / size
            return f"{share:.0f}{unit}" if share >= 100 else f"{share:.1f}{unit}"
    return f"{number:.0f}"


def bytes_of(number: int) -> str:
    size = float(number)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def clip(text: str, max_chars: int) -> str:
    """On one line, cut between words and with an ellipsis; a single long word is cut where it must be."""
    line = " ".join(text.split())
    if len(line) <= max_chars:
        return line
    end = _grapheme_start(line, max_chars - 1)
    room = line[:end]
    words = room if line[end].isspace() else room.rsplit(maxsplit=1)[0]
    return f"{(words if len(words) > max_chars // 2 else room).rstrip(' ,;:.–-')}…"


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


NOT_READ: Final = "not read by a model"


def found_in_words(found: int, sentences: int, pages: int | None = None) -> str:
    """The first level of verification: `18 sentences found`, `17 of 18 sentences found in 3 pages`."""
    missing = "" if found == sentences else f"{found:,} of "
    where = "" if pages is None else f" in {plural(pages, 'page')}"
    return f"{missing}{plural(sentences, 'sentence')} found{where}"


def reading_in_words(model: str, sentences: int, supported: int, plausible: int) -> str:
    """The verdict on a conclusion: `read by gpt-x: supported`, or the number of supported sentences."""
    if supported == sentences:
        return f"read by {model}: supported"
    parts = [f"{supported:,} of {plural(sentences, 'sentence')} supported"]
    if plausible:
        parts.append(f"{plausible:,} plausible")
    if unread := sentences - supported - plausible:
        parts.append(f"{unread:,} not read")
    return f"read by {model}: {', '.join(parts)}"
