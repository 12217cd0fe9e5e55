"""What people have ordered, told to the bus so that it begins at once. Lost, it begins when the reconciler looks."""

from shared.errors import TransientError
from shared.events.envelope import Event
from shared.runtime.bus import Bus
from shared.runtime.logs import logger

log = logger(__name__)


class Hints:
    """Tells the bus where there is one; an order is committed before, so that nothing hangs on it."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus

    async def tell(self, event: Event) -> None:
        """Publishes `event`. Call when what it tells of is committed: best as the response's background task."""
        if not self._bus.is_connected:
            log.warning("not told yet, for NATS is away; it will be", about=event.subject)
            return
        try:
            await self._bus.publish(event)
        except TransientError as error:
            log.warning("not told yet; it will be", about=event.subject, reason=str(error))
