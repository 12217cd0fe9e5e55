"""Embeddings of texts: the request to the model, the format in the ledger, and the lookup of earlier answers."""

import base64
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final
from uuid import UUID

from shared.billing.call_ledger import CallRequest
from shared.database.statements import CompiledStatement, Executor
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

    @cached_property
    def call(self) -> CallRequest:
        # The ledger's index of embeddings selects calls by this key.
        summary = {"embeds": len(self.texts)}
        return CallRequest(CallKind.LLM, self.body, summary, self.model, max_output_tokens=0)


def encode_vectors(vectors: Sequence[Vector]) -> dict[str, Any]:
    """Encodes vectors for the ledger: in the order of the texts, without loss of precision."""
    return {"vectors": [base64.b64encode(_PACKED.pack(*vector)).decode() for vector in vectors]}


def decode_vectors(answer: dict[str, Any]) -> list[Vector]:
    return [_PACKED.unpack(base64.b64decode(vector)) for vector in answer["vectors"]]


_ANSWER: Final = CompiledStatement("""
select answer from calls
where agent_id = (
    select id from agents
    where id = :agent_id and owner_id = coalesce(cast(:owner_id as uuid), owner_id))
  and request_hash = :hash and request ? 'embeds' and answered_at is not null and answer is not null
limit 1
""")


async def find_vectors(
    transaction: Executor,
    agent_id: UUID,
    request: EmbeddingRequest,
    *,
    owner_id: UUID | None = None,
) -> list[Vector] | None:
    """Returns the vectors that any step of the agent received for the same request; None if there are none, or if the
    agent has another owner than the given one.
    """
    params = {"agent_id": agent_id, "owner_id": owner_id, "hash": request.call.hash}
    answer = await _ANSWER.value(transaction, params)
    return None if answer is None else decode_vectors(answer)
