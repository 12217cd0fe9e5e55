"""A mission whose every answer is written beforehand, so that only the bus can make two runs of it differ."""

from typing import Any
from uuid import UUID

from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.enums import ANALYSIS_TYPE
from tests.support.committing import COMMITTED
from tests.support.levers import Sandbox
from tests.support.making import make_agent

MAKERS = ("Orran", "Halden")
DEAD_END = "what nobody has written down"
_SAID = {
    "Orran": (
        "https://corpus.local/orran.txt",
        "Orran Mining extracts lithium in Western Australia.",
    ),
    "Halden": (
        "https://corpus.local/halden.html",
        "Halden Energy depends on Orran Mining for lithium hydroxide.",
    ),
}
"""By maker where the search's pages speak of it, and how."""
_PROPERTIES = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
}


class Mission:
    """One agent of this mission. `tag` is in all that it asks, so that no other's request is the very same."""

    def __init__(self, agent: Agent, tag: str) -> None:
        self.agent = agent
        self.tag = tag

    @classmethod
    async def begin(cls, database: Database, levers: Sandbox, tag: str) -> "Mission":
        """An agent that is due at once, its answers put into the model's mouth."""
        agent = await make_agent(database, name=tag, mission=f"Watch lithium ({tag})")
        mission = cls(agent, tag)
        levers.script(*mission._script())
        return mission

    def _script(self) -> list[dict[str, Any]]:
        objectives = [*MAKERS, DEAD_END]
        plan = {
            "queries": [
                {"objective": self._asks(each), "reasoning": "", "searchHints": []}
                for each in objectives
            ],
            "insights": [
                {"observation": self._asks(each), "relevantNodeIds": [], "synthesisDirection": ""}
                for each in objectives
            ],
        }
        return [
            _says("observer", self.agent.mission, content=plan),
            *(said for maker in MAKERS for said in self._researched(maker)),
            # Refused with tool_choice, and without it.
            _says(
                "knowledge_acquisition",
                f"Objective: {self._asks(DEAD_END)}",
                status=400,
                times=2,
            ),
            *(said for maker in MAKERS for said in self._analyzed(maker)),
            _says(
                "analysis_generation",
                f"Observation: {self._asks(DEAD_END)}",
                content="MISSING: all of it",
            ),
            *self._advised(),
        ]

    def _asks(self, about: str) -> str:
        return f"{about} ({self.tag})"

    def _researched(self, maker: str) -> list[dict[str, Any]]:
        """A search, then a node of its own, one that all share and add to, and an edge between them."""
        objective = f"Objective: {self._asks(maker)}"
        searched = _call("tavilySearch", query=f"lithium {self._asks(maker)}")
        types = [
            _call(
                "createNodeType",
                name=name,
                description=f"A {name} of the trade",
                propertiesSchema=_PROPERTIES,
                exampleProperties={"summary": "…"},
                justification="No type fits.",
            )
            for name in ("Maker", "Metal")
        ]
        written = [
            _call(
                "createEdgeType",
                name="buys",
                description="a maker buys a metal",
                justification="No type fits.",
            ),
            _call(
                "addGraphNode",
                type="Maker",
                name=maker,
                properties={"summary": f"{maker}."},
                evidence=_evidence(maker),
            ),
            _call(
                "addGraphNode",
                type="Metal",
                name="Lithium",
                properties={"summary": "A metal.", f"bought_by_{maker.lower()}_tonnes": len(maker)},
                evidence=_evidence(maker),
            ),
        ]
        edge = _call(
            "addGraphEdge",
            type="buys",
            sourceId=str(self._node("Maker", maker)),
            targetId=str(self._node("Metal", "Lithium")),
            properties={"tonnes": len(maker)},
            evidence=_evidence(maker),
        )
        return [
            _says("knowledge_acquisition", objective, tool_calls=[searched]),
            _says("knowledge_acquisition", objective, content=f"# {maker} buys lithium"),
            _says("graph_construction", objective, tool_calls=[*types, *written]),
            _says("graph_construction", objective, tool_calls=[edge]),
            _says("graph_construction", objective, content="Written."),
        ]

    def _analyzed(self, maker: str) -> list[dict[str, Any]]:
        observation = f"Observation: {self._asks(maker)}"
        buyer, metal = self._node("Maker", maker), self._node("Metal", "Lithium")
        buys = ids.edge_id(self.agent.id, "buys", buyer, metal)
        analysis = _call(
            "addAgentAnalysisNode",
            name=f"{maker} buys",
            type="pattern",
            summary=f"{maker} buys more.",
            content=f"It buys [edge:{buys}], as all do: [node:{metal}].",
            confidence=0.5,
        )
        return [
            _says("analysis_generation", observation, tool_calls=[analysis]),
            _says("analysis_generation", observation, content="It buys."),
        ]

    def _advised(self) -> list[dict[str, Any]]:
        advice = [
            _call(
                "addAgentAdviceNode",
                name=f"{action} {maker}",
                action=action,
                summary="Now.",
                content=f"It buys [node:{self._node(ANALYSIS_TYPE, f'{maker} buys')}].",
                **COMMITTED,
            )
            for action, maker in (("BUY", "Orran"), ("SELL", "Halden"))
        ]
        return [
            _says("advice_generation", self.agent.mission, tool_calls=advice),
            _says("advice_generation", self.agent.mission, content="Both are plain."),
        ]

    def _node(self, type_name: str, name: str) -> UUID:
        return ids.node_id(self.agent.id, type_name, name)


def _evidence(maker: str) -> list[dict[str, Any]]:
    url, quote = _SAID[maker]
    return [{"sourceUrl": url, "quote": quote}]


def _says(phase: str, asked: str, **answer: Any) -> dict[str, Any]:
    return {"phase": phase, "contains": asked, **answer}


def _call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}
