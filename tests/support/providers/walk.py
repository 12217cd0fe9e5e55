"""Random installations that share the state of one provider: processes with calls, in simulated time."""

import heapq
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from shared.provider_limits.state import (
    PERMIT_SECONDS,
    PLACE_PAUSE_SECONDS,
    Demand,
    Limits,
    Permit,
    ProviderState,
    Refusal,
    Want,
)

ASK_AGAIN_SECONDS = 0.5
MAX_LOCAL_WAIT_SECONDS = 10.0
RENEW_SECONDS = 10.0


@dataclass(eq=False)
class SimulatedCall:
    """A call of a step; it is sent once, unless the provider refuses it."""

    process: str
    begun_at: float
    tokens: int
    seconds: float
    released_at: float | None = None
    asked_since: float | None = None
    sent_at: float | None = None
    step: int = 0


@dataclass
class Walk:
    """Processes ask in any order and at any time; a permit is used as late as possible, or as soon."""

    seed: int
    limits: Limits
    processes: int
    provider: Callable[[float], float | str | None] = lambda now: None
    """What the provider does at a time: None answers, a number refuses with that Retry-After, a text is a failure."""
    now: float = 1000.0
    state: ProviderState = field(default_factory=ProviderState)
    sent: list[tuple[float, int]] = field(default_factory=list)
    accepted: list[float] = field(default_factory=list)
    running: Counter[str] = field(default_factory=Counter)
    max_running: int = 0
    waiting: list[SimulatedCall] = field(default_factory=list)
    ended: list[SimulatedCall] = field(default_factory=list)
    probes: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._accepted_of: dict[str, list[float]] = {}

    def begin_call(
        self, process: str, *, tokens: int = 0, seconds: float = 1.0, step: int = 0
    ) -> None:
        call = SimulatedCall(process, self.now, tokens, seconds, step=step)
        self.waiting.append(call)
        self._ask(call)

    def at(self, when: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._queue, (when, next(self._numbers), do))

    def run(self, until: float) -> None:
        while self._queue and self._queue[0][0] <= until:
            self.now, _, do = heapq.heappop(self._queue)
            do()
        self.now = until

    def renew_forever(self, process: str) -> None:
        """As a process with calls in progress does."""
        if self.running[process]:
            self._demand(process)
        self.at(self.now + RENEW_SECONDS, lambda: self.renew_forever(process))

    def _demand(self, process: str, *wants: Want) -> tuple[object, ...]:
        recent = [at for at in self._accepted_of.get(process, []) if at > self.now - 60]
        self._accepted_of[process] = recent
        newest = sum(at > self.now - 10 for at in recent)
        demand = Demand(wants, self.running[process], len(recent), newest)
        grant = self.state.grant(self.limits, self.now, process, demand, self.random.random())
        # What is stored is what the next process reads.
        self.state = ProviderState.from_json(self.state.as_json())
        return grant.answers

    def _ask(self, call: SimulatedCall) -> None:
        if call.asked_since is None:
            call.asked_since = self.now
        waited_seconds = 0.0 if call.released_at is None else self.now - call.released_at
        (answer,) = self._demand(call.process, Want(call.tokens, waited_seconds))
        match answer:
            case Permit(at, is_probe):
                call.asked_since = None
                self.running[call.process] += 1
                if is_probe:
                    self.probes.append(self.now)
                late = self.random.choice((0.0, PERMIT_SECONDS * 0.999))
                self.at(at + late, lambda: self._send(call, at, is_probe))
            case Refusal(until):
                self._release(call, until)
            case _:
                if self.now - call.asked_since > MAX_LOCAL_WAIT_SECONDS:
                    self._release(call, self.now + PLACE_PAUSE_SECONDS)
                else:
                    self.at(self.now + ASK_AGAIN_SECONDS, lambda: self._ask(call))

    def _release(self, call: SimulatedCall, until: float) -> None:
        call.asked_since = None
        call.released_at = call.released_at or self.now
        self.at(until, lambda: self._ask(call))

    def _send(self, call: SimulatedCall, permitted_at: float, is_probe: bool) -> None:
        self.sent.append((self.now, call.tokens))
        self.max_running = max(self.max_running, self.running.total())
        match self.provider(self.now):
            case None:
                self.accepted.append(self.now)
                self._accepted_of.setdefault(call.process, []).append(self.now)
                self.state.answered(self.now)
                self.waiting.remove(call)
                self.at(self.now + call.seconds, lambda: self._end(call))
            case str() as error:
                self._leave(call.process)
                self.state.failed(self.now, error, is_probe=is_probe)
                self._retry(call)
            case retry_after:
                self._leave(call.process)
                self.state.refused(
                    self.now,
                    call.process,
                    sent_at=permitted_at,
                    accepted=len(self._accepted_of.get(call.process, [])),
                    recent=sum(
                        at > self.now - 10 for at in self._accepted_of.get(call.process, [])
                    ),
                    retry_after=retry_after,
                    error="429",
                )
                self._retry(call)

    def _retry(self, call: SimulatedCall) -> None:
        """A quick retry in the worker."""
        self.at(self.now + 1.0, lambda: self._ask(call))

    def _end(self, call: SimulatedCall) -> None:
        self._leave(call.process)
        call.sent_at = self.now - call.seconds
        self.ended.append(call)

    def _leave(self, process: str) -> None:
        self.running[process] -= 1
        if self.limits.concurrency is not None:
            self._demand(process)


def most_in_a_minute(sent: list[tuple[float, int]], *, tokens: bool = False) -> int:
    """The most requests, or tokens, in any half-open minute."""
    most = total = first = 0
    for at, count_ in sent:
        total += count_ if tokens else 1
        while sent[first][0] <= at - 60:
            total -= sent[first][1] if tokens else 1
            first += 1
        most = max(most, total)
    return most
