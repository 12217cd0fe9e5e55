"""Counts the round trips of a process to PostgreSQL: how often it waited for an answer of the server.

The statements of a pipeline are one round trip, however many packets its answers need.

Driving psycopg from here costs time, so trips are counted in a run of their own.
"""

import mmap
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final, TypeVar

from psycopg import AsyncConnection, AsyncPipeline
from psycopg.pq import PipelineStatus
from psycopg.waiting import Ready, Wait

from shared.database.pipelined import PipelinedConnection, Result

T = TypeVar("T")

TRIPS_FILE: Final = "BENCH_TRIPS_FILE"
"""Environment variable: the file in which a service counts its round trips."""
_SIZE: Final = 8
_Steps = Generator[Wait, Ready | int, T]


def count_trips(file: Path) -> None:
    """Count from now on, in `file`, which others can read meanwhile: see `trips_in`."""
    file.write_bytes(bytes(_SIZE))
    with file.open("r+b") as opened:
        counter = memoryview(mmap.mmap(opened.fileno(), _SIZE)).cast("Q")
    original_wait, original_exit = AsyncConnection.wait, AsyncPipeline.__aexit__
    original_run = PipelinedConnection._run

    def counted(steps: _Steps[T]) -> _Steps[T]:
        try:
            state = next(steps)
            while True:
                ready = yield state
                counter[0] += bool(ready & Ready.R)
                state = steps.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result

    async def wait(self: AsyncConnection[Any], gen: _Steps[T], *args: Any, **options: Any) -> T:
        is_alone = self.pgconn.pipeline_status == PipelineStatus.OFF
        return await original_wait(self, counted(gen) if is_alone else gen, *args, **options)

    async def leave_pipeline(self: AsyncPipeline, *args: Any) -> None:
        counter[0] += 1
        await original_exit(self, *args)

    async def run(
        self: PipelinedConnection, *args: Any, **options: Any
    ) -> tuple[list[Result], Exception | None]:
        counter[0] += 1
        return await original_run(self, *args, **options)

    PipelinedConnection._run = run  # type: ignore[method-assign]
    AsyncConnection.wait = wait  # type: ignore[method-assign]
    AsyncPipeline.__aexit__ = leave_pipeline  # type: ignore[assignment, method-assign]


def trips_in(directory: Path) -> int:
    """The round trips so far of all processes that count in this directory."""
    return sum(int.from_bytes(file.read_bytes(), "little") for file in directory.glob("*.trips"))
