"""A mission with scripted model responses, so that two runs can differ only because of the bus."""

from typing import Any
from uuid import UUID

from shared.database import ids
from shared.database.engine import Database
from shared.database.tables import Agent
from shared.enums import ANALYSIS_TYPE
from tests.support.factories import make_agent
from tests.support.forecast_terms import ADVICE_TERMS
from tests.support.sandbox_control import Sandbox

MAKERS = ("Orran", "Halden")
DEAD_END = "what nobody has written down"
_QUOTES = {
    "Orran": (
        "https://corpus.local/orran.txt",
        "Orran Mining extracts lithium in Western Australia. Orran Mining shipped 92,000 tonnes of spodumene in 2025.",
    ),
    "Halden": (
        "https://corpus.local/halden.html",
        "Halden Energy depends on Orran Mining for lithium hydroxide. Revenue fell 4% to $1.1 billion in 2025.",
    ),
}
"""Source URL and quote by maker."""
_FIGURES = {"Orran": ("shipped_tonnes", 92_000), "Halden": ("revenue_usd", 1_100_000_000)}
"""A property and its value by maker, from the quotes."""
_PROPERTIES = {
    "type": "object",
    "properties": {"summary": {"type": "string"}},
    "required": ["summary"],
}


class Mission:
    """One agent with this mission. All its requests contain `tag`, so that they differ from those of others."""

    def __init__(self, agent: Agent, tag: str) -> None:
        self.agent = agent
        self.tag = tag

    @classmethod
    async def begin(cls, database: Database, sandbox_control: Sandbox, tag: str) -> "Mission":
        """Create an agent that is due at once, and script its model responses."""
        agent = await make_agent(database, name=tag, mission=f"Watch lithium ({tag})")
        mission = cls(agent, tag)
        sandbox_control.script(*mission._script())
        return mission

    def _script(self) -> list[dict[str, Any]]:
        topics = [*MAKERS, DEAD_END]
        plan = {
            "queries": [
                {"objective": self._topic_text(topic), "reasoning": "", "searchHints": []}
                for topic in topics
            ],
            "insights": [
                {
                    "observation": self._topic_text(topic),
                    "relevantNodeIds": [],
                    "synthesisDirection": "",
                }
                for topic in topics
            ],
        }
        return [
            _response("observer", self.agent.mission, content=plan),
            *(response for maker in MAKERS for response in self._research(maker)),
            # Refused with and without tool_choice.
            _response(
                "knowledge_acquisition",
                f"Objective: {self._topic_text(DEAD_END)}",
                status=400,
                times=2,
            ),
            *(response for maker in MAKERS for response in self._analysis(maker)),
            _response(
                "analysis_generation",
                f"Observation: {self._topic_text(DEAD_END)}",
                content="MISSING: all of it",
            ),
            *self._advice(),
        ]

    def _topic_text(self, about: str) -> str:
        return f"{about} ({self.tag})"

    def _research(self, maker: str) -> list[dict[str, Any]]:
        """A search, then a node, a node shared by all makers, and an edge between them."""
        objective = f"Objective: {self._topic_text(maker)}"
        figure, value = _FIGURES[maker]
        search = _call("tavilySearch", query=f"lithium {self._topic_text(maker)}")
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
        writes = [
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
                properties={"summary": "A metal.", f"{maker.lower()}_{figure}": value},
                evidence=_evidence(maker),
            ),
        ]
        edge = _call(
            "addGraphEdge",
            type="buys",
            sourceId=str(self._node("Maker", maker)),
            targetId=str(self._node("Metal", "Lithium")),
            properties={figure: value},
            evidence=_evidence(maker),
        )
        return [
            _response("knowledge_acquisition", objective, tool_calls=[search]),
            _response("knowledge_acquisition", objective, content=f"# {maker} buys lithium"),
            _response("graph_construction", objective, tool_calls=[*types, *writes]),
            _response("graph_construction", objective, tool_calls=[edge]),
            _response("graph_construction", objective, content="Written."),
        ]

    def _analysis(self, maker: str) -> list[dict[str, Any]]:
        observation = f"Observation: {self._topic_text(maker)}"
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
            _response("analysis_generation", observation, tool_calls=[analysis]),
            _response("analysis_generation", observation, content="It buys."),
        ]

    def _advice(self) -> list[dict[str, Any]]:
        analyses = [self._node(ANALYSIS_TYPE, f"{maker} buys") for maker in MAKERS]
        cited = " ".join(f"[node:{analysis}]" for analysis in analyses)
        advice = [
            _call(
                "addAgentAdviceNode",
                name=f"{action} {maker}",
                action=action,
                summary="Now.",
                content=f"It buys {cited}.",
                **ADVICE_TERMS,
            )
            for action, maker in (("BUY", "Orran"), ("SELL", "Halden"))
        ]
        return [
            _response("advice_generation", self.agent.mission, tool_calls=advice),
            _response("advice_generation", self.agent.mission, content="Both are plain."),
        ]

    def _node(self, type_name: str, name: str) -> UUID:
        return ids.node_id(self.agent.id, type_name, name)


def _evidence(maker: str) -> list[dict[str, Any]]:
    url, quote = _QUOTES[maker]
    return [{"sourceUrl": url, "quote": quote}]


def _response(phase: str, contains: str, **answer: Any) -> dict[str, Any]:
    return {"phase": phase, "contains": contains, **answer}


def _call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}
