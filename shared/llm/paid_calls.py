"""Paid calls of one phase run: their records and budgets, their attempts, and the commit of their answers.

`CallSender.send` sends calls of every kind: to models, search services and servers of embeddings. `PaidCalls` opens,
reserves, books and records them. What they write, `RunJournal` commits.

The first commit stands before the call is sent: its record and its reservation. The answer is written with the next one:
of the next call, or of the step's end. If a worker is killed between them, the next one books the attempt at its maximum
cost and sends the call again, or collects the answer where the provider has returned a reference.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Final, TypeVar
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
from shared.billing.resumable_call import ResumableCall
from shared.database.engine import Database
from shared.database.statements import Batch
from shared.database.text import error_text
from shared.database.transaction import Transaction
from shared.database.unit_of_work import Changes, DeferredWrite, UnitOfWork
from shared.enums import Phase
from shared.errors import PermanentError, TransientError, VigilError
from shared.failpoints import Failpoint, failpoint
from shared.llm.answer_errors import (
    COMPLETE_KINDS,
    UNKNOWN_USAGE,
    AnswerError,
    FailureKind,
    LostAnswerError,
    NoAnswerError,
)
from shared.llm.phase_run_store import StoredRun
from shared.llm.provider import Model
from shared.llm.repair import Repairs
from shared.schemas.iterations import NOTES_KEY
from shared.telemetry import metrics
from shared.tools import Json
from shared.workflow import leases
from shared.workflow.leases import Lease
from shared.workflow.steps import wait_ending

T = TypeVar("T")

MAX_TIMEOUTS: Final = 2
"""Timed-out attempts of one request before it fails."""
Limit = Callable[[Transaction, UUID, Decimal], Awaitable[bool]]
"""Whether an attempt of a call may cost this maximum (USD), besides the caps of the agent and the installation."""


@dataclass
class _Reservation:
    """The newest reservation of a call."""

    attempt: Attempt
    is_unbilled: bool
    """True if the attempt certainly cost nothing: it was not sent, or refused.

    Then the reservation serves the next attempt, or is released.
    """


@dataclass
class _Payment:
    """The payment of a step in one commit: its answers, the calls that it opens, by the hashes of their requests, and the
    phase runs that it completes.
    """

    answers: list[PaidAnswer] = field(default_factory=list)
    openings: dict[tuple["PaidCalls", str], CallRequest] = field(default_factory=dict)
    completed_runs: list[UUID] = field(default_factory=list)
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
        paid = call_ledger.pay(
            batch,
            step,
            self.answers,
            rows,
            max_costs,
            holding=step.holding,
            completed_runs=self.completed_runs,
        )

        def register() -> None:
            calls, attempts = paid.value
            by_call = {attempt.call_id: attempt for attempt in attempts}
            for (paid_calls, key), call in zip(self.openings, calls, strict=True):
                attempt = by_call.get(call.id)
                changes.on_this_commit.append(partial(paid_calls._register, key, call, attempt))

        batch.then(register)


class PaidCalls:
    """The calls and reservations of one phase run. It writes at the end of a transaction, as `reservations` requires.

    It uses a reservation of an earlier run only if the provider has returned a reference to that run's call.
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

        If a cap does not allow all calls of the transaction, none is reserved. Then `billable_attempt` reserves each call
        before it is sent.
        """
        self._payment().openings[self, request.hash] = request
        self._uncommitted.add(request.hash)

    async def commit_call(self, request: CallRequest) -> CallRecord:
        """Commits all that waits, with the call's record and reservation, and returns the record.

        Its way: `_Payment.add_to` adds the record to the commit, whose success calls `_register`.
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
            self._reservations[call.id] = _Reservation(reserved, is_unbilled=True)
        elif call.provider_ref is not None and call.reserved_on is not None:
            # The call is resumed by its reference and settled then.
            assert call.reserved_usd is not None
            attempt = Attempt(
                call.id, self._agent_id, call.attempts, call.reserved_on, call.reserved_usd
            )
            self._reservations[call.id] = _Reservation(attempt, is_unbilled=False)

    @asynccontextmanager
    async def billable_attempt(
        self, call: CallRecord, *, is_needed: bool = True
    ) -> AsyncIterator[None]:
        """Context of one attempt of `call`, which may be billed.

        Raises BudgetUsedUpError, or TransientError if the budget may suffice soon or if the work can go on without the call
        (`is_needed` is False). Then nothing was sent.
        """
        reservation = self._reservations.get(call.id)
        if reservation is None or not reservation.is_unbilled:
            reservation = await self._reserve(call.id, is_needed=is_needed)
        reservation.is_unbilled = False
        try:
            yield
        except VigilError as error:
            reservation.is_unbilled = reservation.is_unbilled or error.is_unbilled
            raise

    @contextmanager
    def waiting(self, call: CallRecord) -> Iterator[None]:
        """Context in which an attempt of `call` waits for its turn. An error leaves it as unbilled: nothing was sent."""
        reservation = self._reservations[call.id]
        reservation.is_unbilled = True
        yield
        reservation.is_unbilled = False

    def record_answer(self, call: CallRecord, answer: CallAnswer) -> None:
        """Records the answer and books its cost with the next commit."""
        reservation = self._reservations.get(call.id)
        self._unit.on_this_commit(partial(_count_answer, call, answer, reservation))
        if reservation is None:
            for query in call_ledger.answer_queries(call.id, answer):
                self._unit.defer_query(query)
            return
        self._payment().answers.append(
            call_ledger.paid_answer(
                reservation.attempt, answer, is_unbilled=reservation.is_unbilled
            )
        )

    def complete_run(self, run_id: UUID) -> None:
        """Marks the phase run as complete with the next commit."""
        self._payment().completed_runs.append(run_id)

    async def record_answer_now(
        self, transaction: Transaction, call: CallRecord, answer: CallAnswer
    ) -> None:
        """Records the answer now, because the transaction reads it, and its cost at the end of the transaction."""
        for query in call_ledger.answer_queries(call.id, answer):
            await query.execute(transaction)
        reservation = self._reservations.get(call.id)
        self._unit.on_this_commit(partial(_count_answer, call, answer, reservation))
        if reservation is not None:
            paid = call_ledger.paid_answer(
                reservation.attempt, answer, is_unbilled=reservation.is_unbilled
            )
            self._unit.defer_query(reservations.closing_query(paid.closing))

    async def record_failure(self, call: CallRecord, epoch: int, failure: Failure) -> None:
        """Records that the last attempt of `call` failed, and books its cost: at once while a call is in progress, otherwise
        with the next commit. Does nothing if it is recorded already.
        """
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

    def is_unbilled(self, call: CallRecord) -> bool:
        """Whether the last attempt of `call` certainly cost nothing."""
        reservation = self._reservations.get(call.id)
        return reservation is not None and reservation.is_unbilled

    async def release_unbilled(self, call: CallRecord) -> None:
        """Releases the reservation of `call` if the attempt certainly cost nothing."""
        reservation = self._reservations.get(call.id)
        if reservation is not None and reservation.is_unbilled:
            async with self._unit.transaction() as transaction:
                await reservations.release(transaction, reservation.attempt)
            del self._reservations[call.id]

    async def _reserve(self, call_id: UUID, *, is_needed: bool) -> _Reservation:
        """Reserves the maximum cost of the call's next attempt.

        Books an open attempt of an earlier worker at its maximum cost: it may have been billed. Raises BudgetUsedUpError;
        for a call that is not needed, TransientError if the budget does not suffice.
        """
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
        reservation = self._reservations[call_id] = _Reservation(reserved[0], is_unbilled=True)
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
    if reservation is None or reservation.is_unbilled:
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


