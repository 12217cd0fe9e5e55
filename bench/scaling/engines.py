"""What NATS and PostgreSQL can do alone, with the durability of a release, from one client process on the same machine."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

import nats
import psycopg

CONNECTIONS: Final = 16
PUBLISHERS: Final = 64
PAYLOAD: Final = b"x" * 660
"""About as long as an event of the loop: 10 kB of stream by 15 messages."""


async def _rate(work: Callable[[], Awaitable[int]], workers: int, seconds: float) -> float:
    """Units of work a second that `workers` do at the same time."""

    async def run_until(end: float) -> int:
        done = 0
        while time.monotonic() < end:
            done += await work()
        return done

    began = time.monotonic()
    counts = await asyncio.gather(*(run_until(began + seconds) for _ in range(workers)))
    return sum(counts) / (time.monotonic() - began)


async def measure_nats(url: str, seconds: float) -> float:
    """Messages a second that a stream on disk acknowledges."""
    client = await nats.connect(url)
    try:
        stream = client.jetstream()
        await stream.add_stream(name="BENCH", subjects=["bench.>"])

        async def publish() -> int:
            await stream.publish("bench.event", PAYLOAD)
            return 1

        return await _rate(publish, PUBLISHERS, seconds)
    finally:
        await client.close()


async def measure_postgres(dsn: str, seconds: float) -> tuple[float, float]:
    """Statements a second that read a row by its key, and commits a second that insert one of 1 kB."""
    connections = [
        await psycopg.AsyncConnection.connect(dsn, autocommit=True) for _ in range(CONNECTIONS)
    ]
    free = asyncio.Queue[psycopg.AsyncConnection]()
    for connection in connections:
        free.put_nowait(connection)
    try:
        await connections[0].execute(
            "create unlogged table bench_read as select n as id, repeat('x', 500) as text"
            " from generate_series(1, 10000) as n"
        )
        await connections[0].execute("create index on bench_read (id)")
        await connections[0].execute(
            "create table bench_write (id bigint generated always as identity primary key, text text)"
        )

        async def read() -> int:
            connection = await free.get()
            async with connection.pipeline():
                for _ in range(20):
                    await connection.execute("select text from bench_read where id = 4711")
            free.put_nowait(connection)
            return 20

        async def write() -> int:
            connection = await free.get()
            await connection.execute("insert into bench_write (text) values (repeat('x', 1000))")
            free.put_nowait(connection)
            return 1

        reads = await _rate(read, CONNECTIONS, seconds)
        return reads, await _rate(write, CONNECTIONS, seconds)
    finally:
        for connection in connections:
            await connection.close()
