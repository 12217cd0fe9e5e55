"""Documents and the corpus they make up, with the rules that long documents and dates follow."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime


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
"""How many skipped files, or documents in another language, are named."""


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What was read and what was not."""

    files: int
    """How many files gave documents."""
    skipped: tuple[SkippedFile, ...] = ()
    other_types: Mapping[str, int] = field(default_factory=dict)
    """How many files of each unknown type (suffix with its dot) were left out."""
    documents: int = 0
    """How many documents they gave; long ones are split later."""
    foreign: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By language other than English: the titles of the documents in it."""

    english: tuple[str, ...] = ()
    """The titles of the first documents in English."""
    beyond: int = 0
    """How many files were left out because those before them have MAX_CORPUS_BYTES."""

    @property
    def foreign_documents(self) -> int:
        """How many documents are in a language other than English."""
        return sum(map(len, self.foreign.values()))

    def describe_skipped(self) -> str:
        """`a.json (invalid JSON, line 3) and 2 more files; 3 files of other types (.pdf)`; empty if nothing was skipped."""
        parts = []
        if self.skipped:
            named = [f"{file.name} ({file.reason})" for file in self.skipped[:MAX_NAMED]]
            parts.append(_and_more(named, len(self.skipped), "files"))
        if self.other_types:
            count = sum(self.other_types.values())
            types = [name for name, _ in Counter(self.other_types).most_common()]
            listed = _and_more(types[:MAX_NAMED], len(types), "types")
            parts.append(f"{count} {'file' if count == 1 else 'files'} of other types ({listed})")
        if self.beyond:
            noun = "file" if self.beyond == 1 else "files"
            parts.append(f"{self.beyond:,} {noun} beyond the first {MAX_CORPUS_BYTES >> 20} MB")
        return "; ".join(parts)

    def describe_foreign(self) -> str:
        """`8 German and 4 Chinese (Bericht, Lage, 报告 and 9 more documents)`; empty if all documents are English."""
        if not self.foreign:
            return ""
        by_count = sorted(self.foreign.items(), key=lambda pair: -len(pair[1]))
        counts = [f"{len(titles)} in {language}" for language, titles in by_count]
        several = _and_more(counts[:MAX_NAMED], len(counts), "languages")
        titles = [title for _, titles in by_count for title in titles[:2]][:MAX_NAMED]
        return f"{several} ({_and_more(titles, self.foreign_documents, 'documents')})"

    def describe_english(self) -> str:
        """`Report, Situation and 3 more documents`; empty if no document is in English."""
        return _and_more(list(self.english), self.documents - self.foreign_documents, "documents")


def _and_more(named: list[str], count: int, noun: str) -> str:
    more = count - len(named)
    if more == 1:
        noun = noun.removesuffix("s")
    return ", ".join(named) + (f" and {more} more {noun}" if more else "")


@dataclass(frozen=True, slots=True)
class Corpus:
    """All documents of one corpus, in the order of their files."""

    name: str
    documents: tuple[Document, ...]
    report: LoadReport


FORMATS = (
    "%d %B %Y",
    "%d %b %Y",
    "%B %d, %Y",
    "%b %d, %Y",
    "%Y/%m/%d",
    "%d.%m.%Y",
)
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
        return _parse_day(match.group(1), "%Y-%m-%d")
    return next((day for day in (_parse_day(text, form) for form in FORMATS) if day), None) or (
        _mail_day(text)
    )


def _parse_day(text: str, form: str) -> date | None:
    try:
        return datetime.strptime(text, form).date()  # noqa: DTZ007 - a day has no zone
    except ValueError:
        return None


def _mail_day(text: str) -> date | None:
    """The day of a date such as `Mon, 23 Nov 2026 10:00:00 GMT`."""
    if text.count(":") < 1 or "," not in text:
        return None
    try:
        return parsedate_to_datetime(text).date()
    except ValueError:
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
