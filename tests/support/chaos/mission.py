"""A mission with scripted model responses, so that two iterations of it can be compared.

The responses depend on the agent alone, not on the order in which researchers and analyzers run: whatever is killed,
and in whatever order the fan-out runs, the graph must be the same.
"""

import random
from dataclasses import dataclass
from typing import Any, ClassVar, Final
from uuid import UUID

from shared.database import ids
from shared.enums import ANALYSIS_TYPE, Phase
from tests.support.forecast_terms import ADVICE_TERMS, ANALYSIS_TERMS
from tests.support.sandbox_control import Sandbox

QUERIES: Final = 3
INSIGHTS: Final = 2
LLM_CALLS: Final = 1 + 4 * QUERIES + 2 * INSIGHTS + 2
SEARCHES: Final = 2 * QUERIES
MAX_ANSWER_SECONDS: Final = 0.3
SLOW_ANSWER_SECONDS: Final = 0.5

NODE_TYPE: Final = "Maker"
EDGE_TYPE: Final = "supplies"
HUB: Final = "Hub"
"""The node that every researcher writes; their order must not matter."""

MAKERS: Final = [[f"Maker {number}{letter}" for letter in "ab"] for number in range(QUERIES + 1)]
"""Those of each query; the last one is that of a feedback round."""
PAGE: Final = {
    "title": f"Who supplies the {HUB} with lithium",
    "text": f"The {HUB} gets lithium from {', '.join(name for names in MAKERS for name in names)}.",
    "url": "https://supplies.example/lithium",
    "date": "2026-03-01",
}
"""A page that every search for lithium returns."""
EVIDENCE: Final = [{"sourceUrl": PAGE["url"], "quote": PAGE["text"]}]


