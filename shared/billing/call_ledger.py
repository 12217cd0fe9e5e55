"""The call ledger: records a call before it is sent, when the provider returns a reference, and when it is answered."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

import orjson

from shared.billing import reservations
from shared.billing.reservations import Attempt, Closing
from shared.database import ids
from shared.database.engine import Database
from shared.database.statements import (
    STRICT,
    Batch,
    BoundQuery,
    CompiledStatement,
    Executor,
    PendingResult,
    Row,
    json_text,
    uuid_array,
)
from shared.enums import CallKind, Phase, StepStatus
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
    """An answer as the ledger stores it. `content` is JSON. The cost is None if it is unknown, and booked at its maximum."""

    content: dict[str, Any]
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: Decimal | None = None
    events: Sequence[Event] = ()
    """The events of the phase run that are committed with the answer."""
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    parts: PartTokens = NO_PARTS
    assumed_usd: Decimal = Decimal(0)
    """Estimated cost, in place of `cost_usd`, of an answer whose usage the server did not report."""

    @property
    def spent_usd(self) -> Decimal | None:
        """What is booked; None for the reserved maximum."""
        return None if self.cost_usd is None else self.cost_usd + self.assumed_usd


class StepIds(Protocol):
    """The ids of the step that makes a call. A lease has them."""

    @property
    def step_id(self) -> UUID: ...
    @property
    def agent_id(self) -> UUID: ...
    @property
    def iteration_id(self) -> UUID | None: ...


class LeasedStep(StepIds, Protocol):
    """A step that a worker holds."""

    @property
    def epoch(self) -> int: ...


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


async def open_call(transaction: Executor, row: NewRow) -> CallRecord:
    """Inserts the call, or loads it if it exists. A call that has `answered_at` must not be sent again."""
    params = {**row, "request": json_text(row["request"])}
    record = await _OPEN.row(transaction, params) or await _SELECT.row(
        transaction, {"of_call": row["id"]}
    )
    return CallRecord(*record)


_SELECT_RESUMABLE: Final = CompiledStatement("""
select id from calls
where id = any(cast(:ids as uuid[])) and (answered_at is not null or provider_ref is not null)
order by answered_at nulls last limit 1
""")


async def find_resumable(transaction: Executor, call_ids: Sequence[UUID]) -> UUID | None:
    """The one of these calls that has an answer, or a reference with which its answer is collected."""
    found: UUID | None = await _SELECT_RESUMABLE.value(transaction, {"ids": uuid_array(call_ids)})
    return found


async def record_reference(transaction: Executor, call_id: UUID, reference: str) -> None:
    """Records the provider's reference of the call, so that a resumed step polls it instead of sending again."""
    await _REFERENCE.run(transaction, {"of_call": call_id, "reference": reference})


async def report_progress(database: Database, call_id: UUID, received_chars: int) -> None:
    """Records in its own transaction how many characters of the answer were received, unless it is complete.

    If PostgreSQL is unavailable, skips this report: the next one supersedes it, and the answer continues.
    """
    with suppress(TransientError):
        async with database.transaction() as transaction:
            await _PROGRESS.run(transaction, {"of_call": call_id, "received_chars": received_chars})


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


NEXT_CALLS: Final = 8
"""A step reserves for so many calls at a time, with those that it opens, while half of each cap is free."""
NEXT_COSTS: Final = 2
"""It reserves so many times the maximum cost of those: an answer seldom costs more than a small part of its maximum, and
the rest serves the next calls.
"""


@dataclass
class Holding:
    """What a step holds for its next calls, as far as its worker knows: what the last payment has left."""

    usd: Decimal = Decimal(0)
    calls: int = 0


@dataclass(frozen=True)
class PaidAnswer:
    """An answer, and what its attempt is closed with."""

    closing: Closing
    answer: CallAnswer


def paid_answer(attempt: Attempt, answer: CallAnswer, *, is_unbilled: bool) -> PaidAnswer:
    """Settles the attempt, or releases its reservation if it was not billed."""
    closing = (
        reservations.released(attempt)
        if is_unbilled
        else reservations.settled(attempt, answer.cost_usd, answer.assumed_usd)
    )
    return PaidAnswer(closing, answer)


