"""Runs steps: claims a step with its handler's first write, runs the handler, ends or fails the step in the database, then
returns the events to publish.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NoReturn
from uuid import UUID

from shared import derived_events
from shared.billing.budgets import BudgetUsedUpError
from shared.database.engine import Database
from shared.database.statements import Batch, BoundQuery, PendingResult
from shared.database.transaction import Transaction
from shared.database.unit_of_work import UnitOfWork
from shared.enums import StepKind
from shared.errors import (
    PermanentError,
    RetrySoonError,
    TransientError,
    UnavailableError,
    WaitForProviderError,
)
from shared.events.codec import encode
from shared.events.envelope import Event
from shared.events.models import StepEvent
from shared.failpoints import Failpoint, failpoint
from shared.llm.model_server import RefusedAloneError
from shared.runtime.connections import create_bus, create_database
from shared.runtime.consumer import MessageConsumer
from shared.runtime.logging import logger
from shared.runtime.router import EventHandler, ServiceRouter
from shared.runtime.settings import Settings
from shared.telemetry import metrics, tracing
from shared.telemetry.metrics import StepTimer
from shared.workflow import dead_letters, leases, steps
from shared.workflow.iterations import StepRow
from shared.workflow.leases import Lease, LeaseLostError
from shared.workflow.steps import Pauses

MIN_BACKOFF_SECONDS = 2.0
MAX_BACKOFF_SECONDS = 60.0
PAUSES = Pauses()
"""Between two polls of a provider that does not answer. Of a provider that is known to be unavailable, or to limit requests,
`ProviderGate` knows how long a step is to wait.
"""
NO_PAUSE = Pauses(0.0, 0.0)
MAX_RETRY_AFTER_SECONDS = 3600.0
"""Upper limit for the pause that a provider asks for: it may work again much earlier."""
HANDED_OVER = "handed over at shutdown, when the time of VIGIL_DRAIN_SECONDS was over"
MAX_CLAIMS = 50
"""A step fails after so many claims without an end: it probably kills its workers.

Claims that ended in waiting for a provider are not counted.
"""

log = logger(__name__)


@dataclass(frozen=True)
class StepResult:
    """The result of a step. `queries` and `write` run in the transaction that ends the step."""

    result: dict[str, Any]
    queries: Sequence[BoundQuery[Any]] = ()
    """Their results are not needed. They run before `write` and the step's end, after what tools have written."""
    plan: BoundQuery[list[StepRow]] | None = None
    """Inserts the steps that follow. It runs before the queries."""
    write: Callable[[Transaction], Awaitable[None]] | None = None
    """For writes that need a transaction; it costs round trips."""


StepHandler = Callable[[Lease, StepRow], Awaitable[StepResult]]
FailureHandler = Callable[[Transaction, StepRow, str], Awaitable[None]]
"""Writes what follows from a failed step, in the transaction that fails it. The string is the error's text."""


