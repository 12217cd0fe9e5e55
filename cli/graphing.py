"""Looking at a graph: what is asked for, read from the api, and how it is shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import assert_never
from uuid import UUID

from pydantic import BaseModel
from rich.console import Console

from cli.client.client import Client
from cli.commands.graph import What
from cli.errors import BadInputError, CommandError
from cli.render.graph import (
    show_around,
    show_edge,
    show_edges,
    show_graph,
    show_node,
    show_nodes,
    show_types,
)

MOST_OF_OVERVIEW = 1000
MOST_AROUND = 200
CANDIDATES = 50
CANDIDATES_TOLD = 5


@dataclass(frozen=True)
class Look:
    """What was found, and how to show it."""

    found: BaseModel | Sequence[BaseModel]
    show: Callable[[Console], None]


@dataclass(frozen=True)
class Graph:
    """Of one agent; raises CommandError where what is named is not there."""

    client: Client
    agent: str
    limit: int
    type_name: str | None
    node: str | None

    def look(self, what: What, search: str | None, depth: int) -> Look:
        match what:
            case What.OVERVIEW:
                return self.overview()
            case What.NODES:
                return self.nodes(search)
            case What.EDGES:
                return self.edges()
            case What.TYPES:
                return self.types()
            case What.NEAR:
                return self.near(depth)
            case What.NODE:
                return self.one_node()
            case What.EDGE:
                return self.one_edge()
            case _:
                assert_never(what)

    def overview(self) -> Look:
        limit = min(self.limit, MOST_OF_OVERVIEW)
        found = self.client.graph(self.agent, type_name=self.type_name, limit=limit)
        known = [each.name for each in found.node_types]
        if self.type_name and self.type_name not in known:
            listed = ", ".join(sorted(known)) or "none yet"
            raise CommandError(f"there is no node type {self.type_name!r}; there are: {listed}")
        return Look(
            found,
            lambda console: show_graph(console, self.client.agent(self.agent), found),
        )

    def nodes(self, search: str | None) -> Look:
        found = list(self.client.nodes(self.agent, self.limit, type=self.type_name, search=search))
        return Look(found, partial(show_nodes, nodes=found, limit=self.limit))

    def edges(self) -> Look:
        at = str(self._node()) if self.node else None
        found = list(self.client.edges(self.agent, self.limit, type=self.type_name, node_id=at))
        return Look(found, partial(show_edges, edges=found, limit=self.limit))

    def types(self) -> Look:
        found = [*self.client.node_types(self.agent), *self.client.edge_types(self.agent)]
        return Look(found, partial(show_types, types=found))

    def near(self, depth: int) -> Look:
        limit = min(self.limit, MOST_AROUND)
        found = self.client.neighbourhood(self.agent, self._node(), depth=depth, limit=limit)
        return Look(found, partial(show_around, around=found))

    def one_node(self) -> Look:
        found = self.client.node(self.agent, self._node())
        return Look(found, partial(show_node, node=found))

    def one_edge(self) -> Look:
        try:
            edge_id = UUID(self.node)
        except ValueError:
            raise BadInputError(
                f"{self.node!r} is no id of an edge; vigil graph AGENT edges --json tells them"
            ) from None
        found = self.client.edge(self.agent, edge_id)
        return Look(found, partial(show_edge, edge=found))

    def _node(self) -> UUID:
        if not self.node:
            raise BadInputError("name the node: vigil graph AGENT near NODE")
        return node_id(self.client, self.agent, self.node)


def node_id(client: Client, agent: str, reference: str) -> UUID:
    """The node of that id, or the one that is named so, in whatever case. Raises CommandError where there is not one."""
    try:
        return UUID(reference)
    except ValueError:
        found = list(client.nodes(agent, CANDIDATES, search=reference))
    wanted = reference.strip().lower()
    best = [each for each in found if each.name.lower() == wanted] or found
    if not best:
        raise CommandError(f"no node is named {reference!r}: look for it with vigil graph --search")
    if len(best) > 1:
        told = [f"{each.name} ({each.type} {each.id})" for each in best[:CANDIDATES_TOLD]]
        raise CommandError(f"several are named like {reference!r}, take an id: {', '.join(told)}")
    return best[0].id
