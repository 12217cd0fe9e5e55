"""Runs one delivery: loads it, sends it, records the result."""

import asyncio
import random
import time
from collections.abc import Coroutine, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Final, Protocol, assert_never
from uuid import UUID

from services.notifier.payload import Parcel, pack
from services.notifier.retry_schedule import delay_seconds
from shared.database.engine import Database
from shared.database.tables import Destination
from shared.database.transaction import Transaction
from shared.enums import DeliveryStatus, DestinationKind
from shared.errors import TransientError
from shared.failpoints import Failpoint, failpoint
from shared.notifications import deliveries, destinations
from shared.notifications.deliveries import DeliveryLease, DeliveryLostError
from shared.runtime.logging import logger
from shared.telemetry import metrics, tracing


@dataclass(frozen=True)
class Accepted:
    """The receiver has accepted it. `status_code` is the HTTP status, here and below."""

    status_code: int | None = None


@dataclass(frozen=True)
class TemporaryFailure:
    """A temporary failure."""

    why: str
    status_code: int | None = None
    min_delay_seconds: float | None = None
    """The minimum delay that the receiver asked for."""
    details: str | None = None


@dataclass(frozen=True)
class PermanentFailure:
    """A permanent failure; with `stops`, for all deliveries to this destination."""

    why: str
    status_code: int | None = None
    stops: bool = False
    details: str | None = None


Verdict = Accepted | TemporaryFailure | PermanentFailure


RECORD_SECONDS: Final = 20.0
"""Time beyond the longest attempt that a lease has for loading and recording. An unrecorded delivery is sent again."""
RECORD_RETRY_SECONDS: Final = 0.5
SHUTDOWN_RECORD_SECONDS: Final = 3.0
UNEXPECTED: Final = (
    "an unexpected error; the operator of this installation can find it in the notifier's log"
)

log = logger(__name__)


class Sender(Protocol):
    @property
    def seconds(self) -> float:
        """Maximum duration of `send`."""

    async def send(self, parcel: Parcel) -> Verdict:
        """Tries once. Expected failures are returned as a verdict; only unexpected errors are raised."""


@dataclass(frozen=True)
class Deliver:
    database: Database
    senders: Mapping[DestinationKind, Sender]
    public_url: str | None

    @property
    def lease_seconds(self) -> float:
        return max(sender.seconds for sender in self.senders.values()) + RECORD_SECONDS

    async def __call__(self, lease: DeliveryLease, claimed_at: float) -> None:
        """`claimed_at` is monotonic time. Raises TransientError if PostgreSQL stays unavailable, and DeliveryLostError."""
        lapses_at = claimed_at + self.lease_seconds
        verdict = await self._attempt(lease, lapses_at)
        if isinstance(verdict, Accepted):
            failpoint(Failpoint.DELIVERY_ANSWERED)
        await _finish(self._record(lease, verdict, lapses_at))
        failpoint(Failpoint.DELIVERY_RECORDED)

    async def _attempt(self, lease: DeliveryLease, lapses_at: float) -> Verdict:
        async with self.database.transaction() as transaction:
            destination = await transaction.get(Destination, lease.destination_id)
            if destination is None:
                raise DeliveryLostError(lease)
            if not destination.active:
                return PermanentFailure(
                    "the destination is not active: activate it, then retry this delivery"
                )
            parcel = await pack(transaction, lease, destination, self.public_url)
        if parcel is None:
            raise DeliveryLostError(lease)
        sender = self.senders[DestinationKind(destination.kind)]
        if time.monotonic() + sender.seconds > lapses_at:
            # This process was suspended: another may have claimed it by the time that an attempt would end.
            raise DeliveryLostError(lease)
        try:
            with _traced(lease, destination.kind, parcel.iteration_id) as span:
                verdict = await sender.send(parcel)
                if span is not None:
                    _trace_verdict(span, verdict)
            return verdict
        except Exception as error:
            log.exception("unexpected error", delivery=str(lease.delivery_id))
            return TemporaryFailure(UNEXPECTED, details=repr(error))

    async def _record(self, lease: DeliveryLease, verdict: Verdict, lapses_at: float) -> None:
        """Retries while the lease lasts, since PostgreSQL may be unavailable for a moment."""
        while True:
            try:
                async with self.database.transaction() as transaction:
                    outcome = await self._write_result(transaction, lease, verdict)
                metrics.DELIVERIES.labels(outcome).inc()
                return
            except DeliveryLostError:
                raise
            except TransientError:
                if time.monotonic() > lapses_at:
                    raise
            await asyncio.sleep(RECORD_RETRY_SECONDS)

    async def _write_result(
        self, transaction: Transaction, lease: DeliveryLease, verdict: Verdict
    ) -> str:
        """Returns the outcome for metrics."""
        match verdict:
            case Accepted(status_code):
                await deliveries.record_delivered(transaction, lease, status_code)
                _log_result(lease, "delivered")
                return "delivered"
            case TemporaryFailure(why, status_code, min_delay_seconds, details):
                delay = delay_seconds(
                    lease.attempts + 1, min_delay_seconds=min_delay_seconds, jitter=random.random()
                )
                status = await deliveries.record_failed_attempt(
                    transaction, lease, why, status_code, delay_seconds=delay
                )
                _log_result(lease, f"not delivered, and now {status}", details or why)
                return "failed" if status == DeliveryStatus.FAILED else "retried"
            case PermanentFailure(why, status_code, stops, details):
                await deliveries.record_failed(transaction, lease, why, status_code)
                if stops:
                    await destinations.stop(transaction, lease.destination_id, why)
                _log_result(lease, "cannot be delivered", details or why)
                return "failed"
            case _:
                assert_never(verdict)


def _traced(lease: DeliveryLease, kind: str, iteration_id: UUID | None) -> tracing.SpanContext:
    """The span of an attempt to deliver advice, in the trace of the iteration that gave it. Without the address."""
    if iteration_id is None:
        return nullcontext()
    attributes: tracing.Attributes = {
        "vigil.delivery.id": str(lease.delivery_id),
        "vigil.delivery.attempt": lease.attempts + 1,
    }
    return tracing.under_root(iteration_id, f"deliver {kind}", "client", attributes)


def _trace_verdict(span: tracing.Span, verdict: Verdict) -> None:
    span.add({"http.response.status_code": verdict.status_code})
    # Not why: a mail server's answer can contain the address.
    if isinstance(verdict, TemporaryFailure):
        span.fail("not delivered; it may be retried")
    elif isinstance(verdict, PermanentFailure):
        span.fail("it cannot be delivered")


async def _finish(record: Coroutine[None, None, None]) -> None:
    """Finishes the recording even if cancelled: a delivery that arrived but was not recorded is sent again."""
    recording = asyncio.ensure_future(record)
    try:
        await asyncio.shield(recording)
    except asyncio.CancelledError:
        await asyncio.wait({recording}, timeout=SHUTDOWN_RECORD_SECONDS)
        raise


def _log_result(lease: DeliveryLease, event: str, why: str | None = None) -> None:
    """Logs the result, without the address: the URL of a webhook is often a secret."""
    fields = {"delivery": str(lease.delivery_id), "destination": str(lease.destination_id)}
    if why is None:
        log.info(event, **fields)
    else:
        log.warning(event, why=why, **fields)