class StepRunner:
    """Handles every event that requests a step. `handlers` has the handler of each kind of step of this service."""

    def __init__(
        self,
        service: str,
        database: Database,
        *,
        worker: str,
        lease_seconds: float,
        max_attempts: int,
        handlers: Mapping[StepKind, StepHandler],
        on_failure: Mapping[StepKind, FailureHandler],
        streams_progress: bool = False,
    ) -> None:
        """With `streams_progress`, each transaction of the work is committed at once, so that its progress is visible."""
        self._service = service
        self._database = database
        self._worker = worker
        self._lease_seconds = lease_seconds
        self._max_attempts = max_attempts
        self._handlers = dict(handlers)
        self._on_failure = dict(on_failure)
        self._streams_progress = streams_progress
        self._running: set[UUID] = set()
        """Steps that this process handles; their claims may not be committed yet."""

    async def __call__(self, event: Event) -> Sequence[Event]:
        assert isinstance(event, StepEvent)
        if event.step_id in self._running:
            raise TransientError(
                f"step is leased by {self._worker}",
                retry_in_seconds=self._lease_seconds,
                counts=False,
            )
        # Before it is loaded: a second message that has loaded it before the end of the first would run the step again.
        self._running.add(event.step_id)
        try:
            return await self._handle(event)
        finally:
            self._running.remove(event.step_id)

    async def _handle(self, event: StepEvent) -> Sequence[Event]:
        match await self._load(event):
            case leases.WrongKind(kind):
                raise PermanentError(
                    "wrong_service",
                    f"{event.subject} requests a step of kind {kind!r}, but the {self._service} only handles"
                    f" {' and '.join(self._handlers)}; find the program that publishes it",
                )
            case leases.NotFound():
                return []
            case leases.AlreadyEnded(step):
                return await self._end_events(step)
            case leases.Unavailable(owner, seconds_left):
                raise TransientError(
                    f"step is leased by {owner}"
                    if owner
                    else "step is in backoff after a failed attempt",
                    retry_in_seconds=seconds_left,
                    counts=False,
                )
            case leases.RetryRequested():
                async with self._database.transaction() as transaction:
                    await leases.reopen(transaction, event.step_id)
                return await self._handle(event)
            case leases.Claimable(_, step) as claimable:
                lease = await self._prepare_claim(claimable)
                _trace_lost_worker(claimable)
                with metrics.step_timer(step.kind) as timer:
                    return await self._run(event, lease, step, claimable.claims, timer)

    async def _load(self, event: StepEvent) -> leases.LoadedStep:
        return await self._database.run(
            leases.load(
                event.step_id,
                self._worker,
                seconds=self._lease_seconds,
                kinds=self._handlers.keys(),
            )
        )

    async def _prepare_claim(self, claimable: leases.Claimable) -> Lease:
        """The lease, with a unit of work whose first commit claims the step.

        If that is rolled back, the next one claims it. The claim of a step that was requested long ago is committed at once,
        so that it is counted: earlier workers may have died before they wrote anything.
        """
        lease = claimable.lease
        unit = UnitOfWork(
            self._database,
            leases.fence(lease),
            claim=leases.claim_query(lease, claimable.begun_at),
            is_immediate=self._streams_progress,
        )
        unit.on_next_commit(partial(failpoint, Failpoint.LEASE_TAKEN))
        if claimable.waited_seconds > self._lease_seconds or self._streams_progress:
            await unit.commit()
        return replace(lease, unit=unit)

    async def _end_events(self, step: StepRow) -> Sequence[Event]:
        async with self._database.transaction() as transaction:
            return await derived_events.events_after_step(transaction, step)

    async def _run(
        self, event: Event, lease: Lease, step: StepRow, claims: int, timer: StepTimer
    ) -> Sequence[Event]:
        attributes = {
            "vigil.agent.id": str(lease.agent_id),
            "vigil.iteration.id": None if lease.iteration_id is None else str(lease.iteration_id),
            "vigil.worker": lease.owner,
        }
        with tracing.step(step.kind, step.id, lease.epoch, attributes) as span:
            try:
                events = await self._run_handler(event, lease, step, claims, timer)
            except LeaseLostError:
                timer.outcome = "lease_lost"
                if span is not None:
                    span.disown()
                raise
        if lease.iteration_id is None and events:
            _trace_agent_task(step, events[0])
        return events

    async def _run_handler(
        self, event: Event, lease: Lease, step: StepRow, claims: int, timer: StepTimer
    ) -> Sequence[Event]:
        try:
            if claims > MAX_CLAIMS:
                raise PermanentError(
                    "claimed_too_often",
                    f"{MAX_CLAIMS} workers started this step, but none finished it; see their logs for the cause",
                )
            handler = self._handlers[StepKind(step.kind)]
            outcome = await leases.run_while_renewing(self._database, lease, handler(lease, step))
            events = await self._end(lease, step, outcome)
            timer.outcome = "completed"
            return events
        except LeaseLostError:
            raise
        except asyncio.CancelledError:
            wait_error = step.error if lease.is_after_wait else None
            await asyncio.shield(self._release(lease, step, wait_error or HANDED_OVER, 0, 0.0))
            raise
        except PermanentError as error:
            return await self._fail(event, lease, step, error, timer)
        except RetrySoonError as error:
            await self._release(lease, step, str(error), 0, 0.0)
            raise
        except TransientError as error:
            if not error.counts:
                timer.outcome = "waiting"
                return await self._wait_for_provider(lease, error)
            return await self._retry_or_fail(event, lease, step, error, timer)
        except Exception as error:
            log.exception("unexpected error")
            return await self._retry_or_fail(event, lease, step, TransientError(repr(error)), timer)

    async def _end(self, lease: Lease, step: StepRow, outcome: StepResult) -> Sequence[Event]:
        if outcome.write is None and step.iteration_id is not None and lease.unit is not None:
            return await self._end_in_one_trip(lease, lease.unit, outcome)
        assert outcome.plan is None, "only a step of an iteration plans others"
        async with self._final_transaction(lease) as transaction:
            for query in outcome.queries:
                await query.execute(transaction)
            if outcome.write is not None:
                await outcome.write(transaction)
            ended_step = await steps.end(transaction, lease, outcome.result)
            events = await derived_events.events_after_step(transaction, ended_step)
            failpoint(Failpoint.STATE_WRITTEN)
            return events

    async def _end_in_one_trip(
        self, lease: Lease, unit: UnitOfWork, outcome: StepResult
    ) -> Sequence[Event]:
        """Ends a step of an iteration in one round trip."""
        events: list[Event] = []
        plan: list[PendingResult[list[StepRow]]] = []

        def write(batch: Batch) -> None:
            plan[:] = [] if outcome.plan is None else [batch.add(outcome.plan)]
            for query in outcome.queries:
                batch.add(query)

        def end(batch: Batch) -> None:
            failpoint(Failpoint.STATE_WRITTEN)
            ended_step = steps.end_with(batch, lease, outcome.result)

            def derive_events() -> None:
                events[:] = derived_events.events_after_iteration_step(
                    ended_step.value, plan[0].value if plan else ()
                )

            batch.then(derive_events)

        # The plan locks the iteration, which all lock before they lock budgets.
        unit.defer(write, first=True)
        unit.defer(end)
        await unit.commit()
        return events

    @asynccontextmanager
    async def _final_transaction(self, lease: Lease) -> AsyncIterator[Transaction]:
        """A transaction that is committed at its end, together with all waiting writes."""
        async with leases.leased_transaction(self._database, lease) as transaction:
            yield transaction
        if lease.unit is not None:
            await lease.unit.commit()

    async def _retry_or_fail(
        self, event: Event, lease: Lease, step: StepRow, error: TransientError, timer: StepTimer
    ) -> Sequence[Event]:
        if step.attempts + 1 >= self._max_attempts:
            message = f"{error} (gave up after {self._max_attempts} attempts; VIGIL_MAX_ATTEMPTS sets the limit)"
            permanent_error = PermanentError("attempts_used_up", message)
            return await self._fail(event, lease, step, permanent_error, timer)
        timer.outcome = "retried"
        backoff_seconds = min(MIN_BACKOFF_SECONDS * 2.0**step.attempts, MAX_BACKOFF_SECONDS)
        delay_seconds = max(backoff_seconds, error.retry_in_seconds or 0.0)
        # The next attempt need not wait again until it counts.
        keeps_waiting = isinstance(error, RefusedAloneError)
        await self._release(lease, step, str(error), 1, delay_seconds, keeps_waiting=keeps_waiting)
        raise TransientError(str(error), retry_in_seconds=delay_seconds) from error

    async def _wait_for_provider(self, lease: Lease, error: TransientError) -> NoReturn:
        """Releases the step while a provider is unavailable or rate-limited. It continues by itself when the provider
        answers again.
        """
        min_pause_seconds = min(error.retry_in_seconds or 0.0, MAX_RETRY_AFTER_SECONDS)
        pauses = NO_PAUSE if isinstance(error, WaitForProviderError) else PAUSES
        async with self._final_transaction(lease) as transaction:
            pause_seconds = await steps.wait(
                transaction, lease, str(error), pauses=pauses, least_seconds=min_pause_seconds
            )
        is_announced = isinstance(error, UnavailableError) and error.is_announced
        raise UnavailableError(
            str(error), retry_in_seconds=pause_seconds, is_announced=is_announced
        ) from error

    async def _release(
        self,
        lease: Lease,
        step: StepRow,
        error: str,
        attempts: int,
        rest_seconds: float,
        *,
        keeps_waiting: bool = False,
    ) -> None:
        async with self._final_transaction(lease) as transaction:
            await steps.release(
                transaction,
                lease,
                error,
                attempts=step.attempts + attempts,
                rest_seconds=rest_seconds,
                keeps_waiting=keeps_waiting or not attempts,
            )

    async def _fail(
        self, event: Event, lease: Lease, step: StepRow, error: PermanentError, timer: StepTimer
    ) -> Sequence[Event]:
        attempts = step.attempts + 1
        # A used-up budget needs no operator: the agent is suspended, and its owner has a notice.
        is_dead_letter = not isinstance(error, BudgetUsedUpError)
        if (span := tracing.current()) is not None:
            span.fail(error)
        log.error("step failed permanently", code=error.code, error=str(error), attempts=attempts)
        async with self._final_transaction(lease) as transaction:
            if is_dead_letter:
                await dead_letters.store(
                    transaction,
                    service=self._service,
                    subject=event.subject,
                    payload=encode(event),
                    code=error.code,
                    error=str(error),
                    attempts=attempts,
                    step_id=step.id,
                )
            if (write := self._on_failure.get(StepKind(step.kind))) is not None:
                await write(transaction, step, str(error))
            failed_step = await steps.fail(transaction, lease, str(error), attempts=attempts)
            events = await derived_events.events_after_step(transaction, failed_step)
        timer.outcome = "failed"
        if is_dead_letter:
            metrics.DEAD_LETTERS_STORED.labels(self._service, metrics.CODES(error.code)).inc()
        return events


