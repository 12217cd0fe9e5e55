"""`vigil graph` and `vigil node …`: what an agent knows, and duplicate nodes."""

from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Annotated, Final, assert_never
from uuid import UUID

import typer
from rich.console import Console

from cli.client.client import Client
from cli.command import Result, api_command, command_group
from cli.errors import BadInputError, CommandError
from cli.options import AgentName, Limit
from cli.references import Named, as_uuid, find, find_edge, find_node
from cli.render.graph import (
    show_around,
    show_distinct,
    show_distinct_pairs,
    show_duplicates,
    show_edge,
    show_edges,
    show_graph,
    show_merge,
    show_merges,
    show_node,
    show_nodes,
    show_types,
    show_unmerge,
)

MAX_OVERVIEW_NODES: Final = 1000
MAX_NEIGHBOURS: Final = 200

node_commands = command_group(
    "node", "Find, merge and unmerge duplicate nodes, or declare nodes distinct."
)


class GraphView(StrEnum):
    OVERVIEW = "overview"
    NODES = "nodes"
    EDGES = "edges"
    TYPES = "types"
    NEAR = "near"
    NODE = "node"
    EDGE = "edge"


_ELEMENT_VIEWS: Final = {GraphView.NEAR: "node", GraphView.NODE: "node", GraphView.EDGE: "edge"}


@api_command
def graph(
    client: Client,
    agent: AgentName,
    view: Annotated[
        GraphView,
        typer.Argument(
            metavar="WHAT",
            help="What to show: overview, nodes, edges or types; near, the neighbours of NODE; node or edge, one "
            "element with its evidence.",
        ),
    ] = GraphView.OVERVIEW,
    node: Annotated[
        str | None,
        typer.Argument(
            metavar="NODE",
            help="Node for `edges`, `near` or `node`; edge id for `edge`.",
        ),
    ] = None,
    type_name: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only of this type.")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS", help="Show nodes whose names have words that start with these."
        ),
    ] = None,
    depth: Annotated[
        int, typer.Option(min=1, max=2, help="Maximum distance in edges for `near`.")
    ] = 1,
    limit: Limit = 20,
) -> Result:
    """Show an agent's knowledge graph: types, nodes, edges, the neighbours of a node, and evidence.

    `vigil graph AGENT` · `vigil graph AGENT --search lithium` · `vigil graph AGENT near "Halden Cells" --depth 2`
    """
    if search is not None and view is GraphView.OVERVIEW:
        view = GraphView.NODES
    _check_arguments(view, node, search)
    query = GraphQuery(client, agent, limit, type_name, node)
    return query.load(view, search, depth)


@node_commands.command("duplicates")
@api_command
def list_duplicates(client: Client, agent: AgentName, limit: Limit = 20) -> Result:
    """List nodes with similar names, which may be duplicates, most recently changed first."""
    candidates = list(client.duplicates(agent, limit))
    return Result(candidates, lambda console: show_duplicates(console, candidates))


@node_commands.command("distinct")
@api_command
def declare_distinct(
    client: Client,
    agent: AgentName,
    one: Annotated[
        str | None, typer.Argument(metavar="ONE", help="Name or id of the first node.")
    ] = None,
    other: Annotated[
        str | None, typer.Argument(metavar="OTHER", help="Name or id of the other node.")
    ] = None,
    *,
    undo: Annotated[
        bool, typer.Option("--undo", help="Allow the two nodes to be listed as duplicates again.")
    ] = False,
) -> Result:
    """Declare two nodes distinct, so that they are no longer listed as duplicates. Without nodes, list distinct pairs."""
    if one is None:
        if undo:
            raise BadInputError("name both nodes: `vigil node distinct AGENT ONE OTHER --undo`")
        pairs = list(client.distinct_pairs(agent))
        return Result(pairs, lambda console: show_distinct_pairs(console, pairs))
    if other is None:
        raise BadInputError("name both nodes: `vigil node distinct AGENT ONE OTHER`")
    ids = find_node(client, agent, one), find_node(client, agent, other)
    if undo:
        return _forget_distinct(client, agent, set(ids))
    pair = client.declare_distinct(agent, *ids)
    return Result(pair, lambda console: show_distinct(console, agent, pair))


def _forget_distinct(client: Client, agent: str, ids: set[UUID]) -> Result:
    for pair in client.distinct_pairs(agent):
        if {pair.one.id, pair.other.id} == ids:
            client.forget_distinct(agent, pair.id)
            return Result(
                pair,
                lambda console: console.print("The two nodes can be listed as duplicates again."),
            )
    raise CommandError(
        "these nodes were not declared distinct; `vigil node distinct AGENT` lists distinct pairs"
    )


