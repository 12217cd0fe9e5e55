"""Labelled facts, such as `Ghana — Exports 2023: $25 billion` or `Customers: Volta Motors, Baltic Rail`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sandbox.text.tokens import STOP_WORDS, WORD_LISTS

LIST_MARK = re.compile(r"^\s*(?:[-*+•>]|\d{1,3}[.)]|#{1,6})\s+")
END = re.compile(r"[.!?][\"'”’)\]]*\s+(?=[\"'“‘(\[]?[^\W_a-zß-ÿ])")
MAX_SENTENCE_CHARS = 320
"""A longer sentence is split at its semicolons."""


def sentences(text: str) -> list[str]:
    """All sentences and headings, as literal parts of `text`. A line end also ends a sentence."""
    parts: list[str] = []
    for line in text.splitlines():
        rest = LIST_MARK.sub("", line).strip()
        while rest:
            end = END.search(rest)
            piece, rest = (rest[: end.end()].rstrip(), rest[end.end() :]) if end else (rest, "")
            while len(piece) > MAX_SENTENCE_CHARS and "; " in piece[:MAX_SENTENCE_CHARS]:
                cut = piece.rindex("; ", 0, MAX_SENTENCE_CHARS) + 1
                parts.append(piece[:cut])
                piece = piece[cut:].strip()
            parts.append(piece)
    return parts


LINE = re.compile(
    r"^(?:(?P<subject>[^:—–]{2,70}?) [—–] )?(?P<label>[^:.;!?]{2,90}): (?P<value>\S.*)$", re.DOTALL
)
STARTS_WITH_FIGURE = re.compile(
    r"^(?:(?:less|more|fewer) than |about |approximately |nearly |over |under |up to |at least )?[-−~]?\s?[$€£¥]?\s?\d",
    re.IGNORECASE,
)
YEAR = re.compile(r"\b(?:19|20)\d\d\b")
REMARK = re.compile(r"\s*\([^()]*\)")
LIST_SIGN = re.compile(r";|,(?!\d{3}\b)")
"""The separator of list entries; the comma in "1,468" is none."""
ENTRY = re.compile(r"^(?P<name>.*?)(?:\s+(?P<figure>[-−]?[$€£]?\d[\d.,]*\s*(?:%|km|[a-z]+)?))?$")
NO_ENTRY = WORD_LISTS["no_entry"]
"""Entries that start with these are not names."""
MAX_LABEL_WORDS = 14
MAX_OWN_LABEL_WORDS = 5
"""Maximum for a label without a subject before it: a longer one is a sentence with a colon."""
MAX_ENTRY_WORDS = 4
MAX_FIGURE_WORDS = 8
"""A value with more words, without remarks in brackets, is a sentence."""
MAX_FIGURE_CHARS = 90


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry of a list with the figure beside it, as in `Switzerland 24%`."""

    name: str
    figure: str


@dataclass(frozen=True, slots=True)
class LabelLine:
    """A fact and its label. `subject` is empty if the line does not state one."""

    subject: str
    label: str
    value: str

    @property
    def key(self) -> str:
        """The label without its year: the same for facts of different years and subjects."""
        return label_key(self.label)

    @property
    def figure(self) -> str:
        """The value if it is a number with its unit; empty for lists, prose and remarks on how something was counted."""
        value = self.value.partition(";")[0]
        if value.count("(") > value.count(")"):
            value = value[: value.rindex("(")]
        value = value.strip()
        is_long = len(REMARK.sub("", value).split()) > MAX_FIGURE_WORDS
        if is_long or len(value) > MAX_FIGURE_CHARS or self.label.lower().endswith("note"):
            return ""
        return value if STARTS_WITH_FIGURE.match(value) else ""

    @property
    def entries(self) -> Sequence[Entry]:
        """The entries of a value that is a list of short names; empty if it is prose or a figure."""
        value = REMARK.sub("", self.value)
        if STARTS_WITH_FIGURE.match(value):
            return ()
        parts = [part.strip().removeprefix("and ") for part in LIST_SIGN.split(value)]
        matches = [match for part in parts if part and (match := ENTRY.match(part))]
        entries = [Entry(match["name"].strip(), match["figure"] or "") for match in matches]
        if not all(0 < len(entry.name.split()) <= MAX_ENTRY_WORDS for entry in entries):
            return ()
        return [entry for entry in entries if _is_name(entry.name)]


def _is_name(name: str) -> bool:
    """Whether an entry is a name, and not a fragment such as `less than` or `other metals`."""
    first = name.split()[0]
    leads_on = first[0].islower() and (first in STOP_WORDS or first in NO_ENTRY)
    return not leads_on and not any(character.isdigit() or character == ":" for character in name)


SHEET_TITLE = re.compile(r"^(?P<subject>[^:]{2,60}): \S")


def subject_of(title: str) -> str:
    """What a fact sheet is about: `Ghana` of `Ghana: Economy`, else the whole title."""
    match = SHEET_TITLE.match(title)
    return match["subject"] if match else title


def label_key(label: str) -> str:
    """A label without its year."""
    return " ".join(YEAR.sub("", label).split()).strip(" ,-:")


@lru_cache(maxsize=65_536)
def parse_label(line: str) -> LabelLine | None:
    """Parse a labelled fact; None for prose. Without a subject, the value must be a figure or a list."""
    match = LINE.match(line)
    if not match or len(match["label"].split()) > MAX_LABEL_WORDS:
        return None
    fact = LabelLine(
        match["subject"] or "", match["label"].strip(), match["value"].strip().rstrip(".")
    )
    if fact.subject:
        return fact
    if not line[:1].isupper() or len(fact.label.split()) > MAX_OWN_LABEL_WORDS:
        return None
    return fact if fact.figure or len(fact.entries) >= 2 else None


def table_lines(rows: Sequence[Sequence[str]]) -> list[str]:
    """The cells of a table with a header row as labelled facts: `Northvale — Revenue 2025: $1.1 billion`."""
    if not rows:
        return []
    header, *body = rows
    lines = [
        f"{row[0]} — {label}: {cell}"
        for row in body
        if row and row[0]
        for label, cell in zip(header[1:], row[1:], strict=False)
        if label and cell
    ]
    return lines or [" ".join(filter(None, row)) for row in rows]


def join_lines(paragraph: str) -> list[str]:
    """The lines of a paragraph as one line of text; each labelled fact stands alone."""
    lines: list[str] = []
    is_open = False
    for line in filter(None, (" ".join(raw.split()) for raw in paragraph.splitlines())):
        is_fact = parse_label(line) is not None
        if is_open and not is_fact:
            lines[-1] += f" {line}"
        else:
            lines.append(line)
        is_open = not is_fact
    return lines