def _trace_lost_worker(claimable: leases.Claimable) -> None:
    """Records the attempt of the worker before, if it died without releasing the step."""
    step, lost = claimable.step, claimable.lost
    if lost is not None:
        tracing.lost_step(
            step.kind,
            step.id,
            claimable.lease.epoch - 1,
            worker=lost.worker,
            since=lost.since,
            until=lost.until,
        )


def _trace_agent_task(step: StepRow, end: Event) -> None:
    """Records the root of the trace of a step that belongs to no iteration."""
    tracing.root(
        step.id,
        str(step.kind),
        since=step.first_requested_at or end.occurred_at,
        until=end.occurred_at,
        attributes={"vigil.agent.id": str(step.agent_id), "vigil.step.id": str(step.id)},
    )


CONNECTIONS_PER_SLOT = 2
"""One for the work, one for the renewal of the lease."""


def step_database(name: str, settings: Settings, *, concurrency: int) -> Database:
    return create_database(
        settings, name, pool_size=CONNECTIONS_PER_SLOT * (settings.concurrency or concurrency) + 1
    )


def step_consumer(
    name: str,
    settings: Settings,
    database: Database,
    handlers: Mapping[StepKind, StepHandler],
    create_router: Callable[[EventHandler, int], ServiceRouter],
    *,
    concurrency: int,
    closing: Sequence[Callable[[], Awaitable[None]]] = (),
    on_failure: Mapping[StepKind, FailureHandler] = MappingProxyType({}),
    streams_progress: bool = False,
) -> MessageConsumer:
    """`concurrency` is the service's default, which the settings may override. For `streams_progress` see `StepRunner`."""
    runner = StepRunner(
        name,
        database,
        worker=settings.worker_name,
        lease_seconds=settings.lease_seconds,
        max_attempts=settings.max_attempts,
        handlers=handlers,
        on_failure=on_failure,
        streams_progress=streams_progress,
    )
    return MessageConsumer(
        name,
        create_router(runner, settings.concurrency or concurrency),
        bus=create_bus(settings, name),
        database=database,
        closing=closing,
    )
