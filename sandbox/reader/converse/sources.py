"""Sentences that a request holds, each with where it stands."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.reader.graph_view import GraphView
from sandbox.reader.request import ChatRequest, text_of
from sandbox.text.sentences import sentences


@dataclass(frozen=True, slots=True)
class Said:
    """`source` is a citation or an address, empty where there is none to give."""

    text: str
    source: str = ""

    @property
    def cited(self) -> str:
        """With its source, unless it names one already."""
        return (
            f"{self.text} {self.source}" if self.source and "[node:" not in self.text else self.text
        )


def told_by_sections(request: ChatRequest) -> list[Said]:
    """What the graph says: first what was looked up, then what stands in the context."""
    looked_up = [
        one for look in request.results("queryGraph") for one in _of_result(look.result or {})
    ]
    view = GraphView(request.section("graph_context"), request.section("recent_advice"))
    shown = [
        said
        for node in [*view.nodes, *view.analyses, *view.advice]
        for said in _of_node(node.id, node.name, node.properties)
    ]
    edges = [
        Said(f"{edge.source} {edge.type.replace('_', ' ')} {edge.target}.", f"[edge:{edge.id}]")
        for edge in view.edges
    ]
    return [*looked_up, *shown, *edges]


def told_by_search(request: ChatRequest) -> list[Said]:
    """What the web says, with addresses."""
    return [
        Said(sentence, str(hit.get("url", "")))
        for search in request.results("tavilySearch")
        for hit in _objects(search.result or {}, "results")
        for sentence in sentences(str(hit.get("excerpt") or hit.get("content") or ""))
    ]


def told_by_messages(request: ChatRequest, question: str) -> list[Said]:
    """What was said before, where a request has no sections to tell it in."""
    if request.section("message"):
        return []
    texts = [
        text_of(message)
        for message in request.messages
        if message.get("role") in {"user", "assistant"} and text_of(message) != question
    ]
    return [Said(sentence) for text in texts for sentence in sentences(text)]


def _of_result(result: Mapping[str, Any]) -> Iterator[Said]:
    for node in _objects(result, "nodes"):
        properties = node.get("properties")
        yield from _of_node(
            str(node.get("id", "")),
            str(node.get("name", "")),
            properties if isinstance(properties, dict) else {},
        )


def _of_node(node_id: str, name: str, properties: Mapping[str, Any]) -> Iterator[Said]:
    source = f"[node:{node_id}]" if node_id else ""
    for text in _texts(dict(properties)):
        for sentence in sentences(text):
            named = sentence if name.lower() in sentence.lower() else f"{name}: {sentence}"
            yield Said(named, source)


def _texts(value: Any) -> list[str]:
    """Every text, however deep; addresses and ids are none."""
    if isinstance(value, str):
        return [value] if " " in value else []
    inner = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else []
    )
    return [text for one in inner for text in _texts(one)]


def _objects(result: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    given = result.get(key)
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []
