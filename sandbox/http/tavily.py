"""POST /search, /extract and /research in Tavily's format."""

import json
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.corpus import Document
from sandbox.http.calls import (
    Call,
    CallKind,
    RefusedError,
    bearer_key,
    is_rejected_key,
    operation_usd,
    read_body,
)
from sandbox.http.controls import Controls, FaultKind
from sandbox.http.corpus_loader import Corpora
from sandbox.http.endpoint import BilledEndpoint, ParseCall, Respond
from sandbox.http.streaming import Reply
from sandbox.search import Hit, SearchQuery

MAX_RESULTS = 20
MAX_URLS = 20
RANGE_DAYS = {"day": 1, "week": 7, "month": 31, "year": 366}
RANGE_DAYS |= {name[0]: days for name, days in RANGE_DAYS.items()}


def parse_search_query(body: Mapping[str, Any], today: date) -> SearchQuery:
    """Parse a search. Raises RefusedError (400) for an invalid field; fields that only tune the ranking are ignored."""
    text = body.get("query")
    if not isinstance(text, str) or not text.strip():
        raise _bad_request("`query` must be a non-empty string.")
    max_results = body.get("max_results", 5)
    if not isinstance(max_results, int) or not 0 <= max_results <= MAX_RESULTS:
        raise _bad_request(
            f"`max_results` is {max_results!r}; it must be an integer from 0 to {MAX_RESULTS}."
        )
    return SearchQuery(
        text=text,
        max_results=max_results,
        published_from=_published_from(body, today),
        published_to=_day(body, "end_date"),
        include_domains=_strings(body, "include_domains"),
        exclude_domains=_strings(body, "exclude_domains"),
    )


def parse_urls(body: Mapping[str, Any]) -> list[str]:
    """Parse one URL or a list of them. Raises RefusedError (400)."""
    value = body.get("urls")
    urls = [value] if isinstance(value, str) else value
    if not isinstance(urls, list) or not urls or not all(isinstance(url, str) for url in urls):
        raise _bad_request("`urls` must be an address or a list of addresses.")
    if len(urls) > MAX_URLS:
        raise _bad_request(
            f"`urls` has {len(urls)} addresses; at most {MAX_URLS} are read at once."
        )
    return urls


def _published_from(body: Mapping[str, Any], today: date) -> date | None:
    start = _day(body, "start_date")
    time_range = body.get("time_range")
    if time_range is not None and time_range not in RANGE_DAYS:
        raise _bad_request(f"`time_range` is {time_range!r}; it must be day, week, month or year.")
    days = RANGE_DAYS.get(time_range or "", body.get("days"))
    if not isinstance(days, int):
        return start
    reach = today - timedelta(days=days)
    return max(start, reach) if start else reach


def _day(body: Mapping[str, Any], name: str) -> date | None:
    value = body.get(name)
    if value is None:
        return None
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise _bad_request(f"`{name}` is {value!r}; it must be a day such as 2026-01-31.") from None


def _strings(body: Mapping[str, Any], name: str) -> list[str]:
    value = body.get(name)
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _bad_request(message: str) -> RefusedError:
    return RefusedError(400, {"detail": {"error": message}})


RESEARCH_SOURCES = 6
MAX_RESEARCH_RESULTS = 1000


def tavily_routes(corpora: Corpora, controls: Controls, latency_seconds: float) -> list[Route]:
    """The routes of Tavily."""
    tavily = _Tavily(corpora)

    def billed(kind: CallKind, respond: Respond) -> Route:
        endpoint = BilledEndpoint(_call_parser(kind), respond, _error, controls, latency_seconds)
        return Route(f"/{kind}", endpoint.__call__, methods=["POST"])

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

    async def search(self, call: Call, faults: frozenset[FaultKind]) -> Reply:
        query = parse_search_query(call.body, _today())
        hits = (await self._corpora.index(_corpus_of(call))).search(query)
        body = {
            "query": query.text,
            "follow_up_questions": None,
            "answer": hits[0].passage if hits and call.body.get("include_answer") else None,
            "images": [],
            "results": [
                _search_result(hit, raw=bool(call.body.get("include_raw_content"))) for hit in hits
            ],
            "response_time": 0.0,
            "request_id": call.request_hash[:32],
        }
        return _reply(call, body, faults)

    async def extract(self, call: Call, faults: frozenset[FaultKind]) -> Reply:
        index = await self._corpora.index(_corpus_of(call))
        pages = [(url, index.document(url)) for url in parse_urls(call.body)]
        body = {
            "results": [_extract_result(page) for _, page in pages if page],
            "failed_results": [
                {"url": url, "error": "The corpus of the sandbox has no document at this address."}
                for url, page in pages
                if not page
            ],
            "response_time": 0.0,
            "request_id": call.request_hash[:32],
        }
        return _reply(call, body, faults)

    async def research(self, call: Call, faults: frozenset[FaultKind]) -> Reply:
        """Do the research at once, but answer `pending` as Tavily does; the result is requested afterwards."""
        question = call.body.get("input")
        if not isinstance(question, str) or not question.strip():
            raise RefusedError(400, _error("`input` must be a non-empty string."))
        if call.body.get("stream"):
            raise RefusedError(
                400,
                _error("The sandbox does not stream research; send the request without `stream`."),
            )
        hits = (await self._corpora.index(_corpus_of(call))).search(
            SearchQuery(question, RESEARCH_SOURCES)
        )
        task = {"request_id": call.request_hash[:32], "created_at": "1970-01-01T00:00:00Z"}
        self._research[task["request_id"]] = task | _research_result(question, hits)
        while len(self._research) > MAX_RESEARCH_RESULTS:
            self._research.popitem(last=False)
        pending = {"status": "pending", "input": question, "model": "mini", "response_time": 0}
        return _reply(call, task | pending, faults)

    async def research_result(self, request: Request) -> Response:
        """Return the result. Not billed: the research request was."""
        if is_rejected_key(bearer_key(request)):
            return JSONResponse(_unauthorized(), 401)
        result = self._research.get(request.path_params["request_id"])
        if not result:
            return JSONResponse(_error("The sandbox has no research task with this id."), 404)
        return JSONResponse(result)


def _corpus_of(call: Call) -> str | None:
    """The corpus that the call names. Raises RefusedError (400) if it is not a text."""
    corpus = call.body.get("corpus")
    if corpus is not None and not isinstance(corpus, str):
        raise _bad_request("`corpus` must be the name of a corpus.")
    return corpus


def _call_parser(kind: CallKind) -> ParseCall:
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


def _extract_result(document: Document) -> dict[str, Any]:
    return {
        "url": document.url,
        "title": document.title,
        "raw_content": document.text,
        "images": [],
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


def _reply(call: Call, body: Mapping[str, Any], faults: frozenset[FaultKind]) -> Reply:
    encoded = json.dumps(body, ensure_ascii=False).encode()
    broken = FaultKind.MALFORMED_JSON in faults
    piece = encoded[: len(encoded) // 2] if broken else encoded
    return Reply((piece,), usd=operation_usd(call.kind, call.body))


def _error(message: str) -> dict[str, Any]:
    return {"detail": {"error": message}}


def _unauthorized() -> dict[str, Any]:
    return _error("Unauthorized: missing or invalid API key.")


def _today() -> date:
    return datetime.now(UTC).date()
