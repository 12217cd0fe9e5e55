"""The reference iteration: what its model and its search answer, and the model as a provider.

The Observer plans 3 queries and 2 insights with one call. Each query takes 2 calls and a search to find out, and one call
to write 4 nodes and 3 edges; each insight takes one call to write an analysis and link it to 2 nodes; the Adviser takes
one call and gives no advice. In all: 13 calls of the model, 3 of the search, 12 nodes, 13 edges, 2 analyses.

Each request contains all that its answer depends on: no state is stored between two calls.
"""

import asyncio
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

from shared.billing.resumable_call import ResumableCall
from shared.database import ids
from shared.enums import ANALYSIS_TYPE
from shared.llm.messages import ChatAnswer, ChatRequest, ToolCall, assistant_message
from shared.llm.provider import OnDelta

QUERIES: Final = 3
INSIGHTS: Final = 2
NODES_PER_QUERY: Final = 4
MODEL_CALLS: Final = 1 + 3 * QUERIES + INSIGHTS + 1
SEARCHES: Final = QUERIES
NODE_TYPE: Final = "Company"
EDGE_TYPE: Final = "supplies"

_AGENT: Final = re.compile(r"agent=([0-9a-f-]{36}) anchors=([0-9a-f-]{36}),([0-9a-f-]{36})")
_KEY: Final = re.compile(r"key=([0-9a-f]{16})")
_LETTERS: Final = str.maketrans("0123456789abcdef", "bdfglmnprstvzaio")

Json = dict[str, Any]


@dataclass(frozen=True)
class Reference:
    """The agent of the reference iteration."""

    agent_id: UUID
    anchors: tuple[UUID, UUID]
    """The first nodes of its graph, which its insights refer to."""

    @property
    def mission(self) -> str:
        first, second = self.anchors
        return f"Know who supplies whom. agent={self.agent_id} anchors={first},{second}"

    @classmethod
    def parse(cls, text: str) -> "Reference":
        """Parse the reference from a text that contains its mission."""
        match = _AGENT.search(text)
        assert match is not None, "what is asked tells no mission"
        agent_id, first, second = map(UUID, match.groups())
        return cls(agent_id, (first, second))


@dataclass(frozen=True)
class Query:
    key: str
    """16 unique hexadecimal digits."""

    @classmethod
    def parse(cls, text: str) -> "Query":
        match = _KEY.search(text)
        assert match is not None, "what is asked tells no key"
        return cls(match[1])

    @property
    def url(self) -> str:
        return f"https://pages.example/{self.key}"

    @property
    def names(self) -> list[str]:
        return [node_name(self.key, place) for place in range(NODES_PER_QUERY)]

    @property
    def page(self) -> Json:
        """A search result: a sentence for each node and edge, and some more."""
        filler = [f"Nothing of note happened at {name} besides." for name in self.names]
        text = " ".join([*map(node_summary, self.names), *self.supplies, *filler])
        return {"title": f"On {self.names[0]}", "url": self.url, "content": text}

    @property
    def supplies(self) -> list[str]:
        """The sentence of each edge."""
        first, *suppliers = self.names
        return [f"{first} supplies {supplier} with parts." for supplier in suppliers]


def node_name(key: str, place: int) -> str:
    """A unique name of three words."""
    digits = hashlib.sha256(f"{key}/{place}".encode()).hexdigest().translate(_LETTERS)
    return " ".join(digits[at : at + 7].capitalize() for at in (0, 7, 14))


def node_summary(name: str) -> str:
    return f"{name} makes parts in {len(name)} countries."


def plan(key: str) -> Json:
    """The Observer's answer; `key` makes it unique."""
    return {
        "queries": [
            {
                "objective": f"Find out whom the maker key={_derived(key, place)} supplies",
                "reasoning": "Who supplies whom is the mission.",
                "searchHints": [f"suppliers {_derived(key, place)}"],
                "answers": [],
            }
            for place in range(QUERIES)
        ],
        "insights": [
            {
                "observation": f"The makers move together as of key={_derived(key, QUERIES + place)}",
                "relevantNodeIds": [],
                "synthesisDirection": "Whether one follows the other.",
            }
            for place in range(INSIGHTS)
        ],
    }


def plan_for(reference: Reference, key: str) -> Json:
    planned = plan(key)
    for insight in planned["insights"]:
        insight["relevantNodeIds"] = [str(anchor) for anchor in reference.anchors]
    return planned


def search_calls(query: Query) -> list[Json]:
    """The first calls of knowledge acquisition."""
    return [_call("tavilySearch", query=f"whom the maker key={query.key} supplies", maxResults=5)]


def document_text(query: Query) -> str:
    """The document of knowledge acquisition."""
    page = query.page
    return f"# {page['title']}\n\nSource: {page['url']}\n\n{page['content']}"


