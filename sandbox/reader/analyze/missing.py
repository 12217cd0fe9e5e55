"""What lacks for a conclusion, said so that it can be the next query."""

from dataclasses import replace

from sandbox.reader.analyze.figures import compare_figures
from sandbox.reader.analyze.insight import Insight
from sandbox.reader.answer import Answer, ToolCall
from sandbox.reader.facts import figures_of
from sandbox.reader.request import ChatRequest
from sandbox.text.english import shortened
from sandbox.text.words import significant, words

MAX_LINES = 3
MAX_THEME_WORDS = 6
MAX_HINT_WORDS = 8
MAX_OBJECTIVE_CHARS = 280
MAX_REASONING_CHARS = 400


def ask_for_missing(request: ChatRequest, insight: Insight) -> Answer:
    """By the tool where it is offered, else in lines; one call for each thing, once."""
    if "requestInvestigation" not in request.offered:
        return Answer("\n".join(f"MISSING: {each}" for each in _missing(insight)))
    asked = any(one.name == "requestInvestigation" for one in request.exchanges)
    if asked or "requestInvestigation" not in request.tools:
        return Answer("No conclusion can be drawn yet; what it needs has been asked for.")
    return Answer(calls=tuple(_call(each, insight) for each in _missing(insight)))


def _call(wanted: str, insight: Insight) -> ToolCall:
    hint = " ".join([word for word in words(wanted) if significant(word)][:MAX_HINT_WORDS])
    why = f"Nothing can be concluded on this without it: {insight.observation}"
    return ToolCall.of(
        "requestInvestigation",
        objective=shortened(wanted, MAX_OBJECTIVE_CHARS),
        reasoning=shortened(why, MAX_REASONING_CHARS),
        searchHints=[hint] if hint else [],
    )


def _missing(insight: Insight) -> list[str]:
    """Names the figure and the node; no more than three."""
    if not insight.nodes:
        return [f"any node on this: {insight.observation}"]
    theme = _theme(insight)
    bare = [node.name for node in insight.nodes if not figures_of(node)]
    if bare:
        return [f"a figure for {theme} of {name}" for name in bare[:MAX_LINES]]
    names = [node.name for node in insight.nodes[:MAX_LINES]]
    kind = "a newer" if _told(insight) else "a comparable"
    return [f"{kind} figure for {theme} of {name}" for name in names]


def _told(insight: Insight) -> bool:
    """Whether there are comparable figures, and every conclusion from them has been drawn."""
    return compare_figures(replace(insight, taken_names=frozenset())) is not None


def _theme(insight: Insight) -> str:
    """The figure that the insight names in quotes, else its first significant words."""
    if insight.theme:
        return f"“{insight.theme}”"
    names = {word for node in insight.nodes for word in words(node.name)}
    told = [word for word in words(insight.observation) if significant(word) and word not in names]
    return " ".join(told[:MAX_THEME_WORDS]) or "what the insight asks for"
