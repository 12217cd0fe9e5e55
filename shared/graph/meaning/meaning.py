"""What is asked, as a vector."""

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from shared.graph.scope import Scope
from shared.graph.words import asked
from shared.store import embeddings, nearness
from shared.store.embeddings import EmbeddingRequest, Vector


@dataclass(frozen=True)
class Near:
    """What nodes are to be near to."""

    vector: Vector
    model: str
    least: float


@dataclass(frozen=True)
class Meaning:
    """By whom, and from which nearness on: the cosine of the two vectors, 0 to 1."""

    model: str
    least: float

    def request(self, text: str | None) -> EmbeddingRequest | None:
        """None where there is nothing in it."""
        words = asked(text or "")
        return None if words is None else EmbeddingRequest(self.model, (words.whole,))

    async def near(self, session: AsyncSession, scope: Scope, text: str | None) -> Near | None:
        """None where the ledger has no vector of it, or the server cannot compare any."""
        request = self.request(text)
        if request is None or not await nearness.is_there(session):
            return None
        found = await embeddings.find(session, scope.agent(), request)
        return None if found is None else Near(found[0], self.model, self.least)
