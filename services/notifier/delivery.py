"""One delivery: claimed, sent, recorded."""

import asyncio
import random
import time
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Final, Protocol, assert_never

from sqlalchemy.ext.asyncio import AsyncSession

from services.notifier.payload import Parcel, pack
from services.notifier.retry_schedule import rest_seconds
from shared.database.engine import Database
from shared.database.tables import Destination
from shared.enums import DestinationKind
from shared.errors import TransientError
from shared.failpoints import CrashPoint, reach
from shared.notifications import deliveries, destinations
from shared.notifications.deliveries import DeliveryLease, DeliveryLostError
from shared.runtime.logging import logger


@dataclass(frozen=True)
class Taken:
    """The receiver has it. `status_code` is of HTTP, here and below."""

    status_code: int | None = None


@dataclass(frozen=True)
class NotNow:
    """Tried again later."""

    why: str
    status_code: int | None = None
    asked_seconds: float | None = None
    """The least wait that the receiver asked for."""
    details: str | None = None


@dataclass(frozen=True)
class Never:
    """Another attempt cannot mend it; where `stops`, nor can any other delivery to this destination be made."""

    why: str
    status_code: int | None = None
    stops: bool = False
    details: str | None = None


Verdict = Taken | NotNow | Never


RECORD_SECONDS: Final = 20.0
"""What a lease has beyond the longest attempt, to pack and to record in. Sent and not recorded would be sent again."""
RECORD_AGAIN_SECONDS: Final = 0.5
STAY_SECONDS: Final = 3.0
UNEXPECTED: Final = (
    "an unexpected error, which the notifier's log shows to the operator of this installation"
)

log = logger(__name__)


class Sender(Protocol):
    @property
    def seconds(self) -> float:
        """The longest that `send` takes."""

    async def send(self, parcel: Parcel) -> Verdict:
        """Tries once. Whatever goes wrong outside is a verdict; raises nothing but what nobody foresaw."""


@dataclass(frozen=True)
class Deliver:
    database: Database
    senders: Mapping[DestinationKind, Sender]
    public_url: str | None

    @property
    def lease_seconds(self) -> float:
        return max(sender.seconds for sender in self.senders.values()) + RECORD_SECONDS

    async def __call__(self, lease: DeliveryLease, claimed_at: float) -> None:
        """`claimed_at` is by the monotonic clock. Raises TransientError where Postgres stays away, and
        DeliveryLostError."""
        lapses_at = claimed_at + self.lease_seconds
        verdict = await self._attempted(lease, lapses_at)
        if isinstance(verdict, Taken):
            reach(CrashPoint.DELIVERY_ANSWERED)
        await _to_its_end(self._record(lease, verdict, lapses_at))
        reach(CrashPoint.DELIVERY_RECORDED)

    async def _attempted(self, lease: DeliveryLease, lapses_at: float) -> Verdict:
        async with self.database.transaction() as session:
            to = await session.get(Destination, lease.destination_id)
            if to is None:
                raise DeliveryLostError(lease)
            if not to.active:
                return Never("the destination is not active: activate it, then retry this")
            parcel = await pack(session, lease, to, self.public_url)
        if parcel is None:
            raise DeliveryLostError(lease)
        sender = self.senders[DestinationKind(to.kind)]
        if time.monotonic() + sender.seconds > lapses_at:
            # This process stood still: another may have claimed it by the time that an attempt would end.
            raise DeliveryLostError(lease)
        try:
            return await sender.send(parcel)
        except Exception as error:
            log.exception("unexpected error", delivery=str(lease.delivery_id))
            return NotNow(UNEXPECTED, details=repr(error))

    async def _record(self, lease: DeliveryLease, verdict: Verdict, lapses_at: float) -> None:
        """Again and again while the lease lasts: Postgres may be away for a moment just now."""
        while True:
            try:
                async with self.database.transaction() as session:
                    return await self._write(session, lease, verdict)
            except DeliveryLostError:
                raise
            except TransientError:
                if time.monotonic() > lapses_at:
                    raise
            await asyncio.sleep(RECORD_AGAIN_SECONDS)

    async def _write(self, session: AsyncSession, lease: DeliveryLease, verdict: Verdict) -> None:
        match verdict:
            case Taken(status_code):
                await deliveries.delivered(session, lease, status_code)
                _say(lease, "delivered")
            case NotNow(why, status_code, asked_seconds, details):
                rest = rest_seconds(
                    lease.attempts + 1, asked_seconds=asked_seconds, luck=random.random()
                )
                status = await deliveries.failed_once(
                    session, lease, why, status_code, rest_seconds=rest
                )
                _say(lease, f"not delivered, and now {status}", details or why)
            case Never(why, status_code, stops, details):
                await deliveries.failed(session, lease, why, status_code)
                if stops:
                    await destinations.stop(session, lease.destination_id, why)
                _say(lease, "cannot be delivered", details or why)
            case _:
                assert_never(verdict)


async def _to_its_end(record: Coroutine[None, None, None]) -> None:
    """Who is told to stop stays for a moment: what has arrived and is not recorded is sent again."""
    recording = asyncio.ensure_future(record)
    try:
        await asyncio.shield(recording)
    except asyncio.CancelledError:
        await asyncio.wait({recording}, timeout=STAY_SECONDS)
        raise


def _say(lease: DeliveryLease, what: str, why: str | None = None) -> None:
    """Never the address: of many a webhook it is the secret."""
    told = {"delivery": str(lease.delivery_id), "destination": str(lease.destination_id)}
    if why is None:
        log.info(what, **told)
    else:
        log.warning(what, why=why, **told)
