"""Calls with what they cost, each step in one statement: asked and reserved for, answered and settled.

A call's row stands in six indexes, and each of its versions in all of them: so it is written when it is asked, and when it
is answered; besides, while a long answer comes in, every few seconds (`ledger.report_progress`), in columns that no index
has. Both come at the end of a transaction, because the days' rows do: see `books`.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.store import ledger
from shared.store.budgets import books, days
from shared.store.budgets.books import Sending
from shared.store.direct import Direct
from shared.store.ledger import CallAnswer, NewRow
from shared.store.round_trip import Asked, RoundTrip
from shared.store.tables import Call
from shared.store.unit_of_work import Write

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
    given = books.wanted(agent_id, bounds)
    asked = Asked(_OPEN, {**given, "rows": json.dumps(told, default=str)}, list)
    written = trip.ask(asked)

    async def opened(session: AsyncSession) -> Opened:
        if not written.value:
            return await _as_they_stand(session, agent_id, rows, bounds)
        on = await books.reserved_on(session, given, written.value[0])
        if on is None:
            return [Call(**row, sendings=0) for row in rows], ()
        calls = [
            Call(**row, sendings=1, reserved_usd=bounds[row["id"]], reserved_on=on) for row in rows
        ]
        return calls, [Sending(call.id, agent_id, 1, on, bounds[call.id]) for call in calls]

    return opened


def answer_call(
    trip: RoundTrip, sending: Sending, answer: CallAnswer, *, is_billed: bool
) -> Write[None]:
    """Records the first answer, and that the sending has cost what it says; nothing where it was not billed.

    A later answer to the same call changes nothing, nor does a sending that was settled before.
    """
    closing = books.settled(sending, answer.cost_usd) if is_billed else books.released(sending)
    given = {
        **closing,
        "answer": json.dumps(answer.content),
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "cost_usd": answer.cost_usd,
    }
    both = trip.ask(Asked(_ANSWER, given, bool))

    async def each(session: AsyncSession) -> None:
        if not both.value:
            # One of the two was done before: each by itself, then.
            await ledger.answer_call(session, sending.call_id, answer)
            await books.close(session, closing)

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
    given = {**books.failed(sending, failure.cost_usd), "failure": json.dumps([failed])}
    return failed if await _FAIL.rows(session, given) else None


def was_never_sent(call: Call) -> bool:
    """Then what is reserved for it now is for its first sending."""
    return call.answered_at is None and call.sendings == 0


async def _as_they_stand(
    session: AsyncSession, agent_id: UUID, rows: Sequence[NewRow], bounds: Bounds
) -> Opened:
    calls = [await ledger.open_call(session, row) for row in rows]
    unsent = {call.id: bounds[call.id] for call in calls if was_never_sent(call)}
    reserved = await books.reserve(session, agent_id, unsent) if unsent else None
    return calls, reserved or ()


_OPEN: Final = Direct(f"""
with {days.budget_where("not exists (select from calls where id = any(cast(:ids as uuid[])))")},
{days.RESERVING},
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
{days.SETTLING}
select id from closed
""")

_ANSWER: Final = Direct(f"""
with closed as (
  update calls
  set answer = cast(:answer as jsonb), input_tokens = :input_tokens,
    output_tokens = :output_tokens, cost_usd = :cost_usd, answered_at = clock_timestamp(),
    reserved_usd = null, reserved_on = null, presumed_usd = presumed_usd + :presumed_usd
  where id = :call and sendings = :number and reserved_on is not null and answered_at is null
  returning id
),
{days.SETTLING}
select id from closed
""")
