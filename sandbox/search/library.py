"""Building an index, or taking the one kept from an earlier start."""

import os
import sqlite3
from pathlib import Path

from sandbox.corpus import Corpus, CorpusError, fingerprint, load
from sandbox.search.index import SearchIndex

KEPT_INDEXES = 4
SCHEMA = """
CREATE TABLE documents (id INTEGER PRIMARY KEY, title TEXT, text TEXT, url TEXT, published TEXT);
CREATE VIRTUAL TABLE pages USING fts5(
    title, text, content='documents', content_rowid='id', tokenize='porter unicode61 remove_diacritics 2'
);
"""


def open_index(corpus: str | Path, cache_directory: Path | None = None) -> SearchIndex:
    """An index of everything in `corpus`. With a cache directory, a corpus that has not changed is not read again.

    Raises CorpusError.
    """
    if cache_directory is None:
        return build_index(load(corpus))
    kept = cache_directory / f"{fingerprint(corpus)}.sqlite"
    if found := _open_kept(kept):
        return found
    try:
        _build_file(load(corpus), kept)
        _drop_oldest(cache_directory)
    except (OSError, sqlite3.Error) as error:
        raise CorpusError(
            f"Cannot keep the index of {corpus} in {cache_directory}: {error}. Name another directory, or none."
        ) from error
    return SearchIndex(_connect(kept))


def _open_kept(kept: Path) -> SearchIndex | None:
    """None where there is none, or it is damaged."""
    if not kept.exists():
        return None
    index = SearchIndex(_connect(kept))
    try:
        len(index)
    except sqlite3.DatabaseError:
        index.close()
        return None
    return index


def build_index(corpus: Corpus) -> SearchIndex:
    """In memory."""
    connection = _connect(":memory:")
    _fill(connection, corpus)
    return SearchIndex(connection)


def _connect(place: str | Path) -> sqlite3.Connection:
    # Built on one thread and then read on another, never by both at once.
    return sqlite3.connect(place, check_same_thread=False)


def _fill(connection: sqlite3.Connection, corpus: Corpus) -> None:
    with connection:
        connection.executescript(SCHEMA)
        connection.executemany(
            "INSERT INTO documents (title, text, url, published) VALUES (?, ?, ?, ?)",
            (
                (each.title, each.text, each.url, each.published and each.published.isoformat())
                for each in corpus.documents
            ),
        )
        connection.execute("CREATE INDEX documents_url ON documents (url)")
        connection.execute("INSERT INTO pages (pages) VALUES ('rebuild')")


def _build_file(corpus: Corpus, kept: Path) -> None:
    """Under another name first: whoever finds the file finds it whole."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    draft = kept.with_suffix(f".{os.getpid()}.draft")
    draft.unlink(missing_ok=True)
    connection = _connect(draft)
    try:
        _fill(connection, corpus)
    finally:
        connection.close()
    draft.replace(kept)


def _drop_oldest(cache_directory: Path) -> None:
    kept = sorted(cache_directory.glob("*.sqlite"), key=lambda file: file.stat().st_mtime_ns)
    for file in kept[:-KEPT_INDEXES]:
        file.unlink(missing_ok=True)
