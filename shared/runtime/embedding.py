"""Nodes get their vectors: at the end of a step that writes, when what it came to is already in the graph."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.meaning import Meaning
from shared.graph.meaning.due import Due, of_step, sweep
from shared.graph.scope import Scope
from shared.llm.embedding import Came, Embeddings
from shared.store.embeddings import Vector

Keep = Callable[[Due, AsyncSession, Sequence[Vector]], Awaitable[None]]


async def embed_nodes(
    embeddings: Embeddings | None,
    scope: Scope,
    meaning: Meaning | None,
    own: Sequence[UUID],
    *,
    sweeps: bool,
) -> None:
    """For `own`, which the step has written, and then, where it `sweeps`, for others that have none yet.

    Does nothing where embeddings are not configured; where they fail, a later step sees to the same nodes.
    """
    if meaning is None or embeddings is None:
        return
    async with embeddings.run.transaction() as session:
        batches = await of_step(session, scope, meaning, own)
    await _embed(embeddings, batches, Due.keep)
    if sweeps:
        await _sweep(embeddings, scope, meaning)


async def _sweep(embeddings: Embeddings, scope: Scope, meaning: Meaning) -> None:
    async with embeddings.run.transaction() as session:
        swept = await sweep(session, scope, meaning)
    if swept is not None and await _embed(embeddings, swept.batches, swept.keep):
        await embeddings.run.record(swept.end)


async def _embed(embeddings: Embeddings, batches: Sequence[Due], keep: Keep) -> bool:
    """Whether all were seen to, in their order. A text that is refused is left out, but not where none is taken: then
    it is not the texts that are at fault.
    """
    left, has_kept, was_refused = deque(batches), False, False
    while left:
        batch = left.popleft()
        match await embeddings.kept(batch.request, partial(keep, batch)):
            case Came.KEPT:
                has_kept = True
            case Came.REFUSED:
                was_refused = True
                left.extendleft(reversed(batch.halves))
            case Came.FAILED:
                return False
    return has_kept or not was_refused
