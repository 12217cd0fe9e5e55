"""The conversation phase: remembers wishes, and answers with the sentences closest to the question."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sandbox.model.graph_view import GraphView, ViewNode, cite
from sandbox.model.request import Answer, ChatRequest, ToolCall, message_text
from sandbox.search.passages import sentence_weights
from sandbox.text.sentences import sentences
from sandbox.text.tokens import is_significant, topic_stems, words

_DOING = re.compile(
    r"\b(?:what|how) (?:are|were) you (?:doing|working|up to|getting)|\bare you (?:doing|working)|\byour (?:plan|status)\b"
    r"|\bnext (?:iteration|run)\b|\b(?:current|last|this) iteration\b|\bright now\b",
    re.IGNORECASE,
)
_ADVICE = re.compile(r"\b(?:advice|advise[ds]?|recommend(?:ed|ation)?s?)\b", re.IGNORECASE)
_MEMORIES = re.compile(
    r"\b(?:what|anything) (?:do|did|have) you (?:remember|keep|know about me)|\byour memor",
    re.IGNORECASE,
)
_CITATION = re.compile(r"\[(?:node:|n\d)")
NO_ADVICE = "I have not given any advice yet."
NO_MEMORIES = "You have not given me any preferences or facts to remember yet."


def answer_about_agent(request: ChatRequest, question: str) -> list[str]:
    """The lines that answer a question about the agent itself; empty for other questions."""
    if _MEMORIES.search(question):
        return _lines(request.section("memories")) or [NO_MEMORIES]
    if _ADVICE.search(question) and request.section("graph_context"):
        return _advice_lines(request) or [NO_ADVICE]
    if _DOING.search(question):
        return _lines(request.section("current_state"))
    return []


def _advice_lines(request: ChatRequest) -> list[str]:
    view = GraphView(request.section("recent_advice"), request.section("graph_context"))
    return [_advice_line(node) for node in view.advice]


def _advice_line(node: ViewNode) -> str:
    verdict, summary = (node.properties.get(name, "") for name in ("action", "summary"))
    return f"{verdict} {node.name}: {summary} {cite('node', node.id)}".strip()


def _lines(text: str) -> list[str]:
    return [line.removeprefix("- ") for line in text.splitlines() if line.strip()]


@dataclass(frozen=True, slots=True)
class CitedSentence:
    """A sentence; `source` is a citation or URL, possibly empty."""

    text: str
    source: str = ""

    @property
    def cited(self) -> str:
        """The text with its source, unless it contains a citation."""
        is_cited = not self.source or _CITATION.search(self.text) is not None
        return self.text if is_cited else f"{self.text} {self.source}"


def graph_sentences(request: ChatRequest) -> list[CitedSentence]:
    """The sentences of the graph: query results first, then the context."""
    looked_up = [
        sentence
        for look in request.results("queryGraph")
        for sentence in _result_sentences(look.result or {})
    ]
    view = GraphView(request.section("graph_context"), request.section("recent_advice"))
    node_sentences = [
        sentence
        for node in [*view.nodes, *view.analyses, *view.advice]
        for sentence in _node_sentences(node.id, node.name, node.properties)
    ]
    edges = [
        CitedSentence(
            f"{edge.source} — {edge.type.replace('_', ' ')} → {edge.target}", cite("edge", edge.id)
        )
        for edge in view.edges
    ]
    return [*looked_up, *node_sentences, *edges]


def search_sentences(request: ChatRequest) -> list[CitedSentence]:
    """The sentences of search results, with URLs."""
    return [
        CitedSentence(sentence, str(hit.get("url", "")))
        for search in request.results("tavilySearch")
        for hit in _objects(search.result or {}, "results")
        for sentence in sentences(str(hit.get("excerpt") or hit.get("content") or ""))
    ]


def message_sentences(request: ChatRequest, question: str) -> list[CitedSentence]:
    """The sentences of earlier messages, in requests without sections."""
    if request.section("message"):
        return []
    texts = [
        message_text(message)
        for message in request.messages
        if message.get("role") in {"user", "assistant"} and message_text(message) != question
    ]
    return [CitedSentence(sentence) for text in texts for sentence in sentences(text)]


def _result_sentences(result: Mapping[str, Any]) -> Iterator[CitedSentence]:
    for node in _objects(result, "nodes"):
        properties = node.get("properties")
        yield from _node_sentences(
            str(node.get("id", "")),
            str(node.get("name", "")),
            properties if isinstance(properties, dict) else {},
        )


def _node_sentences(
    node_id: str, name: str, properties: Mapping[str, Any]
) -> Iterator[CitedSentence]:
    source = cite("node", node_id) if node_id else ""
    for text in _texts(dict(properties)):
        for sentence in sentences(text):
            fact = sentence if name.lower() in sentence.lower() else f"{name}: {sentence}"
            yield CitedSentence(fact, source)


def _texts(value: Any) -> list[str]:
    """All texts at any depth, except single words such as URLs and ids."""
    if isinstance(value, str):
        return [value] if " " in value else []
    inner = (
        value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else []
    )
    return [text for item in inner for text in _texts(item)]


def _objects(result: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = result.get(key)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


MAX_SUMMARY_CHARS = 3_000
_OWNER, _AGENT = "Owner: ", "Agent: "


def summarize(request: ChatRequest) -> str:
    """Summarize older turns: what the owner said and the first sentence of each answer.

    The earlier summary comes first; if the result is too long, the oldest sentences are dropped.

    """
    lines = [line for line in request.section("older_turns").splitlines() if line.strip()]
    lines_so_far = [
        *sentences(request.section("summary_so_far")),
        *(
            f"The owner said: {_first_sentence(line, _OWNER)}"
            for line in lines
            if line.startswith(_OWNER)
        ),
        *(_first_sentence(line, _AGENT) for line in lines if line.startswith(_AGENT)),
    ]
    summary: list[str] = []
    chars_left = MAX_SUMMARY_CHARS
    for sentence in reversed(lines_so_far):
        chars_left -= len(sentence) + 1
        if chars_left < 0:
            break
        summary.insert(0, sentence)
    return "\n".join(summary)


def _first_sentence(line: str, speaker: str) -> str:
    return next(iter(sentences(line.removeprefix(speaker))), "")


_POLITE_PREFIX = re.compile(
    r"^(?:and|also|please|oh|ok|okay|well|thanks|hi|hello)[,\s]+", re.IGNORECASE
)
_REMEMBER_PREFIX = re.compile(
    r"^(?:remember|note|keep in mind|bear in mind|do not forget|don['’]t forget|fyi|for your information|know)"
    r"(?:\s+that)?[:,]?\s+",
    re.IGNORECASE,
)
_WISH = re.compile(
    r"^(?:i\s+(?:(?:would|['’]d)\s+)?(?:prefer|like|want|wish|need|care|am\s+(?:more\s+|not\s+)?interested)\b"
    r"|i['’]d\s+(?:prefer|like)\b|from now on\b"
    r"|(?:also\s+)?(?:watch|track|follow|monitor|keep an eye|focus|concentrate|look (?:out|after)|ignore|avoid|skip"
    r"|leave out|stop|prefer|do not|don['’]t|never|always)\b)",
    re.IGNORECASE,
)
MAX_WISHES = 3
MAX_WISH_CHARS = 480


@dataclass(frozen=True, slots=True)
class Wish:
    """A wish or fact to remember. `quote` is a literal part of the message."""

    kind: Literal["wish", "fact"]
    content: str
    quote: str


def parse_wishes(message: str) -> list[Wish]:
    """Parse wishes and facts by how sentences start; questions are none."""
    parsed = [
        _parse_wish(sentence) for sentence in sentences(message) if not sentence.endswith("?")
    ]
    return [wish for wish in parsed if wish is not None][:MAX_WISHES]


def _parse_wish(sentence: str) -> Wish | None:
    plain = sentence
    while (shorter := _POLITE_PREFIX.sub("", plain)) != plain:
        plain = shorter
    statement = _REMEMBER_PREFIX.sub("", plain)
    wishes_for = bool(_WISH.match(statement))
    if not wishes_for and statement == plain:
        return None
    if not statement or len(sentence) > MAX_WISH_CHARS:
        return None
    content = f"{statement[0].upper()}{statement[1:]}"
    return Wish("wish" if wishes_for else "fact", content, sentence)


ORIGIN = "This answer is from the sandbox, not from a language model."
INTRODUCTION = f"{ORIGIN} The closest sentences I found:"
NO_ANSWER = f"{ORIGIN} I found no sentence that matches your question."
MEMORY_KINDS = {"wish": "preference", "fact": "fact"}
MAX_SENTENCES = 5
MAX_LOOKUPS = 3
RESULTS = 5


def converse(request: ChatRequest) -> Answer:
    """Remember wishes, query the graph, search the web if the graph has no answer, each once; then answer."""
    if request.section("older_turns"):
        return Answer(summarize(request))
    question = request.section("message") or request.last_user_text
    called_tools = _calls_since_question(request)
    new_wishes = parse_wishes(question) if "remember" in request.callable_tools else []
    if new_wishes and "remember" not in called_tools:
        return Answer(calls=tuple(_remember_call(wish) for wish in new_wishes))
    remaining = " ".join(_without_wishes(question, new_wishes).split())
    own_lines = answer_about_agent(request, remaining)
    terms = [] if own_lines else [word for word in words(remaining) if is_significant(word)]
    if terms and "queryGraph" in request.callable_tools and "queryGraph" not in called_tools:
        return Answer(
            calls=tuple(_lookup_call(term) for term in dict.fromkeys(terms[:MAX_LOOKUPS]))
        )
    closest = own_lines or _closest_sentences(
        [*graph_sentences(request), *message_sentences(request, question)], remaining
    )
    if (
        terms
        and not closest
        and "tavilySearch" in request.callable_tools
        and "tavilySearch" not in called_tools
    ):
        search = ToolCall.of("tavilySearch", query=" ".join(terms), maxResults=RESULTS)
        return Answer(calls=(search,))
    return Answer(
        _compose_answer(
            new_wishes,
            closest or _closest_sentences(search_sentences(request), remaining),
            remaining,
        )
    )


def _lookup_call(term: str) -> ToolCall:
    return ToolCall.of("queryGraph", text=term, neighbours=False, limit=RESULTS)


def _remember_call(wish: Wish) -> ToolCall:
    return ToolCall.of("remember", kind=wish.kind, content=wish.content, quote=wish.quote)


def _without_wishes(question: str, new_wishes: list[Wish]) -> str:
    for wish in new_wishes:
        question = question.replace(wish.quote, " ")
    return question


def _calls_since_question(request: ChatRequest) -> set[str]:
    places = [
        place for place, message in enumerate(request.messages) if message.get("role") == "user"
    ]
    later = request.messages[places[-1] + 1 :] if places else []
    return {
        str((call.get("function") or {}).get("name"))
        for message in later
        for call in message.get("tool_calls") or []
        if isinstance(call, dict)
    }


def _closest_sentences(candidates: list[CitedSentence], question: str) -> list[str]:
    """The best sentences, each with its source."""
    by_text = {text.text: text for text in reversed(candidates)}
    own = {*sentences(INTRODUCTION), *sentences(NO_ANSWER)}
    texts = [text for text in by_text if text not in own]
    weights = dict(zip(texts, sentence_weights(texts, topic_stems(question)), strict=True))
    best = sorted((text for text in texts if weights[text] > 0), key=lambda text: -weights[text])
    return [by_text[text].cited for text in best[:MAX_SENTENCES]]


def _compose_answer(new_wishes: list[Wish], closest: list[str], remaining: str) -> str:
    acknowledgements = [
        f"I will remember this {MEMORY_KINDS[wish.kind]}: {wish.content}" for wish in new_wishes
    ]
    if closest:
        return "\n".join([*acknowledgements, INTRODUCTION, *(f"- {line}" for line in closest)])
    if acknowledgements and not topic_stems(remaining):
        return "\n".join([*acknowledgements, "My next plan will take this into account."])
    return "\n".join([*acknowledgements, NO_ANSWER])
