"""Paid calls of one phase run: opens, reserves, books and records them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.billing import budgets, call_ledger, reservations
from shared.billing.call_ledger import CallAnswer, CallRecord, CallRequest, Failure, NewRow
from shared.billing.reservations import Attempt
from shared.database.engine import Database
from shared.database.statements import Executor, RoundTrip
from shared.database.unit_of_work import Changes, Note, UnitOfWork
from shared.errors import TransientError, VigilError, is_unsent
from shared.telemetry import metrics
from shared.workflow.leases import Lease

Limit = Callable[[AsyncSession, UUID, Decimal], Awaitable[bool]]
"""Whether an attempt of a call may cost this maximum (USD), besides the caps of the agent and the installation."""


@dataclass
class _Reservation:
    """The newest reservation of a call."""

    attempt: Attempt
    is_unsent: bool
    """True if nothing billable was sent. Then the reservation serves the next attempt, or is released."""


class PaidCalls:
    """The calls and reservations of one phase run. It writes at the end of a transaction, as `reservations` requires.

    It uses a reservation of an earlier run only if it waits for that run's call.
    """

    def __init__(
        self,
        database: Database,
        lease: Lease,
        unit: UnitOfWork,
        new_row: Callable[[CallRequest], NewRow],
        max_cost_usd: Callable[[CallRequest], Decimal],
    ) -> None:
        """`unit` is the unit of work of the worker that holds the step's lease."""
        self._database = database
        self._agent_id = lease.agent_id
        self._unit = unit
        self._new_row = new_row
        self._max_cost_usd = max_cost_usd
        self._max_costs_usd: dict[UUID, Decimal] = {}
        self._reservations: dict[UUID, _Reservation] = {}
        self._uncommitted: set[str] = set()
        self._opened: dict[str, CallRecord] = {}
        self.limit: Limit | None = None
        """Judges each further attempt of a call. Of the first one, which `open_call` reserves, the caller judges itself."""

    def open_call(self, request: CallRequest) -> None:
        """Inserts the call's record and reserves its maximum cost with the next commit.

        If a cap does not allow all calls of the transaction, none is reserved. Then `attempt` reserves each call before it
        is sent.
        """
        changes = self._unit.changes
        requests: dict[str, CallRequest] = changes.of_writer.setdefault(self, {})
        if not requests:
            self._unit.defer(partial(self._open_calls, changes))
        requests[request.hash] = request
        self._uncommitted.add(request.hash)

    async def get_call(self, request: CallRequest) -> CallRecord:
        """Returns the call's committed record. Usually an earlier transaction has written it. Afterwards no write of the
        run is uncommitted.
        """
        if request.hash in self._uncommitted:
            await self._unit.commit()
        while request.hash not in self._opened:
            self.open_call(request)
            await self._unit.commit()
        return self._opened[request.hash]

    def _register(self, call: CallRecord, max_cost_usd: Decimal, reserved: Attempt | None) -> None:
        """Registers the maximum cost of one attempt of `call`, and the attempt that was just reserved, if any."""
        self._max_costs_usd[call.id] = max_cost_usd
        if reserved is not None:
            self._reservations[call.id] = _Reservation(reserved, is_unsent=True)
        elif call_ledger.was_never_sent(call):
            # An earlier reservation was rolled back together with its transaction.
            self._reservations.pop(call.id, None)
        elif call.provider_ref is not None and call.reserved_on is not None:
            # The call is resumed by its reference and settled then.
            assert call.reserved_usd is not None
            attempt = Attempt(
                call.id, self._agent_id, call.attempts, call.reserved_on, call.reserved_usd
            )
            self._reservations[call.id] = _Reservation(attempt, is_unsent=False)

    @asynccontextmanager
    async def attempt(self, call: CallRecord, *, is_needed: bool = True) -> AsyncIterator[None]:
        """Context of one attempt of `call`, which may be billed.

        Raises BudgetUsedUpError, or TransientError if the budget may suffice soon or if the work can go on without the call
        (`is_needed` is False). Then nothing was sent.
        """
        reservation = self._reservations.get(call.id)
        if reservation is None or not reservation.is_unsent:
            reservation = await self._reserve(call.id, is_needed=is_needed)
        reservation.is_unsent = False
        try:
            yield
        except (VigilError, asyncio.CancelledError) as error:
            reservation.is_unsent = is_unsent(error)
            raise

    def record_answer(self, call: CallRecord, answer: CallAnswer) -> None:
        """Records the answer and books its cost at the end of the open transaction."""
        reservation = self._reservations.get(call.id)
        self._unit.on_commit(partial(_count_answer, call, answer, reservation))
        if reservation is None:
            for query in call_ledger.answer_queries(call.id, answer):
                self._unit.defer_query(query)
            return
        attempt, is_billed = reservation.attempt, not reservation.is_unsent
        self._unit.defer(
            lambda trip: Note(
                call_ledger.answer_paid_call(trip, attempt, answer, is_billed=is_billed)
            )
        )

    async def record_answer_now(
        self, session: AsyncSession, call: CallRecord, answer: CallAnswer
    ) -> None:
        """Records the answer now, because the transaction reads it, and its cost at the end of the transaction."""
        for query in call_ledger.answer_queries(call.id, answer):
            await query.answer(session)
        reservation = self._reservations.get(call.id)
        self._unit.on_commit(partial(_count_answer, call, answer, reservation))
        if reservation is not None:
            closing = (
                reservations.released(reservation.attempt)
                if reservation.is_unsent
                else reservations.settled(reservation.attempt, answer.cost_usd)
            )
            self._unit.defer_query(reservations.closing_query(closing))

    async def record_failure(self, call: CallRecord, epoch: int, failure: Failure) -> None:
        """Records that the last attempt of `call` failed, books its cost, and commits."""
        reservation = self._reservations.pop(call.id, None)
        if reservation is None:
            return
        async with self._unit.transaction() as session:
            error_record = await call_ledger.fail_attempt(
                session, reservation.attempt, epoch, failure
            )
        if error_record is not None:
            call.failures = [*(call.failures), error_record]
            metrics.count_answer(
                call.model,
                input_tokens=failure.input_tokens or 0,
                output_tokens=failure.output_tokens or 0,
                usd=_spent_usd(failure.cost_usd, reservation),
            )

    def was_billed(self, call: CallRecord) -> bool:
        """Whether an attempt of this run may have been billed."""
        reservation = self._reservations.get(call.id)
        return reservation is None or not reservation.is_unsent

    async def release_unbilled(self, call: CallRecord) -> None:
        """Releases the reservation of `call` if the attempt certainly cost nothing."""
        reservation = self._reservations.get(call.id)
        if reservation is not None and reservation.is_unsent:
            async with self._unit.transaction() as session:
                await reservations.release(session, reservation.attempt)
            del self._reservations[call.id]

    async def _reserve(self, call_id: UUID, *, is_needed: bool) -> _Reservation:
        max_cost_usd = self._max_costs_usd[call_id]
        reserved: Sequence[Attempt] | None = None
        async with self._unit.transaction() as session:
            # First of all: it may take a lock, and others take that before they lock budgets.
            if self.limit is None or await self.limit(session, call_id, max_cost_usd):
                await reservations.write_off_call(session, call_id)
                reserved = await reservations.reserve(
                    session, self._agent_id, {call_id: max_cost_usd}
                )
        if reserved is None and not is_needed:
            raise TransientError(
                f"the rest of the budget does not cover the maximum cost of this call: ${max_cost_usd:f}",
                counts=False,
            )
        if reserved is None:
            # In its own transaction, without the step, so that it holds no other lock when it locks the agent's row.
            async with self._database.transaction() as session:
                error = await budgets.suspend_or_retry(session, self._agent_id, max_cost_usd)
            raise error
        reservation = self._reservations[call_id] = _Reservation(reserved[0], is_unsent=True)
        return reservation

    def _open_calls(self, changes: Changes, trip: RoundTrip) -> Note:
        requests: dict[str, CallRequest] = changes.of_writer[self]
        self._uncommitted -= requests.keys()
        rows = {key: self._new_row(request) for key, request in requests.items()}
        max_costs = {
            rows[key]["id"]: self._max_cost_usd(request) for key, request in requests.items()
        }
        finish_opening = call_ledger.open_calls(
            trip, self._agent_id, list(rows.values()), max_costs
        )

        async def note(session: Executor) -> None:
            calls, attempts = await finish_opening(session)
            reserved = {attempt.call_id: attempt for attempt in attempts}
            for call in calls:
                self._register(call, max_costs[call.id], reserved.get(call.id))
            calls_by_request = dict(zip(requests, calls, strict=True))
            changes.on_commit.append(partial(self._opened.update, calls_by_request))

        return Note(note)


def _spent_usd(cost_usd: Decimal | None, reservation: _Reservation | None) -> float:
    """What is booked as spent: the maximum if the cost is unknown, nothing if nothing was billed or reserved."""
    if reservation is None or reservation.is_unsent:
        return 0.0
    return float(reservation.attempt.max_cost_usd if cost_usd is None else cost_usd)


def _count_answer(call: CallRecord, answer: CallAnswer, reservation: _Reservation | None) -> None:
    metrics.count_answer(
        call.model,
        input_tokens=answer.input_tokens or 0,
        cached_tokens=answer.cached_tokens,
        output_tokens=answer.output_tokens or 0,
        reasoning_tokens=answer.reasoning_tokens,
        usd=_spent_usd(answer.cost_usd, reservation),
    )