def pay(
    batch: Batch,
    step: LeasedStep,
    answers: Sequence[PaidAnswer] = (),
    rows: Sequence[NewRow] = (),
    max_costs: MaxCosts = MappingProxyType({}),
    *,
    holding: Holding | None = None,
    completed_runs: Sequence[UUID] = (),
) -> PendingResult[OpenedCalls]:
    """Records answers to calls of a step with their costs, opens the calls `rows` with their reservations, and marks phase
    runs as complete.

    The step holds what it has reserved for its next calls. A call that is opened takes its maximum cost from that; a call
    that is answered returns it, less its cost. Only if the rest does not suffice, more is reserved from the budgets: for
    several calls, or near a cap for those that are opened. If a cap does not allow that, nothing is reserved. Budgets are
    locked only then, and when the step stops running, by the trigger `settle_step`.

    Of a later answer to the same call, only new events are added, and an attempt that was closed before has no effect. A
    call that was opened before is loaded, by further statements (`pay_separately`), as after a crash. Only the worker
    that holds the step's lease may call this, because no one else writes calls of the step: without the lease nothing is
    written, and a commit is forbidden.
    """

    holding = holding or Holding()

    def read(paid_rows: Sequence[Row]) -> OpenedCalls:
        (paid,) = paid_rows
        holding.usd, holding.calls = paid.usd, paid.calls
        calls = [
            CallRecord(
                row["id"],
                row["model"],
                attempts=1,
                reserved_usd=max_costs[row["id"]],
                reserved_on=paid.day,
            )
            for row in rows
        ]
        return calls, [
            Attempt(call.id, step.agent_id, 1, paid.day, max_costs[call.id]) for call in calls
        ]

    async def pay_separately(transaction: Executor) -> OpenedCalls:
        for answer in answers:
            for query in answer_queries(answer.closing["call"], answer.answer):
                await query.execute(transaction)
            await reservations.closing_query(answer.closing).execute(transaction)
        if completed_runs:
            await _COMPLETE_RUNS.run(transaction, {"completed_runs": uuid_array(completed_runs)})
        calls = [await open_call(transaction, row) for row in rows]
        unsent = {call.id: max_costs[call.id] for call in calls if was_never_sent(call)}
        if not unsent:
            return calls, ()
        holding.usd, holding.calls = Decimal(0), 0
        await reservations.release_hold(step.step_id).execute(transaction)
        return calls, await reservations.reserve(transaction, step.agent_id, unsent) or ()

    closings = [answer.closing for answer in answers]
    needed_usd = sum((max_costs[row["id"]] for row in rows), Decimal(0))
    spent_usd = sum((closing["spent_usd"] for closing in closings), Decimal(0))
    spent_calls = sum(closing["spent_calls"] for closing in closings)
    more_usd = sum((closing["held_usd"] for closing in closings), -spent_usd) - needed_usd
    more_calls = len(closings) - spent_calls - len(rows)
    params: dict[str, Any] = {
        "of_step": step.step_id,
        "of_epoch": step.epoch,
        "of_agent": step.agent_id,
        "closings": json_text(
            [
                {**each.closing, **_answer_values(each.answer), "events": each.answer.events}
                for each in answers
            ]
        ),
        "closed_ids": uuid_array(closing["call"] for closing in closings),
        "closed_on": max((closing["day"] for closing in closings), default=None),
        "closings_count": len(closings),
        "openings": json_text([{**row, "usd": max_costs[row["id"]]} for row in rows]),
        "openings_count": len(rows),
        "spent_usd": spent_usd,
        "spent_calls": spent_calls,
        "more_usd": more_usd,
        "more_calls": more_calls,
        "completed_runs": uuid_array(completed_runs),
        STRICT: False,
    }
    statement = _PAY
    if holding.usd + more_usd < 0 or holding.calls + more_calls < 0:
        statement = _PAY_AND_RESERVE
        params |= {
            "next_usd": (NEXT_COSTS - 1) * needed_usd,
            "next_calls": max(NEXT_CALLS - len(rows), 0),
        }
    query = BoundQuery(statement, params, read, checks_lease=True)
    return batch.add(query, fallback=pay_separately)


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
    transaction: Executor, attempt: Attempt, epoch: int, failure: Failure
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
    return record if await _FAIL.rows(transaction, params) else None


def was_never_sent(call: CallRecord) -> bool:
    """Whether the call has neither an answer nor an attempt."""
    return call.answered_at is None and call.attempts == 0


_APPEND_FAILURE: Final = f"""
failures = case when jsonb_array_length(failures) < {MAX_FAILURES}
  then failures || cast(:failure as jsonb) else failures end,
"""
_FAIL: Final = CompiledStatement(f"""
with {reservations.close_cte(_APPEND_FAILURE)},
{reservations.budget_ctes(reservations.CLOSED_CHANGES)}
select id from closed
""")