def summary(repairs: int, notes: Sequence[str]) -> Json:
    """The part of a step's result that says how its answers were used."""
    return {name: value for name, value in (("repairs", repairs), (NOTES_KEY, [*notes])) if value}


@dataclass
class _RunChanges:
    """The changes to a run that one transaction writes."""

    events: dict[UUID, list[Json]] = field(default_factory=dict)
    """By the call in whose row they are stored."""
    answered: set[UUID] = field(default_factory=set)
    """Calls whose events are written with their answers."""


class RunJournal:
    """What one phase run writes: its calls, its events and its end, each with the next commit of its unit of work."""

    def __init__(self, model: Model, lease: Lease, phase: Phase) -> None:
        self.lease = lease
        self.phase = phase
        self._stored: StoredRun | None = None
        self.unit = lease.unit or UnitOfWork(model.database, leases.fence(lease), is_immediate=True)
        self.paid_calls = PaidCalls(
            model.database,
            lease,
            self.unit,
            lambda request: call_ledger.new_row(lease, self.stored.id, phase, request),
            partial(model.max_cost_usd, phase),
        )
        self.event_call_id: UUID | None = None
        """The call whose row has the next events."""
        self.has_been_answered = False
        """Whether a provider has answered a call of this process."""
        self.repair_count = 0
        """Repairs that this run, and the runs that it resumes, recorded."""
        self.notes: list[str] = []
        """Notes for the owner, such as pages that were left out of the run."""

    @property
    def stored(self) -> StoredRun:
        assert self._stored is not None, "begin() comes first"
        return self._stored

    @property
    def repair_summary(self) -> Json:
        """The number of repairs and the notes, for the step's result; empty if there were none."""
        return summary(self.repair_count, self.notes)

    async def record_repairs(self, subject: str, repairs: Repairs, *, key: str) -> None:
        """Records the repairs of an answer. `key` identifies the answer."""
        self.add_repairs(subject, repairs, key=key)
        await self.unit.commit_if_immediate()

    def add_repairs(self, subject: str, repairs: Repairs, *, key: str) -> None:
        """Does the same with the next commit."""
        if repairs:
            notes = repairs.all_notes
            self.repair_count += len(repairs)
            self.add_event({"type": "repair", "key": key, "subject": subject, "repairs": notes})

    def add_event(self, event: Json) -> None:
        """Adds `event` at the end of the transaction, to the row of the call that was answered last, or of the first."""
        assert self.event_call_id is not None, "no event precedes the first request"
        self._pending_changes().events.setdefault(self.event_call_id, []).append(event)

    def complete(self) -> None:
        """Marks the run as complete at the end of the transaction."""
        self.paid_calls.complete_run(self.stored.id)

    def add_answer(self, call: CallRecord, answer: CallAnswer, *events: Json) -> None:
        """Adds the answer and its cost at the end of the transaction, with `events` and those that follow."""
        if self.lease.is_after_wait and self.has_been_answered:
            self.unit.defer_query(wait_ending(self.lease))
        if call.answered_at is None:
            self.event_call_id = call.id
        run_changes = self._pending_changes()
        run_changes.answered.add(call.id)
        events_of_call = run_changes.events.setdefault(call.id, [])
        events_of_call.extend(events)
        self.paid_calls.record_answer(call, replace(answer, events=events_of_call))
        self.unit.on_next_commit(partial(failpoint, Failpoint.CALL_RECORDED))

    def _pending_changes(self) -> _RunChanges:
        changes = self.unit.changes
        if self not in changes.of_writer:
            changes.of_writer[self] = _RunChanges()
            self.unit.defer(partial(self._write_changes, changes))
        run_changes: _RunChanges = changes.of_writer[self]
        return run_changes

    def _write_changes(self, changes: Changes, batch: Batch) -> None:
        run_changes: _RunChanges = changes.of_writer[self]
        for call_id, events in run_changes.events.items():
            if call_id not in run_changes.answered:
                batch.add(call_ledger.append_events(call_id, events))

    async def record_answer(
        self,
        call: CallRecord,
        answer: CallAnswer,
        *,
        is_last: bool,
        following: Sequence[CallRequest],
    ) -> None:
        """Records the answer of a model, and opens the paid calls that follow from it, with the next commit.

        A worker that is killed before that pays for the answer again.
        """

        def write() -> None:
            self.add_answer(call, answer, {"type": "answer", "call_id": str(call.id)})
            if is_last:
                self.complete()
            for request in following:
                self.paid_calls.open_call(request)

        await self.unit.defer_durably(write)

    async def record_in_transaction(self, write: Callable[[Transaction], Awaitable[T]]) -> T:
        """Records a paid result that needs a transaction, also if the worker is cancelled.

        See `UnitOfWork.write_durably`.
        """

        async def write_all(transaction: Transaction) -> T:
            self.unit.on_next_commit(partial(failpoint, Failpoint.CALL_RECORDED))
            if self.lease.is_after_wait and self.has_been_answered:
                await wait_ending(self.lease).execute(transaction)
            return await write(transaction)

        return await self.unit.write_durably(write_all)


