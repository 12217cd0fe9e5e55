"""Virtual time: an event loop whose clock jumps to the next timer, and simulated processes that can be killed or frozen."""

import asyncio
import heapq
import inspect
import os
import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Any, Final

import psycopg_pool.base
import psycopg_pool.pool_async
import psycopg_pool.sched_async
import pytest
from psycopg import AsyncConnection

EPOCH: Final = 1_780_000_000.0
"""When every simulation begins, in seconds since 1970."""

MAX_CLEANUPS: Final = 100


class Killed(BaseException):
    """Raised where a process is killed, so that it executes nothing more. No handler may catch it for good."""


class StuckError(AssertionError):
    """Nothing can happen any more, and the simulation has not ended."""


class ProcessState(Enum):
    RUNNING = "running"
    FROZEN = "frozen"
    DEAD = "dead"


@dataclass(eq=False)
class Process:
    """A simulated process: everything that runs in the context in which `PROCESS` is set to it."""

    name: str
    state: ProcessState = ProcessState.RUNNING
    connections: list[AsyncConnection[Any]] = field(default_factory=list)
    stash: list[asyncio.Handle] = field(default_factory=list)
    """What became ready while it was frozen."""
    was_frozen: bool = False
    """Whether it may still work on steps that others have taken over: a zombie."""

    def admits(self, handle: asyncio.Handle) -> bool:
        if self.state is ProcessState.FROZEN:
            self.stash.append(handle)
        return self.state is ProcessState.RUNNING


PROCESS: Final[ContextVar[Process | None]] = ContextVar("simulated_process", default=None)


class _Handle(asyncio.Handle):
    __slots__ = ()

    def _run(self) -> None:
        process: Process | None = self._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is None or process.admits(self):
            super()._run()


class _TimerHandle(asyncio.TimerHandle):
    __slots__ = ()

    def _run(self) -> None:
        process: Process | None = self._context.get(PROCESS)  # type: ignore[attr-defined]
        if process is None or process.admits(self):
            super()._run()


class _Task(asyncio.Task[Any]):
    """Its hash is a number, so that the order of a set of tasks is the same in every run."""

    def __init__(self, coroutine: Any, *, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(coroutine, **options)

    def __hash__(self) -> int:
        return self._number


class _Selector:
    """Waits for nothing but time."""

    def __init__(self, loop: "VirtualLoop") -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise StuckError("no timer is set and nothing is ready")
        self._loop.advance(timeout)
        return []


class VirtualLoop(asyncio.BaseEventLoop):
    """Executes what is ready; when nothing is, jumps to the next timer. There is no other I/O than that of `postgres.py`,
    which takes no virtual time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._created = 0
        self._tasks: list[_Task] = []
        """Those that have not ended. Of a killed process nothing else refers to them, and a collected coroutine would
        execute its cleanup.
        """
        self._prune_at = 1000
        self.errors: list[str] = []
        """Errors of tasks that are not awaited."""
        self._selector = _Selector(self)
        self.set_task_factory(self._create_task)
        self.set_exception_handler(self._note_error)

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def thaw(self, process: Process) -> None:
        process.state = ProcessState.RUNNING
        stash, process.stash = process.stash, []
        self._ready.extend(handle for handle in stash if not handle.cancelled())  # type: ignore[attr-defined]

    def end_tasks(self) -> None:
        """Ends all tasks. Their cleanup must have no effects any more."""
        asyncio._set_running_loop(self)  # of tasks that the cleanup creates, which end here too
        try:
            for task in self._tasks:
                if not task.done():
                    _close_coroutine(task.get_coro())
        finally:
            asyncio._set_running_loop(None)

    def call_at(  # type: ignore[override]  # typeshed binds the callback's arguments
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        timer = _TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)  # type: ignore[attr-defined]
        timer._scheduled = True  # type: ignore[attr-defined]
        return timer

    def _call_soon(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def run_in_executor(  # type: ignore[override]  # as above
        self, executor: Executor | None, function: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """Executes the function at once."""

        async def execute() -> Any:
            return function(*args)

        return self.create_task(execute())

    def _create_task(self, loop: Any, coroutine: Any, **options: Any) -> _Task:
        self._created += 1
        task = _Task(coroutine, loop=loop, number=self._created, **options)
        self._tasks.append(task)
        if len(self._tasks) > self._prune_at:
            self._tasks = [task for task in self._tasks if not task.done()]
            self._prune_at = 2 * len(self._tasks) + 1000
        return task

    def _note_error(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if error is not None and not isinstance(error, Killed):
            self.errors.append(f"{context['message']}: {error!r}")

    def _process_events(self, _: list[Any]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """No other thread wakes the loop."""


def _close_coroutine(coroutine: Any) -> None:
    """Closes a coroutine, also if its cleanup awaits, which raises RuntimeError, or raises an error of its own."""
    for _ in range(MAX_CLEANUPS):
        with suppress(BaseException):
            coroutine.close()
        if inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED:
            return


@contextmanager
def virtual_time(loop: VirtualLoop, seed: int) -> Iterator[None]:
    """Replaces the clocks and the random numbers of this process."""
    bytes_of = Random(seed).randbytes

    def wall_clock() -> float:
        return EPOCH + loop.time()

    state = random.getstate()
    random.seed(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "monotonic", loop.time)
        patch.setattr(time, "perf_counter", loop.time)
        patch.setattr(time, "time", wall_clock)
        patch.setattr(time, "time_ns", lambda: int(wall_clock() * 1e9))
        patch.setattr(os, "urandom", bytes_of)
        for module in (psycopg_pool.base, psycopg_pool.pool_async, psycopg_pool.sched_async):
            patch.setattr(module, "monotonic", loop.time)
        patch.setattr(psycopg_pool.base, "random", random.random)
        try:
            yield
        finally:
            random.setstate(state)
