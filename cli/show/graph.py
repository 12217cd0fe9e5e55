"""A graph in a terminal: counts, types, and what was touched last."""

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cli.show.words import ago, clip, counted
from shared.store.reading.shapes import AgentDetails, GraphView, NodeView


def show_graph(console: Console, agent: AgentDetails, graph: GraphView) -> None:
    counts = graph.counts
    console.print(
        f"[agent]{escape(agent.name)}[/]  {counted(counts.nodes, 'node')}, {counted(counts.edges, 'edge')}, "
        f"{counted(counts.analyses, 'analysis')}, {counted(counts.advice, 'advice')}\n",
        soft_wrap=True,
    )
    console.print(Padding(_types(graph), (0, 0, 1, 2), expand=False))
    if graph.nodes:
        console.print(f"[title]Nodes[/] [quiet]{_some(len(graph.nodes), counts.nodes)}[/]")
        console.print(Padding(_nodes(graph), (0, 0, 1, 2), expand=False))
    if graph.edges:
        console.print(f"[title]Edges[/] [quiet]{_some(len(graph.edges), counts.edges)}[/]")
    for edge in graph.edges:
        console.print(
            f"  {escape(edge.source_name)} [quiet]—{escape(edge.type)}→[/] {escape(edge.target_name)}",
            soft_wrap=True,
        )


def _types(graph: GraphView) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    table.add_column(style="quiet")
    for each in graph.node_types:
        table.add_row(f"[agent]{escape(each.name)}[/]", str(each.nodes), escape(each.description))
    for kind in graph.edge_types:
        table.add_row(f"—{escape(kind.name)}→", str(kind.edges), escape(kind.description))
    return table


def _nodes(graph: GraphView) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="quiet", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="quiet", no_wrap=True)
    for node in graph.nodes:
        table.add_row(
            escape(node.type),
            escape(clip(node.name, 48)),
            escape(_about(node)),
            ago(node.updated_at),
        )
    return table


def _about(node: NodeView) -> str:
    said = node.properties.get("summary") or node.properties.get("quote") or ""
    return clip(str(said), 90)


def _some(shown: int, there_are: int) -> str:
    return (
        "" if shown >= there_are else f"the {shown} touched last of {there_are}; more with --limit"
    )
