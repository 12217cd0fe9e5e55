"""`vigil graph` and `vigil node …`: what an agent knows, duplicate nodes, and nodes that are two things."""

from enum import StrEnum
from functools import partial
from typing import Annotated, Final
from uuid import UUID

import typer

from cli.client.client import Client
from cli.command import Result, api_command, command_group
from cli.errors import BadInputError, CommandError
from cli.options import AgentName, Limit
from cli.references import Named, find_edge, find_id, find_node
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
    show_split,
    show_types,
    show_unmerge,
)
from shared.schemas.graph import (
    DistinctPairResponse,
    DuplicatePair,
    EdgeDetails,
    MergeResponse,
    NeighbourhoodResponse,
    NodeDetails,
)

MAX_OVERVIEW_NODES: Final = 1000
MAX_NEIGHBOURS: Final = 200

node_commands = command_group(
    "node",
    "Find, merge and unmerge duplicate nodes, declare nodes distinct, or split a node that is two things.",
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
    element = None
    if node is not None:
        element = (find_edge if view is GraphView.EDGE else find_node)(client, agent, node)
    match view, element:
        case GraphView.OVERVIEW, _:
            return _overview(client, agent, type_name, min(limit, MAX_OVERVIEW_NODES))
        case GraphView.NODES, _:
            nodes = list(client.nodes(agent, limit, type=type_name, search=search))
            return Result(nodes, partial(show_nodes, limit=limit))
        case GraphView.EDGES, _:
            node_id = None if element is None else str(element)
            edges = list(client.edges(agent, limit, type=type_name, node_id=node_id))
            return Result(edges, partial(show_edges, limit=limit))
        case GraphView.NEAR, UUID():
            nearest = min(limit, MAX_NEIGHBOURS)
            path = client.agent_path(agent, "nodes", element, "neighbourhood")
            around = client.get(NeighbourhoodResponse, path, depth=depth, limit=nearest)
            return Result(around, show_around)
        case GraphView.NODE, UUID():
            details = client.get(NodeDetails, client.agent_path(agent, "nodes", element))
            return Result(details, show_node)
        case GraphView.EDGE, UUID():
            edge = client.get(EdgeDetails, client.agent_path(agent, "edges", element))
            return Result(edge, show_edge)
    types = client.types(agent)
    listed = [*types.node_types, *types.edge_types]
    return Result(listed, show_types)


@node_commands.command("duplicates")
@api_command
def list_duplicates(client: Client, agent: AgentName, limit: Limit = 20) -> Result:
    """List nodes with similar names, which may be duplicates, most recently changed first."""
    candidates = list(client.pages(DuplicatePair, client.agent_path(agent, "duplicates"), limit))
    return Result(candidates, show_duplicates)


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
        pairs = list(client.pages(DistinctPairResponse, client.agent_path(agent, "distinct-pairs")))
        return Result(pairs, show_distinct_pairs)
    if other is None:
        raise BadInputError("name both nodes: `vigil node distinct AGENT ONE OTHER`")
    ids = find_node(client, agent, one), find_node(client, agent, other)
    if undo:
        for pair in client.pages(DistinctPairResponse, client.agent_path(agent, "distinct-pairs")):
            if {pair.one.id, pair.other.id} == set(ids):
                client.delete(client.agent_path(agent, "distinct-pairs", pair.id))
                return Result(pair, "The two nodes can be listed as duplicates again.")
        raise CommandError(
            "these nodes were not declared distinct; `vigil node distinct AGENT` lists distinct pairs"
        )
    body = {"one": str(ids[0]), "other": str(ids[1])}
    path = client.agent_path(agent, "distinct-pairs")
    pair = client.post(DistinctPairResponse, path, body)
    return Result(pair, lambda console, _: show_distinct(console, agent, pair))


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
    ids = {"kept": find_node(client, agent, kept), "merged": find_node(client, agent, merged)}
    body = {name: str(node_id) for name, node_id in ids.items()} | {"reason": reason}
    merge = client.post(MergeResponse, client.agent_path(agent, "merges"), body)
    return Result(merge, lambda console, _: show_merge(console, agent, merge))


@node_commands.command("split")
@api_command
def split_node(
    client: Client,
    agent: AgentName,
    node: Annotated[str, typer.Argument(metavar="NODE", help="Node to split.")],
    evidence: Annotated[
        list[str],
        typer.Argument(
            metavar="EVIDENCE",
            help="Ids of the evidence, of the node and its edges, that is of the other thing. "
            "`vigil graph AGENT node NODE --json` lists them.",
        ),
    ],
    qualifier: Annotated[
        str,
        typer.Option(
            metavar="WORDS", help='What distinguishes the other thing: "footballer", "Illinois".'
        ),
    ],
    reason: Annotated[
        str, typer.Option(metavar="TEXT", help="Why they are two things, in a sentence.")
    ],
) -> Result:
    """Split a node: move evidence that is of another thing of the same name to a new node. Merging the two undoes it."""
    evidence_ids = [_evidence_id(each) for each in evidence]
    body = {
        "node": str(find_node(client, agent, node)),
        "evidence": evidence_ids,
        "qualifier": qualifier,
        "reason": reason,
    }
    split = client.post(MergeResponse, client.agent_path(agent, "splits"), body)
    return Result(split, show_split)


@node_commands.command("merges")
@api_command
def list_merges(client: Client, agent: AgentName, limit: Limit = 20) -> Result:
    """List merged nodes, most recently merged first."""
    merges = list(client.pages(MergeResponse, client.agent_path(agent, "merges"), limit))
    return Result(merges, show_merges)


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
    path = client.agent_path(agent, "merges", find_merge(client, agent, merge), "undo")
    undone = client.post(MergeResponse, path)
    return Result(undone, show_unmerge)


def _overview(client: Client, agent: str, type_name: str | None, limit: int) -> Result:
    graph = client.graph(agent, type_name=type_name, limit=limit)
    type_names = [node_type.name for node_type in graph.node_types]
    if type_name and type_name not in type_names:
        names = ", ".join(sorted(type_names))
        hint = f"the node types are: {names}" if names else "the agent has no node types yet"
        raise CommandError(f"there is no node type {type_name!r}; {hint}")
    return Result(graph, lambda console, _: show_graph(console, client.agent(agent), graph))


def find_merge(client: Client, agent: str, reference: str) -> UUID:
    """The merge that is not undone yet, by the name of the merged node or its own id. Raises CommandError."""
    every = client.pages(MergeResponse, client.agent_path(agent, "merges"))
    merges = (each for each in every if each.undone_at is None)
    return find_id(
        "merge",
        reference,
        merges,
        lambda each: Named(each.id, [each.merged_name]),
        see="vigil node merges AGENT",
    )


def _evidence_id(text: str) -> str:
    """Raises BadInputError."""
    try:
        return str(UUID(text))
    except ValueError as error:
        raise BadInputError(
            f"{text[:40]!r} is not the id of evidence; `vigil graph AGENT node NODE --json` lists the ids"
        ) from error


def _check_arguments(view: GraphView, node: str | None, search: str | None) -> None:
    if view in _ELEMENT_VIEWS and node is None:
        kind = _ELEMENT_VIEWS[view]
        raise BadInputError(f"name the {kind}: `vigil graph AGENT {view} {kind.upper()}`")
    if node is not None and view not in (*_ELEMENT_VIEWS, GraphView.EDGES):
        raise BadInputError(f"`{view}` takes no node; use `near`, `node` or `edges`")
    if search is not None and view is not GraphView.NODES:
        raise BadInputError(f"--search finds nodes and cannot be combined with `{view}`")
