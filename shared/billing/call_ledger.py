"""The call ledger: records a call before it is sent, when the provider returns a reference, and when it is answered."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

import orjson

from shared.billing import reservations
from shared.billing.reservations import Attempt
from shared.database import ids
from shared.database.engine import Database
from shared.database.statements import (
    STRICT,
    BoundQuery,
    CompiledStatement,
    Executor,
    RoundTrip,
    json_text,
    uuid_array,
)
from shared.database.unit_of_work import FollowUp
from shared.enums import CallKind, Phase
from shared.errors import TransientError


@dataclass(slots=True)
class CallRecord:
    """What a phase run needs of a call's row; see `Call`."""

    id: UUID
    model: str | None
    attempts: int = 0
    provider_ref: str | None = None
    answer: dict[str, Any] | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    reserved_usd: Decimal | None = None
    reserved_on: date | None = None
    failures: Sequence[dict[str, Any]] = ()
    answered_at: datetime | None = None


_RECORD: Final = ", ".join(field.name for field in fields(CallRecord))
_OPEN: Final = CompiledStatement(f"""
insert into calls
  (id, agent_id, iteration_id, step_id, interaction_id, kind, phase, model, request_hash, request)
values (:id, :agent_id, :iteration_id, :step_id, :interaction_id, :kind, :phase, :model,
  :request_hash, cast(:request as jsonb))
on conflict do nothing returning {_RECORD}
""")
_SELECT: Final = CompiledStatement(f"select {_RECORD} from calls where id = :of_call")
_ANSWER: Final = CompiledStatement("""
update calls
set answer = cast(:answer as jsonb), input_tokens = :input_tokens, output_tokens = :output_tokens,
  cached_tokens = :cached_tokens, reasoning_tokens = :reasoning_tokens,
  system_tokens = :system_tokens, tools_tokens = :tools_tokens, context_tokens = :context_tokens,
  results_tokens = :results_tokens,
  cost_usd = :cost_usd, answered_at = clock_timestamp()
where id = :of_call and answered_at is null
""")
_APPEND_EVENTS: Final = CompiledStatement("""
update calls
set events = events || (
  select coalesce(jsonb_agg(event order by place), '[]')
  from jsonb_array_elements(cast(:events as jsonb)) with ordinality as input (event, place)
  where not events @> jsonb_build_array(event))
where id = :of_call
""")
_PROGRESS: Final = CompiledStatement("""
update calls set received_chars = :received_chars, progressed_at = clock_timestamp()
where id = :of_call and answered_at is null
""")
_REFERENCE: Final = CompiledStatement("""
update calls set provider_ref = :reference where id = :of_call and answered_at is null
""")


NewRow = Mapping[str, Any]
"""The values of a call's row, by column."""
Event = dict[str, Any]
"""What happened in a phase run, see `Interaction`."""


@dataclass(frozen=True)
class CallRequest:
    """A call to be made. `content` is everything that determines the answer; `summary` is what the user sees of it."""

    kind: CallKind
    content: dict[str, Any]
    summary: dict[str, Any]
    model: str | None = None
    operation: str | None = None
    """The key of a search's price in the price list."""
    max_output_tokens: int | None = None
    """Limit of the answer's tokens. None: the limit of the phase applies."""

    @cached_property
    def canonical(self) -> bytes:
        """The request as canonical JSON."""
        content = [self.kind, self.content]
        try:
            return orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError:
            # It accepts neither integers of more than 64 bits nor lone surrogates.
            return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the canonical JSON, in hex."""
        return hashlib.sha256(self.canonical).hexdigest()


class PartTokens(NamedTuple):
    """Input tokens by the part of the request. The rest are the task, and the model's earlier answers."""

    system: int = 0
    tools: int = 0
    context: int = 0
    results: int = 0


NO_PARTS: Final = PartTokens()


@dataclass(frozen=True)
class CallAnswer:
    """An answer as the ledger stores it. `content` is JSON. The cost is None if it is unknown."""

    content: dict[str, Any]
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: Decimal | None = None
    events: Sequence[Event] = ()
    """The events of the phase run that are committed with the answer."""
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    parts: PartTokens = NO_PARTS


class StepIds(Protocol):
    """The ids of the step that makes a call. A lease has them."""

    @property
    def step_id(self) -> UUID: ...
    @property
    def agent_id(self) -> UUID: ...
    @property
    def iteration_id(self) -> UUID | None: ...


def new_row(step: StepIds, interaction_id: UUID, phase: Phase, request: CallRequest) -> NewRow:
    """Returns the row of a new call."""
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


async def open_call(session: Executor, row: NewRow) -> CallRecord:
    """Inserts the call, or loads it if it exists. A call that has `answered_at` must not be sent again."""
    params = {**row, "request": json_text(row["request"])}
    record = await _OPEN.row(session, params) or await _SELECT.row(session, {"of_call": row["id"]})
    return CallRecord(*record)


_SELECT_BEGUN: Final = CompiledStatement("""
select id from calls
where id = any(cast(:ids as uuid[])) and (answered_at is not null or provider_ref is not null)
order by answered_at nulls last limit 1
""")


