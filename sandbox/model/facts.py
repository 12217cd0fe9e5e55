"""Figures in the properties of nodes, and which of them are comparable."""

from collections.abc import Iterable
from dataclasses import dataclass

from sandbox.model.graph_view import ViewNode
from sandbox.text.figures import Amount, is_quantity, parse_amount
from sandbox.text.labels import YEAR, label_key
from sandbox.text.tokens import fold, topic_stems

NOT_FIGURES = frozenset({"…", "has", "summary", "quote", "sourceurl", "publisheddate", "name"})
MAX_FIGURE_CHARS = 120


@dataclass(frozen=True, slots=True)
class NodeFigure:
    """A figure of a node. `key` is the label without its year."""

    node: ViewNode
    label: str
    value: str
    amount: Amount

    @property
    def key(self) -> str:
        return label_key(self.label)

    @property
    def year(self) -> int:
        """The newest year in the label or the value; 0 if there is none."""
        return max(map(int, YEAR.findall(f"{self.label} {self.value}")), default=0)


def figures_of(node: ViewNode) -> list[NodeFigure]:
    """The comparable figures in a node's properties."""
    figures = []
    for label, value in node.properties.items():
        text = str(value)
        is_plain = isinstance(value, str | int | float) and not isinstance(value, bool)
        if fold(label) in NOT_FIGURES or not is_plain or len(text) > MAX_FIGURE_CHARS:
            continue
        amount = parse_amount(text)
        # `bytes` alone says in what something is counted, not what.
        if amount and is_quantity(label, text) and not _is_unit_alone(label, amount.unit):
            figures.append(NodeFigure(node, label, text, amount))
    return figures


def _is_unit_alone(label: str, unit: str) -> bool:
    own = topic_stems(label)
    return bool(own) and own <= topic_stems(unit)


@dataclass(frozen=True, slots=True)
class Comparison:
    """The newest figure of each node for one key and unit, greatest first."""

    key: str
    figures: tuple[NodeFigure, ...]

    @property
    def nodes(self) -> list[ViewNode]:
        return [figure.node for figure in self.figures]


def comparisons(nodes: Iterable[ViewNode]) -> list[Comparison]:
    """Comparisons for each key that two or more nodes of a type have a figure for; the widest first."""
    groups: dict[tuple[str, str, str], dict[str, NodeFigure]] = {}
    for figure in (figure for node in nodes for figure in figures_of(node)):
        group = groups.setdefault((fold(figure.key), figure.amount.unit, figure.node.type), {})
        # By name: two nodes of one name may be the same thing.
        rival = group.get(fold(figure.node.name))
        if rival is None or figure.year > rival.year:
            group[fold(figure.node.name)] = figure
    wide = [
        sorted(group.values(), key=lambda figure: (-figure.amount.number, figure.node.name))
        for group in groups.values()
        if len(group) >= 2
    ]
    found = (Comparison(group[0].key, tuple(group)) for group in wide)
    return sorted(found, key=lambda each: (-len(each.figures), each.key))


def series(figure: NodeFigure) -> list[NodeFigure]:
    """The node's figures for the same key, from the oldest year to the newest."""
    comparable = [
        candidate
        for candidate in figures_of(figure.node)
        if fold(candidate.key) == fold(figure.key)
        and candidate.year
        and candidate.amount.unit == figure.amount.unit
    ]
    return sorted(comparable, key=lambda match: match.year)
