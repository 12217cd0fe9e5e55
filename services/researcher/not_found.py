"""The statements of a document about what was not found. Pure."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from shared.graph.grounding.words import word_set
from shared.workflow.questions import normalize_letters, split_words

MAX_STATEMENTS: Final = 5
MAX_CHARS: Final = 300
_MIN_STEMS: Final = 2
"""A statement of fewer words says too little to be compared with a sentence."""
_CITED: Final = re.compile(r"\[\d+\.\d+\] ")
_DENIALS: Final = frozenset({"denied", "denies", "deny"})
"""Negations that are an answer."""
_STEM_CHARS: Final = 5
_WORDS: Final = re.compile(r"[^\W\d_]+|\d+")
_UNSPACED: Final = re.compile(
    r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
)
"""Letters of languages without spaces between words."""
_GENERAL_WORDS: Final = (
    "additional all also amount by compared data details each figures for from further how information level list many "
    "more much new not number of or other overall per recent since size some than to total value when where who why year"
)
_GENERAL: Final = frozenset(_GENERAL_WORDS.split())
"""Words that requests about anything have."""
_PAGE_LINE: Final = re.compile(r"\s*\[\d+\.\d+\]|\W*(?:source|url|published)\s*:", re.IGNORECASE)
"""A sentence of a page with its number, or what names a page."""
_MARKS: Final = re.compile(r"^[\s>#|]*(?:[-*•–—+]\s+|\d{1,3}[.)]\s+)?|[*_`~|]+|\s+$")
"""Marks of lists, headings, quotations, tables and emphasis."""
_LABEL: Final = re.compile(
    r"(?:(?:still |what (?:i|we|was)\b.{0,60}?)?(?:not|un)[ -]?found|what (?:i|we)\b.{0,60}?\bnot find|nothing found"
    r"|could not (?:be )?f(?:i|ou)nd|did not find|sought in vain|nicht gefunden|non trouvée?s?|introuvables?"
    r"|no (?:se )?encontr\w+|non trovat\w|não encontrad\w+)"
    r"\b(?:\s*[(#]{0,2}(?P<request>\d{1,2})\)?(?=\s*(?:[:—–]|$)))?"
    r"(?P<of>\s*\([^()]{0,60}\)|\s(?:in|on|at|by|yet|so far|en|dans|auf|nei|em)\b[^:.]{0,60}?)?"
    r"\s*(?::|—|–| -|$)\s*(?P<what>.*)",
    re.IGNORECASE,
)
_NOTHING: Final = re.compile(
    r"(?:-|none|nothing|n/?a|nil|no|(?:nothing|none) (?:else|more|further|is missing|was missing|of note)"
    r"|(?:everything|all\b.{0,40}) (?:was |were )?found.*|nichts|rien|nada|niente)?",
    re.IGNORECASE,
)
_WORD: Final = re.compile(r"\w{3,}")
_YEAR: Final = re.compile(r"\b(?:19|20)\d\d\b")


class Statement(NamedTuple):
    text: str
    request: int | None = None
    """The number of the request that it is about, if the label has one."""


def find_statements(document: str) -> list[Statement]:
    """Extracts the statements about data that was not found, from lines with the label that the model is asked for.

    A sentence without the label may be a page's, so it does not count, whatever it says. Nor does a statement all of whose
    words a cited sentence has.
    """
    sentences = list(_cited_stems(document))
    statements = (
        Statement(text[:MAX_CHARS], number)
        for text, number in _statements(document)
        if text and not _is_refuted(text, sentences)
    )
    return list(dict.fromkeys(statements))[:MAX_STATEMENTS]


def _cited_stems(document: str) -> Iterator[set[str]]:
    """The stems of each cited sentence with the title and date of its page, without those that may say "not disclosed"."""
    heading, is_below_sentence = "", False
    for line in document.splitlines():
        cited = _CITED.match(line)
        if cited is None:
            heading = "" if is_below_sentence else heading
            heading += f"{line}\n" if line.startswith(("## ", "Published:")) else ""
        elif not (word_set("negations") - _DENIALS) & {*_WORDS.findall(line.casefold())}:
            yield {*stems(heading + line[cited.end() :])}
        is_below_sentence = cited is not None


def _is_refuted(statement: str, sentences: Sequence[set[str]]) -> bool:
    wanted = wanted_stems(statement)
    return len(wanted) >= _MIN_STEMS and any(wanted <= each for each in sentences)


def wanted_stems(text: str) -> set[str]:
    """The stems of the words of a request or statement, without words that requests about anything have."""
    words = (word.text for word in split_words(text))
    return {stem for word in words if word not in _GENERAL for stem in stems(word)}


def stems(text: str) -> Iterator[str]:
    """The beginnings of words, which are the same for most of their forms. Of languages without spaces, pairs of letters."""
    decomposed = unicodedata.normalize("NFD", normalize_letters(text))
    plain = "".join(char for char in decomposed if unicodedata.category(char) != "Mn")
    for word in _WORDS.findall(plain):
        if _UNSPACED.search(word):
            yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))
        else:
            yield word if word.isdigit() else word[:_STEM_CHARS]


def _statements(document: str) -> Iterator[tuple[str, int | None]]:
    lines = document.splitlines()
    own = [
        (place, _MARKS.sub("", line))
        for place, line in enumerate(lines)
        if not _PAGE_LINE.match(line) and not _is_title(lines, place)
    ]
    own = [(place, text) for place, text in own if text]
    is_listed, number = False, None
    for place, text in own:
        label = _LABEL.match(text)
        if label is not None and (label["what"] or not label["of"]):
            # A label alone stands above what it is about.
            is_listed = not label["what"]
            number = int(label["request"]) if label["request"] else None
            yield _unless_empty(label["what"]), number
        elif is_listed and not lines[place].lstrip().startswith("#"):
            yield _unless_empty(text), number
        else:
            is_listed = False


def _is_title(lines: list[str], place: int) -> bool:
    """Returns true if the line is the heading of a page: its address follows."""
    following = next((line for line in lines[place + 1 :] if line.strip()), "")
    return lines[place].startswith("#") and _PAGE_LINE.match(following) is not None


def _unless_empty(text: str) -> str:
    text = text.strip()
    return "" if _NOTHING.fullmatch(text.rstrip(" .!")) else text


def by_request(statements: Sequence[Statement], objectives: Mapping[UUID, str]) -> dict[UUID, str]:
    """Assigns each statement to the request of its number in `objectives`, from 1.

    Without a number, it belongs to the requests that share most words with it, or to all if none shares a word, but not to
    a request that names other years.
    """
    assigned: dict[UUID, list[str]] = {}
    for statement in statements:
        for each in _requests_of(statement, objectives):
            assigned.setdefault(each, []).append(statement.text)
    return {each: " ".join(texts)[:MAX_CHARS] for each, texts in assigned.items()}


def _requests_of(statement: Statement, objectives: Mapping[UUID, str]) -> Sequence[UUID]:
    if statement.request is not None and 1 <= statement.request <= len(objectives):
        return [list(objectives)[statement.request - 1]]
    words = set(_WORD.findall(statement.text.casefold()))
    shared = {
        each: len(words & set(_WORD.findall(objective.casefold())))
        for each, objective in objectives.items()
        if not _has_other_years(statement.text, objective)
    }
    most = max(shared.values(), default=0)
    return [each for each, count in shared.items() if count == most]


def _has_other_years(statement: str, objective: str) -> bool:
    named, wanted = set(_YEAR.findall(statement)), set(_YEAR.findall(objective))
    return bool(named and wanted) and named.isdisjoint(wanted)
