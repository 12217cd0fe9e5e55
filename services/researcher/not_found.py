"""The statements of a document about what was not found. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from uuid import UUID

MAX_STATEMENTS: Final = 5
MAX_CHARS: Final = 300
_PAGE_LINE: Final = re.compile(r"\s*\[\d+\.\d+\]|\W*(?:source|url|published)\s*:", re.IGNORECASE)
"""A sentence of a page with its number, or what names a page."""
_MARKS: Final = re.compile(r"^[\s>#|]*(?:[-*•–—+]\s+|\d{1,3}[.)]\s+)?|[*_`~|]+|\s+$")
"""Marks of lists, headings, quotations, tables and emphasis."""
_LABEL: Final = re.compile(
    r"(?:(?:still |what (?:i|we|was)\b.{0,60}?)?(?:not|un)[ -]?found|what (?:i|we)\b.{0,60}?\bnot find|nothing found"
    r"|could not (?:be )?f(?:i|ou)nd|did not find|sought in vain|nicht gefunden|non trouvée?s?|introuvables?"
    r"|no (?:se )?encontr\w+|non trovat\w|não encontrad\w+)"
    r"\b(?P<of>[^:.]{0,60}?)\s*(?::|—|–| -|$)\s*(?P<what>.*)",
    re.IGNORECASE,
)
_NOT: Final = r"(?:\b(?:not|never|unable to|failed to)\b|n['’]t\b)"
_OWN_WORDS: Final = re.compile(
    rf"\b(?:i|we)\b.{{0,80}}?{_NOT}.{{0,40}}?\b(?:find|found|locate)"
    rf"|\b(?:looked|searched|sought|search(?:es)?)\b.{{0,200}}?(?:{_NOT} f(?:i|ou)nd|\b(?:nothing|in vain|without success))"
    r"|\b(?:nothing|none|no (?:page|source|sentence|passage|information|data|figure|evidence|result|document)s?)\b"
    r".{0,120}?\b(?:(?:was|were|be|been) found|found for|settles?|states?|gives?)\b",
    re.IGNORECASE,
)
_LAST_WORDS: Final = re.compile(rf"{_NOT}.{{0,30}}?\b(?:found|find|located?)\b", re.IGNORECASE)
_NOTHING: Final = re.compile(
    r"(?:-|none|nothing|n/?a|nil|no|(?:nothing|none) (?:else|more|further|is missing|was missing|of note)"
    r"|(?:everything|all\b.{0,40}) (?:was |were )?found.*|nichts|rien|nada|niente)?",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"\w{3,}")
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")


def find_statements(document: str) -> list[str]:
    """Extracts the model's own statements about data that it did not find, without sentences and titles of pages."""
    statements = (text[:MAX_CHARS] for text in _statements(document) if text)
    return list(dict.fromkeys(statements))[:MAX_STATEMENTS]


def _statements(document: str) -> Iterator[str]:
    lines = document.splitlines()
    own = [
        (place, _MARKS.sub("", line))
        for place, line in enumerate(lines)
        if not _PAGE_LINE.match(line) and not _is_title(lines, place)
    ]
    own = [(place, text) for place, text in own if text]
    last = max((place for place, line in enumerate(lines) if line.strip()), default=0)
    is_listed = False
    for place, text in own:
        label = _LABEL.match(text)
        if label is not None and (label["what"] or not label["of"]):
            # A label alone stands above what it is about.
            is_listed = not label["what"]
            yield _unless_empty(label["what"])
        elif is_listed and not lines[place].lstrip().startswith("#"):
            yield _unless_empty(text)
        else:
            is_listed = False
            if _OWN_WORDS.search(text) or (place == last and _LAST_WORDS.search(text)):
                yield _unless_empty(text)


def _is_title(lines: list[str], place: int) -> bool:
    """Returns true if the line is the heading of a page: its address follows."""
    following = next((line for line in lines[place + 1 :] if line.strip()), "")
    return lines[place].startswith("#") and _PAGE_LINE.match(following) is not None


def _unless_empty(text: str) -> str:
    text = text.strip()
    return "" if _NOTHING.fullmatch(text.rstrip(" .!")) else text


def by_request(statements: Sequence[str], objectives: Mapping[UUID, str]) -> dict[UUID, str]:
    """Assigns each statement to the requests that share most words with it, or to all if none shares a word.

    A statement about other years than a request names is not about that request.
    """
    assigned: dict[UUID, list[str]] = {}
    for statement in statements:
        words = set(_WORD.findall(statement.casefold()))
        shared = {
            each: len(words & set(_WORD.findall(objective.casefold())))
            for each, objective in objectives.items()
            if not _has_other_years(statement, objective)
        }
        for each, count in shared.items():
            if count == max(shared.values()):
                assigned.setdefault(each, []).append(statement)
    return {each: " ".join(texts)[:MAX_CHARS] for each, texts in assigned.items()}


def _has_other_years(statement: str, objective: str) -> bool:
    named, wanted = set(_YEAR.findall(statement)), set(_YEAR.findall(objective))
    return bool(named and wanted) and named.isdisjoint(wanted)
