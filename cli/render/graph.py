"""A graph in a terminal: overview, nodes, edges, merges, transfers."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.references import short_ids
from cli.render.console import as_of, indented, listing, print_limit, print_rows, quoted, short_id
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
from shared.wording import ago, clip, plural

MOST_RECENT: Final = "{limit} most recently changed"


def show_graph(console: Console, agent: AgentDetails, graph: GraphResponse) -> None:
    counts = graph.counts
    console.print(
        f"[agent]{escape(agent.name)}[/]  {'at least ' if counts.has_more else ''}"
        f"{plural(counts.nodes, 'node')}, {plural(counts.edges, 'edge')}, "
        f"{plural(counts.analyses, 'analysis')}, {plural(counts.advice, 'advice')}\n"
    )
    console.print(indented(_types(graph), after=1))
    if graph.nodes:
        console.print(f"[title]Nodes[/] [quiet]{_limit_note(len(graph.nodes), counts.nodes)}[/]")
        print_rows(console, graph.nodes, _NODE)
        console.print()
    if graph.edges:
        console.print(f"[title]Edges[/] [quiet]{_limit_note(len(graph.edges), counts.edges)}[/]")
    _edges(console, graph.edges)


def show_nodes(console: Console, nodes: Sequence[NodeResponse], *, limit: int) -> None:
    print_rows(console, nodes, _NODE, empty="No nodes match.", limit=limit, which=MOST_RECENT)


def show_edges(console: Console, edges: Sequence[EdgeResponse], *, limit: int) -> None:
    if not edges:
        console.print("No edges match.")
        return
    _edges(console, edges)
    print_limit(console, len(edges), limit, MOST_RECENT)


def show_types(console: Console, types: Iterable[TypeDetails]) -> None:
    """Each type with its properties and an example; an edge type also with the node types it connects."""
    for kind in types:
        is_edge = isinstance(kind, EdgeTypeDetails)
        name = f"—{escape(kind.name)}→" if is_edge else f"[agent]{escape(kind.name)}[/]"
        maker = "" if kind.created_by == "configuration" else f" (by {kind.created_by})"
        console.print(f"{name}  [quiet]{escape(kind.description + maker)}[/]")
        if isinstance(kind, EdgeTypeDetails) and (kind.source_types or kind.target_types):
            console.print(f"    {escape(_ends(kind))}")
        for line in _properties(kind.properties_schema):
            console.print(f"    {line}")
        if kind.example_properties:
            example = json.dumps(kind.example_properties, ensure_ascii=False)
            console.print(f"    [quiet]for example {escape(example)}[/]")


def show_around(console: Console, around: NeighbourhoodResponse) -> None:
    centre = around.nodes[0]
    console.print(f"[agent]{escape(centre.name)}[/]  [quiet]{escape(centre.type)}[/]")
    if about := _about(centre):
        console.print(f"  {escape(about)}")
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
            f"  [quiet]{ids[edge.id]}[/]"
        )


def _ends(kind: EdgeTypeDetails) -> str:
    source, target = (", ".join(names) or "any" for names in (kind.source_types, kind.target_types))
    return f"from {source} to {target}"


def _properties(schema: Json) -> Iterator[str]:
    required = schema.get("required", [])
    for name, definition in schema.get("properties", {}).items():
        choices = ", ".join(map(str, definition.get("enum", [])))
        kind = definition.get("type") or f"one of {choices}"
        optional = "" if name in required else "[quiet], optional[/]"
        text = clip(definition.get("description", ""), 80)
        about = f"  [quiet]{escape(text)}[/]" if text else ""
        yield f"{escape(name)}: {escape(str(kind))}{optional}{about}"


def _types(graph: GraphResponse) -> Table:
    nodes = [
        (f"[agent]{escape(kind.name)}[/]", kind.nodes, kind.description)
        for kind in graph.node_types
    ]
    edges = [(f"—{escape(kind.name)}→", kind.edges, kind.description) for kind in graph.edge_types]
    rows = ((name, str(count), escape(about)) for name, count, about in (*nodes, *edges))
    return listing(("=Type", ">Number", "Description"), rows)


def _about(node: NodeResponse) -> str:
    text = node.properties.get("summary") or node.properties.get("quote") or ""
    return clip(str(text), 90)


_NODE: Final[Mapping[str, Callable[[NodeResponse], str]]] = {
    "=Type": lambda node: escape(node.type),
    "=Name": lambda node: escape(clip(node.name, 48)),
    "About": lambda node: escape(_about(node)),
    "=Changed": lambda node: f"[quiet]{ago(node.updated_at)}[/]",
}


def _limit_note(count: int, total: int) -> str:
    more = f"the {count} most recently changed of {total}; raise --limit to see more"
    return more if count < total else ""


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
        f"  [quiet]{short_id(edge.id)}[/]"
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
        origins = agreement[name].origins if name in agreement else []
        says = plural(len(origins), "origin")
        if len(origins) == 1:
            says = f"only {escape(' and '.join(origins[0]))}"
        if name in agreement and (speakers := agreement[name].said_by):
            says += f"; only {escape(' and '.join(speakers))} {'says' if len(speakers) == 1 else 'say'} so"
        barred = agreement[name].barred if name in agreement else []
        says += f"; since barred: {escape(', '.join(barred))}" if barred else ""
        support = f"  [quiet]({says})[/]" if origins else ""
        console.print(f"  {escape(name)}: {escape(str(value))}{support}")
        if name in agreement:
            _values_beside(console, agreement[name])


def _values_beside(console: Console, known: AgreementResponse) -> None:
    """Prints the values of other origins, and those that begin later or have ended."""
    if known.ended:
        console.print(f"    [warn]not valid since {known.ended:%Y-%m-%d}[/]")
    if known.begins:
        console.print(f"    [warn]valid only from {known.begins:%Y-%m-%d}[/]")
    for other in known.others:
        text = f"{escape(', '.join([*other.said_by, *other.sites]))}: {escape(str(other.value))}"
        says = f"contested by {plural(other.origins, 'origin')}, " if other.contested else ""
        shown = f"[warn]{says}{text}[/]" if other.contested else text
        console.print(f"    {shown} [quiet]{as_of(other.as_of)}[/]")
    for coming in known.upcoming:
        console.print(f"    from {coming.begins:%Y-%m-%d}: {escape(str(coming.value))}")
        console.print(f"      “{escape(coming.quote)}”")


def show_merge(console: Console, agent: str, merge: MergeResponse) -> None:
    console.print(
        f"{escape(merge.merged_name)} is merged into [agent]{escape(merge.kept_name or '')}[/]: {_moved(merge)}."
    )
    if merge.left_out:
        names = escape(", ".join(merge.left_out))
        console.print(f"[warn]Left out, because the type does not allow it:[/] {names}")
    console.print(
        f"[quiet]To undo this: vigil node unmerge {escape(quoted(agent))} {short_id(merge.id)}[/]"
    )


def show_split(console: Console, merge: MergeResponse) -> None:
    console.print(
        f"[agent]{escape(merge.merged_name)}[/] is split off {escape(merge.kept_name or '')}, with {_moved(merge)}."
    )
    console.print("[quiet]To undo this, merge the two nodes: vigil node merge[/]")


def show_unmerge(console: Console, merge: MergeResponse) -> None:
    console.print(f"[agent]{escape(merge.merged_name)}[/] is restored, with {_moved(merge)}.")


def show_merges(console: Console, merges: Sequence[MergeResponse]) -> None:
    if not merges:
        console.print("No nodes have been merged.")
    ids = short_ids([merge.id for merge in merges])
    for merge in merges:
        kept_name = merge.kept_name or "a node that has since been merged"
        undone = "" if merge.undone_at is None else f", undone {ago(merge.undone_at)}"
        arrow = "→"
        if merge.is_split:
            undone, arrow = ", split off", "←"
        console.print(
            f"{escape(merge.merged_name)} [quiet]{arrow}[/] [agent]{escape(kept_name)}[/]  {escape(merge.reason)}  "
            f"[quiet]{escape(merge.type)}, {_moved(merge)}, {ago(merge.made_at)}{undone}  {ids[merge.id]}[/]"
        )


def show_distinct(console: Console, agent: str, pair: DistinctPairResponse) -> None:
    console.print(
        f"[agent]{escape(pair.one.name)}[/] and [agent]{escape(pair.other.name)}[/] are distinct and no "
        "longer listed as duplicates."
    )
    console.print(
        f'[quiet]To undo this: vigil node distinct "{escape(agent)}" {pair.one.id} {pair.other.id} --undo[/]'
    )


def show_distinct_pairs(console: Console, pairs: Sequence[DistinctPairResponse]) -> None:
    if not pairs:
        console.print("No nodes have been declared distinct.")
    for pair in pairs:
        console.print(
            f"{escape(pair.one.name)} [quiet]{pair.one.id}[/]  and  {escape(pair.other.name)} [quiet]{pair.other.id}"
            f"  {escape(pair.one.type)}, {ago(pair.made_at)}[/]"
        )


def show_duplicates(console: Console, candidates: Sequence[DuplicatePair]) -> None:
    if not candidates:
        console.print("No two nodes have similar names.")
    ids = short_ids([node.id for pair in candidates for node in (pair.node, pair.other)])
    for pair in candidates:
        console.print(
            f"{pair.similarity:.2f}  {escape(pair.node.name)} [quiet]{ids[pair.node.id]}[/]  and  "
            f"{escape(pair.other.name)} [quiet]{ids[pair.other.id]}  {escape(pair.node.type)}[/]"
        )


def _moved(merge: MergeResponse) -> str:
    spans = plural(merge.evidence, "span")
    return f"{plural(merge.names, 'name')}, {spans} of evidence, {plural(merge.edges, 'edge')}"


def show_imported(console: Console, agent: ImportedAgent) -> None:
    counts = agent.counts
    console.print(
        f"[agent]{escape(agent.name)}[/] has {plural(counts.nodes, 'node')} and {plural(counts.edges, 'edge')}, "
        f"with {plural(counts.evidence, 'quote')} as evidence from {plural(counts.sources, 'page')}. "
        "Every seal was checked."
    )
    console.print(
        f"It is paused. To start it: [quiet]vigil agent resume {escape(quoted(agent.name))}[/]"
    )
