"""The sentences of a conclusion, as they are read and numbered. Pure."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from shared.graph.conclusions.citations import parse_citations, replace_citations
from shared.graph.provenance.page_reading import find_sentences

TITLE: Final = "title"
WRONG_IF: Final = "wrong if"
CHANGE: Final = "change"
ACTION: Final = "action"
REVIEW: Final = "review"
SUBJECT: Final = "subject"
"""Roles of sentences: what would prove a conclusion wrong is not said to be so; what changed since the advice that this one
replaces, or why it holds beside other advice; the word for what advice recommends; what a review does to standing
advice; and what advice is about.
"""
_ROLES: Final = {
    "summary": "",
    "content": "",
    "invalidation": WRONG_IF,
    "change": CHANGE,
    "action": ACTION,
}
"""By the property of the conclusion, in the order in which its sentences are numbered."""


@dataclass(frozen=True)
class Sentence:
    text: str
    """Without citations."""
    cited: tuple[UUID, ...]
    role: str = ""
    """TITLE, REVIEW, SUBJECT or one of `_ROLES`."""


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of a text in Markdown. A citation that stands alone belongs to the sentence before it."""
    sentences: list[Sentence] = []
    for line in text.splitlines():
        for place, (start, end) in enumerate(find_sentences(line)):
            cited = tuple(parse_citations(line[start:end]).ids())
            # What stands before the first is a mark of Markdown, or a number, which a person reads.
            before = "" if place else _MARKDOWN_MARKS.sub("", line[:start])
            plain = plain_line(before + line[start:end])
            if any(map(_is_text, plain)):
                sentences.append(Sentence(plain, cited))
            elif cited and sentences:
                last = sentences[-1]
                sentences[-1] = replace(last, cited=tuple(dict.fromkeys((*last.cited, *cited))))
    return sentences


def _is_text(character: str) -> bool:
    """Whether a reader can take it for more than a sign of Markdown: some letters and figures are symbols to Unicode."""
    category = unicodedata.category(character)
    is_sign = category[0] in "PZ" or category in ("Cc", "Cf") or character in _MARKDOWN_SIGNS
    return not is_sign


_MARKDOWN_MARKS: Final = re.compile(r"^[\s#>]*(?:[-*+]\s+)*")
"""At the start of a line: of a heading, a quotation and a list without numbers."""
_MARKDOWN_SIGNS: Final = frozenset("|<>=+`^~$")
_BLANK_BEFORE_SIGN: Final = re.compile(r" ([.,;:!?])")


def plain_line(text: str) -> str:
    """The text on one line, without its citations."""
    plain = " ".join(replace_citations(text, lambda _: "").split())
    return _BLANK_BEFORE_SIGN.sub(r"\1", plain)


def sentences_of(name: str, properties: Mapping[str, Any]) -> list[Sentence]:
    """The sentences of a conclusion in the order in which readings number them, each once in a role and after the same one.

    Those that repeat a text in another role are the last: what says something must not pass as what would prove it wrong.
    """
    found: dict[tuple[str, str, str], Sentence] = {(name, TITLE, ""): Sentence(name, (), TITLE)}
    repeated: dict[tuple[str, str, str], Sentence] = {}
    for key, role in _ROLES.items():
        text, before = properties.get(key), ""
        for each in split_sentences(text) if isinstance(text, str) else ():
            is_repeated = any(said == each.text and other != role for said, other, _ in found)
            sentences = repeated if is_repeated else found
            place = (each.text, role, before)
            known = sentences.setdefault(place, replace(each, role=role))
            cited = tuple(dict.fromkeys((*known.cited, *each.cited)))
            sentences[place] = replace(known, cited=cited)
            before = each.text
    return [*found.values(), *repeated.values()]
