"""Comparing figures of several nodes."""

from sandbox.reader.analyze.conclusion import Conclusion, cite
from sandbox.reader.analyze.insight import Insight
from sandbox.reader.facts import Comparison, NodeFigure, comparisons, series
from sandbox.text.english import listed
from sandbox.text.words import fold, topic_stems

MAX_NODES = 6
BASE_CONFIDENCE = 0.5
CONFIDENCE_PER_NODE = 0.08
MAX_CONFIDENCE = 0.9


def compare_figures(insight: Insight) -> Conclusion | None:
    """For the key nearest to the insight; None where no two nodes state a comparable figure that bears on it."""
    near = [one for one in comparisons(insight.nodes) if _nearness(one, insight) > 0]
    new = [one for one in near if _name(one) not in insight.taken_names]
    if not new:
        return None
    chosen = max(new, key=lambda one: (_nearness(one, insight), len(one.figures)))
    return _concluded(Comparison(chosen.key, chosen.figures[:MAX_NODES]))


def _concluded(comparison: Comparison) -> Conclusion:
    highest, lowest = comparison.figures[0], comparison.figures[-1]
    moves = [move for figure in comparison.figures if (move := _move(figure))]
    names = [figure.node.name for figure in comparison.figures]
    summary = (
        f"Of {listed(names)}, {highest.node.name} states the highest {_inline(comparison.key)}: {highest.value}; "
        f"{lowest.node.name} states the lowest: {lowest.value}.{_times(highest, lowest)}"
    )
    return Conclusion(
        name=_name(comparison),
        type="pattern" if len(names) >= 3 or len(moves) >= 2 else "observation",
        summary=summary,
        content="\n".join([summary, "", *_table(comparison), *(["", *moves] if moves else [])]),
        confidence=_confidence(len(names)),
        node_ids=tuple(figure.node.id for figure in comparison.figures),
    )


def _name(comparison: Comparison) -> str:
    names = listed([node.name for node in comparison.nodes[:MAX_NODES]])
    return f"{comparison.key[:1].upper()}{comparison.key[1:]}: {names} compared"


def _nearness(comparison: Comparison, insight: Insight) -> float:
    """How much of the key the insight speaks of; whatever is comparable is near to one that names no figure at all."""
    if f"“{fold(comparison.key)}”" in fold(insight.text):
        return 2.0
    own = topic_stems(comparison.key)
    share = len(own & topic_stems(insight.text)) / (len(own) or 1)
    return share if share or "“" in insight.text else 0.01


def _table(comparison: Comparison) -> list[str]:
    return [
        f"- {figure.node.name}: {figure.label} is {figure.value} {cite(figure.node)}"
        for figure in comparison.figures
    ]


def _move(figure: NodeFigure) -> str:
    """From the oldest year that is stated to the newest; empty where there is one year alone."""
    stated = series(figure)
    if len(stated) < 2 or stated[0].year == stated[-1].year:
        return ""
    first, last = stated[0], stated[-1]
    if last.amount.number == first.amount.number:
        verb = "stayed level at"
    else:
        verb = "rose from" if last.amount.number > first.amount.number else "fell from"
    start = f"{first.value} to " if verb != "stayed level at" else ""
    return (
        f"{figure.node.name}: {_inline(figure.key)} {verb} {start}{last.value} {cite(figure.node)}."
    )


def _times(highest: NodeFigure, lowest: NodeFigure) -> str:
    if lowest.amount.number <= 0 or highest.amount.number / lowest.amount.number < 1.05:
        return ""
    return f" That is {highest.amount.number / lowest.amount.number:.3g} times as much."


def _inline(key: str) -> str:
    """In the middle of a sentence; acronyms keep their capitals, and so do names in longer labels."""
    if "," in key or " - " in key or key[:1].islower():
        return f"figure for “{key}”"
    if len(key.split()) <= 3:
        return " ".join(word if word[1:2].isupper() else word.lower() for word in key.split())
    return key if key[1:2].isupper() else key[:1].lower() + key[1:]


def _confidence(nodes: int) -> float:
    return round(min(MAX_CONFIDENCE, BASE_CONFIDENCE + CONFIDENCE_PER_NODE * nodes), 2)
