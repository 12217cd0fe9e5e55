"""Nodes get their vectors: at the end of a step that writes, when what it came to is already in the graph."""

from collections.abc import Sequence
from uuid import UUID

from shared.graph.meaning import Meaning
from shared.graph.meaning.due import due
from shared.graph.scope import Scope
from shared.llm.embedding import Embeddings
from shared.llm.phase import PhaseRun


async def embed_nodes(
    run: PhaseRun, scope: Scope, meaning: Meaning | None, own: Sequence[UUID], *, sweeps: bool
) -> None:
    """By one call for `own`, which the step has written, and, where it `sweeps`, for others that have none yet.

    Does nothing where embeddings are not configured; where they fail, a later step sees to the same nodes.
    """
    if meaning is None or run.embedder is None:
        return
    async with run.transaction() as session:
        found = await due(session, scope, meaning, own, sweeps=sweeps)
        if found is not None and not found.nodes:
            await found.note(session)
    if found is not None and found.nodes:
        await Embeddings(run, run.embedder).kept(found.request, found.keep)