async def find_started(session: Executor, call_ids: Sequence[UUID]) -> UUID | None:
    """The one of these calls that has an answer, or a reference with which its answer is collected."""
    found: UUID | None = await _SELECT_BEGUN.value(session, {"ids": uuid_array(call_ids)})
    return found


async def record_reference(session: Executor, call_id: UUID, reference: str) -> None:
    """Records the provider's reference of the call, so that a resumed step polls it instead of sending again."""
    await _REFERENCE.run(session, {"of_call": call_id, "reference": reference})


async def report_progress(database: Database, call_id: UUID, received_chars: int) -> None:
    """Records in its own transaction how many characters of the answer were received, unless it is complete.

    If PostgreSQL is unavailable, skips this report: the next one supersedes it, and the answer continues.
    """
    with suppress(TransientError):
        async with database.transaction() as session:
            await _PROGRESS.run(session, {"of_call": call_id, "received_chars": received_chars})


def answer_queries(call_id: UUID, answer: CallAnswer) -> Sequence[BoundQuery[None]]:
    """Record the first answer with its events. Of a later answer to the same call, only new events are added."""
    values = {**_answer_values(answer), "of_call": call_id, "answer": json_text(answer.content)}
    return BoundQuery(_ANSWER, values, lambda _: None), append_events(call_id, answer.events)


def append_events(call_id: UUID, events: Sequence[Event]) -> BoundQuery[None]:
    """Appends `events` to those of a call. Skips what an earlier, possibly lost, commit appended."""
    params = {"of_call": call_id, "events": json_text(events)}
    return BoundQuery(_APPEND_EVENTS, params, lambda _: None)


def _answer_values(answer: CallAnswer) -> dict[str, Any]:
    """The columns of an answer without its events."""
    return {
        "answer": answer.content,
        "input_tokens": answer.input_tokens,
        "output_tokens": answer.output_tokens,
        "cached_tokens": answer.cached_tokens,
        "reasoning_tokens": answer.reasoning_tokens,
        **{f"{part}_tokens": tokens for part, tokens in answer.parts._asdict().items()},
        "cost_usd": answer.cost_usd,
    }


MAX_FAILURES: Final = 50
"""Failed attempts of one call that are described. Further ones are only booked."""

MaxCosts = Mapping[UUID, Decimal]
"""The maximum cost of one attempt (USD), by call id."""
OpenedCalls = tuple[Sequence[CallRecord], Sequence[Attempt]]
"""The calls' current records, and the attempts that were reserved now."""


def open_calls(
    trip: RoundTrip, agent_id: UUID, rows: Sequence[NewRow], max_costs: MaxCosts
) -> Callable[[Executor], Awaitable[OpenedCalls]]:
    """Inserts the missing calls, and reserves the maximum cost of one attempt for all that were never sent.

    If a cap does not allow it, nothing is reserved. Only the worker that holds the step's lease may call this, because no
    one else writes calls of the step. Call the returned function after the round trip: it returns the calls.
    """
    openings = [{**row, "usd": max_costs[row["id"]]} for row in rows]
    opened_on = trip.ask_merged(_pay, _Payment(openings=openings))

    async def finish(session: Executor) -> OpenedCalls:
        day = opened_on.value
        if day is None:
            return await _open_each(session, agent_id, rows, max_costs)
        calls = [
            CallRecord(
                row["id"],
                row["model"],
                attempts=1,
                reserved_usd=max_costs[row["id"]],
                reserved_on=day,
            )
            for row in rows
        ]
        return calls, [Attempt(call.id, agent_id, 1, day, max_costs[call.id]) for call in calls]

    return finish


def answer_paid_call(
    trip: RoundTrip, attempt: Attempt, answer: CallAnswer, *, is_billed: bool
) -> FollowUp:
    """Records the first answer and books the attempt's cost, or releases the reservation if it was not billed.

    Of a later answer to the same call, only new events are added; an attempt that was settled before has no effect.
    """
    closing = (
        reservations.settled(attempt, answer.cost_usd)
        if is_billed
        else reservations.released(attempt)
    )
    row = {**closing, **_answer_values(answer), "events": answer.events}
    answered_on = trip.ask_merged(_pay, _Payment(closings=[row]))

    async def finish(session: Executor) -> None:
        if answered_on.value is None:
            # One of the two was done before, so do each on its own.
            for query in answer_queries(attempt.call_id, answer):
                await query.answer(session)
            await reservations.closing_query(closing).answer(session)

    return finish


@dataclass(frozen=True)
class _Payment:
    """Answers to paid calls, and calls that are to be sent: a part of `_PAY`."""

    closings: Sequence[Mapping[str, Any]] = ()
    openings: Sequence[Mapping[str, Any]] = ()


