"""The call ledger: written before a call is sent, when the other side names it, and when it is answered."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, cast
from uuid import UUID

from sqlalchemy import Table, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.errors import TransientError
from shared.store import ids
from shared.store.database import Database
from shared.store.direct import Direct
from shared.store.leases import Lease
from shared.store.tables import Call
from shared.store.words import CallKind, Phase

_CALLS: Final = cast(Table, Call.__table__)
_OPEN: Final = Direct(
    insert(_CALLS).on_conflict_do_nothing().returning(_CALLS),
    columns=(
        "id", "agent_id", "iteration_id", "step_id", "interaction_id", "kind", "phase", "model",
        "request_hash", "request",
    ),
)  # fmt: skip
_OF_CALL: Final = _CALLS.c.id == bindparam("of_call")
_FIND: Final = Direct(select(_CALLS).where(_OF_CALL))
_ANSWER: Final = Direct(
    update(_CALLS)
    .where(_OF_CALL, _CALLS.c.answered_at.is_(None))
    .values(answered_at=func.clock_timestamp()),
    columns=("answer", "input_tokens", "output_tokens", "cost_usd"),
)
_PROGRESS: Final = Direct(
    update(_CALLS)
    .where(_OF_CALL, _CALLS.c.answered_at.is_(None))
    .values(progressed_at=func.clock_timestamp()),
    columns=("received_chars",),
)


NewRow = Mapping[str, Any]
"""A record by its columns."""


@dataclass(frozen=True)
class CallRequest:
    """A call about to be made. `content` is everything that decides the answer; `summary` is what people see of it."""

    kind: CallKind
    content: dict[str, Any]
    summary: dict[str, Any]
    model: str | None = None
    operation: str | None = None
    """Of a search: what its price is listed under."""
    most_output_tokens: int | None = None
    """That the answer can take; None where its phase says that."""

    @cached_property
    def canonical(self) -> bytes:
        """The request as JSON, the same for the same content."""
        return json.dumps(
            [self.kind, self.content], sort_keys=True, separators=(",", ":"), ensure_ascii=False
        ).encode()

    @cached_property
    def hash(self) -> str:
        """sha256 of it, in hex."""
        return hashlib.sha256(self.canonical).hexdigest()


@dataclass(frozen=True)
class CallAnswer:
    """An answer as the ledger keeps it; `content` is JSON. Costs are None where they are not known."""

    content: dict[str, Any]
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: Decimal | None = None


def new_row(lease: Lease, interaction_id: UUID, phase: Phase, request: CallRequest) -> NewRow:
    """The call's record as it begins."""
    return {
        "id": ids.call_id(lease.step_id, request.hash),
        "agent_id": lease.agent_id,
        "iteration_id": lease.iteration_id,
        "step_id": lease.step_id,
        "interaction_id": interaction_id,
        "kind": request.kind,
        "phase": phase,
        "model": request.model,
        "request_hash": request.hash,
        "request": request.summary,
    }


async def open_call(session: AsyncSession, row: NewRow) -> Call:
    """The call's record, new or as it stands. One that has `answered_at` must not be sent again."""
    found = await _OPEN.row(session, row) or await _FIND.row(session, {"of_call": row["id"]})
    return Call(**found._asdict())


async def refer_call(session: AsyncSession, call_id: UUID, reference: str) -> None:
    """Records what the other side calls it, so that whoever resumes asks for that instead of sending again."""
    await session.execute(
        update(Call)
        .where(Call.id == call_id, Call.answered_at.is_(None))
        .values(provider_ref=reference)
    )


async def report_progress(database: Database, call_id: UUID, received_chars: int) -> None:
    """Records at once how many characters of the answer have come so far, unless it was answered meanwhile.

    Where PostgreSQL is away, nothing is recorded: the next report says the same and more, and the answer goes on.
    """
    with suppress(TransientError):
        async with database.transaction() as session:
            await _PROGRESS.run(session, {"of_call": call_id, "received_chars": received_chars})


async def answer_call(session: AsyncSession, call_id: UUID, answer: CallAnswer) -> None:
    """Records the first answer; a later one to the same call changes nothing."""
    given = {
        "of_call": call_id,
        "answer": answer.content,
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "cost_usd": answer.cost_usd,
    }
    await _ANSWER.run(session, given)
