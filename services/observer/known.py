"""Whether the graph answers a query, by the names and the properties of its nodes. Pure; no model is called.

As in `deduplication`, a false match is worse than a repeated query: the query must ask for one property, which has been
confirmed lately, of each node that it names, and for nothing else.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

from services.observer.deduplication import Word, name_words, split_question
from shared.graph.context import FreshNode
from shared.graph.grounding.units import SHARE, hint_of
from shared.graph.prompt_format import truncate_text

FRESH: Final = timedelta(days=1)
"""A value that was confirmed longer ago may have changed, and may be asked for again."""
_BROAD: Final = re.compile(r"\b(?:about|concerning|on|regarding|report(?:ed|s)?)\b", re.IGNORECASE)
"""A question about a thing asks for more than one value."""
_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_VALUE_CHARS: Final = 60


def known_answer(objective: str, nodes: Sequence[FreshNode]) -> str | None:
    """What the graph answers to `objective`, such as `Togo: population2024 is 8500000`; None if it does not."""
    if _BROAD.search(objective):
        return None
    words = split_question(objective)
    named, rest = _find_names(words, nodes)
    if not named:
        return None
    answers = [_property_of(node, rest) for node in named]
    if not all(answers):
        return None
    return "; ".join(
        f"{node.name}: {name} is {truncate_text(str(node.properties[name]), _VALUE_CHARS)}"
        for node, name in zip(named, answers, strict=True)
        if name is not None
    )


def _find_names(
    words: Sequence[Word], nodes: Sequence[FreshNode]
) -> tuple[list[FreshNode], list[Word]]:
    """The nodes that the words name, longer names first, and the words that belong to no name."""
    texts: list[str | None] = [word.text for word in words]
    named = []
    by_length = sorted(
        ((name_words(node.name), node) for node in nodes), key=lambda each: -len(each[0])
    )
    for name, node in by_length:
        places = [
            place
            for place in range(len(texts) - len(name) + 1)
            if name and texts[place : place + len(name)] == name
        ]
        for place in places:
            texts[place : place + len(name)] = [None] * len(name)
        if places:
            named.append(node)
    return named, [word for word, text in zip(words, texts, strict=True) if text is not None]


def _property_of(node: FreshNode, asked: Sequence[Word]) -> str | None:
    """The property that the words ask for, beside the node's type; None if there is none, or none that is fresh."""
    of_type = [Word(text) for text in _parts(node.type)]
    left = [word for word in asked if not any(word.is_like(each) for each in of_type)]
    figures = {word.text for word in left if word.has_figure}
    required = [word for word in left if not word.has_figure]
    years = {
        figure
        for name, value in node.properties.items()
        if hint_of(name).is_year
        for figure in re.findall(r"\d+", str(value))
    }
    for name in node.fresh:
        parts = list(_parts(name))
        own_figures = {part for part in parts if part.isdigit()}
        own = [Word(part) for part in parts if not part.isdigit()]
        is_asked = all(any(word.is_like(each) for each in own) for word in required)
        asks_all = all(
            any(each.is_like(word) for word in required) or _is_unit(each) for each in own
        )
        if required and is_asked and asks_all and figures <= own_figures | years:
            return name if _has_value(node.properties.get(name)) else None
    return None


def _parts(name: str) -> Iterator[str]:
    return (part.lower() for part in _PART.findall(name))


def _is_unit(word: Word) -> bool:
    # Behind another word: alone, a short one such as "t" is no unit.
    hint = hint_of(f"value_{word.text}")
    return hint.unit not in ("", SHARE) or bool(hint.scale)


def _has_value(value: Any) -> bool:
    return value is not None and value not in ("", [], {})
