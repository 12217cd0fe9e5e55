"""The advice generation phase. The default is no advice, with the reason."""

import re
from collections import Counter
from dataclasses import dataclass

from sandbox.model.graph_view import ID, GraphView, ViewNode, cite
from sandbox.model.request import Answer, ChatRequest, ToolCall, finish_call
from sandbox.text.english import join_with_and
from sandbox.text.sentences import count_trends
from sandbox.text.tokens import fold

MIN_ANALYSES = 3
CITATION = re.compile(rf"\[(?:node:)?({ID})\]")
CONFIDENCE = 0.5
HORIZON = "3 months"
METHOD = "words of rising and falling in the lines on it, counted"
_INVALIDATIONS = {
    "BUY": "Falling figures",
    "SELL": "Rising figures",
    "HOLD": "Figures that all rise, or all fall,",
}


@dataclass(frozen=True, slots=True)
class Agreement:
    """Analyses that all cite the same node."""

    subject: str
    node_id: str
    analyses: tuple[ViewNode, ...]

    @property
    def directions(self) -> list[int]:
        """The direction of each analysis: 1 if its lines on the subject state rising, -1 falling, 0 neither or both."""
        return [self._direction(node) for node in self.analyses]

    @property
    def action(self) -> str:
        """BUY if all directions are rising, SELL if all are falling, else HOLD."""
        directions = {direction for direction in self.directions if direction}
        return "BUY" if directions == {1} else "SELL" if directions == {-1} else "HOLD"

    def _direction(self, node: ViewNode) -> int:
        lines = str(node.properties.get("content", "")).splitlines()
        rising, falling = count_trends(
            " ".join(line for line in lines if cite("node", self.node_id) in line)
        )
        return (rising > falling) - (falling > rising)


def advise(request: ChatRequest) -> Answer:
    """Give advice if three analyses agree on a subject without advice; otherwise say why not."""
    if any(exchange.name == "addAgentAdviceNode" for exchange in request.exchanges):
        return Answer(_report(request))
    view = GraphView(request.section("analyses"))
    analyses = view.analyses or list(_untyped(view))
    context = GraphView(request.section("graph_context"))
    if len(analyses) < MIN_ANALYSES:
        return Answer(
            f"no advice: {len(analyses)} analyses are shown, and at least {MIN_ANALYSES} must agree."
        )
    agreement, why_not = _agreement(analyses, context)
    if agreement is None or "addAgentAdviceNode" not in request.callable_tools:
        return Answer(f"no advice: {why_not or 'the tool for it was not offered.'}")
    return Answer(calls=(_advice_call(agreement), *finish_call(request)))


def _untyped(view: GraphView) -> list[ViewNode]:
    return [node for node in view.nodes if "content" in node.properties]


def _agreement(analyses: list[ViewNode], context: GraphView) -> tuple[Agreement | None, str]:
    cited = Counter(
        node_id for node in analyses for node_id in dict.fromkeys(CITATION.findall(node.text))
    )
    shared = [node_id for node_id, count in cited.most_common() if count >= MIN_ANALYSES]
    if not shared:
        return None, f"no node is cited by {MIN_ANALYSES} of the {len(analyses)} analyses."
    names = {node.id: node.name for node in context.nodes}
    advised = fold(" ".join(node.text for node in context.advice))
    for node_id in shared:
        agreeing = tuple(node for node in analyses if cite("node", node_id) in node.text)
        subject = names.get(node_id) or _common_name(agreeing)
        agreement = Agreement(subject, node_id, agreeing)
        directed = sum(direction != 0 for direction in agreement.directions)
        if subject and fold(subject) not in advised and directed >= MIN_ANALYSES:
            return agreement, ""
    return (
        None,
        f"{MIN_ANALYSES} analyses share a subject, but it has been advised on or they do not tell where it goes.",
    )


def _common_name(analyses: tuple[ViewNode, ...]) -> str:
    """The longest run of capitalised words that occurs in the name of every analysis."""
    runs = [set(re.findall(r"[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)*", node.name)) for node in analyses]
    common = set.intersection(*runs)
    return max(sorted(common), key=len) if common else ""


def _advice_call(agreement: Agreement) -> ToolCall:
    rising, falling = agreement.directions.count(1), agreement.directions.count(-1)
    summary = (
        f"{agreement.action} {agreement.subject}: of {len(agreement.analyses)} analyses that cite it, "
        f"{rising or 'none'} tell of rising and {falling or 'none'} of falling figures."
    )
    grounds = [f"- {node.name} {cite('node', node.id)}" for node in agreement.analyses]
    return ToolCall.of(
        "addAgentAdviceNode",
        name=f"{agreement.action} {agreement.subject}",
        action=agreement.action,
        summary=summary,
        content="\n".join([f"{summary} The reading: {METHOD}.", "", *grounds]),
        confidence=CONFIDENCE,
        horizon=HORIZON,
        invalidation=f"{_INVALIDATIONS[agreement.action]} for {agreement.subject} in sources newer than those cited here.",
    )


def _report(request: ChatRequest) -> str:
    additions = request.results("addAgentAdviceNode")
    errors = [exchange.error for exchange in request.exchanges if exchange.error]
    names = [str(exchange.arguments.get("name", "")) for exchange in additions]
    text = f"Advised: {join_with_and(names)}." if names else "no advice: it was refused."
    return " ".join([text, *errors])
