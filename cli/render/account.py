"""A demo's outcome, to be read in a minute."""

from collections.abc import Iterable, Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cli.demo.account import Account, Quoted
from cli.render.console import cited, clip, counted, duration
from cli.render.costs import NOT_BILLED, usd
from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE
from shared.schemas.base import CallTotals, CitationView, ConclusionView, GraphView, NodeView

NAMES_OF_A_TYPE: Final = 8
EDGES_SHOWN: Final = 6
CONCLUSIONS_SHOWN: Final = 3
CITATIONS_SHOWN: Final = 6
LINES_SHOWN: Final = 8
INDENT: Final = 2

_CONCLUSIONS: Final = frozenset({ANALYSIS_TYPE, ADVICE_TYPE})


def show_account(console: Console, account: Account) -> None:
    _learned(console, account.graph)
    _quotes(console, account.quotes)
    _concluded(console, "concluded", "analysis", account.analyses)
    _concluded(console, "advised", "advice", account.advice)
    calls = account.calls
    tokens = calls.input_tokens + calls.output_tokens
    console.print(
        f"\n[quiet]{counted(calls.llm_calls, 'call')} of the model, {counted(calls.search_calls, 'search')}"
        f", {tokens:,} tokens, {_cost(calls)}, {duration(account.seconds)} in all[/]"
    )


def _cost(calls: CallTotals) -> str:
    if calls.cost_usd:
        return usd(calls.cost_usd)
    return "cost unknown" if calls.unpriced_calls else NOT_BILLED


def _heading(console: Console, what: str, told: str) -> None:
    console.print(f"\n[title]What it {what}[/]  [quiet]{told}[/]")


def _learned(console: Console, graph: GraphView) -> None:
    nodes = [node for node in graph.nodes if node.type not in _CONCLUSIONS]
    edges = [edge for edge in graph.edges if edge.type != "about"]
    told = f"{counted(len(nodes), 'node')} and {counted(len(edges), 'edge')}"
    _heading(console, "learned", told)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", style="quiet")
    table.add_column(overflow="fold")
    for name, count in _counts(graph):
        table.add_row(f"[agent]{name}[/]", str(count), escape(_names(nodes, name)))
    console.print(Padding(table, (0, 0, 0, INDENT), expand=False))
    if edges:
        console.print()
    for edge in edges[:EDGES_SHOWN]:
        line = (
            f"{escape(edge.source_name)} [quiet]—{escape(edge.type)}→[/] {escape(edge.target_name)}"
        )
        console.print(Padding(line, (0, 0, 0, INDENT), expand=False))


def _counts(graph: GraphView) -> list[tuple[str, int]]:
    counts = [(each.name, each.nodes) for each in graph.node_types if each.nodes]
    wanted = [pair for pair in counts if pair[0] not in _CONCLUSIONS]
    return sorted(wanted, key=lambda pair: (-pair[1], pair[0]))


def _names(nodes: Iterable[NodeView], type_name: str) -> str:
    names = [node.name for node in nodes if node.type == type_name]
    more = f", and {len(names) - NAMES_OF_A_TYPE} more" if len(names) > NAMES_OF_A_TYPE else ""
    return ", ".join(names[:NAMES_OF_A_TYPE]) + more


def _quotes(console: Console, quotes: Sequence[Quoted]) -> None:
    for each in quotes:
        told = f"\n[agent]{escape(each.node)}[/] “{escape(clip(each.quote, 220))}”"
        console.print(Padding(told, (0, 0, 0, INDENT), expand=False))
        console.print(
            Padding(f"[link]{escape(each.url)}[/]", (0, 0, 0, INDENT), expand=False),
            soft_wrap=True,
        )


def _concluded(
    console: Console, what: str, noun: str, conclusions: Sequence[ConclusionView]
) -> None:
    _heading(console, what, counted(len(conclusions), noun))
    for each in conclusions[:CONCLUSIONS_SHOWN]:
        show_conclusion(console, each)
    if len(conclusions) > CONCLUSIONS_SHOWN:
        more = len(conclusions) - CONCLUSIONS_SHOWN
        console.print(f"\n  [quiet]and {counted(more, noun)} more[/]")


def show_conclusion(console: Console, conclusion: ConclusionView) -> None:
    """Name, reasoning with its citations by name, and the list of what it cites."""
    sure = "" if conclusion.confidence is None else f", confidence {conclusion.confidence:.2f}"
    console.print(
        f"\n  [title]{escape(conclusion.name)}[/]  [quiet]{conclusion.word}{sure}[/]",
        soft_wrap=True,
    )
    lines = [line for line in cited(conclusion.content, conclusion.citations).splitlines() if line]
    more = (
        [f"… and {counted(len(lines) - LINES_SHOWN, 'line')} more"]
        if len(lines) > LINES_SHOWN
        else []
    )
    told = escape("\n".join([*lines[:LINES_SHOWN], *more]))
    console.print(Padding(told, (0, 0, 0, INDENT), expand=False))
    console.print(
        Padding(
            f"[quiet]cites {escape(_cites(conclusion.citations))}[/]",
            (0, 0, 0, INDENT),
            expand=False,
        )
    )


def _cites(citations: Sequence[CitationView]) -> str:
    shown = [
        f"{each.name} ({each.type})" if each.name else f"{each.kind} {each.id}, which is gone"
        for each in citations[:CITATIONS_SHOWN]
    ]
    more = len(citations) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