class CallSender:
    """Sends the paid calls of one phase run: to models, search services and servers of embeddings."""

    def __init__(self, model: Model, journal: RunJournal) -> None:
        self._model = model
        self._journal = journal
        self._started_at = time.monotonic()

    async def send(
        self,
        call: CallRecord,
        perform: Callable[[ResumableCall], Awaitable[T]],
        *,
        is_needed: bool = True,
    ) -> T:
        """Sends `call` with `perform` and returns its result. Raises what `perform` raises.

        A call of a model passes `ModelRouter.complete`, `ChatProvider.complete`, `Adaptations.send`, `with_quick_retries`,
        the attempt that is reserved here, the turn of `ProviderGate`, and `ModelServer.pieces`, which sends it. `Failpoint`
        lists what happens in this order. If the budget is used up, the agent is suspended only if the call `is_needed`.
        """
        journal, database = self._journal, self._model.database

        async def store_reference(reference: str) -> None:
            await journal.record_in_transaction(
                lambda transaction: call_ledger.record_reference(transaction, call.id, reference)
            )

        # After an unusable answer the key is a new one, because a server that supports it would repeat that answer.
        unusable = sum(failure["kind"] in COMPLETE_KINDS for failure in call.failures)
        in_flight = ResumableCall(
            f"{call.id}-{unusable}" if unusable else str(call.id),
            call.provider_ref,
            store_reference,
            partial(self._billable_attempt, call, is_needed=is_needed),
            partial(call_ledger.report_progress, database, call.id),
            journal.lease.waited_seconds,
        )
        await journal.unit.commit()
        failpoint(Failpoint.CALL_UNSENT)
        with journal.unit.external_call_in_progress():
            try:
                async with self._time_limit() as timer:
                    waiting = partial(self._waiting, call, timer)
                    answer = await perform(replace(in_flight, waiting=waiting))
            except VigilError as error:
                if isinstance(error, AnswerError | LostAnswerError):
                    await self.record_failure(call, error)
                await journal.paid_calls.release_unbilled(call)
                raise
            except asyncio.CancelledError:
                # A call that was waiting for its turn costs nothing. If that cannot be stored, because the lease is lost or
                # PostgreSQL is unavailable, the next worker writes the reservation off.
                with suppress(VigilError):
                    await asyncio.shield(journal.paid_calls.release_unbilled(call))
                raise
        failpoint(Failpoint.CALL_ANSWERED)
        journal.has_been_answered = True
        return answer

    @asynccontextmanager
    async def _billable_attempt(self, call: CallRecord, *, is_needed: bool) -> AsyncIterator[None]:
        """Context of one attempt of `call`. Records an attempt without a usable answer, with its cost.

        Raises PermanentError after MAX_TIMEOUTS timeouts.
        """
        await self.check_failures(call, FailureKind.TIMEOUT, MAX_TIMEOUTS)
        try:
            async with self._journal.paid_calls.billable_attempt(call, is_needed=is_needed):
                try:
                    yield
                except VigilError as error:
                    if isinstance(error, AnswerError):
                        outcome: str = error.kind
                    else:
                        is_transient = isinstance(error, TransientError)
                        outcome = "unavailable" if is_transient else "refused"
                    metrics.count_call(self._journal.phase, call.model, outcome)
                    raise
                metrics.count_call(self._journal.phase, call.model, "answered")
        except AnswerError as error:
            await self.record_failure(call, error)
            if error.kind is FailureKind.TIMEOUT:
                await self.check_failures(call, FailureKind.TIMEOUT, MAX_TIMEOUTS, error)
            raise

    @contextmanager
    def _waiting(self, call: CallRecord, timer: asyncio.Timeout | None) -> Iterator[None]:
        """Context in which an attempt waits for its turn. The `timer` of the phase stands still."""
        with self._journal.paid_calls.waiting(call):
            expires_at = None if timer is None or timer.expired() else timer.when()
            if timer is None or expires_at is None:
                yield
                return
            clock = asyncio.get_running_loop().time
            stopped_at = clock()
            timer.reschedule(None)
            try:
                yield
            finally:
                timer.reschedule(expires_at + clock() - stopped_at)

    async def record_failure(self, call: CallRecord, error: AnswerError | LostAnswerError) -> None:
        """Records an answer that cannot be used, with its cost, unless it is recorded already."""
        unusable = error.unusable if isinstance(error, LostAnswerError) else error
        usage = unusable.usage
        cost_usd = self._model.prices.tokens_usd(
            call.model or "",
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_tokens,
            usage.service_tier,
        )
        if unusable.is_unbilled and usage is UNKNOWN_USAGE:
            cost_usd = Decimal(0)
        failure = Failure(
            unusable.kind,
            error_text(str(unusable)),
            unusable.excerpt,
            usage.input_tokens,
            usage.output_tokens,
            cost_usd,
        )
        await self._journal.paid_calls.record_failure(call, self._journal.lease.epoch, failure)

    async def check_failures(
        self,
        call: CallRecord,
        kind: FailureKind,
        limit: int | None,
        cause: AnswerError | None = None,
    ) -> None:
        """Raises PermanentError if `limit` attempts of `call` failed so since the last retry that the user requested."""
        failures = [failure for failure in call.failures if failure["kind"] == kind]
        if limit is None or len(failures) < limit:
            return
        async with self._journal.unit.transaction() as transaction:
            retried_epoch = await leases.retried_epoch(transaction, self._journal.lease.step_id)
        failures = [failure for failure in failures if failure["epoch"] > retried_epoch]
        if len(failures) < limit:
            return
        count, last = len(failures), failures[-1]["error"]
        if kind is FailureKind.TIMEOUT:
            raise PermanentError(
                "llm_timeout",
                f"{last}. The request was sent {count} times and will not be sent again: "
                "raise that limit, or use a faster model or server",
            ) from cause
        raise NoAnswerError(
            f"the model gave no answer in {count} attempts; the last error: {last}",
            is_filtered=cause is not None and cause.is_filtered,
        ) from cause

    @asynccontextmanager
    async def _time_limit(self) -> AsyncIterator[asyncio.Timeout | None]:
        """Raises TransientError when the time of the phase is over. Yields the limit; None if there is none."""
        phase = self._journal.phase
        seconds = self._model.phase_seconds.get(phase)
        if seconds is None:
            yield None
            return
        timer = asyncio.timeout(self._started_at + seconds - time.monotonic())
        try:
            async with timer:
                expires_at = timer.when()
                try:
                    yield timer
                finally:
                    # Without the time for which the call has waited for its turn.
                    self._started_at += (timer.when() or 0.0) - (expires_at or 0.0)
        except TimeoutError:
            if not timer.expired():
                raise
            raise TransientError(
                f"the phase {phase} was not done within {seconds:g} s (VIGIL_PHASE_SECONDS)"
            ) from None
