"""One node or edge in a terminal: what it is held to be, and what that rests on."""

from rich.console import Console
from rich.markup import escape

from cli.show.graph import show_edges
from cli.show.sources import show_evidence
from shared.store.reading.graph_shapes import EdgeDetails, NodeDetails
from shared.store.reading.shapes import Json


def show_node(console: Console, node: NodeDetails) -> None:
    console.print(f"[agent]{escape(node.name)}[/]  [quiet]{escape(node.type)} {node.id}[/]")
    _properties(console, node.properties)
    console.print("\n[title]What it rests on[/]")
    show_evidence(console, node.evidence.items, is_all=node.evidence.next is None)
    if node.edges.items:
        console.print("\n[title]Edges[/]")
        show_edges(console, node.edges.items, limit=len(node.edges.items) + 1)


def show_edge(console: Console, edge: EdgeDetails) -> None:
    console.print(
        f"{escape(edge.source_name)} [quiet]—{escape(edge.type)}→[/] {escape(edge.target_name)}"
        f"  [quiet]{edge.id}[/]",
        soft_wrap=True,
    )
    _properties(console, edge.properties)
    console.print("\n[title]What it rests on[/]")
    show_evidence(console, edge.evidence.items, is_all=edge.evidence.next is None)


def _properties(console: Console, properties: Json) -> None:
    for name, value in properties.items():
        console.print(f"  {escape(name)}: {escape(str(value))}", soft_wrap=True)
