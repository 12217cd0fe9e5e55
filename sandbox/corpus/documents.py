"""Documents and the corpus they make up, with the rules that long documents and dates follow."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime


class CorpusError(Exception):
    """The corpus cannot be used; no part of it is served. The message names the file and a remedy."""


@dataclass(frozen=True, slots=True)
class Document:
    """One page as plain text, one paragraph per line."""

    title: str
    text: str
    url: str
    published: date | None = None


@dataclass(frozen=True, slots=True)
class LoadReport:
    """Number of skipped files by unknown type (suffix with its dot)."""

    files: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    """How many files of each unknown type (suffix with its dot) were passed over."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """All documents of one corpus, in the order of their files."""

    name: str
    documents: tuple[Document, ...]
    report: LoadReport


FORMATS = ("%d %B %Y", "%d %b %Y", "%B %d, %Y", "%b %d, %Y", "%Y/%m/%d", "%d.%m.%Y")
ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def parse_date(text: str | None) -> date | None:
    """Parse a date (ISO 8601 or a common English form); None if `text` is not one."""
    if not text:
        return None
    text = text.strip()
    if match := ISO_DAY.match(text):
        return _parse_day(match.group(), "%Y-%m-%d")
    return next((day for day in (_parse_day(text, form) for form in FORMATS) if day), None)


def _parse_day(text: str, form: str) -> date | None:
    try:
        return datetime.strptime(text, form).date()  # noqa: DTZ007 - a day has no zone
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
