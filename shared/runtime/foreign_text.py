"""Reads pages and feeds, which are not trusted, in processes that are killed when one takes too long."""

import asyncio
import json
from typing import Any, Final

from shared.fetch.client import Fetched, FetchError
from shared.fetch.feeds import FeedEntry, parse_feed
from shared.fetch.pages import PageContent, page_content
from shared.graph.provenance.page_reading import PageReading, read_page, remember_reading
from shared.runtime.worker_processes import WorkerEndedError, WorkerPool, serve
from shared.tools import Json

SECONDS: Final = 5.0
"""Time limit for one page. A long one takes a tenth of a second on an idle machine."""
PROCESSES: Final = 2
IN_THREAD_BYTES: Final = 32 * 1024
"""Shorter texts are read in a thread: the time is linear in the length, and starting a process takes longer."""


class ForeignTextReader:
    """Reads pages and feeds in worker processes, which start with the first page."""

    def __init__(self, seconds: float = SECONDS, in_thread_bytes: int = IN_THREAD_BYTES) -> None:
        self._workers = WorkerPool("shared.runtime.foreign_text", PROCESSES)
        self._seconds = seconds
        self._in_thread_bytes = in_thread_bytes

    async def page_content(self, page: Fetched) -> PageContent:
        """See `shared.fetch.pages.page_content`. Raises FetchError if that takes too long."""
        head = {"url": page.url, "media_type": page.media_type, "charset": page.charset}
        digest, feeds = await self._read("page", head, page.body or b"")
        return PageContent(bytes.fromhex(digest), tuple(feeds))

    async def feed_entries(self, body: bytes, url: str) -> list[FeedEntry]:
        """See `shared.fetch.feeds.parse_feed`. Raises FetchError, also if that takes too long."""
        return [FeedEntry(*entry) for entry in await self._read("feed", {"url": url}, body)]

    async def readable(self, answer: Json) -> Json:
        """Reads the pages of an answer of the search service, so that `read_page` need not read them on the event loop.

        A page that takes too long is left out of `results` and explained in `failed`.
        """
        pages = answer.get("results", [])
        failures = await asyncio.gather(*map(self._prepare, pages))
        failed = [
            {"url": page.get("url"), "error": failure}
            for page, failure in zip(pages, failures, strict=True)
            if failure
        ]
        if not failed:
            return answer
        results = [page for page, failure in zip(pages, failures, strict=True) if not failure]
        return {**answer, "results": results, "failed": [*answer.get("failed", []), *failed]}

    async def close(self) -> None:
        await self._workers.close()

    async def _prepare(self, page: Json) -> str:
        """Reads one page. Returns the reason if it cannot be read, else an empty text."""
        text = page.get("content")
        if isinstance(text, str) and text:
            try:
                reading = await self._read("text", {}, text.encode())
            except FetchError as error:
                return str(error)
            remember_reading(text, PageReading.from_json(reading))
        return ""

    async def _read(self, kind: str, head: Json, body: bytes) -> Any:
        if len(body) <= self._in_thread_bytes:
            return await asyncio.to_thread(_read, {"kind": kind, **head}, body)
        message = json.dumps({"kind": kind, **head}).encode() + b"\n" + body
        try:
            answer = json.loads(await self._workers.call(message, self._seconds))
        except TimeoutError as error:
            raise FetchError(
                f"it was not read: reading it takes more than {self._seconds:g} seconds"
            ) from error
        except WorkerEndedError as error:
            raise FetchError("it was not read: the process that read it ended") from error
        if "error" in answer:
            raise FetchError(answer["error"])
        return answer["read"]


def _answer(message: bytes) -> bytes:
    head, _, body = message.partition(b"\n")
    try:
        answer = {"read": _read(json.loads(head), body)}
    except FetchError as error:
        answer = {"error": str(error)}
    return json.dumps(answer).encode()


def _read(head: Json, body: bytes) -> Any:
    match head["kind"]:
        case "page":
            page = Fetched(head["url"], body, head["media_type"], head["charset"])
            content = page_content(page)
            return content.digest.hex(), content.feeds
        case "feed":
            return parse_feed(body, head["url"])
        case _:
            return read_page(body.decode()).as_json()


if __name__ == "__main__":
    serve(_answer)
