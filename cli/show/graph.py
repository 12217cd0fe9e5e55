"""A graph in a terminal: counts, types, and what was touched last."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cli.show.words import ago, clip, counted
from shared.store.reading.graph_shapes import EdgeTypeDetails, NeighbourhoodView, TypeDetails
from shared.store.reading.shapes import AgentDetails, EdgeView, GraphView, Json, NodeView


def show_graph(console: Console, agent: AgentDetails, graph: GraphView) -> None:
    counts = graph.counts
    console.print(
        f"[agent]{escape(agent.name)}[/]  {'at least ' if counts.has_more else ''}"
        f"{counted(counts.nodes, 'node')}, {counted(counts.edges, 'edge')}, "
        f"{counted(counts.analyses, 'analysis')}, {counted(counts.advice, 'advice')}\n",
        soft_wrap=True,
    )
    console.print(Padding(_types(graph), (0, 0, 1, 2), expand=False))
    if graph.nodes:
        console.print(f"[title]Nodes[/] [quiet]{_some(len(graph.nodes), counts.nodes)}[/]")
        console.print(Padding(_nodes(graph.nodes), (0, 0, 1, 2), expand=False))
    if graph.edges:
        console.print(f"[title]Edges[/] [quiet]{_some(len(graph.edges), counts.edges)}[/]")
    _edges(console, graph.edges)


def show_nodes(console: Console, nodes: Sequence[NodeView], *, limit: int) -> None:
    if not nodes:
        console.print("There are no such nodes.")
        return
    console.print(_nodes(nodes))
    _perhaps_more(console, len(nodes), limit)


def show_edges(console: Console, edges: Sequence[EdgeView], *, limit: int) -> None:
    if not edges:
        console.print("There are no such edges.")
        return
    _edges(console, edges)
    _perhaps_more(console, len(edges), limit)


def show_types(console: Console, types: Sequence[TypeDetails]) -> None:
    """Each with its properties, and what its edges may join."""
    for each in types:
        is_edge = isinstance(each, EdgeTypeDetails)
        name = f"—{escape(each.name)}→" if is_edge else f"[agent]{escape(each.name)}[/]"
        console.print(f"{name}  [quiet]{escape(each.description)}[/]", soft_wrap=True)
        if isinstance(each, EdgeTypeDetails) and (each.source_types or each.target_types):
            console.print(f"    {escape(_ends(each))}", soft_wrap=True)
        for told in _properties(each.properties_schema):
            console.print(f"    {told}", soft_wrap=True)


def show_around(console: Console, around: NeighbourhoodView) -> None:
    centre = around.nodes[0]
    console.print(f"[agent]{escape(centre.name)}[/]  [quiet]{escape(centre.type)} {centre.id}[/]")
    if about := _about(centre):
        console.print(f"  {escape(about)}", soft_wrap=True)
    console.print()
    if not around.edges:
        console.print("Nothing lies around it.")
    _edges(console, around.edges)
    if around.cut:
        console.print("[quiet]There is more around it; with --limit.[/]")


def _edges(console: Console, edges: Sequence[EdgeView]) -> None:
    for edge in edges:
        console.print(
            f"  {escape(edge.source_name)} [quiet]—{escape(edge.type)}→[/] {escape(edge.target_name)}",
            soft_wrap=True,
        )


def _perhaps_more(console: Console, shown: int, limit: int) -> None:
    if shown == limit:
        console.print(f"[quiet]The {limit} touched last; more with --limit.[/]")


def _ends(kind: EdgeTypeDetails) -> str:
    source, target = (", ".join(names) or "any" for names in (kind.source_types, kind.target_types))
    return f"from {source} to {target}"


def _properties(schema: Json) -> Iterator[str]:
    required = schema.get("required", [])
    for name, told in schema.get("properties", {}).items():
        kind = told.get("type") or ("one of " + ", ".join(map(str, told.get("enum", []))))
        needed = "" if name in required else "[quiet], optional[/]"
        about = (
            f"  [quiet]{escape(clip(told['description'], 80))}[/]" if "description" in told else ""
        )
        yield f"{escape(name)}: {escape(str(kind))}{needed}{about}"


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


def _nodes(nodes: Iterable[NodeView]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="quiet", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="quiet", no_wrap=True)
    for node in nodes:
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
