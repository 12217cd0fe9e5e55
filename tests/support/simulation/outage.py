"""An outage of the provider: calls are refused, and steps wait by the state that all workers share."""

from typing import Final

from shared.provider_limits.state import (
    MAX_OUTAGE_PAUSE_SECONDS,
    Demand,
    Limits,
    ProviderState,
    Refusal,
    Want,
)
from tests.support.simulation.scheduler import Scheduler

MIN_PAUSE_SECONDS: Final = 2.0


class ProviderAwayError(Exception):
    """The call was not answered, or not sent. The step is to be released."""

    def __init__(self, pause_seconds: float) -> None:
        super().__init__(pause_seconds)
        self.pause_seconds = pause_seconds


class Outage:
    """The provider is away from `begin` for so many seconds."""

    def __init__(self, scheduler: Scheduler, begin: float = 0.0, seconds: float = 0.0) -> None:
        self._scheduler = scheduler
        self._begin = begin
        self.end = begin + seconds
        self.state = ProviderState()
        self.refused = 0
        """Calls that the provider did not answer."""
        self.released = 0
        """Steps that were released to wait."""

    @property
    def is_on(self) -> bool:
        return self._begin <= self._scheduler.now < self.end

    @property
    def has_effect(self) -> bool:
        """Whether steps may wait for it."""
        return self.is_on or self.state.unavailable_since is not None

    def check_call(self, worker: str) -> None:
        """Asks whether a call may be sent, and sends it. Raises ProviderAwayError; nothing is billed then."""
        if not self.end:
            return
        now, random = self._scheduler.now, self._scheduler.random.random
        (answer,) = self.state.ask(Limits(), now, worker, Demand([Want()]), random()).answers
        if isinstance(answer, Refusal):
            self.released += 1
            raise ProviderAwayError(answer.until - now)
        if self.is_on:
            self.refused += 1
            self.released += 1
            self.state.failed(
                now, "connection refused", is_probe=getattr(answer, "is_probe", False)
            )
            span = MAX_OUTAGE_PAUSE_SECONDS - MIN_PAUSE_SECONDS
            raise ProviderAwayError(MIN_PAUSE_SECONDS + span * random())
        self.state.answered(now)
