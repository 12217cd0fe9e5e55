"""A model of a provider that is paid for each call. The same request always costs the same and has the same answer."""

from collections.abc import Callable
from typing import Final

from tests.support.simulation.database import Database
from tests.support.simulation.rows import RUNNING, InFlight, Step, mix, step_key
from tests.support.simulation.scheduler import ViolationError
from tests.support.simulation.statistics import Statistics
from tests.support.simulation.step_write import Lease

MAX_COST: Final = 10


def cost_of(request: int) -> int:
    return 1 + mix(request, 1) % MAX_COST


class Provider:
    def __init__(
        self, database: Database, statistics: Statistics, seconds: Callable[[], float]
    ) -> None:
        self._database = database
        self._statistics = statistics
        self._seconds = seconds
        self.sent: set[tuple[int, int, int]] = set()
        """Step, request and attempt of each call that was sent."""

    def send(self, lease: Lease, request: int, attempt: int) -> float:
        """Send a call; returns how long its answer takes. Raises ViolationError unless its record is committed."""
        self._statistics.calls_sent += 1
        step_id = lease.step_id
        sending = (step_id, request, attempt)
        step: Step = self._database.read(step_key(step_id))
        is_own = step.epoch == lease.epoch and step.status == RUNNING
        if not is_own:
            # The worker lost its lease between the commit of the record and this moment. Its successor has booked it.
            self._statistics.late_sends += 1
        elif self._database.read(("answer", step_id, request)) is not None:
            raise ViolationError(f"{request} of step {step_id} is paid again: it is in the ledger")
        elif sending in self.sent:
            raise ViolationError(f"attempt {attempt} of {request} of step {step_id} is sent twice")
        if not self._is_recorded(step, step_id, request, attempt):
            raise ViolationError(f"{request} of step {step_id} is sent without a committed record")
        self.sent.add(sending)
        return self._seconds()

    def _is_recorded(self, step: Step, step_id: int, request: int, attempt: int) -> bool:
        if any(_is_attempt(call, request, attempt) for call in step.in_flight):
            return True
        answer = self._database.read(("answer", step_id, request))
        if answer is not None and answer.attempt == attempt:
            return True
        return self._database.read(("unknown", step_id, request, attempt)) is not None


def _is_attempt(call: InFlight, request: int, attempt: int) -> bool:
    return call.request == request and call.attempt == attempt
