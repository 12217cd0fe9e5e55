"""Questions about the agent itself: what it does, what it advised, what it remembers."""

import re

from sandbox.reader.graph_view import GraphView
from sandbox.reader.request import ChatRequest

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
NO_ADVICE = "I have advised nothing so far: the analyses carry none yet."
NO_MEMORIES = "I remember nothing that you told me so far."


def about_itself(request: ChatRequest, question: str) -> list[str]:
    """The lines that answer it; none where the question is about something else."""
    if _MEMORIES.search(question):
        return _lines(request.section("memories")) or [NO_MEMORIES]
    if _ADVICE.search(question) and request.section("graph_context"):
        return _advised(request) or [NO_ADVICE]
    if _DOING.search(question):
        return _lines(request.section("current_state"))
    return []


def _advised(request: ChatRequest) -> list[str]:
    view = GraphView(request.section("recent_advice"), request.section("graph_context"))
    return [
        f"{node.properties.get('action', '')} {node.name}: {node.properties.get('summary', '')} [node:{node.id}]".strip()
        for node in view.advice
    ]


def _lines(text: str) -> list[str]:
    return [line.removeprefix("- ") for line in text.splitlines() if line.strip()]
