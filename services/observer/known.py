"""Whether the graph answers a query, by the names and the properties of its nodes. Pure; no model is called.

As in `deduplication`, a false match is worse than a repeated query. So only questions for one property of one node are
matched: "the lithium production of Chile in 2024", "Chile's lithium production in 2024". Any other counts as not answered.
"""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from shared.graph.context import FreshNode
from shared.graph.grounding.units import SHARE, hint_of

FRESH: Final = timedelta(days=1)
"""A value that was confirmed longer ago may have changed, and may be asked for again."""
_ASKING: Final = r"(?:(?:find(?: out)?|determine|identify|establish|get|what (?:is|was|are|were))\s+)?(?:the\s+)?"
_YEAR: Final = r"(?:\s+(?:in|for)\s+(?P<year>\d{4}))?"
_WHAT: Final = r"(?P<what>[a-z][a-z -]*)"
_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_POWER: Final = re.compile(r"(?<=[a-z])_?(?:km|m)[23]$|Km[23]$")
"""A unit whose figure is no year: `area_km2`."""
_YEARS: Final = ("Year", "_year", " year")


def known_answer(objective: str, nodes: Sequence[FreshNode]) -> str | None:
    """What the graph answers to `objective`, such as `Togo: population is 8500000`; None if it does not."""
    question = " ".join(objective.split()).rstrip(".?! ")
    names = Counter(node.name.casefold() for node in nodes)
    for node in nodes:
        if names[node.name.casefold()] > 1:
            continue  # It is not known which one is meant.
        for pattern in _patterns(node):
            if (match := re.fullmatch(pattern, question, re.IGNORECASE)) is not None:
                name = _property_of(node, match["what"].lower().split(), match["year"])
                if name is not None:
                    return f"{node.name}: {name} is {node.properties[name]}"
    return None


def _patterns(node: FreshNode) -> tuple[str, str]:
    """Questions about a property of `node`."""
    name = re.escape(node.name)
    of_type = r"\s+".join(_words(node.type))
    return (
        rf"{_ASKING}{_WHAT}\s+of\s+(?:the\s+)?(?:{of_type}\s+)?{name}{_YEAR}",
        rf"{_ASKING}{name}['’]s?\s+{_WHAT}{_YEAR}",
    )


def _property_of(node: FreshNode, asked: Sequence[str], year: str | None) -> str | None:
    """The property that has these words and, where it is of a year, that year; None if there is none."""
    for name in node.fresh:
        if not name.isascii() or not _is_figure(node.properties.get(name)):
            continue
        words = [word for word in _words(_POWER.sub("", name)) if not _is_unit(word)]
        own = [word for word in words if not word.isdigit()]
        years = [word for word in words if word.isdigit()]
        years += [str(node.properties[key]) for key in _year_keys(name) if key in node.properties]
        is_asked = len(own) == len(asked) and all(map(_is_same, own, asked))
        if is_asked and years == ([] if year is None else [year]):
            return name
    return None


def _words(name: str) -> list[str]:
    return [part.lower() for part in _PART.findall(name)]


def _is_same(own: str, asked: str) -> bool:
    """A property in the plural may be asked for in the singular, and not the other way: `owner` is not all owners."""
    return own in (asked, f"{asked}s")


def _is_unit(word: str) -> bool:
    # Behind another word, because many units are none alone; single letters such as in `population_f` are none at all.
    hint = hint_of(f"value_{word}")
    return len(word) > 1 and (hint.unit not in ("", SHARE) or bool(hint.scale))


def _year_keys(name: str) -> list[str]:
    """The properties that say of which year `name` is."""
    return [f"{name}{ending}" for ending in _YEARS] + ["year"]


def _is_figure(value: Any) -> bool:
    """Texts may be one answer of several: only figures are whole answers."""
    return isinstance(value, int | float) and not isinstance(value, bool)
