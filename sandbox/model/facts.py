"""Figures in the properties of nodes, and which of them are comparable."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sandbox.model.graph_view import ViewNode
from sandbox.text.figures import Amount, is_quantity, parse_amount
from sandbox.text.sentences import YEAR
from sandbox.text.tokens import fold, topic_stems

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
UNTYPED = "Topic"


@dataclass(frozen=True, slots=True)
class NodeFigure:
    """A figure of a node. `key` is the label without its year."""

    node: ViewNode
    label: str
    value: str
    amount: Amount

    @property
    def key(self) -> str:
        return " ".join(YEAR.sub("", self.label).split()).strip(" ,-:")

    @property
    def year(self) -> int:
        """The newest year in the label or the value; 0 if there is none."""
        return max(map(int, YEAR.findall(f"{self.label} {self.value}")), default=0)


def figures_of(node: ViewNode) -> list[NodeFigure]:
    """The figures in a node's properties, also in lists of labels and values."""
    amounts = ((label, value, parse_amount(value)) for label, value in _pairs(node))
    return [
        NodeFigure(node, label, value, size)
        for label, value, size in amounts
        if size and is_quantity(label, value) and not _is_unit_alone(label, size.unit)
    ]


def _is_unit_alone(label: str, unit: str) -> bool:
    """Whether a label says only in what something is counted, as in `bytes`: it is not known what is counted."""
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
        rival = group.get(figure.node.id)
        if rival is None or figure.year > rival.year:
            group[figure.node.id] = figure
    _merge_untyped(groups)
    named = [_once_each(group.values()) for group in groups.values()]
    wide = [group for group in named if len(group) >= 2]
    by_year = [
        sorted(group, key=lambda figure: (-figure.amount.number, figure.node.name))
        for group in wide
    ]
    return sorted(
        (Comparison(group[0].key, tuple(group)) for group in by_year),
        key=lambda figure: (-len(figure.figures), figure.key),
    )


def _once_each(figures: Iterable[NodeFigure]) -> list[NodeFigure]:
    """The figures of nodes with different names: two nodes of one name may be the same thing."""
    return list({fold(figure.node.name): figure for figure in figures}.values())


def _merge_untyped(groups: dict[tuple[str, str, str], dict[str, NodeFigure]]) -> None:
    """Merge groups of nodes without a specific type into the one group with the same key and unit."""
    for key, unit, _ in [group for group in groups if group[2] == UNTYPED]:
        other_groups = [
            group for group in groups if group[:2] == (key, unit) and group[2] != UNTYPED
        ]
        if len(other_groups) == 1:
            groups[other_groups[0]].update(groups.pop((key, unit, UNTYPED)))


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
