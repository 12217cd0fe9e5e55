"""Any other request: the sentences it holds that come nearest to what the user asked last."""

from collections.abc import Mapping
from typing import Any

from sandbox.reader.answer import Answer, ToolCall
from sandbox.reader.request import ChatRequest, text_of
from sandbox.search.passages import sentence_weights
from sandbox.text.sentences import sentences
from sandbox.text.words import significant, topic_stems, words

WHO = "I am the sandbox reader: I find sentences, I do not think. The nearest I was sent:"
NOTHING = "I am the sandbox reader, and nothing I was sent answers that."
MAX_SENTENCES = 5
MAX_LOOKUPS = 3
RESULTS = 5


def converse(request: ChatRequest) -> Answer:
    """Asks the graph, then a search, once each where they are offered; then answers."""
    question = request.last_user_text
    terms = [word for word in words(question) if significant(word)]
    made = _calls_since_question(request)
    if terms and "queryGraph" in request.tools and "queryGraph" not in made:
        return Answer(calls=tuple(_lookup(term) for term in dict.fromkeys(terms[:MAX_LOOKUPS])))
    if terms and "tavilySearch" in request.tools and not {"tavilySearch"} & made:
        return Answer(
            calls=(ToolCall.of("tavilySearch", query=" ".join(terms), maxResults=RESULTS),)
        )
    found = _nearest(request, question)
    return Answer("\n".join([WHO, *(f"- {one}" for one in found)]) if found else NOTHING)


def _lookup(term: str) -> ToolCall:
    return ToolCall.of("queryGraph", text=term, neighbours=False, limit=RESULTS)


def _calls_since_question(request: ChatRequest) -> set[str]:
    places = [place for place, one in enumerate(request.messages) if one.get("role") == "user"]
    newer = request.messages[places[-1] + 1 :] if places else []
    return {
        str((call.get("function") or {}).get("name"))
        for message in newer
        for call in message.get("tool_calls") or []
        if isinstance(call, dict)
    }


def _nearest(request: ChatRequest, question: str) -> list[str]:
    wanted = topic_stems(question)
    texts = [
        text_of(message)
        for message in request.messages
        if message.get("role") in {"user", "assistant"} and text_of(message) != question
    ]
    told = [text for exchange in request.exchanges for text in _texts(exchange.result or {})]
    every = list(dict.fromkeys(one for text in [*told, *texts] for one in sentences(text)))
    usable = [one for one in every if one != WHO.partition(": ")[0]]
    weights = dict(zip(usable, sentence_weights(usable, wanted), strict=True))
    best = sorted((one for one in usable if weights[one] > 0), key=lambda one: -weights[one])
    return best[:MAX_SENTENCES]


def _texts(value: Any) -> list[str]:
    """Every text in a tool's answer, however deep; addresses and ids are none."""
    if isinstance(value, str):
        return [value] if " " in value else []
    inner = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else []
    )
    return [text for one in inner for text in _texts(one)]
