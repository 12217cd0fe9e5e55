"""The scripted model and search service of a simulation. What they answer depends on the request alone."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any, Final, Self
from uuid import UUID

from shared.billing.resumable_call import ResumableCall
from shared.database import ids
from shared.enums import Phase
from shared.errors import PermanentError, TransientError, UnavailableError
from shared.llm.messages import ChatAnswer, ChatRequest, ToolCall, assistant_message
from shared.llm.provider import OnDelta
from shared.web_search.client import SearchClient
from tests.support.simulation.faults import Faults

MODEL: Final = "scripted"
PRICE: Final = (10.0, 100.0)
"""USD for a million tokens, of input and output."""
MAX_OUTPUT_TOKENS: Final = 400
SEARCH_USD: Final = Decimal("0.008")
QUERIES: Final = 2
INSIGHTS: Final = 2
NODE_TYPE: Final = "Maker"
EDGE_TYPE: Final = "supplies"
HUB: Final = "Hub"
ANSWER_SECONDS: Final = 0.05
SLOW_SECONDS: Final = 5.0
"""Mean times of half a call."""
PAGE: Final = {
    "title": "Who supplies the hub",
    "url": "https://supplies.example/lithium",
    "content": "The Hub gets lithium from Maker 0, Maker 1, Maker 2 and Maker 3.",
    "published_date": "2026-03-01",
    "score": 0.9,
}
EVIDENCE: Final = [{"sourceUrl": PAGE["url"], "quote": PAGE["content"]}]


@dataclass(frozen=True)
class Payment:
    """One answered request. `key` names its call, except for a search."""

    agent_id: UUID
    key: str
    usd: Decimal


@dataclass
class Script:
    """Answers the requests of all agents, and records what they paid."""

    chance: Random
    faults: Faults
    iteration_of: Callable[[UUID], int]
    """The number of an agent's newest iteration."""
    trace: Callable[[str], None]
    refused: set[str] = field(default_factory=set)
    """Marks of the tasks that the model refuses for good."""
    agents: dict[str, UUID] = field(default_factory=dict)
    """Agents by the name in their searches."""
    payments: list[Payment] = field(default_factory=list)
    watch: Callable[[Payment], None] = lambda payment: None
    """Called with each payment when it is made."""

    def pay(self, agent_id: UUID, key: str, usd: Decimal) -> None:
        payment = Payment(agent_id, key, usd)
        self.watch(payment)
        self.payments.append(payment)

    async def wait(self) -> None:
        seconds = SLOW_SECONDS if self.faults.happens("slow answer") else ANSWER_SECONDS
        await asyncio.sleep(self.chance.expovariate(1 / seconds))

    def answer(self, request: ChatRequest) -> tuple[str | None, Sequence[ToolCall]]:
        """The text and the tool calls."""
        agent, _, phase = str(request.cache_key).partition(":")
        agent_id = UUID(agent)
        task = str(request.messages[1]["content"])
        turn = sum(message["role"] == "assistant" for message in request.messages)
        match Phase(phase):
            case Phase.OBSERVER:
                return json.dumps(self._plan(agent_id)), ()
            case Phase.KNOWLEDGE_ACQUISITION if turn == 0:
                return None, _calls([("tavilySearch", {"query": f"lithium {_mark(task)}"})])
            case Phase.GRAPH_CONSTRUCTION if turn == 0:
                return None, _calls(_construction(agent_id, int(_mark(task).split()[-1])))
            case Phase.ANALYSIS_GENERATION if turn == 0:
                return None, _calls([_analysis(agent_id, _mark(task))])
            case Phase.ADVICE_GENERATION if turn == 0:
                number = self.iteration_of(agent_id)
                return None, _calls([_advice(agent_id, number)])
            case _:
                return "Done.", ()

    def _plan(self, agent_id: UUID) -> dict[str, Any]:
        name = f"{agent_id.hex[:8]}-{self.iteration_of(agent_id)}"
        return {
            "queries": [
                {"objective": f"Who? {name} query {number}", "reasoning": "", "searchHints": []}
                for number in range(QUERIES)
            ],
            "insights": [
                {
                    "observation": f"What? {name} insight {number}",
                    "relevantNodeIds": [],
                    "synthesisDirection": "",
                }
                for number in range(INSIGHTS)
            ],
        }


