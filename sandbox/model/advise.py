"""The advice generation phase: HOLD, with what to review first, if analyses agree on a node.

A comparison of figures shows what stands out, but not what to do. So the action is HOLD, or the first of the agent's
actions, and the text repeats what the analyses say.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sandbox.model.graph_view import ID, GraphView, ViewNode, cite
from sandbox.model.request import Answer, ChatRequest, ToolCall
from sandbox.text.tokens import fold, topic_stems

HOLD = "HOLD"
MIN_ANALYSES = 2
MAX_ANALYSES = 4
"""How many analyses an advice cites at most."""
ONE_IS_ENOUGH = "at least one analysis"
"""Where the instructions say so, advice may rest on a single analysis."""
CITATION = re.compile(rf"\[(?:node:|edge:)?({ID})\]")
LINE = re.compile(rf"^- (?P<name>.+?) — .*?\[(?:node:)?(?P<id>{ID})\]", re.MULTILINE)
"""A line of an analysis, on the node that it cites first."""
RISK = (
    "The analyses compare only figures from the sources. They do not explain why a figure is high or low. "
    "Check the sources before you decide."
)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Analyses that all cite the same node."""

    subject: str
    node_id: str
    analyses: Sequence[ViewNode]


def advise(request: ChatRequest) -> Answer:
    """Give advice if two analyses cite a node without advice; otherwise say why not."""
    tried = [exchange for exchange in request.exchanges if exchange.name == "addAgentAdviceNode"]
    if tried:
        errors = [exchange.error for exchange in tried if exchange.error]
        return Answer(" ".join(errors) or "The advice is given.")
    context = GraphView(request.section("graph_context"))
    standing = GraphView(f"## Advice\n{request.section('standing_advice')}").advice
    analyses = GraphView(request.section("analyses")).analyses
    if not analyses:
        return Answer("no advice: there are no analyses.")
    known = {node.id for node in analyses}
    analyses += [node for node in context.analyses if node.id not in known]
    least = 1 if ONE_IS_ENOUGH in request.rules else MIN_ANALYSES
    agreements = list(_agreements(analyses, context, standing, least))
    if "addAgentAdviceNode" not in request.callable_tools:
        return Answer("no advice: the request does not offer the tool for it.")
    if not agreements:
        return Answer(
            "no advice: too few analyses cite the same node, or there is advice on it already."
        )
    topic = topic_stems(request.mission)
    best = max(
        agreements,
        key=lambda each: (
            len(each.analyses),
            len(topic & topic_stems(each.subject)),
        ),
    )
    return Answer(calls=(_advice_call(best, request.actions), *request.finish_call))


def _agreements(
    analyses: Sequence[ViewNode],
    context: GraphView,
    standing: Sequence[ViewNode],
    least: int,
) -> Iterator[Agreement]:
    """The nodes that at least `least` analyses cite and no standing advice mentions."""
    names = {
        match["id"]: match["name"] for node in analyses for match in LINE.finditer(node.content)
    }
    names |= {node.id: node.name for node in context.nodes}
    advised = fold(" ".join(f"{node.name} {node.remark}" for node in standing))
    for node_id, name in names.items():
        citing = [node for node in analyses if node_id in CITATION.findall(node.content)]
        if len(citing) >= least and fold(name) not in advised:
            yield Agreement(name, node_id, citing[:MAX_ANALYSES])


def _advice_call(agreement: Agreement, actions: Sequence[str]) -> ToolCall:
    subject, analyses = agreement.subject, agreement.analyses
    # No figure: a reader finds none in what the advice cites.
    citing = "one analysis cites it" if len(analyses) == 1 else "several analyses cite it"
    name = f"Review {subject} first"
    content = [
        f"Hold: review {subject} first and make no changes yet, because {citing}.",
        "",
        "Supporting analyses:" if len(analyses) > 1 else "Supporting analysis:",
        *(
            f"- {CITATION.sub('', node.summary or node.name)} {cite('node', node.id)}"
            for node in analyses
        ),
        "",
        f"Risk: {RISK}",
        "",
        f"Why now: {citing}, and no advice covers {subject} yet.",
    ]
    return ToolCall.of(
        "addAgentAdviceNode",
        name=name,
        action=HOLD if HOLD in actions or not actions else actions[0],
        summary=f"{name} and make no changes yet: {CITATION.sub('', analyses[0].summary)}",
        content="\n".join(content),
        confidence=0.5,
        horizon="3 months",
        invalidation=f"A newer source whose figure changes the rank of {subject}.",
    )
