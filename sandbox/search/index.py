"""A full-text index over a corpus: SQLite's FTS5 (bm25, Porter stems), with titles weighted above text."""

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import TypeAdapter

from sandbox.corpus import Corpus, CorpusError, Document, LoadReport, fingerprint, load
from sandbox.corpus.loader import Progress, no_progress
from sandbox.search.passages import best_passage
from sandbox.text.tokens import is_meaningful, words

MAX_WORDS = 24


def query_terms(text: str) -> list[str]:
    """The meaningful words and pairs of neighbouring words, as FTS5 strings without quotes.

    With pairs, a page with `West African economy` ranks above one with the three words apart. If no word is meaningful,
    all words are used.
    """
    every = [word.lower() for word in words(text)]
    selection = [word for word in every if is_meaningful(word) or word.isdigit()] or every
    return [
        *dict.fromkeys(selection[:MAX_WORDS]),
        *dict.fromkeys(_neighbours(every, frozenset(selection))),
    ]


def _neighbours(every: list[str], selection: frozenset[str]) -> list[str]:
    """Pairs of chosen words with at most one other word between them, as in `gulf of guinea`."""
    phrases = [
        " ".join(every[start : start + length])
        for start in range(len(every))
        for length in (2, 3)
        if len(every) >= start + length
        and every[start] in selection
        and every[start + length - 1] in selection
        and not selection.intersection(every[start + 1 : start + length - 1])
    ]
    return phrases[:MAX_WORDS]


TITLE_WEIGHT = 2.0
CANDIDATES = 60
"""How many of bm25's best rows are ranked again by the number of query terms that they match."""
TERM_MATCH_WEIGHT = 4.0
"""Added to bm25, which is near zero for words that most documents have, as is common in a small corpus."""
HALF_SCORE = 8.0
"""The relevance (a bm25 value) that gives a score of 0.5."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """A query with its filters. With a date filter, documents without a date do not match."""

    text: str
    max_results: int = 5
    published_from: date | None = None
    published_to: date | None = None
    include_domains: Sequence[str] = ()
    exclude_domains: Sequence[str] = ()

    def matches_filters(self, document: Document) -> bool:
        """Whether the filters allow `document`."""
        if self.published_from or self.published_to:
            day = document.published
            if not day or day < (self.published_from or day) or day > (self.published_to or day):
                return False
        host = urlsplit(document.url).hostname or ""
        if any(_is_in_domain(host, domain) for domain in self.exclude_domains):
            return False
        return not self.include_domains or any(
            _is_in_domain(host, name) for name in self.include_domains
        )


@dataclass(frozen=True, slots=True)
class Hit:
    """A matching document. `score` is between 0 and 1; `passage` has the sentences closest to the query."""

    document: Document
    score: float
    passage: str


class SearchIndex:
    """A built index. Must not be used by two threads at once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __len__(self) -> int:
        count: int = self._connection.execute("SELECT count(*) FROM documents").fetchone()[0]
        return count

    def search(self, query: SearchQuery) -> list[Hit]:
        """The best documents first; empty if no query term occurs in the corpus."""
        terms = query_terms(query.text)
        if not terms:
            return []
        hits: list[Hit] = []
        for row, relevance in self._ranked(terms):
            document = self._document(row)
            if query.matches_filters(document):
                passage = best_passage(document.text, query.text)
                hits.append(Hit(document, relevance / (relevance + HALF_SCORE), passage))
            if len(hits) >= query.max_results:
                break
        return hits

    def document(self, url: str) -> Document | None:
        """The document with exactly this URL."""
        row = self._connection.execute(
            "SELECT id FROM documents WHERE url = ? ORDER BY id LIMIT 1", (url,)
        ).fetchone()
        return self._document(row[0]) if row else None

    def newest(self, most: int) -> list[Document]:
        """The documents that were published last, the newest first; those without a date at the end."""
        rows = self._connection.execute(
            "SELECT id FROM documents ORDER BY published DESC, id DESC LIMIT ?", (most,)
        ).fetchall()
        return [self._document(row) for (row,) in rows]

    def report(self) -> LoadReport:
        """The report of the load from which the index was built."""
        (stored,) = self._connection.execute("SELECT content FROM report").fetchone()
        return TypeAdapter(LoadReport).validate_json(stored)

    def close(self) -> None:
        """Close the database connection."""
        self._connection.close()

    def _ranked(self, terms: list[str]) -> list[tuple[int, float]]:
        any_term = " OR ".join(f'"{term}"' for term in terms)
        rows = self._connection.execute(
            "SELECT rowid, -bm25(pages, ?, 1.0) AS relevance FROM pages WHERE pages MATCH ? "
            "ORDER BY relevance DESC, rowid LIMIT ?",
            (TITLE_WEIGHT, any_term, CANDIDATES),
        ).fetchall()
        matches = self._count_matching_terms(terms)
        ranked = [
            (row, (score + TERM_MATCH_WEIGHT) * matches[row] / len(terms)) for row, score in rows
        ]
        return sorted(ranked, key=lambda pair: (-pair[1], pair[0]))

    def _count_matching_terms(self, terms: list[str]) -> Counter[int]:
        matches: Counter[int] = Counter()
        for term in terms:
            matches.update(
                row
                for (row,) in self._connection.execute(
                    "SELECT rowid FROM pages WHERE pages MATCH ?", (f'"{term}"',)
                )
            )
        return matches

    def _document(self, row: int) -> Document:
        title, text, url, published = self._connection.execute(
            "SELECT title, text, url, published FROM documents WHERE id = ?", (row,)
        ).fetchone()
        return Document(title, text, url, date.fromisoformat(published) if published else None)


