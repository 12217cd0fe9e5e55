"""Speakers: who says what a quote attributes to someone, matched with the page like any name. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from shared.graph.grounding.names import find_mentions, is_mentioned
from shared.graph.grounding.passages import Cited, Passages, has_office, without_office
from shared.graph.grounding.words import fold
from shared.tools import ToolRefusalError

MAX_SPEAKER_CHARS: Final = 80
_NO_NAME: Final = re.compile(r"[<>{}\[\]|»«\\`]|https?:")
"""Signs that no name has, and with which a text could pass for something else in a prompt."""
_WITHIN: Final = ",;:)\"'”»“«"
"""Signs after which a sentence goes on."""


def refuse_speaker(name: str) -> None:
    """Raises ToolRefusalError if no evidence can have this speaker."""
    if reason := _why_no_name(name):
        raise ToolRefusalError(f"speaker: {reason}")


def match_speaker(
    given: str, cited: Sequence[Cited], known: Sequence[Sequence[str]]
) -> tuple[str | None, str]:
    """The speaker as the page names them, and why it is left out; one of the two is empty.

    A cited sentence has the name, a short form, or another form of it, or its page has it, so that a pronoun or an office
    can mean it. A surname becomes the full name, if the page has one. `known` are the names of each node that is known.
    """
    name = " ".join(given.split())
    if reason := _why_no_name(name):
        return None, reason
    passages = Passages(cited, known)
    if passages.is_named([name]) is False and not is_mentioned(name, passages.page_texts):
        return None, f"no cited sentence and no page of it names {name!r}"
    return _full_name(name, passages) or name, ""


def _full_name(name: str, passages: Passages) -> str | None:
    """The full name of a surname, also after an office; None if the page has none, or several."""
    person = without_office(name)
    if has_office(person):
        person = person.rpartition(" ")[2]
    if " " in person:
        return None
    full = {each for each in passages.full_names(person) if not has_office(each)}
    if len(full) != 1:
        return None
    [only] = full
    return only if any(_is_within_sentence(only, text) for text in passages.page_texts) else None


def _is_within_sentence(name: str, text: str) -> bool:
    """Whether the name stands after other words. The first word of a sentence may not belong to it, as in "Laut Norwerk"."""
    return any(
        before.isalnum() or before in _WITHIN
        for each in find_mentions(name, text)
        if (before := text[: each.start].rstrip(" ")[-1:])
    )


def _why_no_name(name: str) -> str:
    if len(name) > MAX_SPEAKER_CHARS:
        return f"{len(name)} characters; a name has at most {MAX_SPEAKER_CHARS}"
    if _NO_NAME.search(name) or not name.isprintable() or not any(map(str.isalpha, name)):
        return "it is no name"
    return ""


def unify(names: Iterable[str]) -> Mapping[str, str]:
    """The longest form of each name: that of the one other name that contains it. Of two, none is meant for certain."""
    in_order = sorted(set(names))
    by_key = {fold(name): name for name in in_order}
    longest = {}
    for name in in_order:
        own = by_key[fold(name)]
        wider = [each for each in by_key.values() if each != own and is_mentioned(own, [each])]
        widest = [
            each
            for each in wider
            if not any(each != other and is_mentioned(each, [other]) for other in wider)
        ]
        longest[name] = widest[0] if len(widest) == 1 else own
    return longest
