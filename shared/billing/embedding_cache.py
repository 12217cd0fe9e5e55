"""Embeddings of texts: the request to the model, the format in the ledger, and the lookup of earlier answers."""

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ScalarSelect, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing.call_ledger import CallRequest
from shared.database.tables import Call
from shared.database.tables.graph import DIMENSIONS
from shared.enums import CallKind

Vector = Sequence[float]

_PACKED: Final = struct.Struct(f"<{DIMENSIONS}f")


@dataclass(frozen=True)
class EmbeddingRequest:
    """Everything that determines the vectors. Equal requests are the same call in the ledger."""

    model: str
    texts: tuple[str, ...]

    @property
    def body(self) -> dict[str, Any]:
        """The request body for a model server."""
        return {"model": self.model, "input": list(self.texts), "dimensions": DIMENSIONS}

    def as_call(self) -> CallRequest:
        # The ledger's index of embeddings selects calls by this key.
        summary = {"embeds": len(self.texts)}
        return CallRequest(CallKind.LLM, self.body, summary, self.model, max_output_tokens=0)


def encode_vectors(vectors: Sequence[Vector]) -> dict[str, Any]:
    """Encodes vectors for the ledger: in the order of the texts, without loss of precision."""
    return {"vectors": [base64.b64encode(_PACKED.pack(*vector)).decode() for vector in vectors]}


def decode_vectors(answer: dict[str, Any]) -> list[Vector]:
    return [_PACKED.unpack(base64.b64decode(vector)) for vector in answer["vectors"]]


async def find_vectors(
    session: AsyncSession, agent: UUID | ScalarSelect[UUID], request: EmbeddingRequest
) -> list[Vector] | None:
    """Returns the vectors that any step of the agent received for the same request; None if there are none."""
    answer = await session.scalar(
        select(Call.answer)
        .where(
            Call.agent_id == agent,
            Call.request_hash == request.as_call().hash,
            text("request ? 'embeds'"),
            Call.answered_at.is_not(None),
        )
        .limit(1)
    )
    return None if answer is None else decode_vectors(answer)