def write_calls(reference: Reference, query: Query) -> list[Json]:
    """The calls of graph construction: all nodes and edges at once, because their ids are known."""
    nodes = [
        _call(
            "addGraphNode",
            type=NODE_TYPE,
            name=name,
            properties={"summary": node_summary(name), "countries": len(name)},
            evidence=[{"sourceUrl": query.url, "quote": node_summary(name)}],
        )
        for name in query.names
    ]
    first, *supplier_ids = (
        ids.node_id(reference.agent_id, NODE_TYPE, name) for name in query.names
    )
    edges = [
        _call(
            "addGraphEdge",
            type=EDGE_TYPE,
            sourceId=str(first),
            targetId=str(supplier_id),
            properties={"what": "parts"},
            evidence=[{"sourceUrl": query.url, "quote": sentence}],
        )
        for supplier_id, sentence in zip(supplier_ids, query.supplies, strict=True)
    ]
    return nodes + edges


def conclusion_calls(reference: Reference, key: str) -> list[Json]:
    """The calls of an Analyzer."""
    first, second = reference.anchors
    # In small letters, since the cited nodes have no such names.
    theme = node_name(key, 0).lower()
    name = f"What moves {theme}"
    analysis_id = ids.node_id(reference.agent_id, ANALYSIS_TYPE, name)
    return [
        _call(
            "addAgentAnalysisNode",
            name=name,
            type="pattern",
            summary=f"The makers move together, as far as {theme} goes.",
            content=f"One of them [node:{first}] follows the other [node:{second}], as far as {theme} goes.",
            confidence=0.7,
        ),
        *(
            _call("addGraphEdge", type="about", sourceId=str(analysis_id), targetId=str(target))
            for target in (first, second)
        ),
    ]


def parse_arguments(calls: Sequence[Json]) -> list[Json]:
    return [json.loads(call["function"]["arguments"]) for call in calls]


def _derived(key: str, place: int) -> str:
    return hashlib.sha256(f"{key}:{place}".encode()).hexdigest()[:16]


def _call(name: str, /, **arguments: Any) -> Json:
    return {"function": {"name": name, "arguments": json.dumps(arguments)}}


OUTPUT_TOKENS: Final = 100
"""Tokens of every answer of the model."""
_CHARS_PER_TOKEN: Final = 4
_TOOL_CHARS: Final = 900
"""About the length of a tool's declaration."""


class InstantProvider:
    """A `shared.llm.provider.Provider` that answers by the script."""

    def __init__(self, delay_seconds: float) -> None:
        self._delay_seconds = delay_seconds

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        async with in_flight.attempt():
            if self._delay_seconds:
                await asyncio.sleep(self._delay_seconds)
            return answer(request, in_flight.key)

    async def close(self) -> None:
        """There is nothing to close."""


def answer(request: ChatRequest, call_key: str) -> ChatAnswer:
    """The scripted answer to a request; `call_key` identifies the call."""
    return replace(
        _script(request, call_key),
        input_tokens=_input_tokens(request),
        output_tokens=OUTPUT_TOKENS,
    )


def _input_tokens(request: ChatRequest) -> int:
    """About as many as a model counts. Of fewer, Vigil concludes that only a part of the request was read."""
    chars = sum(len(message["content"] or "") for message in request.messages)
    return (chars + _TOOL_CHARS * len(request.tools)) // _CHARS_PER_TOKEN


def _script(request: ChatRequest, call_key: str) -> ChatAnswer:
    prompt = str(request.messages[1]["content"])
    is_first = len(request.messages) == 2
    tools = {tool["function"]["name"] for tool in request.tools}
    if request.response_format is not None:
        key = hashlib.sha256(call_key.encode()).hexdigest()[:16]
        return _text_answer(json.dumps(plan_for(Reference.parse(prompt), key)))
    if "tavilySearch" in tools:
        query = Query.parse(prompt)
        return _tool_answer(search_calls(query)) if is_first else _text_answer(document_text(query))
    if not is_first or "addAgentAdviceNode" in tools:
        return _text_answer("That is all there is to it.")
    if "addGraphNode" in tools:
        return _last_answer(write_calls(Reference.parse(prompt), Query.parse(prompt)))
    return _last_answer(conclusion_calls(Reference.parse(prompt), Query.parse(prompt).key))


def _last_answer(calls: list[dict[str, Any]]) -> ChatAnswer:
    return _tool_answer([*calls, _call("finish")])


def _text_answer(text: str) -> ChatAnswer:
    return ChatAnswer(assistant_message(text, []), "stop")


def _tool_answer(calls: list[dict[str, Any]]) -> ChatAnswer:
    tool_calls = [
        ToolCall("call", call["function"]["name"], call["function"]["arguments"]) for call in calls
    ]
    return ChatAnswer(assistant_message(None, tool_calls), "tool_calls")
