"""A search service with one page at a time that records all requests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.support.injection.corpus import HostilePage


@dataclass
class Web:
    page: HostilePage | None = None
    other_urls: Sequence[str] = ()
    """Further results of a search and sources of a research, with the same title and text; in a search before the page."""
    published: Mapping[str, str] = field(default_factory=dict)
    """Publication dates in the results of a search, by URL."""
    searched: list[str] = field(default_factory=list)
    dates: list[dict[str, str]] = field(default_factory=list)
    """The fields of each search that limit the dates of its results."""
    excluded: list[list[str] | None] = field(default_factory=list)
    """What each search excluded; None if it did not have the field."""
    read: list[str] = field(default_factory=list)
    researched: list[str] = field(default_factory=list)
    without_results: set[str] = field(default_factory=set)
    has_source_urls: bool = True
    """Whether the sources of a research have URLs, besides one that never has."""

    def finds_nothing_for(self, *queries: str) -> None:
        self.without_results.update(queries)

    def serves(self, page: HostilePage) -> None:
        self.page = page
        for requests in (self.searched, self.read, self.researched):
            requests.clear()

    @property
    def asked(self) -> list[str]:
        """Return all queries, URLs and inputs sent to the service."""
        return [*self.searched, *self.read, *self.researched]

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/search", self._search, methods=["POST"]),
                Route("/extract", self._extract, methods=["POST"]),
                Route("/research", self._start_research, methods=["POST"]),
                Route("/research/{request_id}", self._poll_research),
                Route("/health", self._health),
            ]
        )

    async def _search(self, request: Request) -> Response:
        assert self.page is not None
        body = await request.json()
        query = body["query"]
        self.searched.append(query)
        self.excluded.append(body.get("exclude_domains"))
        names = ("time_range", "start_date", "end_date")
        self.dates.append({name: body[name] for name in names if name in body})
        if query in self.without_results:
            return JSONResponse({"results": []})
        results = [
            {"title": self.page.title, "url": url, "score": 1.0, "content": self.page.text}
            | ({"published_date": self.published[url]} if url in self.published else {})
            for url in (*self.other_urls, self.page.url)
        ]
        return JSONResponse({"results": results})

    async def _extract(self, request: Request) -> Response:
        assert self.page is not None
        urls = (await request.json())["urls"]
        self.read += urls
        pages = [{"url": url, "raw_content": self.page.text} for url in urls]
        return JSONResponse({"results": pages, "failed_results": []})

    async def _start_research(self, request: Request) -> Response:
        self.researched.append((await request.json())["input"])
        return JSONResponse({"request_id": "r", "status": "pending"})

    async def _poll_research(self, _: Request) -> Response:
        assert self.page is not None
        sources = [{"title": "A book"}, {"title": self.page.title}]
        if self.has_source_urls:
            sources[1]["url"] = self.page.url
            sources += [{"title": self.page.title, "url": url} for url in self.other_urls]
        return JSONResponse({"status": "completed", "content": self.page.text, "sources": sources})

    async def _health(self, _: Request) -> Response:
        return JSONResponse({})