@dataclass(frozen=True)
class ScriptedProvider:
    script: Script

    async def complete(
        self, request: ChatRequest, in_flight: ResumableCall, on_delta: OnDelta | None = None
    ) -> ChatAnswer:
        script = self.script
        async with in_flight.attempt():
            await script.wait()
            if script.faults.happens("model unavailable"):
                raise UnavailableError("the model is busy", retry_in_seconds=1.0, is_unbilled=True)
            if _mark(str(request.messages[1]["content"])) in script.refused:
                raise PermanentError(
                    "refused_request", "the model refuses the request", is_unbilled=True
                )
            text, calls = script.answer(request)
            input_tokens = len(str(request.messages)) // 10
            output_tokens = 20 + len(calls)
            usd = (input_tokens * Decimal(PRICE[0]) + output_tokens * Decimal(PRICE[1])) / 10**6
            agent = str(request.cache_key).partition(":")[0]
            script.trace(f"paid {usd} for {in_flight.key}")
            script.pay(UUID(agent), in_flight.key, usd)
            if script.faults.happens("answer lost"):
                raise TransientError("the answer was lost")
            await script.wait()
            return ChatAnswer(
                assistant_message(text, calls),
                "tool_calls" if calls else "stop",
                input_tokens,
                output_tokens,
            )

    async def close(self) -> None:
        """Nothing is open."""


class ScriptedSearch(SearchClient):
    def __init__(self, script: Script) -> None:
        self._script = script

    def of_corpus(self, corpus: str | None) -> Self:
        return self

    async def search(
        self,
        query: str,
        *,
        max_results: int,
        topic: str | None,
        time_range: str | None,
        exclude_domains: Sequence[str] = (),
        archive_date: date | None = None,
    ) -> dict[str, Any]:
        script = self._script
        await script.wait()
        agent = query.split()[1].partition("-")[0]
        script.trace(f"search {query}")
        script.pay(script.agents[agent], f"search {query}", SEARCH_USD)
        if script.faults.happens("answer lost"):
            raise TransientError("the answer was lost")
        return {"results": [dict(PAGE)]}

    async def close(self) -> None:
        """Nothing is open."""


def _task_line(task: str) -> str:
    return next(
        (line for line in task.splitlines() if line.startswith(("Objective: ", "Observation: "))),
        "",
    )


def _mark(task: str) -> str:
    """The name of the query or insight in its prompt: "AGENT-ITERATION query 1"."""
    return _task_line(task).partition("? ")[2]


def _calls(calls: Sequence[tuple[str, dict[str, Any]]]) -> list[ToolCall]:
    return [
        ToolCall(f"call{number}", name, json.dumps(arguments))
        for number, (name, arguments) in enumerate(calls)
    ]


def _construction(agent_id: UUID, number: int) -> list[tuple[str, dict[str, Any]]]:
    maker = f"Maker {number}"
    node_type = {
        "name": NODE_TYPE,
        "description": "who makes things",
        "propertiesSchema": {"type": "object"},
        "exampleProperties": {"summary": "makes cells"},
        "justification": "No type fits.",
    }
    edge_type = {
        "name": EDGE_TYPE,
        "description": "delivers to",
        "sourceTypes": [NODE_TYPE],
        "targetTypes": [NODE_TYPE],
        "justification": "No type fits.",
    }
    nodes = [
        {"type": NODE_TYPE, "name": name, "properties": {}, "evidence": EVIDENCE}
        for name in (HUB, maker)
    ]
    edge = {
        "type": EDGE_TYPE,
        "sourceId": _node_id(agent_id, maker),
        "targetId": _node_id(agent_id, HUB),
        "properties": {},
        "evidence": EVIDENCE,
    }
    return [
        ("createNodeType", node_type),
        ("createEdgeType", edge_type),
        *(("addGraphNode", node) for node in nodes),
        ("addGraphEdge", edge),
    ]


def _analysis(agent_id: UUID, mark: str) -> tuple[str, dict[str, Any]]:
    conclusion = {
        "name": f"Analysis {mark.partition('-')[2]}",
        "type": "pattern",
        "summary": "All roads lead to the hub.",
        "content": f"So says [node:{_node_id(agent_id, HUB)}].",
        "confidence": 0.5,
    }
    return "addAgentAnalysisNode", conclusion


def _advice(agent_id: UUID, number: int) -> tuple[str, dict[str, Any]]:
    cited = _node_id(agent_id, HUB)
    advice = {
        "name": f"Hold on {number}",
        "action": "HOLD",
        "summary": "Do nothing yet.",
        "content": f"For [node:{cited}] says so.",
        "confidence": 0.5,
        "horizon": "2099-12-31",
        "invalidation": "Figures of the next quarter that tell of the contrary.",
    }
    return "addAgentAdviceNode", advice


def _node_id(agent_id: UUID, name: str, type_name: str = NODE_TYPE) -> str:
    return str(ids.node_id(agent_id, type_name, name))