@dataclass(frozen=True)
class Mission:
    """One iteration of one agent; all its requests contain `tag`, and those of no other agent do."""

    agent_id: UUID
    tag: str
    feedback_rounds: ClassVar[int] = 0

    def script_model(self, sandbox: Sandbox) -> None:
        """Script later turns first: a request also contains the texts of the turns before it."""
        sandbox.script(
            *(script for number in range(QUERIES) for script in self._research(number)),
            *(script for number in range(INSIGHTS) for script in self._analysis(number)),
            *self._advice(),
            always(Phase.OBSERVER, self.tag, content=self._plan()),
        )

    def add_latency(self, sandbox: Sandbox, seed: int) -> None:
        """Delay each part of the fan-out at random, by `seed`."""
        chance = random.Random(seed)
        parts = [self._objective(number) for number in range(QUERIES)]
        parts += [self._observation(number) for number in range(INSIGHTS)]
        sandbox.faults(
            *(
                {
                    "kind": "latency",
                    "contains": part,
                    "latency_seconds": chance.uniform(0, MAX_ANSWER_SECONDS),
                    "always": True,
                }
                for part in parts
            )
        )

    def _query(self, number: int) -> str:
        return f"{self.tag} query {number}"

    def _insight(self, number: int) -> str:
        return f"{self.tag} insight {number}"

    def _objective(self, number: int) -> str:
        """The text of a query that only its own prompts contain; the graph context names every query."""
        return f"Objective: {self._query(number)}"

    def _observation(self, number: int) -> str:
        return f"Observation: {self._insight(number)}"

    def _plan(self) -> dict[str, Any]:
        return {
            "queries": [
                {"objective": self._query(number), "reasoning": "not known", "searchHints": []}
                for number in range(QUERIES)
            ],
            "insights": [
                {
                    "observation": self._insight(number),
                    "relevantNodeIds": [],
                    "synthesisDirection": "upwards",
                }
                for number in range(INSIGHTS)
            ],
        }

    def _research(self, number: int) -> list[dict[str, Any]]:
        searches = [f"lithium {self.tag} {number} {part}" for part in ("first", "second")]
        mark = f"{self.tag} mark {number}"
        return [
            always(Phase.KNOWLEDGE_ACQUISITION, searches[0], content=f"# Found {number}"),
            always(
                Phase.KNOWLEDGE_ACQUISITION,
                self._objective(number),
                tool_calls=[call("tavilySearch", query=query) for query in searches],
            ),
            always(Phase.GRAPH_CONSTRUCTION, mark, content="Added."),
            always(
                Phase.GRAPH_CONSTRUCTION,
                self._objective(number),
                tool_calls=[call("queryGraph", text=mark), *self._construction(number)],
            ),
        ]

    def _construction(self, number: int) -> list[dict[str, Any]]:
        makers = MAKERS[number]
        return [
            call(
                "createNodeType",
                name=NODE_TYPE,
                description="who makes things",
                propertiesSchema={"type": "object"},
                exampleProperties={"summary": "makes cells"},
                justification="No type fits.",
            ),
            call(
                "createEdgeType",
                name=EDGE_TYPE,
                description="delivers to",
                sourceTypes=[NODE_TYPE],
                targetTypes=[NODE_TYPE],
                justification="No type fits.",
            ),
            *(_node(name) for name in (HUB, *makers)),
            *(
                call(
                    "addGraphEdge",
                    type=EDGE_TYPE,
                    sourceId=self._id(name),
                    targetId=self._id(HUB),
                    properties={"summary": f"{name} supplies the hub"},
                    evidence=EVIDENCE,
                )
                for name in makers
            ),
        ]

    def _analysis(self, number: int) -> list[dict[str, Any]]:
        mark = f"{self.tag} mark insight {number}"
        name = _analysis_name(number)
        return [
            always(Phase.ANALYSIS_GENERATION, mark, content="Concluded."),
            always(
                Phase.ANALYSIS_GENERATION,
                self._observation(number),
                tool_calls=[
                    call("queryGraph", text=mark),
                    call(
                        "addAgentAnalysisNode",
                        name=name,
                        type="pattern",
                        summary="All roads lead to the hub.",
                        content=f"So says [node:{self._id(HUB)}], and [node:{self._id('Maker 0a')}].",
                        **ANALYSIS_TERMS,
                    ),
                    call(
                        "addGraphEdge",
                        type="about",
                        sourceId=self._id(name, ANALYSIS_TYPE),
                        targetId=self._id(HUB),
                    ),
                ],
            ),
        ]

    def _advice(self) -> list[dict[str, Any]]:
        mark = f"{self.tag} mark advice"
        cited = " ".join(
            f"[node:{self._id(_analysis_name(number), ANALYSIS_TYPE)}]"
            for number in range(INSIGHTS)
        )
        return [
            always(Phase.ADVICE_GENERATION, mark, content="Advised."),
            always(
                Phase.ADVICE_GENERATION,
                self.tag,
                tool_calls=[
                    call("queryGraph", text=mark),
                    call(
                        "addAgentAdviceNode",
                        name="Hold on",
                        action="HOLD",
                        summary="Do nothing yet.",
                        content=f"For {cited} say so.",
                        **ADVICE_TERMS,
                    ),
                ],
            ),
        ]

    def _id(self, name: str, type_name: str = NODE_TYPE) -> str:
        return str(ids.node_id(self.agent_id, type_name, name))


@dataclass(frozen=True)
class SlowMission(Mission):
    """Every call takes long enough for a test to see its step at work."""

    def add_latency(self, sandbox: Sandbox, seed: int) -> None:
        super().add_latency(sandbox, seed)
        sandbox.faults(
            {
                "kind": "latency",
                "contains": self.tag,
                "latency_seconds": SLOW_ANSWER_SECONDS,
                "always": True,
            }
        )


def _analysis_name(number: int) -> str:
    return f"Analysis {number}"


def _node(name: str) -> dict[str, Any]:
    return call(
        "addGraphNode",
        type=NODE_TYPE,
        name=name,
        properties={"summary": f"{name} is"},
        evidence=EVIDENCE,
    )


def call(tool: str, /, **arguments: Any) -> dict[str, Any]:
    return {"name": tool, "arguments": arguments}


def always(phase: Phase, contains: str, **answer: Any) -> dict[str, Any]:
    return {"phase": phase, "contains": contains, "times": None, **answer}