@node_commands.command("merge")
@api_command
def merge_nodes(
    client: Client,
    agent: AgentName,
    kept: Annotated[str, typer.Argument(metavar="KEPT", help="Node to keep.")],
    merged: Annotated[str, typer.Argument(metavar="MERGED", help="Node to merge into KEPT.")],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why the nodes are the same, in a sentence.")
    ],
) -> Result:
    """Merge two nodes: move the names, evidence and edges of MERGED to KEPT. Undo it with `vigil node unmerge`."""
    merge = client.merge(
        agent,
        kept=find_node(client, agent, kept),
        merged=find_node(client, agent, merged),
        reason=reason,
    )
    return Result(merge, lambda console: show_merge(console, agent, merge))


@node_commands.command("merges")
@api_command
def list_merges(client: Client, agent: AgentName, limit: Limit = 20) -> Result:
    """List merged nodes, most recently merged first."""
    merges = list(client.merges(agent, limit))
    return Result(merges, lambda console: show_merges(console, merges))


@node_commands.command("unmerge")
@api_command
def unmerge_nodes(
    client: Client,
    agent: AgentName,
    merge: Annotated[
        str,
        typer.Argument(metavar="MERGE", help="Name of the merged node, or id of the merge."),
    ],
) -> Result:
    """Undo a merge. Anything learned after the merge stays with the kept node."""
    undone = client.undo_merge(agent, find_merge(client, agent, merge))
    return Result(undone, lambda console: show_unmerge(console, undone))


@dataclass(frozen=True)
class GraphQuery:
    """Loads one view of an agent's graph. Raises CommandError if a named type or node does not exist."""

    client: Client
    agent: str
    limit: int
    type_name: str | None
    node: str | None

    def load(self, view: GraphView, search: str | None, depth: int) -> Result:
        match view:
            case GraphView.OVERVIEW:
                return self._overview()
            case GraphView.NODES:
                return self._nodes(search)
            case GraphView.EDGES:
                return self._edges()
            case GraphView.TYPES:
                types = [*self.client.node_types(self.agent), *self.client.edge_types(self.agent)]
                return Result(types, partial(show_types, types=types))
            case GraphView.NEAR:
                return self._neighbours(depth)
            case GraphView.NODE:
                node = self.client.node(self.agent, self._node_id())
                return Result(node, partial(show_node, node=node))
            case GraphView.EDGE:
                return self._edge()
            case _:
                assert_never(view)

    def _overview(self) -> Result:
        limit = min(self.limit, MAX_OVERVIEW_NODES)
        graph = self.client.graph(self.agent, type_name=self.type_name, limit=limit)
        type_names = [node_type.name for node_type in graph.node_types]
        if self.type_name and self.type_name not in type_names:
            names = ", ".join(sorted(type_names))
            hint = f"the node types are: {names}" if names else "the agent has no node types yet"
            raise CommandError(f"there is no node type {self.type_name!r}; {hint}")

        def show(console: Console) -> None:
            show_graph(console, self.client.agent(self.agent), graph)

        return Result(graph, show)

    def _nodes(self, search: str | None) -> Result:
        nodes = list(self.client.nodes(self.agent, self.limit, type=self.type_name, search=search))
        return Result(nodes, partial(show_nodes, nodes=nodes, limit=self.limit))

    def _edges(self) -> Result:
        node_id = str(self._node_id()) if self.node else None
        edges = list(
            self.client.edges(self.agent, self.limit, type=self.type_name, node_id=node_id)
        )
        return Result(edges, partial(show_edges, edges=edges, limit=self.limit))

    def _neighbours(self, depth: int) -> Result:
        limit = min(self.limit, MAX_NEIGHBOURS)
        around = self.client.neighbourhood(self.agent, self._node_id(), depth=depth, limit=limit)
        return Result(around, partial(show_around, around=around))

    def _edge(self) -> Result:
        edge = self.client.edge(self.agent, find_edge(self.client, self.agent, self.node or ""))
        return Result(edge, partial(show_edge, edge=edge))

    def _node_id(self) -> UUID:
        if not self.node:
            raise BadInputError("name the node: `vigil graph AGENT near NODE`")
        return find_node(self.client, self.agent, self.node)


def find_merge(client: Client, agent: str, reference: str) -> UUID:
    """The merge that is not undone yet, by the name of the merged node or its own id. Raises CommandError."""
    if (merge_id := as_uuid(reference)) is not None:
        return merge_id
    merges = [each for each in client.merges(agent, None) if each.undone_at is None]
    return find(
        "merge",
        reference,
        merges,
        lambda each: Named(each.id, [each.merged_name]),
        see="vigil node merges AGENT",
    ).id


def _check_arguments(view: GraphView, node: str | None, search: str | None) -> None:
    if view in _ELEMENT_VIEWS and node is None:
        kind = _ELEMENT_VIEWS[view]
        raise BadInputError(f"name the {kind}: `vigil graph AGENT {view} {kind.upper()}`")
    if node is not None and view not in (*_ELEMENT_VIEWS, GraphView.EDGES):
        raise BadInputError(f"`{view}` takes no node; use `near`, `node` or `edges`")
    if search is not None and view is not GraphView.NODES:
        raise BadInputError(f"--search finds nodes and cannot be combined with `{view}`")
