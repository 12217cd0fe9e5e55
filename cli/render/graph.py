"""A graph in a terminal: overview, nodes, edges, merges, transfers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from cli.references import short_ids
from cli.render.console import ago, as_of, clip, counted, quoted, short_id
from cli.render.provenance import show_evidence
from shared.schemas.base import AgentDetails, EdgeResponse, GraphResponse, Json, NodeResponse
from shared.schemas.graph import (
    DistinctPairResponse,
    DuplicatePair,
    EdgeDetails,
    EdgeTypeDetails,
    MergeResponse,
    NeighbourhoodResponse,
    NodeDetails,
    TypeDetails,
)
from shared.schemas.operations import ImportedAgent
from shared.schemas.provenance import AgreementResponse


def show_graph(console: Console, agent: AgentDetails, graph: GraphResponse) -> None:
    counts = graph.counts
    console.print(
        f"[agent]{escape(agent.name)}[/]  {'at least ' if counts.has_more else ''}"
        f"{counted(counts.nodes, 'node')}, {counted(counts.edges, 'edge')}, "
        f"{counted(counts.analyses, 'analysis')}, {counted(counts.advice, 'advice')}\n",
        soft_wrap=True,
    )
    console.print(Padding(_types(graph), (0, 0, 1, 2), expand=False))
    if graph.nodes:
        console.print(f"[title]Nodes[/] [quiet]{_limit_note(len(graph.nodes), counts.nodes)}[/]")
        console.print(Padding(_nodes(graph.nodes), (0, 0, 1, 2), expand=False))
    if graph.edges:
        console.print(f"[title]Edges[/] [quiet]{_limit_note(len(graph.edges), counts.edges)}[/]")
    _edges(console, graph.edges)


def show_nodes(console: Console, nodes: Sequence[NodeResponse], *, limit: int) -> None:
    if not nodes:
        console.print("No nodes match.")
        return
    console.print(_nodes(nodes))
    _print_limit(console, len(nodes), limit)


def show_edges(console: Console, edges: Sequence[EdgeResponse], *, limit: int) -> None:
    if not edges:
        console.print("No edges match.")
        return
    _edges(console, edges)
    _print_limit(console, len(edges), limit)


def show_types(console: Console, types: Sequence[TypeDetails]) -> None:
    """Each type with its properties; an edge type also with the node types it connects."""
    for kind in types:
        is_edge = isinstance(kind, EdgeTypeDetails)
        name = f"—{escape(kind.name)}→" if is_edge else f"[agent]{escape(kind.name)}[/]"
        console.print(f"{name}  [quiet]{escape(kind.description)}[/]", soft_wrap=True)
        if isinstance(kind, EdgeTypeDetails) and (kind.source_types or kind.target_types):
            console.print(f"    {escape(_ends(kind))}", soft_wrap=True)
        for line in _properties(kind.properties_schema):
            console.print(f"    {line}", soft_wrap=True)


def show_around(console: Console, around: NeighbourhoodResponse) -> None:
    centre = around.nodes[0]
    console.print(f"[agent]{escape(centre.name)}[/]  [quiet]{escape(centre.type)}[/]")
    if about := _about(centre):
        console.print(f"  {escape(about)}", soft_wrap=True)
    console.print()
    if not around.edges:
        console.print("This node has no neighbours.")
    _edges(console, around.edges)
    if around.cut:
        console.print("[quiet]There are more neighbours; raise --limit to see them.[/]")


def _edges(console: Console, edges: Sequence[EdgeResponse]) -> None:
    ids = short_ids([edge.id for edge in edges])
    for edge in edges:
        console.print(
            f"  {escape(edge.source_name)} [quiet]—{escape(edge.type)}→[/] {escape(edge.target_name)}"
            f"  [quiet]{ids[edge.id]}[/]",
            soft_wrap=True,
        )


def _print_limit(console: Console, count: int, limit: int) -> None:
    if count == limit:
        console.print(
            f"[quiet]Only the {limit} most recently changed are shown; raise --limit to see more.[/]"
        )


def _ends(kind: EdgeTypeDetails) -> str:
    source, target = (", ".join(names) or "any" for names in (kind.source_types, kind.target_types))
    return f"from {source} to {target}"


def _properties(schema: Json) -> Iterator[str]:
    required = schema.get("required", [])
    for name, definition in schema.get("properties", {}).items():
        kind = definition.get("type") or (
            "one of " + ", ".join(map(str, definition.get("enum", [])))
        )
        optional = "" if name in required else "[quiet], optional[/]"
        about = (
            f"  [quiet]{escape(clip(definition['description'], 80))}[/]"
            if "description" in definition
            else ""
        )
        yield f"{escape(name)}: {escape(str(kind))}{optional}{about}"


def _types(graph: GraphResponse) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(justify="right")
    table.add_column(style="quiet")
    for node_type in graph.node_types:
        table.add_row(
            f"[agent]{escape(node_type.name)}[/]",
            str(node_type.nodes),
            escape(node_type.description),
        )
    for edge_type in graph.edge_types:
        table.add_row(
            f"—{escape(edge_type.name)}→", str(edge_type.edges), escape(edge_type.description)
        )
    return table


def _nodes(nodes: Iterable[NodeResponse]) -> Table:
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


def _about(node: NodeResponse) -> str:
    text = node.properties.get("summary") or node.properties.get("quote") or ""
    return clip(str(text), 90)


def _limit_note(count: int, total: int) -> str:
    return (
        ""
        if count >= total
        else f"the {count} most recently changed of {total}; raise --limit to see more"
    )


def show_node(console: Console, node: NodeDetails) -> None:
    console.print(f"[agent]{escape(node.name)}[/]  [quiet]{escape(node.type)}[/]")
    _property_lines(console, node.properties, node.agreement)
    console.print("\n[title]Evidence[/]")
    show_evidence(console, node.evidence.items, is_all=node.evidence.next is None)
    if node.edges.items:
        console.print("\n[title]Edges[/]")
        show_edges(console, node.edges.items, limit=len(node.edges.items) + 1)


def show_edge(console: Console, edge: EdgeDetails) -> None:
    console.print(
        f"{escape(edge.source_name)} [quiet]—{escape(edge.type)}→[/] {escape(edge.target_name)}"
        f"  [quiet]{short_id(edge.id)}[/]",
        soft_wrap=True,
    )
    if edge.source_id == edge.target_id:
        console.print(
            "[quiet]This edge connected nodes that were merged. It is kept because conclusions may cite it.[/]"
        )
    _property_lines(console, edge.properties, edge.agreement)
    console.print("\n[title]Evidence[/]")
    show_evidence(console, edge.evidence.items, is_all=edge.evidence.next is None)


def _property_lines(
    console: Console, properties: Json, agreement: Mapping[str, AgreementResponse]
) -> None:
    for name, value in properties.items():
        sites = agreement[name].sites if name in agreement else []
        says = f"only {escape(sites[0])}" if len(sites) == 1 else counted(len(sites), "site")
        barred = agreement[name].barred if name in agreement else []
        says += f"; since barred: {escape(', '.join(barred))}" if barred else ""
        support = f"  [quiet]({says})[/]" if sites else ""
        console.print(f"  {escape(name)}: {escape(str(value))}{support}", soft_wrap=True)
        for other in agreement[name].others if name in agreement else ():
            console.print(
                f"    [warn]{escape(', '.join(other.sites))}: {escape(str(other.value))}[/]"
                f" [quiet]{as_of(other.as_of)}[/]",
                soft_wrap=True,
            )


def show_merge(console: Console, agent: str, merge: MergeResponse) -> None:
    console.print(
        f"{escape(merge.merged_name)} is merged into [agent]{escape(merge.kept_name or '')}[/]: {_moved(merge)}.",
        soft_wrap=True,
    )
    console.print(
        f"[quiet]To undo this: vigil node unmerge {escape(quoted(agent))} {short_id(merge.id)}[/]",
        soft_wrap=True,
    )


def show_unmerge(console: Console, merge: MergeResponse) -> None:
    console.print(
        f"[agent]{escape(merge.merged_name)}[/] is restored, with {_moved(merge)}.",
        soft_wrap=True,
    )


def show_merges(console: Console, merges: Sequence[MergeResponse]) -> None:
    if not merges:
        console.print("No nodes have been merged.")
    ids = short_ids([merge.id for merge in merges])
    for merge in merges:
        kept_name = (
            "a node that has since been merged" if merge.kept_name is None else merge.kept_name
        )
        undone = "" if merge.undone_at is None else f", undone {ago(merge.undone_at)}"
        console.print(
            f"{escape(merge.merged_name)} [quiet]→[/] [agent]{escape(kept_name)}[/]  {escape(merge.reason)}  "
            f"[quiet]{escape(merge.type)}, {_moved(merge)}, {ago(merge.made_at)}{undone}  {ids[merge.id]}[/]",
            soft_wrap=True,
        )


def show_distinct(console: Console, agent: str, pair: DistinctPairResponse) -> None:
    console.print(
        f"[agent]{escape(pair.one.name)}[/] and [agent]{escape(pair.other.name)}[/] are distinct and no "
        "longer listed as duplicates.",
        soft_wrap=True,
    )
    console.print(
        f'[quiet]To undo this: vigil node distinct "{escape(agent)}" {pair.one.id} {pair.other.id} --undo[/]',
        soft_wrap=True,
    )


def show_distinct_pairs(console: Console, pairs: Sequence[DistinctPairResponse]) -> None:
    if not pairs:
        console.print("No nodes have been declared distinct.")
    for pair in pairs:
        console.print(
            f"{escape(pair.one.name)} [quiet]{pair.one.id}[/]  and  {escape(pair.other.name)} [quiet]{pair.other.id}"
            f"  {escape(pair.one.type)}, {ago(pair.made_at)}[/]",
            soft_wrap=True,
        )


def show_duplicates(console: Console, candidates: Sequence[DuplicatePair]) -> None:
    if not candidates:
        console.print("No two nodes have similar names.")
    ids = short_ids([node.id for pair in candidates for node in (pair.node, pair.other)])
    for pair in candidates:
        console.print(
            f"{pair.similarity:.2f}  {escape(pair.node.name)} [quiet]{ids[pair.node.id]}[/]  and  "
            f"{escape(pair.other.name)} [quiet]{ids[pair.other.id]}  {escape(pair.node.type)}[/]",
            soft_wrap=True,
        )


def _moved(merge: MergeResponse) -> str:
    spans = counted(merge.evidence, "span")
    return f"{counted(merge.names, 'name')}, {spans} of evidence, {counted(merge.edges, 'edge')}"


def show_imported(console: Console, agent: ImportedAgent) -> None:
    counts = agent.counts
    console.print(
        f"[agent]{escape(agent.name)}[/] has {counted(counts.nodes, 'node')} and {counted(counts.edges, 'edge')}, "
        f"with {counted(counts.evidence, 'quote')} as evidence from {counted(counts.sources, 'page')}. "
        "Every seal was checked.",
        soft_wrap=True,
    )
    console.print(
        f"It is paused. To start it: [quiet]vigil agent resume {escape(quoted(agent.name))}[/]",
        soft_wrap=True,
    )
