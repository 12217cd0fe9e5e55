"""Figures that nodes carry, and which of them compare."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sandbox.reader.graph_view import ViewNode
from sandbox.text.figures import Amount, amount
from sandbox.text.labels import YEAR
from sandbox.text.words import fold

NOT_FIGURES = frozenset(
    {
        "…",
        "summary",
        "quote",
        "sourceurl",
        "publisheddate",
        "name",
        "type",
        "content",
        "confidence",
        "title",
        "url",
    }
)
MAX_FIGURE_CHARS = 120
VAGUE_TYPE = "Topic"


@dataclass(frozen=True, slots=True)
class NodeFigure:
    """One figure of one node. `key` is the label without its year."""

    node: ViewNode
    label: str
    value: str
    amount: Amount

    @property
    def key(self) -> str:
        return " ".join(YEAR.sub("", self.label).split()).strip(" ,-:")

    @property
    def year(self) -> int:
        """The newest year that the label or the value states; 0 where there is none."""
        return max(map(int, YEAR.findall(f"{self.label} {self.value}")), default=0)


def figures_of(node: ViewNode) -> list[NodeFigure]:
    """Properties whose value holds a number, whether they stand alone or in a list of labels and values."""
    found = ((label, value, amount(value)) for label, value in _pairs(node))
    return [NodeFigure(node, label, value, size) for label, value, size in found if size]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The newest figure of each node for one key, of one unit, greatest first."""

    key: str
    figures: tuple[NodeFigure, ...]

    @property
    def nodes(self) -> list[ViewNode]:
        return [figure.node for figure in self.figures]


def comparisons(nodes: Iterable[ViewNode]) -> list[Comparison]:
    """Every key that at least two nodes of one type have a figure for; the widest first."""
    groups: dict[tuple[str, str, str], dict[str, NodeFigure]] = {}
    for figure in (figure for node in nodes for figure in figures_of(node)):
        group = groups.setdefault((fold(figure.key), figure.amount.unit, figure.node.type), {})
        rival = group.get(figure.node.id)
        if rival is None or figure.year > rival.year:
            group[figure.node.id] = figure
    _join_vague(groups)
    wide = [list(group.values()) for group in groups.values() if len(group) >= 2]
    ordered = [sorted(group, key=lambda one: (-one.amount.number, one.node.name)) for group in wide]
    return sorted(
        (Comparison(group[0].key, tuple(group)) for group in ordered),
        key=lambda one: (-len(one.figures), one.key),
    )


def _join_vague(groups: dict[tuple[str, str, str], dict[str, NodeFigure]]) -> None:
    """Nodes whose kind nothing told compare with those of the one kind that states the same figure."""
    for key, unit, _ in [group for group in groups if group[2] == VAGUE_TYPE]:
        others = [one for one in groups if one[:2] == (key, unit) and one[2] != VAGUE_TYPE]
        if len(others) == 1:
            groups[others[0]].update(groups.pop((key, unit, VAGUE_TYPE)))


def series(figure: NodeFigure) -> list[NodeFigure]:
    """The node's figures for the same key, from the oldest year to the newest."""
    alike = [
        one
        for one in figures_of(figure.node)
        if fold(one.key) == fold(figure.key) and one.year and one.amount.unit == figure.amount.unit
    ]
    return sorted(alike, key=lambda one: one.year)


def _pairs(node: ViewNode) -> Iterator[tuple[str, str]]:
    for key, value in node.properties.items():
        if isinstance(value, list):
            for entry in value:
                if isinstance(entry, dict) and "label" in entry and "value" in entry:
                    yield str(entry["label"]), str(entry["value"])
        elif fold(key) not in NOT_FIGURES and _may_be_figure(value):
            yield key, str(value)


def _may_be_figure(value: object) -> bool:
    is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return is_plain and len(str(value)) <= MAX_FIGURE_CHARS
