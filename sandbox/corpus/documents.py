"""Documents and the corpus they make up, with the rules that long documents and dates follow."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime

from sandbox.text.tokens import join_with_and


class CorpusError(Exception):
    """The corpus cannot be used; no part of it is served. The message names the file and a remedy."""


class UnreadableFileError(Exception):
    """A file of the corpus cannot be read. The message is the reason, without the file's name."""


@dataclass(frozen=True, slots=True)
class Document:
    """One page as plain text, one paragraph per line."""

    title: str
    text: str
    url: str
    published: date | None = None


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file, a folder or an entry of a file that was left out, and why."""

    name: str
    reason: str


MAX_CORPUS_BYTES = 50 * 1024 * 1024
"""Files beyond this total are left out, so that a corpus is read in seconds."""
MAX_NAMED = 4
"""How many skipped files or labels are named."""
MAX_COMPARED_LABELS = 2
MAX_COMPARED_SUBJECTS = 3
"""How many labels and subjects a suggested mission names."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """The numbers of files, documents and labelled figures that were loaded, and the files that were skipped."""

    files: int
    """How many files gave documents."""
    skipped: tuple[SkippedFile, ...] = ()
    other_types: Mapping[str, int] = field(default_factory=dict)
    """How many files of each unknown type (suffix with its dot) were left out."""
    documents: int = 0
    """How many documents they gave; long ones are split later."""
    beyond: int = 0
    """How many files were left out because those before them have MAX_CORPUS_BYTES."""
    figures: int = 0
    """How many labelled figures the documents have."""
    labels: tuple[str, ...] = ()
    """The labels of most documents, without years."""
    subjects: tuple[str, ...] = ()
    """The subjects with the most labelled figures, in this order."""

    def describe_skipped(self) -> str:
        """`a.json (invalid JSON, line 3) and 2 more files; 3 files of other types (.pdf)`; empty if nothing was skipped."""
        parts = []
        if self.skipped:
            named = [f"{file.name} ({file.reason})" for file in self.skipped[:MAX_NAMED]]
            parts.append(_and_more(named, len(self.skipped), "file"))
        if self.other_types:
            types = [name for name, _ in Counter(self.other_types).most_common()]
            listed = _and_more(types[:MAX_NAMED], len(types), "type")
            parts.append(
                f"{_plural(sum(self.other_types.values()), 'file')} of other types ({listed})"
            )
        if self.beyond:
            limit = f"the first {MAX_CORPUS_BYTES >> 20} MB"
            parts.append(f"{_plural(self.beyond, 'file')} beyond {limit}")
        return "; ".join(parts)

    def describe_figures(self) -> str:
        """`12 labelled figures, such as Capacity and Revenue`; `no labelled figures`."""
        if not self.figures:
            return "no labelled figures"
        examples = join_with_and(self.labels[:MAX_NAMED])
        return f"{_plural(self.figures, 'labelled figure')}, such as {examples}"

    def suggest_mission(self) -> str:
        """A mission that compares the figures of most documents; empty if there are no labelled figures."""
        if not self.figures:
            return ""
        labels = join_with_and([label.lower() for label in self.labels[:MAX_COMPARED_LABELS]])
        subjects = join_with_and(self.subjects[:MAX_COMPARED_SUBJECTS])
        return f"Watch {labels} of {subjects}, and find out what stands out"


def _and_more(named: list[str], count: int, noun: str) -> str:
    more = count - len(named)
    return ", ".join(named) + (f" and {_plural(more, f'more {noun}')}" if more else "")


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


@dataclass(frozen=True, slots=True)
class Corpus:
    """All documents of one corpus, in the order of their files."""

    name: str
    documents: tuple[Document, ...]
    report: LoadReport


FORMATS = ("%Y-%m-%d", "%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y", "%Y/%m/%d", "%d.%m.%Y")
ISO_DAY = re.compile(r"(\d{4}-\d{2}-\d{2})(?!\d)")
FIRST_YEAR = 1000
"""An earlier year is a placeholder such as 0001-01-01."""


def parse_date(text: str | None) -> date | None:
    """Parse a date (ISO 8601, a common English form, or that of mails and feeds).

    None if `text` is not one, and for a date that no page can have been published on: of the future, or before FIRST_YEAR.
    """
    day = _stated_day(text.strip()) if text else None
    return day if day and day.year >= FIRST_YEAR and day <= datetime.now(UTC).date() else None


def _stated_day(text: str) -> date | None:
    if match := ISO_DAY.match(text):
        text = match.group(1)
    for form in FORMATS:
        with suppress(ValueError):
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a day has no zone
    if ":" in text and "," in text:  # such as `Mon, 23 Nov 2026 10:00:00 GMT`
        with suppress(ValueError):
            return parsedate_to_datetime(text).date()
    return None


MAX_DOCUMENT_CHARS = 100_000


def split_long_documents(documents: Iterable[Document]) -> Iterator[Document]:
    """Split documents longer than MAX_DOCUMENT_CHARS at line ends; number the parts in title and URL."""
    for document in documents:
        if len(document.text) <= MAX_DOCUMENT_CHARS:
            yield document
            continue
        texts = list(_split_text(document.text))
        for number, text in enumerate(texts, start=1):
            title = f"{document.title} (part {number} of {len(texts)})"
            mark = "&" if "#" in document.url else "#"
            yield replace(
                document, title=title, text=text, url=f"{document.url}{mark}part-{number}"
            )


def _split_text(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > MAX_DOCUMENT_CHARS:
        end = start + MAX_DOCUMENT_CHARS
        mark = max(text.rfind("\n", start, end), text.rfind(". ", start, end))
        end = mark + 1 if mark > start else end
        yield text[start:end].strip()
        start = end
    yield text[start:].strip()
