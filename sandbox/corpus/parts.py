"""Long documents in parts, so that finding and reading one costs no more than a page does."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from sandbox.corpus.document import Document

MAX_DOCUMENT_CHARS = 100_000


def in_parts(documents: Iterable[Document]) -> Iterator[Document]:
    """Each document, or where it is long its parts: cut at line ends, numbered in title and address."""
    for document in documents:
        if len(document.text) <= MAX_DOCUMENT_CHARS:
            yield document
            continue
        texts = list(_cut(document.text))
        for number, text in enumerate(texts, start=1):
            title = f"{document.title} (part {number} of {len(texts)})"
            mark = "&" if "#" in document.url else "#"
            yield replace(
                document, title=title, text=text, url=f"{document.url}{mark}part-{number}"
            )


def _cut(text: str) -> Iterator[str]:
    start = 0
    while len(text) - start > MAX_DOCUMENT_CHARS:
        end = start + MAX_DOCUMENT_CHARS
        mark = max(text.rfind("\n", start, end), text.rfind(". ", start, end))
        end = mark + 1 if mark > start else end
        yield text[start:end].strip()
        start = end
    yield text[start:].strip()
