"""The phase of a request, decided by its schema and tools, and the module that answers it."""

from collections.abc import Callable, Mapping
from enum import StrEnum

from sandbox.model.acquire import acquire
from sandbox.model.advise import advise
from sandbox.model.analyze import analyze
from sandbox.model.configure import configure
from sandbox.model.construct import construct
from sandbox.model.converse import converse
from sandbox.model.observe import observe
from sandbox.model.read import read
from sandbox.model.request import Answer, ChatRequest

OBSERVER_SCHEMA = "observer_plan"
READING_SCHEMA = "verification"


class Phase(StrEnum):
    """The phase of a request."""

    OBSERVER = "observer"
    KNOWLEDGE_ACQUISITION = "knowledge_acquisition"
    GRAPH_CONSTRUCTION = "graph_construction"
    ANALYSIS_GENERATION = "analysis_generation"
    ADVICE_GENERATION = "advice_generation"
    VERIFICATION = "verification"
    CONFIGURATION = "configuration"
    """Any other request with a schema."""
    CONVERSATION = "conversation"
    """Any other request."""


PHASE_BY_TOOL: tuple[tuple[str, Phase], ...] = (
    ("addAgentAdviceNode", Phase.ADVICE_GENERATION),
    ("addAgentAnalysisNode", Phase.ANALYSIS_GENERATION),
    ("addGraphNode", Phase.GRAPH_CONSTRUCTION),
    ("queryGraph", Phase.CONVERSATION),
    ("tavilySearch", Phase.KNOWLEDGE_ACQUISITION),
)
"""The first offered tool decides."""

ANSWER_BY_PHASE: Mapping[Phase, Callable[[ChatRequest], Answer]] = {
    Phase.OBSERVER: observe,
    Phase.KNOWLEDGE_ACQUISITION: acquire,
    Phase.GRAPH_CONSTRUCTION: construct,
    Phase.ANALYSIS_GENERATION: analyze,
    Phase.ADVICE_GENERATION: advise,
    Phase.VERIFICATION: read,
    Phase.CONFIGURATION: configure,
    Phase.CONVERSATION: converse,
}


def phase_of(request: ChatRequest) -> Phase:
    """The phase, decided by the schema or the offered tools, never by the text."""
    if request.schema_name == OBSERVER_SCHEMA:
        return Phase.OBSERVER
    if request.schema_name == READING_SCHEMA:
        return Phase.VERIFICATION
    for tool, phase in PHASE_BY_TOOL:
        if tool in request.offered_tools:
            return phase
    return Phase.CONVERSATION if request.schema is None else Phase.CONFIGURATION


def answer_request(request: ChatRequest) -> Answer:
    """Answer a request of any phase."""
    return ANSWER_BY_PHASE[phase_of(request)](request)
