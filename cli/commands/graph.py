"""`vigil graph`: what an agent knows, at a glance and in detail."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from cli.options import AgentName, AsJson, Data, Url

if TYPE_CHECKING:
    from uuid import UUID

    from cli.client import Client


class What(StrEnum):
    OVERVIEW = "overview"
    NODES = "nodes"
    EDGES = "edges"
    TYPES = "types"
    NEAR = "near"


def graph(
    agent: AgentName,
    what: Annotated[
        What,
        typer.Argument(help="What of it; `near` is what lies around NODE.", show_default=True),
    ] = What.OVERVIEW,
    node: Annotated[
        str | None,
        typer.Argument(metavar="[NODE]", help="Name or id of a node, for `edges` and `near`."),
    ] = None,
    type_name: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Of this type only.")
    ] = None,
    search: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="Nodes whose names have words that begin so."),
    ] = None,
    depth: Annotated[int, typer.Option(min=1, max=2, help="Edges away, for `near`.")] = 1,
    limit: Annotated[int, typer.Option(min=1, help="How much to show.")] = 20,
    as_json: AsJson = False,
    url: Url = None,
    data: Data = None,
) -> None:
    """Show an agent's knowledge graph: types, nodes, edges, what lies around a node.

    `vigil graph AGENT` · `vigil graph AGENT --search lithium` · `vigil graph AGENT near "Halden Cells" --depth 2`
    """
    from cli.client import Client
    from cli.installation import api_url
    from cli.show.console import out
    from cli.show.graph import show_around, show_edges, show_graph, show_nodes, show_types
    from cli.show.json import print_json

    if search is not None and what is What.OVERVIEW:
        what = What.NODES
    _refuse_what_does_not_fit(what, node, search)
    with Client(api_url(url, data)) as client:
        match what:
            case What.OVERVIEW:
                found = client.graph(agent, type_name=type_name, limit=min(limit, 1000))
                if type_name:
                    _refuse_unknown_type(type_name, [each.name for each in found.node_types])
                if as_json:
                    print_json(found)
                else:
                    show_graph(out(), client.agent(agent), found)
            case What.NODES:
                nodes = list(client.nodes(agent, limit, type=type_name, search=search))
                print_json(nodes) if as_json else show_nodes(out(), nodes, limit=limit)
            case What.EDGES:
                at = str(_found(client, agent, node)) if node else None
                edges = list(client.edges(agent, limit, type=type_name, node_id=at))
                print_json(edges) if as_json else show_edges(out(), edges, limit=limit)
            case What.TYPES:
                types = [*client.node_types(agent), *client.edge_types(agent)]
                print_json(types) if as_json else show_types(out(), types)
            case What.NEAR:
                centre = _found(client, agent, node or "")
                around = client.neighbourhood(agent, centre, depth=depth, limit=min(limit, 200))
                print_json(around) if as_json else show_around(out(), around)


def _refuse_what_does_not_fit(what: What, node: str | None, search: str | None) -> None:
    from cli.errors import BadInputError

    if what is What.NEAR and node is None:
        raise BadInputError("name the node: vigil graph AGENT near NODE")
    if node is not None and what not in (What.NEAR, What.EDGES):
        raise BadInputError(f"a node is named for `near` and `edges`, not for `{what}`")
    if search is not None and what is not What.NODES:
        raise BadInputError(f"--search finds nodes; leave it out for `{what}`")


def _refuse_unknown_type(name: str, known: list[str]) -> None:
    from cli.errors import CommandError

    if name not in known:
        listed = ", ".join(sorted(known)) or "none yet"
        raise CommandError(f"there is no node type {name!r}; there are: {listed}")


def _found(client: "Client", agent: str, reference: str) -> "UUID":
    """The node of that id, or the one that is named so."""
    from uuid import UUID

    from cli.errors import CommandError

    try:
        return UUID(reference)
    except ValueError:
        found = list(client.nodes(agent, 50, search=reference))
    named = [node for node in found if node.name.lower() == reference.strip().lower()]
    if len(named or found) == 1:
        return (named or found)[0].id
    if not found:
        raise CommandError(f"no node is named {reference!r}: look with --search")
    listed = ", ".join(f"{node.name} ({node.type} {node.id})" for node in (named or found)[:5])
    raise CommandError(f"several nodes are named like {reference!r}, take an id: {listed}")
