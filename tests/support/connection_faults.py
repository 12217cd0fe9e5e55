"""Faults of a task that talks to PostgreSQL: it is cancelled, or its connection is lost, at a chosen request."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from unittest.mock import patch

import psycopg
from psycopg import AsyncConnection


class Fault(StrEnum):
    CANCELLED_BEFORE = "cancelled before"
    CANCELLED_DURING = "cancelled during"
    """The request has been sent."""
    LOST_BEFORE = "connection lost before"
    LOST_AFTER = "connection lost after"
    """PostgreSQL has executed the request."""

    @property
    def is_cancellation(self) -> bool:
        return self in (Fault.CANCELLED_BEFORE, Fault.CANCELLED_DURING)


@dataclass
class Requests:
    """The requests so far, and the server processes whose connections had the fault."""

    count: int = 0
    failed_pids: list[int] = field(default_factory=list)


@contextmanager
def fault_at(number: int | None, fault: Fault | None = None) -> Iterator[Requests]:
    """Lets the request with this number, counted from 0, have the fault. Without a number, it only counts."""
    requests = Requests()
    execute = AsyncConnection.wait

    async def wait(connection: AsyncConnection[Any], *args: Any, **options: Any) -> Any:
        requests.count += 1
        if requests.count - 1 != number:
            return await execute(connection, *args, **options)
        requests.failed_pids.append(connection.info.backend_pid)
        if fault is not None and fault.is_cancellation:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            if fault is Fault.CANCELLED_BEFORE:
                await asyncio.sleep(0)
            return await execute(connection, *args, **options)
        if fault is Fault.LOST_AFTER:
            await execute(connection, *args, **options)
        connection.pgconn.finish()
        raise psycopg.OperationalError(f"{fault} the request")

    with patch.object(AsyncConnection, "wait", wait):
        yield requests
