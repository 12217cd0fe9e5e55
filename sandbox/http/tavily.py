"""POST /search, /extract and /research as Tavily answers them."""

import json
from collections import OrderedDict
from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.corpus import Document
from sandbox.http.call import (
    Call,
    CallKind,
    RefusedError,
    bearer_key,
    key_is_refused,
    read_body,
)
from sandbox.http.endpoint import BilledEndpoint, Levers, ReadCall, Respond
from sandbox.http.faults import FaultKind
from sandbox.http.prices import operation_usd
from sandbox.http.reply import Reply
from sandbox.http.shelf import CorpusShelf
from sandbox.http.tavily_fields import search_query, urls_of
from sandbox.search import Hit, SearchQuery

RESEARCH_SOURCES = 6
KEPT_RESEARCH = 1000


def tavily_routes(shelf: CorpusShelf, levers: Levers, latency_seconds: float) -> list[Route]:
    """Tavily's part of the server."""
    tavily = _Tavily(shelf)

    def billed(kind: CallKind, respond: Respond) -> Route:
        endpoint = BilledEndpoint(_reader(kind), respond, _error, levers, latency_seconds)
        return Route(f"/{kind}", endpoint.__call__, methods=["POST"])

    return [
        billed("search", tavily.search),
        billed("extract", tavily.extract),
        billed("research", tavily.research),
        Route("/research/{request_id}", tavily.research_result, methods=["GET"]),
    ]


class _Tavily:
    def __init__(self, shelf: CorpusShelf) -> None:
        self._shelf = shelf
        self._research: OrderedDict[str, dict[str, Any]] = OrderedDict()

    async def search(self, call: Call, faults: frozenset[FaultKind]) -> Reply:
        query = search_query(call.body, _today())
        hits = (await self._shelf.index()).search(query)
        body = {
            "query": query.text,
            "follow_up_questions": None,
            "answer": hits[0].passage if hits and call.body.get("include_answer") else None,
            "images": [],
            "results": [
                _result(hit, raw=bool(call.body.get("include_raw_content"))) for hit in hits
            ],
            "response_time": 0.0,
            "request_id": call.request_hash[:32],
        }
        return _reply(call, body, faults)

    async def extract(self, call: Call, faults: frozenset[FaultKind]) -> Reply:
        index = await self._shelf.index()
        pages = [(url, index.document(url)) for url in urls_of(call.body)]
        body = {
            "results": [_extracted(page) for _, page in pages if page],
            "failed_results": [
                {"url": url, "error": "The sandbox's corpus has no document at this address."}
                for url, page in pages
                if not page
            ],
            "response_time": 0.0,
            "request_id": call.request_hash[:32],
        }
        return _reply(call, body, faults)

    async def research(self, call: Call, faults: frozenset[FaultKind]) -> Reply:
        """Done at once, and told as Tavily tells it: pending first, to be asked for afterwards."""
        question = call.body.get("input")
        if not isinstance(question, str) or not question.strip():
            raise RefusedError(400, _error("`input` must be a text of at least one character."))
        if call.body.get("stream"):
            raise RefusedError(
                400, _error("The sandbox does not stream research; ask without `stream`.")
            )
        hits = (await self._shelf.index()).search(SearchQuery(question, RESEARCH_SOURCES))
        task = {"request_id": call.request_hash[:32], "created_at": "1970-01-01T00:00:00Z"}
        self._research[task["request_id"]] = task | _findings(question, hits)
        while len(self._research) > KEPT_RESEARCH:
            self._research.popitem(last=False)
        pending = {"status": "pending", "input": question, "model": "mini", "response_time": 0}
        return _reply(call, task | pending, faults)

    async def research_result(self, request: Request) -> Response:
        """Not billed: the question was."""
        if key_is_refused(bearer_key(request)):
            return JSONResponse(_unauthorized(), 401)
        found = self._research.get(request.path_params["request_id"])
        if not found:
            return JSONResponse(_error("No research of this id was asked of this sandbox."), 404)
        return JSONResponse(found)


def _reader(kind: CallKind) -> ReadCall:
    async def read(request: Request) -> Call:
        if key_is_refused(bearer_key(request)):
            raise RefusedError(401, _unauthorized())
        body = await read_body(request)
        if body is None:
            raise RefusedError(400, _error("The body is not a JSON object."))
        return Call(kind, request.url.path, body)

    return read


def _result(hit: Hit, *, raw: bool) -> dict[str, Any]:
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


def _extracted(document: Document) -> dict[str, Any]:
    return {
        "url": document.url,
        "title": document.title,
        "raw_content": document.text,
        "images": [],
    }


def _findings(question: str, hits: list[Hit]) -> dict[str, Any]:
    sections = [
        f"## {hit.document.title} [{place}]\n\n{hit.passage}"
        for place, hit in enumerate(hits, start=1)
    ]
    lack = "The sandbox's corpus has nothing on this."
    return {
        "status": "completed",
        "content": "\n\n".join([f"# {question}", *(sections or [lack])]),
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
