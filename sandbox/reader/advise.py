"""The advice generation phase. By default nothing is advised, and the answer says why."""

import re
from collections import Counter
from dataclasses import dataclass

from sandbox.reader.answer import Answer, ToolCall
from sandbox.reader.graph_view import ID, GraphView, ViewNode
from sandbox.reader.request import ChatRequest
from sandbox.text.english import listed
from sandbox.text.trends import count_trends
from sandbox.text.words import fold

MIN_ANALYSES = 3
CITATION = re.compile(rf"\[node:({ID})\]")
CONFIDENCE = 0.5
HORIZON = "3 months"
READING = "words of rising and falling in the lines on it, counted"
_WRONG_BY = {
    "BUY": "Falling figures",
    "SELL": "Rising figures",
    "HOLD": "Figures that all rise, or all fall,",
}


@dataclass(frozen=True, slots=True)
class Agreement:
    """Analyses that all cite one node."""

    subject: str
    node_id: str
    analyses: tuple[ViewNode, ...]

    @property
    def directions(self) -> list[int]:
        """For each analysis 1 where its lines on the subject tell of rising, -1 of falling, 0 of neither or both."""
        return [self._direction(node) for node in self.analyses]

    @property
    def action(self) -> str:
        """BUY where all that tell a direction tell of rising, SELL where all tell of falling, else HOLD."""
        told = {direction for direction in self.directions if direction}
        return "BUY" if told == {1} else "SELL" if told == {-1} else "HOLD"

    def _direction(self, node: ViewNode) -> int:
        lines = str(node.properties.get("content", "")).splitlines()
        rising, falling = count_trends(" ".join(line for line in lines if self.node_id in line))
        return (rising > falling) - (falling > rising)


def advise(request: ChatRequest) -> Answer:
    """One piece of advice where three analyses agree on a subject that has none yet; otherwise the reason why not."""
    if any(one.name == "addAgentAdviceNode" for one in request.exchanges):
        return Answer(_report(request))
    shown = GraphView(request.section("analyses"))
    analyses = shown.analyses or list(_untyped(shown))
    context = GraphView(request.section("graph_context"))
    if len(analyses) < MIN_ANALYSES:
        return Answer(
            f"no advice: {len(analyses)} analyses are shown, and at least {MIN_ANALYSES} must agree."
        )
    agreement, why_not = _agreement(analyses, context)
    if agreement is None or "addAgentAdviceNode" not in request.tools:
        return Answer(f"no advice: {why_not or 'the tool for it was not offered.'}")
    return Answer(calls=(_call(agreement),))


def _untyped(view: GraphView) -> list[ViewNode]:
    return [node for node in view.nodes if "content" in node.properties]


def _agreement(analyses: list[ViewNode], context: GraphView) -> tuple[Agreement | None, str]:
    cited = Counter(one for node in analyses for one in dict.fromkeys(CITATION.findall(node.text)))
    shared = [one for one, count in cited.most_common() if count >= MIN_ANALYSES]
    if not shared:
        return None, f"no node is cited by {MIN_ANALYSES} of the {len(analyses)} analyses."
    names = {node.id: node.name for node in context.nodes}
    advised = fold(" ".join(node.text for node in context.advice))
    for one in shared:
        agreeing = tuple(node for node in analyses if one in node.text)
        subject = names.get(one) or _common_name(agreeing)
        agreement = Agreement(subject, one, agreeing)
        telling = sum(direction != 0 for direction in agreement.directions)
        if subject and fold(subject) not in advised and telling >= MIN_ANALYSES:
            return agreement, ""
    return (
        None,
        f"{MIN_ANALYSES} analyses share a subject, but it has been advised on or they do not tell where it goes.",
    )


def _common_name(analyses: tuple[ViewNode, ...]) -> str:
    """The longest run of capitalised words that every analysis' name holds."""
    runs = [set(re.findall(r"[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)*", node.name)) for node in analyses]
    common = set.intersection(*runs)
    return max(sorted(common), key=len) if common else ""


def _call(agreement: Agreement) -> ToolCall:
    rising, falling = agreement.directions.count(1), agreement.directions.count(-1)
    summary = (
        f"{agreement.action} {agreement.subject}: of {len(agreement.analyses)} analyses that cite it, {rising} tell of "
        f"rising and {falling} of falling figures."
    )
    grounds = [f"- {node.name} [node:{node.id}]" for node in agreement.analyses]
    return ToolCall.of(
        "addAgentAdviceNode",
        name=f"{agreement.action} {agreement.subject}",
        action=agreement.action,
        summary=summary,
        content="\n".join([f"{summary} The reading: {READING}.", "", *grounds]),
        confidence=CONFIDENCE,
        horizon=HORIZON,
        invalidation=f"{_WRONG_BY[agreement.action]} for {agreement.subject} in sources newer than those cited here.",
    )


def _report(request: ChatRequest) -> str:
    written = request.results("addAgentAdviceNode")
    refused = [one.refused for one in request.exchanges if one.refused]
    names = [str(one.arguments.get("name", "")) for one in written]
    told = f"Advised: {listed(names)}." if names else "no advice: it was refused."
    return " ".join([told, *refused])
