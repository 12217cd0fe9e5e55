"""Worker processes for work that must not run on the event loop. They can be killed, and end when idle or with the service.

A worker is a module whose `main` calls `serve`. It gets a message on standard input, and answers on standard output.
"""

import asyncio
import os
import struct
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import BinaryIO, Final

from shared.errors import VigilError
from shared.interpreter import child_environment

IDLE_SECONDS: Final = 60.0
"""Idle time after which the processes end: each holds 50 to 100 MiB."""
END_SECONDS: Final = 5.0
START_SECONDS: Final = 60.0
_ENDED: Final = "a worker process ended unexpectedly"
_LENGTH: Final = struct.Struct(">I")


class WorkerEndedError(VigilError):
    """A worker ended before it answered."""


class WorkerPool:
    """At most `processes` workers of a module, which start when they are needed. Further calls wait."""

    def __init__(self, module: str, processes: int) -> None:
        self._module = module
        self._free = asyncio.Semaphore(processes)
        self._idle: list[Process] = []
        self._idle_timer: asyncio.TimerHandle | None = None
        self._ending = set[asyncio.Task[None]]()

    async def call(self, message: bytes, seconds: float | None = None) -> bytes:
        """Sends a message to a worker and returns its answer. Raises WorkerEndedError, or TimeoutError after `seconds`.

        A worker that is late, or whose call is cancelled, is killed.
        """
        async with self._free:
            process = self._idle.pop() if self._idle else await self._start()
            try:
                async with asyncio.timeout(seconds):
                    answer = await _exchange(process, message)
            except BaseException:
                # It may be amid a message, whose answer would be taken for that of the next one.
                _kill(process)
                raise
            self._idle.append(process)
            self._end_later()
        return answer

    async def close(self) -> None:
        """End the processes."""
        self._end_idle()
        await asyncio.gather(*self._ending)

    async def _start(self) -> Process:
        """Starts a process and waits until it has imported its module, which takes longer than most calls."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", self._module),
            stdin=PIPE,
            stdout=PIPE,
            env={**os.environ, **child_environment()},
            start_new_session=True,  # Ctrl-C stops the service, and the service stops it
        )
        try:
            async with asyncio.timeout(START_SECONDS):
                await _receive(process)
        except BaseException:
            _kill(process)
            raise
        return process

    def _end_later(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._idle_timer = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end_idle)

    def _end_idle(self) -> None:
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        for process in self._idle:
            ending = asyncio.create_task(_end(process))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
        self._idle.clear()


def _kill(process: Process) -> None:
    with suppress(ProcessLookupError):
        process.kill()


async def _exchange(process: Process, message: bytes) -> bytes:
    assert process.stdin is not None
    try:
        process.stdin.write(_LENGTH.pack(len(message)) + message)
        await process.stdin.drain()
    except ConnectionError as error:
        raise WorkerEndedError(_ENDED) from error
    return await _receive(process)


async def _receive(process: Process) -> bytes:
    answers = process.stdout
    assert answers is not None
    try:
        (length,) = _LENGTH.unpack(await answers.readexactly(_LENGTH.size))
        return await answers.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise WorkerEndedError(_ENDED) from error


async def _end(process: Process) -> None:
    """Lets the process end by itself, or kills it after END_SECONDS."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), END_SECONDS)
    except TimeoutError:
        _kill(process)
        await process.wait()


def serve(answer: Callable[[bytes], bytes]) -> None:
    """Answer the messages on standard input until it ends: in a worker."""
    # What anything prints goes to the service's log, and not into the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())

    def send(answered: bytes) -> None:
        answers.write(_LENGTH.pack(len(answered)) + answered)
        answers.flush()

    with suppress(BrokenPipeError):
        send(b"")  # ready
        for message in _messages(sys.stdin.buffer):
            send(answer(message))


def _messages(file: BinaryIO) -> Iterator[bytes]:
    """Yields messages until the service closes the pipe or ends."""
    while len(header := file.read(_LENGTH.size)) == _LENGTH.size:
        yield file.read(*_LENGTH.unpack(header))
