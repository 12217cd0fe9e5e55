"""The call ledger: a call is written before it is sent, when it gets a reference, and when it is answered."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, Protocol, cast
from uuid import UUID

from sqlalchemy import Table, bindparam, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing import reservations
from shared.billing.reservations import Sending
from shared.database import ids
from shared.database.engine import Database
from shared.database.statements import Asked, Direct, RoundTrip
from shared.database.tables import Call
from shared.database.unit_of_work import Write
from shared.enums import CallKind, Phase
from shared.errors import TransientError

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


class StepIds(Protocol):
    """Of which step a call is; a lease has them."""

    @property
    def step_id(self) -> UUID: ...
    @property
    def agent_id(self) -> UUID: ...
    @property
    def iteration_id(self) -> UUID | None: ...


def new_row(step: StepIds, interaction_id: UUID, phase: Phase, request: CallRequest) -> NewRow:
    """The call's record as it begins."""
    return {
        "id": ids.call_id(step.step_id, request.hash),
        "agent_id": step.agent_id,
        "iteration_id": step.iteration_id,
        "step_id": step.step_id,
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


MAX_FAILURES: Final = 50
"""How many failed sendings of one call are described; later ones are booked all the same."""

Bounds = Mapping[UUID, Decimal]
"""The most that one sending of a call can cost (USD), by its id."""
Opened = tuple[Sequence[Call], Sequence[Sending]]
"""The calls as they stand, and what was reserved for them just now."""


def open_calls(
    trip: RoundTrip, agent_id: UUID, rows: Sequence[NewRow], bounds: Bounds
) -> Write[Opened]:
    """Writes what is not there yet, and reserves for all that were never sent what sending each once can cost.

    Where a cap is in the way nothing is reserved for any. Only the step's holder may call this: it is the only one who
    writes calls of the step. The calls are told by what is to be done when the trip was made.
    """
    told = [{**row, "usd": bounds[row["id"]]} for row in rows]
    given = reservations.wanted(agent_id, bounds)
    asked = Asked(_OPEN_PAID, {**given, "rows": json.dumps(told, default=str)}, list)
    written = trip.ask(asked)

    async def opened(session: AsyncSession) -> Opened:
        if not written.value:
            return await _as_they_stand(session, agent_id, rows, bounds)
        on = await reservations.reserved_on(session, given, written.value[0])
        if on is None:
            return [Call(**row, sendings=0) for row in rows], ()
        calls = [
            Call(**row, sendings=1, reserved_usd=bounds[row["id"]], reserved_on=on) for row in rows
        ]
        return calls, [Sending(call.id, agent_id, 1, on, bounds[call.id]) for call in calls]

    return opened


def answer_paid_call(
    trip: RoundTrip, sending: Sending, answer: CallAnswer, *, is_billed: bool
) -> Write[None]:
    """Records the first answer, and that the sending has cost what it says; nothing where it was not billed.

    A later answer to the same call changes nothing, nor does a sending that was settled before.
    """
    closing = (
        reservations.settled(sending, answer.cost_usd)
        if is_billed
        else reservations.released(sending)
    )
    given = {
        **closing,
        "answer": json.dumps(answer.content),
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "cost_usd": answer.cost_usd,
    }
    both = trip.ask(Asked(_ANSWER_PAID, given, bool))

    async def each(session: AsyncSession) -> None:
        if not both.value:
            # One of the two was done before: each by itself, then.
            await answer_call(session, sending.call_id, answer)
            await reservations.close(session, closing)

    return each


@dataclass(frozen=True)
class Failure:
    """What is recorded of a sending that brought no usable answer."""

    kind: str
    error: str
    said: str
    """The beginning of what the server said."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: Decimal | None = None
    """None where the server did not say what it took."""


async def fail_sending(
    session: AsyncSession, sending: Sending, epoch: int, failure: Failure
) -> dict[str, Any] | None:
    """Records that a sending is over and has cost what it says, without an answer: the call may be sent again.

    Returns the record; None where the sending was settled before. `epoch` is that of the step's lease.
    """
    failed = {
        "at": datetime.now(UTC).isoformat(),
        "epoch": epoch,
        **{name: value for name, value in vars(failure).items() if name != "cost_usd"},
        "cost_usd": None if failure.cost_usd is None else str(failure.cost_usd),
    }
    given = {**reservations.failed(sending, failure.cost_usd), "failure": json.dumps([failed])}
    return failed if await _FAIL.rows(session, given) else None


def was_never_sent(call: Call) -> bool:
    """Then what is reserved for it now is for its first sending."""
    return call.answered_at is None and call.sendings == 0


async def _as_they_stand(
    session: AsyncSession, agent_id: UUID, rows: Sequence[NewRow], bounds: Bounds
) -> Opened:
    calls = [await open_call(session, row) for row in rows]
    unsent = {call.id: bounds[call.id] for call in calls if was_never_sent(call)}
    reserved = await reservations.reserve(session, agent_id, unsent) if unsent else None
    return calls, reserved or ()


_OPEN_PAID: Final = Direct(f"""
with {reservations.budget_where("not exists (select from calls where id = any(cast(:ids as uuid[])))")},
{reservations.RESERVING},
opened as (
  insert into calls (id, agent_id, iteration_id, step_id, interaction_id, kind, phase, model,
    request_hash, request, sendings, reserved_usd, reserved_on, sent_at)
  select told.id, told.agent_id, told.iteration_id, told.step_id, told.interaction_id, told.kind,
    told.phase, told.model, told.request_hash, told.request,
    case when of_installation.day is null then 0 else 1 end,
    case when of_installation.day is null then null else told.usd end, of_installation.day,
    case when of_installation.day is not null then clock_timestamp() end
  from budget cross join jsonb_to_recordset(cast(:rows as jsonb)) as told (
    id uuid, agent_id uuid, iteration_id uuid, step_id uuid, interaction_id uuid, kind text,
    phase text, model text, request_hash text, request jsonb, usd numeric)
  left join of_installation on true
  returning id
)
select of_agent.day as agent_day, of_installation.day as installation_day
from opened left join of_agent on true left join of_installation on true
""")

_FAIL: Final = Direct(f"""
with closed as (
  update calls
  set failures = case when jsonb_array_length(failures) < {MAX_FAILURES}
      then failures || cast(:failure as jsonb) else failures end,
    reserved_usd = null, reserved_on = null, presumed_usd = presumed_usd + :presumed_usd
  where id = :call and sendings = :number and reserved_on is not null
  returning id
),
{reservations.SETTLING}
select id from closed
""")

_ANSWER_PAID: Final = Direct(f"""
with closed as (
  update calls
  set answer = cast(:answer as jsonb), input_tokens = :input_tokens,
    output_tokens = :output_tokens, cost_usd = :cost_usd, answered_at = clock_timestamp(),
    reserved_usd = null, reserved_on = null, presumed_usd = presumed_usd + :presumed_usd
  where id = :call and sendings = :number and reserved_on is not null and answered_at is null
  returning id
),
{reservations.SETTLING}
select id from closed
""")
