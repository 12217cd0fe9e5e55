"""The conversation phase: remembers wishes, and answers with what the graph holds that is closest to the question."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sandbox.model.graph_view import GraphView, ViewNode, cite
from sandbox.model.request import Answer, ChatRequest, ToolCall
from sandbox.search.passages import sentence_weights
from sandbox.text.labels import sentences
from sandbox.text.tokens import WORD, WORD_LISTS, is_significant, topic_stems, words

_CITATION = re.compile(r"\[(?:node:|n\d)")
_POLITE, _WISH = WORD_LISTS["polite"], WORD_LISTS["wish"]
_ABOUT_MEMORIES, _ABOUT_ADVICE = WORD_LISTS["about_memories"], WORD_LISTS["about_advice"]
_ABOUT_STATE = WORD_LISTS["about_state"]
_OWNER, _AGENT = "Owner: ", "Agent: "

ORIGIN = "This answer is from the sandbox, not from a language model."
INTRODUCTION = f"{ORIGIN} The closest that I found:"
NO_ANSWER = f"{ORIGIN} I found nothing that has the words of your question."
NO_ADVICE = "I have not given any advice yet."
NO_MEMORIES = "You have not given me any preferences or facts to remember yet."
MEMORY_KINDS = {"wish": "preference", "fact": "fact"}
REMEMBER = "remember"
MAX_WISHES = 3
MAX_WISH_CHARS = 480
MAX_SENTENCES = 5
MAX_LOOKUPS = 3
RESULTS = 5
MAX_FIGURE_CHARS = 120
"""A longer text is no figure."""
MAX_SUMMARY_CHARS = 3_000


def converse(request: ChatRequest) -> Answer:
    """Remember wishes, query the graph, search the web if the graph has no answer, each once; then answer."""
    if request.section("older_turns"):
        return Answer(summarize(request))
    question = request.section("message") or request.last_user_text
    called = _calls_since_question(request)
    wishes = (
        list(parse_wishes(question))[:MAX_WISHES] if "remember" in request.callable_tools else []
    )
    if wishes and "remember" not in called:
        return Answer(calls=tuple(ToolCall.of("remember", **wish) for wish in wishes))
    remaining = question
    for wish in wishes:
        remaining = remaining.replace(wish["quote"], " ")
    own = answer_about_agent(request, remaining)
    terms = [] if own else [word for word in words(remaining) if is_significant(word)]
    if terms and "queryGraph" in request.callable_tools and "queryGraph" not in called:
        lookups = dict.fromkeys(terms[:MAX_LOOKUPS])
        queries = (
            ToolCall.of("queryGraph", text=term, neighbours=False, limit=RESULTS)
            for term in lookups
        )
        return Answer(calls=tuple(queries))
    closest = own or _closest(graph_sentences(request), remaining)
    can_search = "tavilySearch" in request.callable_tools and "tavilySearch" not in called
    if terms and not closest and can_search:
        search = ToolCall.of("tavilySearch", query=" ".join(terms), maxResults=RESULTS)
        return Answer(calls=(search,))
    lines = [
        f"I will remember this {MEMORY_KINDS[wish['kind']]}: {wish['content']}" for wish in wishes
    ]
    closest = closest or _closest(search_sentences(request), remaining)
    if closest:
        lines += [INTRODUCTION, *(f"- {line}" for line in closest)]
    elif lines and not topic_stems(remaining):
        lines.append("My next plan will take this into account.")
    else:
        lines.append(NO_ANSWER)
    return Answer("\n".join(lines))


def parse_wishes(message: str) -> Iterator[dict[str, str]]:
    """The wishes and facts of a message, by the first word of its sentences. `quote` is a literal part of the message."""
    for sentence in sentences(message):
        matches = [*WORD.finditer(sentence)]
        spoken = [match.group().lower() for match in matches]
        first = next((place for place, word in enumerate(spoken) if word not in _POLITE), None)
        if first is None or sentence.endswith("?") or len(sentence) > MAX_WISH_CHARS:
            continue
        kind = "fact" if spoken[first] == REMEMBER else "wish" if spoken[first] in _WISH else None
        if kind == "fact":
            first += 2 if spoken[first + 1 : first + 2] == ["that"] else 1
        if kind and first < len(matches):
            content = sentence[matches[first].start() :]
            content = f"{content[0].upper()}{content[1:]}"
            yield {"kind": kind, "content": content, "quote": sentence}


def answer_about_agent(request: ChatRequest, question: str) -> list[str]:
    """The lines that answer a question about the agent itself; empty for other questions."""
    spoken = {word.lower() for word in words(question)}
    if spoken & _ABOUT_MEMORIES:
        return _lines(request.section("memories")) or [NO_MEMORIES]
    if spoken & _ABOUT_ADVICE and request.section("graph_context"):
        view = GraphView(request.section("recent_advice"), request.section("graph_context"))
        return [
            f"{node.properties.get('action', '')} {node.name}: {node.summary} {cite('node', node.id)}"
            for node in view.advice
        ] or [NO_ADVICE]
    return _lines(request.section("current_state")) if spoken & _ABOUT_STATE else []


def _lines(text: str) -> list[str]:
    return [line.removeprefix("- ") for line in text.splitlines() if line.strip()]


def graph_sentences(request: ChatRequest) -> dict[str, str]:
    """What the graph holds, each sentence with its citation: query results first, then the context."""
    view = GraphView(request.section("graph_context"), request.section("recent_advice"))
    cited: dict[str, str] = {}
    for exchange in request.results("queryGraph"):
        for item in exchange.items("nodes"):
            _add_node(cited, ViewNode.of_result(item))
    for node in [*view.nodes, *view.analyses, *view.advice]:
        _add_node(cited, node)
    for edge in view.edges:
        text = f"{edge.source} — {edge.type.replace('_', ' ')} → {edge.target}"
        cited.setdefault(text, cite("edge", edge.id))
    return cited


def _add_node(cited: dict[str, str], node: ViewNode) -> None:
    """Its texts as sentences, and its figures as `name — label: value`."""
    for label, value in {"": node.remark, **node.properties}.items():
        if label == "summary" or (isinstance(value, str) and len(value) > MAX_FIGURE_CHARS):
            for sentence in sentences(str(value)):
                is_named = node.name.lower() in sentence.lower()
                fact = sentence if is_named else f"{node.name}: {sentence}"
                cited.setdefault(fact, cite("node", node.id))
        elif isinstance(value, str | int | float) and str(value).strip():
            fact = f"{node.name} — {label}: {value}" if label else f"{node.name}: {value}"
            cited.setdefault(fact, cite("node", node.id))


def search_sentences(request: ChatRequest) -> dict[str, str]:
    """The sentences of search results, with URLs."""
    return {
        sentence: str(hit.get("url", ""))
        for search in request.results("tavilySearch")
        for hit in search.items("results")
        for sentence in sentences(str(hit.get("excerpt") or hit.get("content") or ""))
    }


def summarize(request: ChatRequest) -> str:
    """Summarize older turns: what the owner said and the first sentence of each answer.

    The earlier summary comes first; if the result is too long, the oldest sentences are dropped.
    """
    lines = [line for line in request.section("older_turns").splitlines() if line.strip()]
    owner = [line.removeprefix(_OWNER) for line in lines if line.startswith(_OWNER)]
    agent = [line.removeprefix(_AGENT) for line in lines if line.startswith(_AGENT)]
    so_far = [
        *sentences(request.section("summary_so_far")),
        *(f"The owner said: {_first_sentence(line)}" for line in owner),
        *map(_first_sentence, agent),
    ]
    while sum(len(sentence) + 1 for sentence in so_far) > MAX_SUMMARY_CHARS:
        del so_far[0]
    return "\n".join(so_far)


def _first_sentence(text: str) -> str:
    return next(iter(sentences(text)), "")


def _calls_since_question(request: ChatRequest) -> set[Any]:
    messages = request.messages
    places = [place for place, each in enumerate(messages) if each.get("role") == "user"]
    later = messages[places[-1] + 1 :] if places else []
    calls = [call for message in later for call in message.get("tool_calls") or []]
    return {(call.get("function") or {}).get("name") for call in calls if isinstance(call, dict)}


def _closest(cited: Mapping[str, str], question: str) -> list[str]:
    """The sentences with the most words of the question, each with its source."""
    texts = list(cited)
    weights = dict(zip(texts, sentence_weights(texts, topic_stems(question)), strict=True))
    best = sorted((text for text in texts if weights[text] > 0), key=lambda text: -weights[text])
    return [
        text if _CITATION.search(text) else f"{text} {cited[text]}" for text in best[:MAX_SENTENCES]
    ]
