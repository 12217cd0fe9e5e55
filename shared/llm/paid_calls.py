"""Paid calls of one phase run: opens, reserves, books and records them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from uuid import UUID

from shared.billing import budgets, call_ledger, reservations
from shared.billing.call_ledger import (
    CallAnswer,
    CallRecord,
    CallRequest,
    Failure,
    NewRow,
    PaidAnswer,
)
from shared.billing.reservations import Attempt
from shared.database.engine import Database
from shared.database.statements import Batch
from shared.database.transaction import Transaction
from shared.database.unit_of_work import Changes, DeferredWrite, UnitOfWork
from shared.errors import TransientError, VigilError, is_unsent
from shared.telemetry import metrics
from shared.workflow.leases import Lease

Limit = Callable[[Transaction, UUID, Decimal], Awaitable[bool]]
"""Whether an attempt of a call may cost this maximum (USD), besides the caps of the agent and the installation."""


@dataclass
class _Reservation:
    """The newest reservation of a call."""

    attempt: Attempt
    is_unsent: bool
    """True if nothing billable was sent. Then the reservation serves the next attempt, or is released."""


@dataclass
class _Payment:
    """What one commit pays for a step: answers, and the calls that it opens, by the hashes of their requests."""

    answers: list[PaidAnswer] = field(default_factory=list)
    openings: dict[tuple["PaidCalls", str], CallRequest] = field(default_factory=dict)
    write: DeferredWrite = field(init=False)

    def add_to(self, changes: Changes, step: Lease, batch: Batch) -> None:
        rows: list[NewRow] = []
        max_costs: dict[UUID, Decimal] = {}
        for (paid_calls, key), request in self.openings.items():
            rows.append(row := paid_calls._new_row(request))
            max_costs[row["id"]] = paid_calls._max_costs_usd[row["id"]] = paid_calls._max_cost_usd(
                request
            )
            paid_calls._uncommitted.discard(key)
        paid = call_ledger.pay(batch, step, self.answers, rows, max_costs, holding=step.holding)

        def register() -> None:
            calls, attempts = paid.value
            by_call = {attempt.call_id: attempt for attempt in attempts}
            for (paid_calls, key), call in zip(self.openings, calls, strict=True):
                attempt = by_call.get(call.id)
                changes.on_commit.append(partial(paid_calls._register, key, call, attempt))

        batch.then(register)


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
        self._lease = lease
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
        self._payment().openings[self, request.hash] = request
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

    def _register(self, key: str, call: CallRecord, reserved: Attempt | None) -> None:
        """Registers a call that was opened, by the hash of its request, and the attempt that was reserved now, if any."""
        self._opened[key] = call
        if reserved is not None:
            self._reservations[call.id] = _Reservation(reserved, is_unsent=True)
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
        self._payment().answers.append(
            call_ledger.paid_answer(
                reservation.attempt, answer, is_billed=not reservation.is_unsent
            )
        )

    async def record_answer_now(
        self, transaction: Transaction, call: CallRecord, answer: CallAnswer
    ) -> None:
        """Records the answer now, because the transaction reads it, and its cost at the end of the transaction."""
        for query in call_ledger.answer_queries(call.id, answer):
            await query.execute(transaction)
        reservation = self._reservations.get(call.id)
        self._unit.on_commit(partial(_count_answer, call, answer, reservation))
        if reservation is not None:
            closing = (
                reservations.released(reservation.attempt)
                if reservation.is_unsent
                else reservations.settled(reservation.attempt, answer.cost_usd, answer.assumed_usd)
            )
            self._unit.defer_query(reservations.closing_query(closing))

    async def record_failure(self, call: CallRecord, epoch: int, failure: Failure) -> None:
        """Records that the last attempt of `call` failed, books its cost, and commits."""
        reservation = self._reservations.pop(call.id, None)
        if reservation is None:
            return
        async with self._unit.transaction() as transaction:
            error_record = await call_ledger.fail_attempt(
                transaction, reservation.attempt, epoch, failure
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
            async with self._unit.transaction() as transaction:
                await reservations.release(transaction, reservation.attempt)
            del self._reservations[call.id]

    async def _reserve(self, call_id: UUID, *, is_needed: bool) -> _Reservation:
        max_cost_usd = self._max_costs_usd[call_id]
        reserved: Sequence[Attempt] | None = None
        async with self._unit.transaction() as transaction:
            # First of all: it may take a lock, and others take that before they lock budgets.
            if self.limit is None or await self.limit(transaction, call_id, max_cost_usd):
                await reservations.write_off_call(transaction, call_id)
                await reservations.release_hold(self._lease.step_id).execute(transaction)
                reserved = await reservations.reserve(
                    transaction, self._agent_id, {call_id: max_cost_usd}
                )
        if reserved is None and not is_needed:
            raise TransientError(
                f"the rest of the budget does not cover the maximum cost of this call: ${max_cost_usd:f}",
                counts=False,
            )
        if reserved is None:
            # In its own transaction, without the step, so that it holds no other lock when it locks the agent's row.
            async with self._database.transaction() as transaction:
                error = await budgets.suspend_or_retry(transaction, self._agent_id, max_cost_usd)
            raise error
        reservation = self._reservations[call_id] = _Reservation(reserved[0], is_unsent=True)
        return reservation

    def _payment(self) -> _Payment:
        """What the next commit pays, for all phase runs of the step."""
        changes = self._unit.changes
        payment: _Payment | None = changes.of_writer.get(_Payment)
        if payment is None:
            payment = changes.of_writer[_Payment] = _Payment()
        else:
            # After the phase run that a call belongs to, which may have been added since.
            changes.deferred.remove(payment.write)
        payment.write = partial(payment.add_to, changes, self._lease)
        self._unit.defer(payment.write)
        return payment


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
        usd=_spent_usd(answer.spent_usd, reservation),
    )
