"""`GET /page?url=…&corpus=…`: the documents of a corpus as web pages, and a feed that lists them.

An installation fetches pages through it, in place of the web. Nothing of it is billed.
"""

from hashlib import sha256
from html import escape
from typing import Final
from weakref import WeakKeyDictionary

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sandbox.corpus import Document
from sandbox.http.calls import RefusedError
from sandbox.http.corpus_loader import Corpora
from sandbox.search import SearchIndex

FEED_URL: Final = "https://corpus.local/feed.xml"
FEED_ENTRIES: Final = 200
ID_CHARS: Final = 12


def page_routes(corpora: Corpora) -> list[Route]:
    feeds: WeakKeyDictionary[SearchIndex, bytes] = WeakKeyDictionary()

    def feed(index: SearchIndex) -> bytes:
        if index not in feeds:
            documents = index.newest(FEED_ENTRIES)
            entries = "".join(map(_entry, documents))
            feeds[index] = (
                '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">\n'
                f"<title>The corpus of the sandbox</title><id>{FEED_URL}</id>\n{entries}</feed>\n"
            ).encode()
        return feeds[index]

    async def page(request: Request) -> Response:
        url = request.query_params.get("url", "")
        try:
            index = await corpora.index(request.query_params.get("corpus"))
        except RefusedError as error:
            return PlainTextResponse(str(error.body), error.status)
        if url == FEED_URL:
            return _answer(request, feed(index), "application/atom+xml; charset=utf-8")
        document = index.document(url)
        if document is None:
            return PlainTextResponse("The corpus has no document at this address.", 404)
        return _answer(request, _html(document), "text/html; charset=utf-8")

    return [Route("/page", page, methods=["GET"])]


def _answer(request: Request, body: bytes, media_type: str) -> Response:
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers={"etag": etag})
    return Response(body, headers={"etag": etag, "content-type": media_type})


def _html(document: Document) -> bytes:
    paragraphs = "".join(f"<p>{escape(line)}</p>\n" for line in document.text.splitlines() if line)
    return (
        f"<!doctype html>\n<html><head><title>{escape(document.title)}</title>\n"
        f'<link rel="alternate" type="application/atom+xml" href="{FEED_URL}"></head>\n'
        f"<body><h1>{escape(document.title)}</h1>\n{paragraphs}</body></html>\n"
    ).encode()


def _entry(document: Document) -> str:
    """Its id changes with the text, so that a changed document is a new entry."""
    digest = sha256(f"{document.title}\n{document.text}".encode()).hexdigest()[:ID_CHARS]
    day = document.published
    updated = f"<updated>{day.isoformat()}T00:00:00Z</updated>" if day else ""
    url = escape(document.url)
    return (
        f'<entry><id>{url}#{digest}</id><title>{escape(document.title)}</title><link href="{url}"/>'
        f"{updated}</entry>\n"
    )