_COMPLETED_SQL: Final = """
update llm_interactions set completed_at = clock_timestamp()
where id = any(cast(:completed_runs as uuid[]))
"""
_COMPLETE_RUNS: Final = CompiledStatement(_COMPLETED_SQL)
# The array of ids leads to the rows by their key. Without it PostgreSQL would join all calls with the parameter.
_PAYMENT_SQL: Final = f"""
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
  from held, jsonb_to_recordset(cast(:closings as jsonb)) as closing (
    call uuid, number integer, day date, assumed_usd numeric, answer jsonb, input_tokens integer,
    output_tokens integer, cached_tokens integer, reasoning_tokens integer, system_tokens integer,
    tools_tokens integer, context_tokens integer, results_tokens integer, cost_usd numeric, events jsonb)
  where calls.id = any(cast(:closed_ids as uuid[])) and calls.id = closing.call
    and calls.attempts = closing.number and closing.day = held.day
    and {reservations.IS_RESERVED} and calls.answered_at is null
  returning 1
),
opened as (
  insert into calls (id, agent_id, iteration_id, step_id, interaction_id, kind, phase, model,
    request_hash, request, attempts, reserved_usd, reserved_on, sent_at)
  select id, agent_id, iteration_id, step_id, interaction_id, kind, phase, model, request_hash,
    request, 1, opening.usd, held.day, clock_timestamp()
  from held, jsonb_to_recordset(cast(:openings as jsonb)) as opening (
    id uuid, agent_id uuid, iteration_id uuid, step_id uuid, interaction_id uuid, kind text,
    phase text, model text, request_hash text, request jsonb, usd numeric)
  where held.day = {reservations.TODAY}
  on conflict do nothing
  returning 1
),
paid as (
  update steps
  set reserved_on = held.day, reserved_usd = held.usd, reserved_calls = held.calls,
    spent_usd = steps.spent_usd + :spent_usd, spent_calls = steps.spent_calls + :spent_calls
  from held where steps.id = :of_step and held.usd >= 0 and held.calls >= 0
  returning steps.reserved_on as day, steps.reserved_usd as usd, steps.reserved_calls as calls
),
completed as ({_COMPLETED_SQL} and exists (select from held))
"""
_IS_INCOMPLETE: Final = """
(select count(*) from closed) < :closings_count or (select count(*) from opened) < :openings_count
  or not exists (select from paid)
"""
_IS_FORBIDDEN: Final = f":openings_count > 0 and {reservations.is_above_caps(':of_agent')}"
"""A cap that was lowered meanwhile forbids to open a call, also if the step holds enough."""
_HELD: Final = f"""
select coalesce(reserved_on, cast(:closed_on as date), {reservations.TODAY}) as day,
  reserved_usd + :more_usd as usd, reserved_calls + :more_calls as calls
from steps where id = :of_step and epoch = :of_epoch and (status = '{StepStatus.RUNNING}') is true
for no key update
"""
_PAY: Final = CompiledStatement(f"""
with held as materialized ({_HELD}),
{_PAYMENT_SQL}
select day, usd, calls, case when {_IS_INCOMPLETE}
    or ({_IS_FORBIDDEN})
    then case when :strict then forbid_commit() else true end end as is_undone
from (values (1)) as once left join paid on true
""")
_IS_SCARCE: Final = reservations.is_above_caps(
    ":of_agent", usd_sql=":next_usd", calls_sql=":next_calls", share=2
)
_ADDED_CHANGES: Final = """
select cast(:of_agent as uuid) as agent, day, 0 as spent_usd, 0 as spent_calls, usd as reserved_usd,
  calls as reserved_calls
from added
"""
_PAY_AND_RESERVE: Final = CompiledStatement(f"""
with rest as materialized ({_HELD}),
added as materialized (
  select day, greatest(case when is_scarce then 0 else :next_usd end - usd, 0) as usd,
    greatest(case when is_scarce then 0 else :next_calls end - calls, 0) as calls
  from rest, (select {_IS_SCARCE} as is_scarce) as caps where usd < 0 or calls < 0
),
held as materialized (
  select rest.day, rest.usd + coalesce(added.usd, 0) as usd, rest.calls + coalesce(added.calls, 0) as calls
  from rest left join added on true
),
{_PAYMENT_SQL},
{reservations.budget_ctes(_ADDED_CHANGES)}
select paid.day, usd, calls, case when {_IS_INCOMPLETE} or {reservations.IS_EXCEEDED}
    or (not exists (select from added) and {_IS_FORBIDDEN})
    then case when :strict then forbid_commit() else true end end as is_undone
from (values (1)) as once left join paid on true
""")