def _pay(payments: Sequence[_Payment]) -> BoundQuery[Sequence[date]]:
    """Settles each answer, and opens each call with its reservation, with one change to each day of a budget.

    For `RoundTrip.ask_merged`. Its result is the day of the reservations, for each payment.
    """
    closings = [row for payment in payments for row in payment.closings]
    openings = [row for payment in payments for row in payment.openings]
    params = {
        "closings": json_text(closings),
        "closed_ids": uuid_array(row["call"] for row in closings),
        "closings_count": len(closings),
        "openings": json_text(openings),
        "openings_count": len(openings),
        STRICT: False,
    }
    return BoundQuery(_PAY, params, lambda rows: [rows[0].day] * len(payments))


@dataclass(frozen=True)
class Failure:
    """The record of an attempt without a usable answer."""

    kind: str
    error: str
    response: str
    """The beginning of the server's answer."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: Decimal | None = None
    """None if the server did not report its token usage."""


async def fail_attempt(
    session: Executor, attempt: Attempt, epoch: int, failure: Failure
) -> dict[str, Any] | None:
    """Records a failed attempt and books its cost. The call may be sent again.

    Returns the record; None if the attempt was settled before. `epoch` is that of the step's lease.
    """
    record = {
        "at": datetime.now(UTC).isoformat(),
        "epoch": epoch,
        **{name: value for name, value in vars(failure).items() if name != "cost_usd"},
        "cost_usd": None if failure.cost_usd is None else str(failure.cost_usd),
    }
    closing = reservations.failed(attempt, failure.cost_usd)
    params = {**closing, "failure": json.dumps([record])}
    return record if await _FAIL.rows(session, params) else None


def was_never_sent(call: CallRecord) -> bool:
    """Whether the call has neither an answer nor an attempt."""
    return call.answered_at is None and call.attempts == 0


async def _open_each(
    session: Executor, agent_id: UUID, rows: Sequence[NewRow], max_costs: MaxCosts
) -> OpenedCalls:
    calls = [await open_call(session, row) for row in rows]
    unsent = {call.id: max_costs[call.id] for call in calls if was_never_sent(call)}
    reserved = await reservations.reserve(session, agent_id, unsent) if unsent else None
    return calls, reserved or ()


_APPEND_FAILURE: Final = f"""
failures = case when jsonb_array_length(failures) < {MAX_FAILURES}
  then failures || cast(:failure as jsonb) else failures end,
"""
_FAIL: Final = CompiledStatement(f"""
with {reservations.close_cte(_APPEND_FAILURE)},
{reservations.budget_ctes(reservations.CLOSED_CHANGES)}
select id from closed
""")

_PAYMENT_CHANGES: Final = f"""
select agent, day, spent_usd, spent_calls, -held_usd as reserved_usd, -1 as reserved_calls from closing
union all
select agent_id, {reservations.TODAY}, 0, 0, usd, 1 from opening
"""
# The array of ids leads to the rows by their key. Without it PostgreSQL would join all calls with the parameter.
_PAY: Final = CompiledStatement(f"""
with closing as materialized (
  select * from jsonb_to_recordset(cast(:closings as jsonb)) as closing (
    call uuid, number integer, agent uuid, day date, held_usd numeric, spent_usd numeric,
    spent_calls integer, assumed_usd numeric, answer jsonb, input_tokens integer,
    output_tokens integer, cached_tokens integer, reasoning_tokens integer, system_tokens integer,
    tools_tokens integer, context_tokens integer, results_tokens integer, cost_usd numeric, events jsonb)
),
opening as materialized (
  select * from jsonb_to_recordset(cast(:openings as jsonb)) as opening (
    id uuid, agent_id uuid, iteration_id uuid, step_id uuid, interaction_id uuid, kind text,
    phase text, model text, request_hash text, request jsonb, usd numeric)
),
closed as (
  update calls
  set answer = closing.answer, input_tokens = closing.input_tokens,
    output_tokens = closing.output_tokens, cached_tokens = closing.cached_tokens,
    reasoning_tokens = closing.reasoning_tokens, system_tokens = closing.system_tokens,
    tools_tokens = closing.tools_tokens, context_tokens = closing.context_tokens,
    results_tokens = closing.results_tokens, cost_usd = closing.cost_usd,
    events = calls.events || closing.events, answered_at = clock_timestamp(),
    reserved_usd = null, reserved_on = null,
    assumed_usd = calls.assumed_usd + closing.assumed_usd
  from closing
  where calls.id = any(cast(:closed_ids as uuid[])) and calls.id = closing.call and calls.attempts = closing.number
    and {reservations.IS_RESERVED} and calls.answered_at is null
  returning 1
),
opened as (
  insert into calls (id, agent_id, iteration_id, step_id, interaction_id, kind, phase, model,
    request_hash, request, attempts, reserved_usd, reserved_on, sent_at)
  select id, agent_id, iteration_id, step_id, interaction_id, kind, phase, model, request_hash,
    request, 1, usd, {reservations.TODAY}, clock_timestamp()
  from opening
  on conflict do nothing
  returning 1
),
{reservations.budget_ctes(_PAYMENT_CHANGES)}
select {reservations.TODAY} as day,
  case when (select count(*) from closed) < :closings_count
    or (select count(*) from opened) < :openings_count or {reservations.IS_EXCEEDED}
    then case when :strict then forbid_commit() else true end end as is_undone
""")
