"""What a corpus is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date


class CorpusError(Exception):
    """The corpus cannot be used as it is; nothing of it is served. The message names the file and the way out."""


@dataclass(frozen=True, slots=True)
class Document:
    """One page: plain text, a paragraph a line."""

    title: str
    text: str
    url: str
    published: date | None = None


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What was read, and what was left out."""

    files: int
    skipped: Mapping[str, int] = field(default_factory=dict)
    """How many files of each unknown type (suffix with its dot) were passed over."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Every document of one place, in the order of their files."""

    name: str
    documents: tuple[Document, ...]
    report: LoadReport
