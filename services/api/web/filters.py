"""Template filters: numbers with units, dates, texts."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

from markupsafe import Markup

NONE: Final = "–"
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_CENT: Final = 0.01
_LINKED: Final = frozenset({"http", "https"})


def moment(at: datetime | None) -> Markup | str:
    """A `<time>`, which `times.js` puts into the reader's zone, and says how long ago it is."""
    if at is None:
        return NONE
    exact = at.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        exact.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        f"{exact:%Y-%m-%d %H:%M} UTC",
    )


def when(told: str) -> Markup | str:
    """The same of a moment that stands in ISO 8601 among a node's properties; what is none stays as it is."""
    try:
        return moment(datetime.fromisoformat(told))
    except ValueError:
        return told


def span(seconds: float | timedelta | None) -> str:
    """At most two units: 850 ms, 12.4 s, 3 min 20 s, 5 h, 2 d 4 h."""
    if seconds is None:
        return NONE
    left = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
    if left < 1:
        return f"{left * 1000:.0f} ms"
    if left < _MINUTE:
        return f"{left:.1f} s".replace(".0 s", " s")
    whole = round(left)
    for unit, name, below, of_below in (
        (_MINUTE, "min", 1, "s"),
        (_HOUR, "h", _MINUTE, "min"),
        (_DAY, "d", _HOUR, "h"),
    ):
        if whole < unit * (60 if unit != _HOUR else 24) or unit == _DAY:
            rest = whole % unit // below
            return f"{whole // unit} {name}" + (f" {rest} {of_below}" if rest else "")
    raise AssertionError("days have no end")


def usd(amount: float | None) -> str:
    """Cents from a cent on; below, as many places as say something."""
    if amount is None:
        return NONE
    if amount == 0 or amount >= _CENT:
        return f"${amount:,.2f}"
    return f"${amount:.4f}"


def count(number: float | None) -> str:
    return NONE if number is None else f"{number:,}"


def bytes_of(number: int) -> str:
    size = float(number)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def plural(number: int, one: str, many: str | None = None) -> str:
    """`3 queries`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def percent(share: float | None) -> str:
    return NONE if share is None else f"{share:.0%}"


def pretty(value: Any) -> str:
    """JSON for people to read."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def pretty_text(text: str) -> str:
    """JSON for people to read, where it is that."""
    try:
        return pretty(json.loads(text))
    except (ValueError, RecursionError):
        return text


def host(url: str) -> str:
    try:
        return urlsplit(url).hostname or url
    except ValueError:
        return url


def safe_link(url: str) -> str | None:
    """`url` where a link may lead there; None of what would run here."""
    try:
        return url if urlsplit(url).scheme in _LINKED else None
    except ValueError:
        return None


FORMAT_FILTERS: Final = {
    "moment": moment,
    "when": when,
    "span": span,
    "usd": usd,
    "count": count,
    "bytes": bytes_of,
    "plural": plural,
    "percent": percent,
    "pretty": pretty,
    "pretty_text": pretty_text,
    "host": host,
    "safe_link": safe_link,
}


LONGEST_CHARACTERS: Final = 20_000


def cut(text: str) -> str:
    """Its beginning, and how much is left out, where it is longer than LONGEST_CHARACTERS."""
    left = len(text) - LONGEST_CHARACTERS
    if left <= 0:
        return text
    return f"{text[:LONGEST_CHARACTERS]}\n… {left:,} characters more"


def unpacked(text: str) -> str:
    """Laid out, where it is JSON; what a model wrote in its place as it stands."""
    try:
        return pretty(json.loads(text))
    except (ValueError, RecursionError):
        return text


def plain(value: Any) -> str:
    """A property's value in a line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def phase(word: str) -> str:
    """`Graph construction`."""
    return word.replace("_", " ").capitalize()


TEXT_FILTERS: Final = {"cut": cut, "unpacked": unpacked, "plain": plain, "phase": phase}
