"""Ranking by SQLite's FTS5 (bm25, Porter stems), titles weighted above text."""

import sqlite3
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from urllib.parse import urlsplit

from sandbox.corpus import Document
from sandbox.search.passages import best_passage
from sandbox.search.terms import query_terms

TITLE_WEIGHT = 2.0
CANDIDATES = 60
"""How many of bm25's best are ranked again by how many of the query's words they hold."""
WORTH_OF_WORDS = 4.0
"""Added to bm25, which is near nothing for words that most documents hold, as is usual in a small corpus."""
HALF_SCORE = 8.0
"""The relevance (a bm25 value) that is told as a score of 0.5."""


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """Words and filters. With a date filter, documents without a date are left out."""

    text: str
    max_results: int = 5
    published_from: date | None = None
    published_to: date | None = None
    include_domains: Sequence[str] = ()
    exclude_domains: Sequence[str] = ()

    def admits(self, document: Document) -> bool:
        """Whether the filters let `document` through."""
        if self.published_from or self.published_to:
            day = document.published
            if not day or day < (self.published_from or day) or day > (self.published_to or day):
                return False
        host = urlsplit(document.url).hostname or ""
        if any(_within(host, domain) for domain in self.exclude_domains):
            return False
        return not self.include_domains or any(_within(host, name) for name in self.include_domains)


@dataclass(frozen=True, slots=True)
class Hit:
    """A document found. `score` is above 0 and below 1; `passage` are its sentences nearest to the query."""

    document: Document
    score: float
    passage: str


class SearchIndex:
    """A built index. Not for use by two threads at once."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def __len__(self) -> int:
        count: int = self._connection.execute("SELECT count(*) FROM documents").fetchone()[0]
        return count

    def search(self, query: SearchQuery) -> list[Hit]:
        """The best documents first; empty where no word of the query is in the corpus."""
        terms = query_terms(query.text)
        if not terms:
            return []
        hits: list[Hit] = []
        for row, relevance in self._ranked(terms):
            document = self._document(row)
            if query.admits(document):
                passage = best_passage(document.text, query.text)
                hits.append(Hit(document, relevance / (relevance + HALF_SCORE), passage))
            if len(hits) >= query.max_results:
                break
        return hits

    def document(self, url: str) -> Document | None:
        """The document at exactly this address."""
        found = self._connection.execute(
            "SELECT id FROM documents WHERE url = ? ORDER BY id LIMIT 1", (url,)
        ).fetchone()
        return self._document(found[0]) if found else None

    def close(self) -> None:
        """Give up the connection."""
        self._connection.close()

    def _ranked(self, terms: list[str]) -> list[tuple[int, float]]:
        any_term = " OR ".join(f'"{term}"' for term in terms)
        rows = self._connection.execute(
            "SELECT rowid, -bm25(pages, ?, 1.0) AS relevance FROM pages WHERE pages MATCH ? "
            "ORDER BY relevance DESC, rowid LIMIT ?",
            (TITLE_WEIGHT, any_term, CANDIDATES),
        ).fetchall()
        held = self._terms_held(terms)
        ranked = [(row, (score + WORTH_OF_WORDS) * held[row] / len(terms)) for row, score in rows]
        return sorted(ranked, key=lambda pair: (-pair[1], pair[0]))

    def _terms_held(self, terms: list[str]) -> Counter[int]:
        held: Counter[int] = Counter()
        for term in terms:
            held.update(
                row
                for (row,) in self._connection.execute(
                    "SELECT rowid FROM pages WHERE pages MATCH ?", (f'"{term}"',)
                )
            )
        return held

    def _document(self, row: int) -> Document:
        title, text, url, published = self._connection.execute(
            "SELECT title, text, url, published FROM documents WHERE id = ?", (row,)
        ).fetchone()
        return Document(title, text, url, date.fromisoformat(published) if published else None)


def _within(host: str, domain: str) -> bool:
    domain = domain.lower().removeprefix("www.")
    return host == domain or host.endswith(f".{domain}")
