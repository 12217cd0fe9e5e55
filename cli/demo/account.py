"""What there is to tell when a demo has ended."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from cli.client.client import Client
from shared.schemas.base import (
    AgentDetails,
    CallTotals,
    ConclusionView,
    GraphView,
    IterationDetails,
)

NODES_READ: Final = 1000
NODES_QUOTED: Final = 12
"""Nodes whose evidence is looked at."""
QUOTES: Final = 3


@dataclass(frozen=True)
class Quoted:
    node: str
    quote: str
    url: str


@dataclass(frozen=True)
class Account:
    agent: AgentDetails
    iterations: tuple[IterationDetails, ...]
    """Those that ended, oldest first."""
    graph: GraphView
    analyses: tuple[ConclusionView, ...]
    advice: tuple[ConclusionView, ...]
    calls: CallTotals
    quotes: tuple[Quoted, ...]
    """A few sentences that nodes rest on, each of another page."""
    seconds: float
    """From the command's start to the end of the last iteration."""

    @property
    def completed(self) -> int:
        return sum(each.status == "completed" for each in self.iterations)

    def as_json(self, *, corpus: str | None, model: str) -> dict[str, Any]:
        return {
            "iterations": len(self.iterations),
            "completed": self.completed,
            "failed": len(self.iterations) - self.completed,
            "nodes": self.graph.counts.nodes,
            "edges": self.graph.counts.edges,
            "analyses": self.graph.counts.analyses,
            "advice": self.graph.counts.advice,
            "llm_calls": self.calls.llm_calls,
            "search_calls": self.calls.search_calls,
            "cost_usd": self.calls.cost_usd,
            "seconds": round(self.seconds, 1),
            "corpus": corpus,
            "mission": self.agent.mission,
            "model": model,
        }


def account_of(
    client: Client, agent_id: str, iterations: Sequence[IterationDetails], seconds: float
) -> Account:
    graph = client.graph(agent_id, limit=NODES_READ)
    return Account(
        agent=client.agent(agent_id),
        iterations=tuple(iterations),
        graph=graph,
        quotes=_quotes(client, agent_id, graph),
        analyses=tuple(client.analyses(agent_id)),
        advice=tuple(client.advice(agent_id)),
        calls=client.calls(agent_id).totals,
        seconds=seconds,
    )


def _quotes(client: Client, agent_id: str, graph: GraphView) -> tuple[Quoted, ...]:
    found: dict[str, Quoted] = {}
    for node in graph.nodes[:NODES_QUOTED]:
        for each in client.node(agent_id, node.id).evidence.items[:1]:
            found.setdefault(each.url, Quoted(node.name, each.quote, each.url))
        if len(found) == QUOTES:
            break
    return tuple(found.values())