def _is_in_domain(host: str, domain: str) -> bool:
    domain = domain.lower().removeprefix("www.")
    return host == domain or host.endswith(f".{domain}")


MAX_CACHED_INDEXES = 4
SCHEMA = """
CREATE TABLE report (content TEXT);
CREATE TABLE documents (id INTEGER PRIMARY KEY, title TEXT, text TEXT, url TEXT, published TEXT);
CREATE VIRTUAL TABLE pages USING fts5(
    title, text, content='documents', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2'
);
"""


def open_index(
    corpus: str | Path, cache_directory: Path | None = None, progress: Progress = no_progress
) -> SearchIndex:
    """Open the index of `corpus`. With a cache directory, the index of an unchanged corpus is reused.

    `progress` is called while files are read. Raises CorpusError.
    """
    if cache_directory is None:
        return build_index(load(corpus, progress))
    path = cache_directory / f"{fingerprint(corpus)}.sqlite"
    if index := _open_cached(path):
        return index
    try:
        _build_file(load(corpus, progress), path)
        _drop_oldest(cache_directory)
    except (OSError, sqlite3.Error) as error:
        raise CorpusError(
            f"Cannot store the index of {corpus} in {cache_directory}: {error}. Specify another directory, or none."
        ) from error
    return SearchIndex(_connect(path))


def _open_cached(path: Path) -> SearchIndex | None:
    """Open a cached index; None if there is none or it is damaged."""
    if not path.exists():
        return None
    index = SearchIndex(_connect(path))
    try:
        index.report()
    except (sqlite3.DatabaseError, LookupError, TypeError, ValueError):
        index.close()
        return None
    return index


def build_index(corpus: Corpus) -> SearchIndex:
    """Build an index in memory."""
    connection = _connect(":memory:")
    _write_documents(connection, corpus)
    return SearchIndex(connection)


def _connect(place: str | Path) -> sqlite3.Connection:
    # Built on one thread and read on another, never by both at once.
    return sqlite3.connect(place, check_same_thread=False)


def _write_documents(connection: sqlite3.Connection, corpus: Corpus) -> None:
    with connection:
        connection.executescript(SCHEMA)
        connection.executemany(
            "INSERT INTO documents (title, text, url, published) VALUES (?, ?, ?, ?)",
            (
                (
                    document.title,
                    document.text,
                    document.url,
                    document.published and document.published.isoformat(),
                )
                for document in corpus.documents
            ),
        )
        connection.execute("INSERT INTO report VALUES (?)", (json.dumps(asdict(corpus.report)),))
        connection.execute("CREATE INDEX documents_url ON documents (url)")
        connection.execute("INSERT INTO pages (pages) VALUES ('rebuild')")


def _build_file(corpus: Corpus, path: Path) -> None:
    """Write under a temporary name and rename, so that other processes never see a partial file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(f".{os.getpid()}.draft")
    draft.unlink(missing_ok=True)
    connection = _connect(draft)
    try:
        _write_documents(connection, corpus)
    finally:
        connection.close()
    draft.replace(path)


def _drop_oldest(cache_directory: Path) -> None:
    files = sorted(cache_directory.glob("*.sqlite"), key=lambda file: file.stat().st_mtime_ns)
    for file in files[:-MAX_CACHED_INDEXES]:
        file.unlink(missing_ok=True)
