"""Knowledge acquisition: from a query to a Markdown document with its sources."""

from services.researcher.guard import reading
from services.researcher.prompts import acquisition_message
from services.researcher.situation import Situation
from shared.errors import PermanentError
from shared.llm.phase import Model, PhaseRun
from shared.llm.tool_loop import ToolLoop
from shared.search.client import SearchClient
from shared.search.tools import knowledge_acquisition
from shared.store.words import Phase


async def acquire(model: Model, search: SearchClient, situation: Situation) -> str:
    """The document. Raises PermanentError where the model wrote none."""
    message = acquisition_message(situation.agent.mission, situation.query, situation.graph_context)
    run = PhaseRun(model, situation.lease, situation.agent, Phase.KNOWLEDGE_ACQUISITION, message)
    loop = ToolLoop(run, knowledge_acquisition(search), guard=reading)
    document = await loop.last_words()
    if not document.strip():
        raise PermanentError("empty_answer", "knowledge acquisition ended without a document")
    return document
