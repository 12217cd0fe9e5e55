"""Names that the graph asks about: whether a node that is called alike is the same thing."""

import json
import re
from collections.abc import Iterator

from sandbox.reader.answer import ToolCall
from sandbox.reader.request import ChatRequest, Exchange
from sandbox.text.words import fold, stem, words

ASKED = re.compile(r"\bdistinctFrom\b")
CANDIDATE = re.compile(r'\[node:([0-9a-f-]{36})\] ("(?:[^"\\]|\\.)*")')


def decided(request: ChatRequest) -> list[ToolCall]:
    """Each node that was asked about once more: under the name of the one that it is, or as distinct from all told."""
    return [
        ToolCall.of("addGraphNode", **{**asked.arguments, **_decision(asked)})
        for asked in _asked(request)
    ]


def found_to_be(request: ChatRequest) -> dict[str, str]:
    """By the key of a node's name, the key of the name under which it was added in the end."""
    return {
        fold(str(asked.arguments.get("name"))): fold(str(decision["name"]))
        for asked in _asked(request)
        if "name" in (decision := _decision(asked))
    }


def _asked(request: ChatRequest) -> Iterator[Exchange]:
    for one in request.exchanges:
        if one.name == "addGraphNode" and ASKED.search(one.refused):
            yield one


def _decision(asked: Exchange) -> dict[str, object]:
    """One is the same thing where its name has the same words, in whatever order or number."""
    told = [(node_id, str(json.loads(name))) for node_id, name in CANDIDATE.findall(asked.refused)]
    wanted = _stems(str(asked.arguments.get("name")))
    for _, name in told:
        if _stems(name) == wanted:
            return {"name": name}
    return {"distinctFrom": [node_id for node_id, _ in told]}


def _stems(name: str) -> frozenset[str]:
    return frozenset(stem(word) for word in words(name))
