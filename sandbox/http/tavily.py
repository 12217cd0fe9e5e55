"""POST /search, /extract and /research in Tavily's format."""

import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Annotated, Any, Final, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.http.calls import (
    Call,
    CallKind,
    RefusedError,
    bearer_key,
    is_rejected_key,
    read_body,
)
from sandbox.http.corpus_loader import Corpora
from sandbox.http.endpoint import CallHandler, Endpoint, Reply
from sandbox.search import Hit, SearchQuery

RANGE_DAYS: Final = {"d": 1, "w": 7, "m": 31, "y": 366}
"""By the first letter of `time_range`."""
RESEARCH_SOURCES: Final = 6
MAX_RESEARCH_RESULTS: Final = 1000
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


class _Body(BaseModel):
    """Fields of a request; those that only tune the ranking are ignored."""

    corpus: str | None = None


class _Search(_Body):
    query: Text
    max_results: Annotated[int, Field(ge=0, le=20)] = 5
    time_range: Literal["day", "week", "month", "year", "d", "w", "m", "y"] | None = None
    days: int | None = None
    start_date: date | None = None
    end_date: date | None = None
    include_domains: list[str] | None = None
    exclude_domains: list[str] | None = None
    include_answer: bool | str | None = False
    include_raw_content: bool | str | None = False

    def as_query(self) -> SearchQuery:
        days = RANGE_DAYS[self.time_range[0]] if self.time_range else self.days
        earliest = self.start_date
        if days is not None:
            reach = datetime.now(UTC).date() - timedelta(days=days)
            earliest = max(earliest, reach) if earliest else reach
        return SearchQuery(
            text=self.query,
            max_results=self.max_results,
            published_from=earliest,
            published_to=self.end_date,
            include_domains=self.include_domains or (),
            exclude_domains=self.exclude_domains or (),
        )


class _Extract(_Body):
    urls: Annotated[
        list[str],
        BeforeValidator(lambda value: [value] if isinstance(value, str) else value),
        Field(min_length=1, max_length=20),
    ]


class _Research(_Body):
    input: Text
    stream: Literal[False] | None = None


Parsed = TypeVar("Parsed", bound=_Body)


def _parse(body: Mapping[str, Any], form: type[Parsed]) -> Parsed:
    """Raises RefusedError (400), naming the first invalid field."""
    try:
        return form.model_validate(body)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise RefusedError(400, _error(f"`{field}`: {first['msg']}.")) from error


def tavily_routes(corpora: Corpora, handler: CallHandler) -> list[Route]:
    """The routes of Tavily."""
    tavily = _Tavily(corpora)

    def billed(kind: CallKind, respond: Callable[[Call], Awaitable[Reply]]) -> Route:
        return handler.route(Endpoint(f"/{kind}", _call_parser(kind), respond, _error))

    return [
        billed("search", tavily.search),
        billed("extract", tavily.extract),
        billed("research", tavily.research),
        Route("/research/{request_id}", tavily.research_result, methods=["GET"]),
    ]


class _Tavily:
    def __init__(self, corpora: Corpora) -> None:
        self._corpora = corpora
        self._research: OrderedDict[str, dict[str, Any]] = OrderedDict()

    async def search(self, call: Call) -> Reply:
        asked = _parse(call.body, _Search)
        hits = (await self._corpora.index(asked.corpus)).search(asked.as_query())
        results = [_search_result(hit, raw=bool(asked.include_raw_content)) for hit in hits]
        answer = hits[0].passage if hits and asked.include_answer else None
        return _reply(call, {"query": asked.query, "answer": answer, "results": results})

    async def extract(self, call: Call) -> Reply:
        asked = _parse(call.body, _Extract)
        index = await self._corpora.index(asked.corpus)
        pages = [(url, index.document(url)) for url in asked.urls]
        why = "The corpus of the sandbox has no document at this address."
        body = {
            "results": [
                {"url": page.url, "title": page.title, "raw_content": page.text, "images": []}
                for _, page in pages
                if page
            ],
            "failed_results": [{"url": url, "error": why} for url, page in pages if not page],
        }
        return _reply(call, body)

    async def research(self, call: Call) -> Reply:
        """Do the research at once, but answer `pending` as Tavily does; the result is requested afterwards."""
        asked = _parse(call.body, _Research)
        index = await self._corpora.index(asked.corpus)
        hits = index.search(SearchQuery(asked.input, RESEARCH_SOURCES))
        task = {"request_id": call.request_hash[:32], "created_at": "1970-01-01T00:00:00Z"}
        self._research[task["request_id"]] = task | _research_result(asked.input, hits)
        while len(self._research) > MAX_RESEARCH_RESULTS:
            self._research.popitem(last=False)
        pending = {"status": "pending", "input": asked.input, "model": "mini"}
        return _reply(call, task | pending)

    async def research_result(self, request: Request) -> Response:
        """Return the result. Not billed: the research request was."""
        if is_rejected_key(bearer_key(request)):
            return JSONResponse(_unauthorized(), 401)
        result = self._research.get(request.path_params["request_id"])
        if not result:
            return JSONResponse(_error("The sandbox has no research task with this id."), 404)
        return JSONResponse(result)


def _call_parser(kind: CallKind) -> Callable[[Request], Awaitable[Call]]:
    async def parse(request: Request) -> Call:
        if is_rejected_key(bearer_key(request)):
            raise RefusedError(401, _unauthorized())
        body = await read_body(request)
        if body is None:
            raise RefusedError(400, _error("The body is not a JSON object."))
        return Call(kind, request.url.path, body)

    return parse


def _search_result(hit: Hit, *, raw: bool) -> dict[str, Any]:
    document = hit.document
    published = {"published_date": document.published.isoformat()} if document.published else {}
    return {
        "url": document.url,
        "title": document.title,
        "content": hit.passage,
        "score": round(hit.score, 6),
        "raw_content": document.text if raw else None,
        **published,
    }


def _research_result(question: str, hits: list[Hit]) -> dict[str, Any]:
    sections = [
        f"## {hit.document.title} [{place}]\n\n{hit.passage}"
        for place, hit in enumerate(hits, start=1)
    ]
    no_results = "The corpus of the sandbox has nothing on this question."
    return {
        "status": "completed",
        "content": "\n\n".join([f"# {question}", *(sections or [no_results])]),
        "sources": [{"title": hit.document.title, "url": hit.document.url} for hit in hits],
        "response_time": 0,
    }


def _reply(call: Call, body: Mapping[str, Any]) -> Reply:
    own = {"response_time": 0.0, "request_id": call.request_hash[:32]}
    return Reply((json.dumps({**own, **body}, ensure_ascii=False).encode(),))


def _error(message: str) -> dict[str, Any]:
    return {"detail": {"error": message}}


def _unauthorized() -> dict[str, Any]:
    return _error("Unauthorized: missing or invalid API key.")
