"""The knowledge acquisition phase: search, read the best pages whole, write down what they say."""

from sandbox.reader.acquire.findings import write_findings
from sandbox.reader.acquire.pages import pages_found, worth_reading
from sandbox.reader.acquire.query import Query, parse_query
from sandbox.reader.answer import Answer, ToolCall
from sandbox.reader.request import ChatRequest

MAX_SEARCHES = 3
RESULTS_PER_SEARCH = 8
MAX_EXTRACTS = 3


def acquire(request: ChatRequest) -> Answer:
    """First searches, then one extract where the found passages are cut short, then the document."""
    query = parse_query(request)
    made = {exchange.name for exchange in request.exchanges}
    if "tavilySearch" in request.tools and "tavilySearch" not in made:
        return Answer(calls=_searches(query))
    urls = worth_reading(request, MAX_EXTRACTS)
    if urls and "tavilyExtract" in request.tools and "tavilyExtract" not in made:
        return Answer(calls=(ToolCall.of("tavilyExtract", urls=urls),))
    return Answer(write_findings(query, pages_found(request), _troubles(request)))


def _searches(query: Query) -> tuple[ToolCall, ...]:
    return tuple(
        ToolCall.of("tavilySearch", query=hint, maxResults=RESULTS_PER_SEARCH)
        for hint in query.hints[:MAX_SEARCHES]
    )


def _troubles(request: ChatRequest) -> list[str]:
    return [f"{one.name} failed: {one.refused}" for one in request.exchanges if one.refused]
