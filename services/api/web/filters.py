"""Template filters: numbers with units, dates, texts."""

import json
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Any, Final
from urllib.parse import urlsplit

from markupsafe import Markup

from shared.domains import site_of
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.hidden_text import without_hidden
from shared.schemas.base import CallTotals, ProviderOutage
from shared.schemas.iterations import CallUsage, WrittenElement
from shared.wording import NONE, bytes_of, clip, compact, duration, plural, usd

_ISO_DAY_CHARS: Final = 10
_LINKED: Final = frozenset({"http", "https"})


class Verbatim(str):
    """A text that a page shows as it is, because a form sends it back."""

    __slots__ = ()


def as_shown(value: Any) -> Any:
    """Applied to the value of each expression in a template. Markup is made of such values, or of sanitized text."""
    return value if type(value) is not str or value.isascii() else without_hidden(value)


def time_element(moment: datetime | None) -> Markup | str:
    """A `<time>` element, which `times.js` converts to the reader's time zone and adds how long ago it is."""
    return NONE if moment is None else _time_element(moment, utc(moment), "")


def _time_element(moment: datetime, words: str, attribute: str) -> Markup:
    exact = moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return Markup('<time datetime="{}"{}>{}</time>').format(exact, Markup(attribute), words)


def time_element_of_text(text: str) -> Markup | str:
    """The same for an ISO 8601 string of a node's properties, which may be a day; other text stays as it is."""
    try:
        if len(text) == _ISO_DAY_CHARS:
            return day(date.fromisoformat(text))
        return time_element(datetime.fromisoformat(text))
    except ValueError:
        return text


def day(of: date | None) -> Markup | str:
    """A `<time>` element of a day, which is the same in all time zones; of a moment, its day in UTC."""
    if of is None:
        return NONE
    of = of.astimezone(UTC).date() if isinstance(of, datetime) else of
    return Markup('<time datetime="{}" data-day>{}</time>').format(of.isoformat(), written_day(of))


def written_day(of: date) -> str:
    """`2 Jan 2026`, as `times.js` writes it."""
    return f"{of.day} {of:%b %Y}"


def cost(spent: CallUsage | CallTotals) -> str:
    """The cost of calls; where nothing was billed, their tokens."""
    if spent.cost_usd:
        return usd(spent.cost_usd)
    tokens = spent.input_tokens + spent.output_tokens
    return f"{compact(tokens)} tokens" if tokens else "nothing"


def utc(moment: datetime) -> str:
    """For attributes, which `times.js` does not convert."""
    exact = moment.astimezone(UTC)
    return f"{written_day(exact)}, {exact:%H:%M} UTC"


def clock(moment: datetime | None) -> Markup | str:
    """A `<time>` element that `times.js` converts to the time of day, with the day unless it is today."""
    return NONE if moment is None else _time_element(moment, utc(moment), " data-clock")


def clock_with_zone(moment: datetime) -> Markup:
    """The same for the time of day alone, with the name of its time zone."""
    return _time_element(moment, f"{moment.astimezone(UTC):%H:%M} UTC", " data-zone")


def count(number: float | None) -> str:
    return NONE if number is None else f"{number:,}"


def percent(share: float | None) -> str:
    return NONE if share is None else f"{share:.0%}"


def pretty(value: Any) -> str:
    """Formats a value as indented JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


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
    "clock": clock,
    "clock_with_zone": clock_with_zone,
    "day": day,
    "written_day": written_day,
    "span": duration,
    "usd": usd,
    "cost": cost,
    "compact": compact,
    "utc": utc,
    "count": count,
    "bytes": bytes_of,
    "plural": plural,
    "percent": percent,
    "pretty": pretty,
    "host": host,
    "safe_link": safe_link,
    "verbatim": Verbatim,
    "site": site_of,
}


MAX_CHARS: Final = 20_000


def cut(text: str) -> str:
    """Truncates text longer than MAX_CHARS and says how much is left out."""
    left_out = len(text) - MAX_CHARS
    if left_out <= 0:
        return text
    return f"{text[:MAX_CHARS]}\n… {left_out:,} more characters"


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


_TYPE_WORDS: Final = {ADVICE_TYPE: "Advice", ANALYSIS_TYPE: "Analysis"}


def type_words(name: str) -> str:
    """The name of a node or edge type as people write it: `Analysis`, `located in`."""
    return _TYPE_WORDS.get(name, name.replace("_", " "))


def end_of_edge(name: str, conclusions: Iterable[WrittenElement]) -> str | None:
    """The target of an edge named `source → target`, if its source is one of these; their titles are long sentences."""
    starts = (f"{each.name} → " for each in conclusions)
    return next((name.removeprefix(start) for start in starts if name.startswith(start)), None)


_TELLING: Final = ("query", "name", "objective", "topic", "question", "type")
"""Arguments of tools, the most telling first."""


def argument_summary(arguments: str) -> str:
    """What a tool was called with, in a few words: a name or a query, or both ends of an edge."""
    try:
        values = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(values, dict):
        return arguments
    if values.get("sourceId") and values.get("targetId"):
        return f"{values['sourceId']} → {values['targetId']}"
    if isinstance(values.get("urls"), list):
        return ", ".join(host(str(url)) for url in values["urls"])
    telling = next((values[name] for name in _TELLING if values.get(name)), None)
    return plain(telling) if telling is not None else arguments if values else ""


_BROWSERS: Final = (
    ("Edg/", "Edge"),
    ("OPR/", "Opera"),
    ("Firefox/", "Firefox"),
    ("Chrome/", "Chrome"),
    ("Version/", "Safari"),
)
"""In this order: most browsers claim to be others too."""
_SYSTEMS: Final = (
    ("Android", "Android"),
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Windows", "Windows"),
    ("Mac OS X", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)


def browser(user_agent: str) -> str:
    """`Firefox 128 on Linux`; a user agent that is not of a known browser stays as it is."""
    for mark, name in _BROWSERS:
        _, found, rest = user_agent.partition(mark)
        if found:
            version = rest.split(".")[0].split(" ")[0]
            system = next((name for mark, name in _SYSTEMS if mark in user_agent), None)
            return f"{name} {version}" + (f" on {system}" if system else "")
    return user_agent


def sentence(text: str) -> str:
    """Begins with a capital letter and ends with a full stop."""
    text = text.strip()
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


def explain(outages: Iterable[ProviderOutage], error: str | None) -> bool:
    """Whether one of the outages explains the error of a step."""
    return any(outage.explains(error) for outage in outages)


TEXT_FILTERS: Final = {
    "explain": explain,
    "cut": cut,
    "unpacked": unpacked,
    "plain": plain,
    "phase": phase,
    "type_words": type_words,
    "end_of_edge": end_of_edge,
    "argument_summary": argument_summary,
    "browser": browser,
    "sentence": sentence,
    "clip": clip,
}
