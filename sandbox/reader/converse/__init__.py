"""Talk: what the user wishes is remembered, what he asks is answered with the sentences that come nearest to it."""

from sandbox.reader.answer import Answer, ToolCall
from sandbox.reader.converse.own import about_itself
from sandbox.reader.converse.sources import Said, told_by_messages, told_by_search, told_by_sections
from sandbox.reader.converse.summary import summarize
from sandbox.reader.converse.wishes import Wish, wishes
from sandbox.reader.request import ChatRequest
from sandbox.search.passages import sentence_weights
from sandbox.text.words import significant, topic_stems, words

WHO = "I am the sandbox reader: I find sentences, I do not think. The nearest I was sent:"
NOTHING = "I am the sandbox reader, and nothing I was sent answers that."
MAX_SENTENCES = 5
MAX_LOOKUPS = 3
RESULTS = 5


def converse(request: ChatRequest) -> Answer:
    """Remembers what is wished, asks the graph, then where that says nothing a search, each once; then answers."""
    if request.section("older_turns"):
        return Answer(summarize(request))
    question = request.section("message") or request.last_user_text
    made = _calls_since_question(request)
    wished = wishes(question) if "remember" in request.tools else []
    if wished and "remember" not in made:
        return Answer(calls=tuple(_remembered(wish) for wish in wished))
    asked = " ".join(_without(question, wished).split())
    own = about_itself(request, asked)
    terms = [] if own else [word for word in words(asked) if significant(word)]
    if terms and "queryGraph" in request.tools and "queryGraph" not in made:
        return Answer(calls=tuple(_lookup(term) for term in dict.fromkeys(terms[:MAX_LOOKUPS])))
    found = own or _nearest(
        [*told_by_sections(request), *told_by_messages(request, question)], asked
    )
    if terms and not found and "tavilySearch" in request.tools and "tavilySearch" not in made:
        search = ToolCall.of("tavilySearch", query=" ".join(terms), maxResults=RESULTS)
        return Answer(calls=(search,))
    return Answer(_worded(wished, found or _nearest(told_by_search(request), asked), asked))


def _lookup(term: str) -> ToolCall:
    return ToolCall.of("queryGraph", text=term, neighbours=False, limit=RESULTS)


def _remembered(wish: Wish) -> ToolCall:
    return ToolCall.of("remember", kind=wish.kind, content=wish.content, quote=wish.quote)


def _without(question: str, wished: list[Wish]) -> str:
    for wish in wished:
        question = question.replace(wish.quote, " ")
    return question


def _calls_since_question(request: ChatRequest) -> set[str]:
    places = [place for place, one in enumerate(request.messages) if one.get("role") == "user"]
    newer = request.messages[places[-1] + 1 :] if places else []
    return {
        str((call.get("function") or {}).get("name"))
        for message in newer
        for call in message.get("tool_calls") or []
        if isinstance(call, dict)
    }


def _nearest(told: list[Said], question: str) -> list[str]:
    """The best sentences, each with where it stands."""
    by_text = {one.text: one for one in reversed(told)}
    texts = [text for text in by_text if text != WHO.partition(": ")[0]]
    weights = dict(zip(texts, sentence_weights(texts, topic_stems(question)), strict=True))
    best = sorted((one for one in texts if weights[one] > 0), key=lambda one: -weights[one])
    return [by_text[one].cited for one in best[:MAX_SENTENCES]]


def _worded(wished: list[Wish], found: list[str], asked: str) -> str:
    kept = [f"I will keep this {wish.kind} in mind: {wish.content}" for wish in wished]
    if found:
        return "\n".join([*kept, WHO, *(f"- {one}" for one in found)])
    if kept and not topic_stems(asked):
        return "\n".join([*kept, "My next plan is made with it."])
    return "\n".join([*kept, NOTHING])
