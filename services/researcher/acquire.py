"""Knowledge acquisition: from a query to a Markdown document with its sources."""

from dataclasses import dataclass
from functools import partial

from sqlalchemy.ext.asyncio import AsyncSession

from services.researcher.guard import reading
from services.researcher.prompts import acquisition_message
from services.researcher.situation import Situation
from services.researcher.sources import told
from shared.errors import PermanentError
from shared.graph.scope import Scope
from shared.graph.sources import keep_pages
from shared.llm.phase import Model, PhaseRun
from shared.llm.tool_loop import ToolLoop
from shared.search.client import SearchClient
from shared.search.tools import knowledge_acquisition
from shared.store.words import Phase
from shared.tools import Json


@dataclass(frozen=True)
class Acquired:
    document: str
    sources: str
    """The pages that this step was brought, by address, title and date: all that can be named as evidence of it."""


async def acquire(model: Model, search: SearchClient, situation: Situation) -> Acquired:
    """Raises PermanentError where the model wrote no document. Every page that was brought is kept."""
    message = acquisition_message(situation.agent.mission, situation.query, situation.graph_context)
    run = PhaseRun(
        model,
        situation.lease,
        situation.agent,
        Phase.KNOWLEDGE_ACQUISITION,
        message,
        context=situation.graph_context,
    )
    keep = partial(_keep, situation.scope)
    loop = ToolLoop(run, knowledge_acquisition(search, keep), guard=reading)
    document = await loop.last_words()
    if not document.strip():
        raise PermanentError("empty_answer", "knowledge acquisition ended without a document")
    brought = [
        page
        for tool in ("tavilySearch", "tavilyExtract")
        for answer in loop.results_of(tool)
        for page in answer["results"]
    ]
    return Acquired(document, told(brought))


async def _keep(scope: Scope, session: AsyncSession, answer: Json) -> None:
    await keep_pages(session, scope, answer)
