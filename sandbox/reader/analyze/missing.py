"""What lacks for a conclusion, said so that it can be the next query."""

from dataclasses import replace

from sandbox.reader.analyze.figures import compare_figures
from sandbox.reader.analyze.insight import Insight
from sandbox.reader.facts import figures_of
from sandbox.text.words import significant, words

MAX_LINES = 3
MAX_THEME_WORDS = 6


def missing_lines(insight: Insight) -> list[str]:
    """`MISSING:` lines naming the figure and the node; no more than three."""
    if not insight.nodes:
        return [f"MISSING: any node on this: {insight.observation}"]
    theme = _theme(insight)
    bare = [node.name for node in insight.nodes if not figures_of(node)]
    if bare:
        return [f"MISSING: a figure for {theme} of {name}" for name in bare[:MAX_LINES]]
    names = [node.name for node in insight.nodes[:MAX_LINES]]
    kind = "a newer" if _told(insight) else "a comparable"
    return [f"MISSING: {kind} figure for {theme} of {name}" for name in names]


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
