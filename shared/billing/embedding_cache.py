"""Texts as vectors: how a model is asked for them, how the ledger keeps them, and where they are found again."""

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
    """Everything that decides the vectors: asked twice, it is the same call."""

    model: str
    texts: tuple[str, ...]

    @property
    def body(self) -> dict[str, Any]:
        """As a model server takes it."""
        return {"model": self.model, "input": list(self.texts), "dimensions": DIMENSIONS}

    def as_call(self) -> CallRequest:
        # By this word the ledger's index of embeddings knows them.
        summary = {"embeds": len(self.texts)}
        return CallRequest(CallKind.LLM, self.body, summary, self.model, most_output_tokens=0)


def kept(vectors: Sequence[Vector]) -> dict[str, Any]:
    """An answer as the ledger keeps it: in the order of the texts, exact to the bit."""
    return {"vectors": [base64.b64encode(_PACKED.pack(*each)).decode() for each in vectors]}


def restored(answer: dict[str, Any]) -> list[Vector]:
    return [_PACKED.unpack(base64.b64decode(each)) for each in answer["vectors"]]


async def find(
    session: AsyncSession, agent: UUID | ScalarSelect[UUID], request: EmbeddingRequest
) -> list[Vector] | None:
    """What any step of the agent was answered to the same."""
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
    return None if answer is None else restored(answer)
