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


def time_element(moment: datetime | None) -> Markup | str:
    """A `<time>` element, which `times.js` converts to the reader's time zone and adds how long ago it is."""
    if moment is None:
        return NONE
    exact = moment.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(
        exact.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        f"{exact:%Y-%m-%d %H:%M} UTC",
    )


def time_element_of_text(text: str) -> Markup | str:
    """The same for an ISO 8601 string of a node's properties; other text stays as it is."""
    try:
        return time_element(datetime.fromisoformat(text))
    except ValueError:
        return text


def duration(seconds: float | timedelta | None) -> str:
    """At most two units: 850 ms, 12.4 s, 3 min 20 s, 5 h, 2 d 4 h."""
    if seconds is None:
        return NONE
    total = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
    if total < 1:
        return f"{total * 1000:.0f} ms"
    if total < _MINUTE:
        return f"{total:.1f} s".replace(".0 s", " s")
    rounded = round(total)
    for unit, name, below, of_below in (
        (_MINUTE, "min", 1, "s"),
        (_HOUR, "h", _MINUTE, "min"),
        (_DAY, "d", _HOUR, "h"),
    ):
        if rounded < unit * (60 if unit != _HOUR else 24) or unit == _DAY:
            remainder = rounded % unit // below
            return f"{rounded // unit} {name}" + (f" {remainder} {of_below}" if remainder else "")
    raise AssertionError("days have no end")


def usd(amount: float | None) -> str:
    """Two decimals from a cent on; below, as many as are significant."""
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


def plural(number: int, singular: str, many: str | None = None) -> str:
    """`3 queries`."""
    return f"{number:,} {singular if number == 1 else many or singular + 's'}"


def percent(share: float | None) -> str:
    return NONE if share is None else f"{share:.0%}"


def pretty(value: Any) -> str:
    """Formats a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def pretty_text(text: str) -> str:
    """Formats text as indented JSON where it is JSON."""
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
    """Returns `url` if a link may use it; None for schemes that run code."""
    try:
        return url if urlsplit(url).scheme in _LINKED else None
    except ValueError:
        return None


FORMAT_FILTERS: Final = {
    "moment": time_element,
    "when": time_element_of_text,
    "span": duration,
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


MAX_CHARS: Final = 20_000


def cut(text: str) -> str:
    """Truncates text longer than MAX_CHARS and says how much is left out."""
    left_out = len(text) - MAX_CHARS
    if left_out <= 0:
        return text
    return f"{text[:MAX_CHARS]}\n… {left_out:,} characters more"


def unpacked(text: str) -> str:
    """Formats text as indented JSON where it is JSON; other text stays as it is."""
    try:
        return pretty(json.loads(text))
    except (ValueError, RecursionError):
        return text


def plain(value: Any) -> str:
    """Formats a property's value in one line."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def phase(word: str) -> str:
    """`Graph construction`."""
    return word.replace("_", " ").capitalize()


TEXT_FILTERS: Final = {"cut": cut, "unpacked": unpacked, "plain": plain, "phase": phase}
