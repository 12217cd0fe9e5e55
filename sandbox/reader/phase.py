"""Which phase a request belongs to, told by what it offers, and who answers it."""

from collections.abc import Callable, Mapping
from enum import StrEnum

from sandbox.reader.acquire import acquire
from sandbox.reader.advise import advise
from sandbox.reader.analyze import analyze
from sandbox.reader.answer import Answer
from sandbox.reader.configure import configure
from sandbox.reader.configure.foreseen import Search, nowhere
from sandbox.reader.construct import construct
from sandbox.reader.converse import converse
from sandbox.reader.observe import observe
from sandbox.reader.request import ChatRequest

OBSERVER_SCHEMA = "observer_plan"


class Phase(StrEnum):
    """What a request wants done."""

    OBSERVER = "observer"
    KNOWLEDGE_ACQUISITION = "knowledge_acquisition"
    GRAPH_CONSTRUCTION = "graph_construction"
    ANALYSIS_GENERATION = "analysis_generation"
    ADVICE_GENERATION = "advice_generation"
    CONFIGURATION = "configuration"
    """Any other answer by a schema."""
    CONVERSATION = "conversation"
    """Anything else."""


BY_TOOL: tuple[tuple[str, Phase], ...] = (
    ("addAgentAdviceNode", Phase.ADVICE_GENERATION),
    ("addAgentAnalysisNode", Phase.ANALYSIS_GENERATION),
    ("addGraphNode", Phase.GRAPH_CONSTRUCTION),
    ("queryGraph", Phase.CONVERSATION),
    ("tavilySearch", Phase.KNOWLEDGE_ACQUISITION),
)
"""The first tool that is offered decides."""

READERS: Mapping[Phase, Callable[[ChatRequest], Answer]] = {
    Phase.OBSERVER: observe,
    Phase.KNOWLEDGE_ACQUISITION: acquire,
    Phase.GRAPH_CONSTRUCTION: construct,
    Phase.ANALYSIS_GENERATION: analyze,
    Phase.ADVICE_GENERATION: advise,
    Phase.CONVERSATION: converse,
}


def phase_of(request: ChatRequest) -> Phase:
    """Told by the schema or the tools offered, never by a mark in the text."""
    if request.schema_name == OBSERVER_SCHEMA:
        return Phase.OBSERVER
    for tool, phase in BY_TOOL:
        if tool in request.offered:
            return phase
    return Phase.CONVERSATION if request.schema is None else Phase.CONFIGURATION


def read(request: ChatRequest, search: Search = nowhere) -> Answer:
    """The answer to a request of any phase; types are chosen by what `search` finds."""
    phase = phase_of(request)
    if phase is Phase.CONFIGURATION:
        return configure(request, search)
    return READERS[phase](request)
