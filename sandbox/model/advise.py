"""The advice generation phase: HOLD, with what to review first, if two analyses cite the same node.

Rules that compare figures and sentences show what stands out, but not whether to buy or to sell. So the action is always
HOLD, and the text repeats what the analyses say.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandbox.model.graph_view import ID, GraphView, ViewNode, cite
from sandbox.model.request import Answer, ChatRequest, ToolCall, finish_call
from sandbox.text.english import count_in_words, is_several, join_with_and
from sandbox.text.names import find_whole_name
from sandbox.text.tokens import fold, topic_stems

MIN_ANALYSES = 2
MAX_ANALYSES = 4
"""How many analyses an advice cites at most."""
CITATION = re.compile(rf"\[(?:node:|edge:)?({ID})\]")
ANCHOR = re.compile(rf"\s*\[(?:node:|edge:)?{ID}\]")
EXTREME = re.compile(
    r"(?P<names>[^;]+?) ha(?:s|ve) the (?P<rank>highe(?:r|st)|lowe(?:r|st))(?: reported (?P<what>.+?))?: "
    r"(?P<value>[^;]+?)(?=;|\.\s|\.$)"
)
REMARK = re.compile(r" \(([^()]*)\)$")
QUOTE_LINE = re.compile(r"^- (?P<names>.+?): (?P<quote>“.+”)", re.MULTILINE)
CONFIDENCE = 0.5
HORIZON = "3 months"
ACTION = "HOLD"
ONE_IS_ENOUGH = "at least one analysis"
"""Where the instructions say so, advice may rest on a single analysis."""
COMPARED_ONLY = "The analyses compare only figures from the sources. They do not explain why a figure is high or low."
QUOTED_ONLY = "The analyses quote the sources. They do not assess whether the sources are correct or complete."


@dataclass(frozen=True, slots=True)
class Agreement:
    """Analyses that all cite the same node."""

    subject: str
    node_id: str
    analyses: tuple[ViewNode, ...]

    @property
    def extremes(self) -> list[str]:
        """What the subject has the highest or lowest figure for, as clauses."""
        return [clause for node in self.analyses for clause in _extremes(self.subject, node)]

    @property
    def quotes(self) -> list[str]:
        """What the analyses quote on the subject."""
        return list(
            dict.fromkeys(
                match["quote"]
                for node in self.analyses
                for match in QUOTE_LINE.finditer(ANCHOR.sub("", _content(node)))
                if find_whole_name(self.subject, match["names"]) >= 0
            )
        )


def advise(request: ChatRequest) -> Answer:
    """Give advice if two analyses cite a node without advice; otherwise say why not."""
    if any(exchange.name == "addAgentAdviceNode" for exchange in request.exchanges):
        return Answer(_report(request))
    view = GraphView(request.section("analyses"))
    context = GraphView(request.section("graph_context"))
    analyses = list(view.analyses or _untyped(view))
    if not analyses:
        return Answer("no advice: there are no analyses.")
    known = {node.id for node in analyses} | {fold(node.name) for node in analyses}
    analyses += [
        node for node in context.analyses if node.id not in known and fold(node.name) not in known
    ]
    least = 1 if ONE_IS_ENOUGH in request.rules else MIN_ANALYSES
    agreement, why_not = _agreement(analyses, context, request.mission, least)
    if "addAgentAdviceNode" not in request.callable_tools:
        return Answer("no advice: the request does not offer the tool for it.")
    if agreement is None:
        return Answer(f"no advice: {why_not}")
    return Answer(calls=(_advice_call(agreement), *finish_call(request)))


def _untyped(view: GraphView) -> Iterator[ViewNode]:
    return (node for node in view.nodes if "content" in node.properties)


def _content(node: ViewNode) -> str:
    return str(node.properties.get("content", ""))


def _summary(node: ViewNode) -> str:
    """The summary of an analysis; the context has it after the name."""
    return str(node.properties.get("summary") or node.remark).strip()


def _agreement(
    analyses: Sequence[ViewNode], context: GraphView, mission: str, least: int
) -> tuple[Agreement | None, str]:
    """The agreement of most analyses, then of most extremes, then closest to the mission."""
    if len(analyses) < least:
        return None, f"there is only one analysis, and at least {count_in_words(least)} must agree."
    why_not = (
        "the analyses cite no nodes."
        if least == 1
        else f"no {count_in_words(least)} analyses cite the same node."
    )
    names = {node.id: node.name for node in context.nodes}
    advised = fold(" ".join(node.text for node in context.advice))
    options = []
    for node_id in _cited_ids(analyses):
        agreeing = [node for node in analyses if cite("node", node_id) in _content(node)]
        if len(agreeing) < least or (node_id not in names and _is_edge(node_id, analyses)):
            continue
        subject = names.get(node_id) or _common_name(node_id, agreeing)
        why_not = "there is already advice on the subject of these analyses."
        if subject and fold(subject) not in advised:
            options.append(Agreement(subject, node_id, tuple(agreeing[:MAX_ANALYSES])))
    if not options:
        return None, why_not
    topic = topic_stems(mission)
    best = max(
        options,
        key=lambda each: (
            len(each.analyses),
            len(each.extremes),
            any("the highe" in clause for clause in each.extremes),
            len(topic & topic_stems(each.subject)),
            len(topic & topic_stems(" ".join(each.quotes))),
            each.subject[:1].isupper(),
        ),
    )
    return best, ""


def _cited_ids(analyses: Sequence[ViewNode]) -> list[str]:
    """What the analyses cite, in the order of their lines."""
    return list(
        dict.fromkeys(node_id for node in analyses for node_id in CITATION.findall(_content(node)))
    )


def _is_edge(element_id: str, analyses: Sequence[ViewNode]) -> bool:
    """Whether an id is that of an edge: `e4`, or one that is never cited as a node."""
    return not any(cite("node", element_id) in _content(node) for node in analyses) or (
        re.fullmatch(r"e\d+", element_id) is not None
    )


def _common_name(node_id: str, analyses: Sequence[ViewNode]) -> str:
    """The name of a node: what the lines that cite it alone start with, else the longest name that all analyses have."""
    for node in analyses:
        for line in _content(node).splitlines():
            start, colon, rest = line.removeprefix("- ").partition(": ")
            if colon and cite("node", node_id) in rest and len(CITATION.findall(rest)) == 1:
                return start.partition(" — ")[0]
    runs = [set(re.findall(r"[A-Z][\w'’-]+(?: [A-Z][\w'’-]+)*", node.name)) for node in analyses]
    common = set.intersection(*runs)
    return max(sorted(common), key=len) if common else ""


def _extremes(subject: str, analysis: ViewNode) -> Iterator[str]:
    """`the highest reported exports of those compared ($12 billion)`, for each such statement on the subject."""
    text = re.sub(r"^Of .+?, (?=[^,]+? ha(?:s|ve) the highe(?:r|st))", "", _summary(analysis))
    what = ""
    for match in EXTREME.finditer(text):
        what = match["what"] or what
        if what and find_whole_name(subject, match["names"]) >= 0:
            value = REMARK.sub(r", \1", match["value"].strip())
            yield f"the {match['rank']} reported {what} of those compared ({value})"


def _advice_call(agreement: Agreement) -> ToolCall:
    subject, extremes, analyses = agreement.subject, agreement.extremes, agreement.analyses
    citing = (
        "one analysis cites"
        if len(analyses) == 1
        else f"{count_in_words(len(analyses))} analyses cite"
    )
    several = is_several(subject)
    if extremes:
        name = f"Review {subject} first"
        reason = f"{'they have' if several else 'it has'} {join_with_and(extremes)}"
        risk, wrong = COMPARED_ONLY, f"A newer source whose figure changes the rank of {subject}."
    else:
        name = f"Review the statements about {subject} first"
        reason = f"{citing} {'them' if several else 'it'}"
        risk, wrong = QUOTED_ONLY, f"A newer source that contradicts a statement about {subject}."
    content = [
        f"Hold: {name[:1].lower()}{name[1:]} and make no changes yet, because {reason}.",
        "",
        "Supporting analyses:" if len(analyses) > 1 else "Supporting analysis:",
        *(f"- {_grounds(node, subject)} {cite('node', node.id)}" for node in analyses),
        "",
        f"Risk: {risk} Check the sources before you decide.",
        "",
        f"Why now: {citing} {subject}, and no advice covers {'them' if several else 'it'} yet.",
    ]
    return ToolCall.of(
        "addAgentAdviceNode",
        name=name,
        action=ACTION,
        summary=f"{name} and make no changes yet: {reason}.",
        content="\n".join(content),
        confidence=CONFIDENCE,
        horizon=HORIZON,
        invalidation=wrong,
    )


def _grounds(analysis: ViewNode, subject: str) -> str:
    """What an analysis says, in its own words, with what it quotes on the subject, or first."""
    text = " ".join(ANCHOR.sub("", _summary(analysis) or analysis.name).split())
    lines = list(QUOTE_LINE.finditer(ANCHOR.sub("", _content(analysis))))
    on_subject = [line for line in lines if find_whole_name(subject, line["names"]) >= 0]
    quoted = next(iter(on_subject or lines), None)
    return f"{text} {quoted['names']}: {quoted['quote']}" if quoted else text


def _report(request: ChatRequest) -> str:
    additions = request.results("addAgentAdviceNode")
    errors = [exchange.error for exchange in request.exchanges if exchange.error]
    names = [str(exchange.arguments.get("name", "")) for exchange in additions]
    text = (
        f"Advice given: {join_with_and(names)}."
        if names
        else "no advice: the tool call was refused."
    )
    return " ".join([text, *errors])
