"""A deterministic scheduler with virtual time. Actors are generators; one seed gives one sequence of steps.

An actor yields None to let others run, a float to sleep for so many seconds, or a condition to wait for. At each step any
actor that can run may be the next, so that every interleaving is possible.
"""

import heapq
from collections.abc import Callable, Generator
from random import Random
from typing import Any, TypeVar

from tests.support.simulation.breakages import Breakage

T = TypeVar("T")
Wait = float | list["Actor"] | None
"""What an actor yields."""
Task = Generator[Wait, None, T]
"""What an actor does, or a part of that with a result."""
Steps = Task[None]

TIME_JUMP = 1 / 400
"""Probability that time moves on although an actor can run: that actor is slow."""


class ViolationError(AssertionError):
    """An invariant does not hold."""


class Process:
    """A process that can be killed, with all its actors, and paused."""

    __slots__ = ("is_alive", "name", "paused_until")

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.paused_until = 0.0


class Actor:
    """A generator, and the process that it dies with."""

    __slots__ = ("is_dead", "process", "steps")

    def __init__(self, steps: Steps, process: Process | None) -> None:
        self.steps = steps
        self.process = process
        self.is_dead = False


class Scheduler:
    def __init__(self, seed: int, breakage: Breakage | None = None) -> None:
        self.random = Random(seed)
        self.breakage = breakage
        self.now = 0.0
        self.steps = 0
        self._actors: set[Actor] = set()
        self._ready: list[Actor] = []
        self._timers: list[tuple[float, int, Actor]] = []
        self._timer_count = 0
        self._fault_at = 0
        self._inject: Callable[[], None] | None = None
        self._steps_per_fault = 0

    def spawn(self, steps: Steps, process: Process | None = None) -> Actor:
        actor = Actor(steps, process)
        self._actors.add(actor)
        self._ready.append(actor)
        return actor

    def wake(self, condition: list[Actor]) -> None:
        """Let all actors run that wait for the condition."""
        if condition:
            self._ready.extend(condition)
            condition.clear()

    def inject(self, fault: Callable[[], None] | None, steps_per_fault: int = 0) -> None:
        """Call `fault` after a random number of steps, again and again; None ends that."""
        self._inject, self._steps_per_fault = fault, steps_per_fault
        self._schedule_fault()

    def run(self, is_done: Callable[[], bool], max_steps: int) -> None:
        """Run until `is_done`. Raises ViolationError if that takes more than `max_steps` further steps."""
        random, ready = self.random.random, self._ready
        last_step = self.steps + max_steps
        while not is_done():
            for _ in range(32):
                if not ready or random() < TIME_JUMP:
                    if not self._timers and not ready:
                        raise ViolationError("nothing can run any more, and work is left")
                    self._advance_time()
                    continue
                place = int(random() * len(ready))
                actor = ready[place]
                ready[place] = ready[-1]
                ready.pop()
                self._step(actor)
                if self.steps >= self._fault_at and self._inject is not None:
                    self._schedule_fault()
                    self._inject()
            if self.steps > last_step:
                raise ViolationError(f"not done after {max_steps} steps: work is lost or stuck")

    def close(self) -> None:
        """Close all actors, so that the garbage collector need not close some within others."""
        for actor in self._actors:
            actor.steps.close()

    def _step(self, actor: Actor) -> None:
        process = actor.process
        if actor.is_dead or (process is not None and not process.is_alive):
            self._actors.discard(actor)
            actor.steps.close()
            return
        if process is not None and process.paused_until > self.now:
            self._sleep(actor, process.paused_until)
            return
        self.steps += 1
        try:
            wait: Any = actor.steps.send(None)
        except StopIteration:
            self._actors.discard(actor)
            return
        if wait is None:
            self._ready.append(actor)
        elif type(wait) is float:
            self._sleep(actor, self.now + wait)
        else:
            wait.append(actor)

    def _sleep(self, actor: Actor, until: float) -> None:
        self._timer_count += 1
        heapq.heappush(self._timers, (until, self._timer_count, actor))

    def _advance_time(self) -> None:
        if self._timers:
            at, _, actor = heapq.heappop(self._timers)
            self.now = max(self.now, at)
            self._ready.append(actor)

    def _schedule_fault(self) -> None:
        if self._inject is not None:
            self._fault_at = self.steps + 1 + int(self.random.random() * 2 * self._steps_per_fault)


class Fields:
    """A row with named fields, which is never changed."""

    __slots__: tuple[str, ...] = ()

    def with_fields(self, **changes: Any) -> Any:
        copy = object.__new__(type(self))
        for name in self.__slots__:
            setattr(copy, name, changes[name] if name in changes else getattr(self, name))
        return copy
