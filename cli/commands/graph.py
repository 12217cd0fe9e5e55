"""`vigil graph`: what an agent knows, at a glance and in detail."""

from enum import StrEnum
from typing import Annotated, Final

import typer

from cli.options import AgentName, AsJson, Data, Url


class What(StrEnum):
    OVERVIEW = "overview"
    NODES = "nodes"
    EDGES = "edges"
    TYPES = "types"
    NEAR = "near"
    NODE = "node"
    EDGE = "edge"


_OF_ONE: Final = {What.NEAR: "node", What.NODE: "node", What.EDGE: "edge"}


def graph(
    agent: AgentName,
    what: Annotated[
        What,
        typer.Argument(
            metavar="WHAT",
            help="overview, nodes, edges, types; near: what lies around NODE; node, edge: that one, and what it rests on.",
        ),
    ] = What.OVERVIEW,
    node: Annotated[
        str | None,
        typer.Argument(
            metavar="NODE",
            help="Name or id of a node, for `edges`, `near` and `node`; an edge's id.",
        ),
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
    """Show an agent's knowledge graph: types, nodes, edges, what lies around a node, what it rests on.

    `vigil graph AGENT` · `vigil graph AGENT --search lithium` · `vigil graph AGENT near "Halden Cells" --depth 2`
    """
    from cli.client.client import Client
    from cli.config.discovery import api_url
    from cli.graphing import Graph
    from cli.render.console import out, print_json

    if search is not None and what is What.OVERVIEW:
        what = What.NODES
    _refuse_what_does_not_fit(what, node, search)
    with Client(api_url(url, data)) as client:
        look = Graph(client, agent, limit, type_name, node).look(what, search, depth)
        if as_json:
            print_json(look.found)
        else:
            look.show(out())


def _refuse_what_does_not_fit(what: What, node: str | None, search: str | None) -> None:
    from cli.errors import BadInputError

    if what in _OF_ONE and node is None:
        raise BadInputError(
            f"name the {_OF_ONE[what]}: vigil graph AGENT {what} {_OF_ONE[what].upper()}"
        )
    if node is not None and what not in (*_OF_ONE, What.EDGES):
        raise BadInputError(f"a node is named for `near`, `node` and `edges`, not for `{what}`")
    if search is not None and what is not What.NODES:
        raise BadInputError(f"--search finds nodes; leave it out for `{what}`")
