"""Graph construction: from a document to nodes and edges."""

from dataclasses import dataclass

from services.researcher.acquire import Acquired
from services.researcher.prompts import construction_message
from services.researcher.situation import Situation
from shared.graph.tools import Tools
from shared.llm.phase import Model, PhaseRun
from shared.llm.tool_loop import ToolLoop
from shared.store.words import Phase


@dataclass(frozen=True)
class Written:
    """How many different nodes and edges were added or added to."""

    nodes: int
    edges: int


async def construct(
    model: Model, situation: Situation, acquired: Acquired, tools: Tools
) -> Written:
    message = construction_message(
        situation.agent.mission,
        situation.query,
        acquired.document,
        acquired.sources,
        situation.graph_context,
    )
    run = PhaseRun(model, situation.lease, situation.agent, Phase.GRAPH_CONSTRUCTION, message)
    loop = ToolLoop(run, tools)
    await loop.last_words()
    return Written(
        nodes=len({result["nodeId"] for result in loop.results_of("addGraphNode")}),
        edges=len({result["edgeId"] for result in loop.results_of("addGraphEdge")}),
    )
