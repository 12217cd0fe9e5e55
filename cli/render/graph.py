"""A graph in a terminal: overview, nodes, edges, merges, transfers."""

from collections.abc import Iterable, Iterator, Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cli.render.console import ago, clip, counted
from cli.render.provenance import show_evidence
from shared.schemas.base import AgentDetails, EdgeView, GraphView, Json, NodeView
from shared.schemas.graph import (
    DoubleView,
    EdgeDetails,
    EdgeTypeDetails,
    MergeView,
    NeighbourhoodView,
    NodeDetails,
    TypeDetails,
)
from shared.schemas.operations import ImportedAgent


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


def show_node(console: Console, node: NodeDetails) -> None:
    console.print(f"[agent]{escape(node.name)}[/]  [quiet]{escape(node.type)} {node.id}[/]")
    _property_lines(console, node.properties)
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
    _property_lines(console, edge.properties)
    console.print("\n[title]What it rests on[/]")
    show_evidence(console, edge.evidence.items, is_all=edge.evidence.next is None)


def _property_lines(console: Console, properties: Json) -> None:
    for name, value in properties.items():
        console.print(f"  {escape(name)}: {escape(str(value))}", soft_wrap=True)


def show_made(console: Console, agent: str, made: MergeView) -> None:
    console.print(
        f"{escape(made.gone_name)} has gone into [agent]{escape(made.kept_name or '')}[/]: {_moved(made)}.",
        soft_wrap=True,
    )
    console.print(
        f'[quiet]To undo it: vigil node unmerge "{escape(agent)}" {made.id}[/]', soft_wrap=True
    )


def show_undone(console: Console, undone: MergeView) -> None:
    console.print(
        f"[agent]{escape(undone.gone_name)}[/] is there again, with {_moved(undone)}.",
        soft_wrap=True,
    )


def show_merges(console: Console, merges: Sequence[MergeView]) -> None:
    if not merges:
        console.print("No nodes were made one yet.")
    for each in merges:
        kept = "a node that has gone itself since" if each.kept_name is None else each.kept_name
        undone = "" if each.undone_at is None else f", undone {ago(each.undone_at)}"
        console.print(
            f"{escape(each.gone_name)} [quiet]→[/] [agent]{escape(kept)}[/]  {escape(each.reason)}  "
            f"[quiet]{escape(each.type)}, {_moved(each)}, {ago(each.made_at)}{undone}  {each.id}[/]",
            soft_wrap=True,
        )


def show_doubles(console: Console, doubles: Sequence[DoubleView]) -> None:
    if not doubles:
        console.print("No two nodes are called alike.")
    for each in doubles:
        console.print(
            f"{each.likeness:.2f}  {escape(each.node.name)} [quiet]{each.node.id}[/]  and  "
            f"{escape(each.other.name)} [quiet]{each.other.id}  {escape(each.node.type)}[/]",
            soft_wrap=True,
        )


def _moved(merge: MergeView) -> str:
    spans = counted(merge.evidence, "span")
    return f"{counted(merge.names, 'name')}, {spans} of evidence, {counted(merge.edges, 'edge')}"


def show_imported(console: Console, made: ImportedAgent) -> None:
    counts = made.counts
    console.print(
        f"[agent]{escape(made.name)}[/] has {counted(counts.nodes, 'node')} and {counted(counts.edges, 'edge')}, "
        f"resting on {counted(counts.evidence, 'quote')} of {counted(counts.sources, 'page')}; every seal was checked.",
        soft_wrap=True,
    )
    console.print(f"It is paused: [quiet]vigil agent resume {made.agent_id}[/]", soft_wrap=True)
