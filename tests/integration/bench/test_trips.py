"""The benchmark's count of round trips to PostgreSQL."""

import subprocess
import sys
from pathlib import Path
from typing import Final

PROGRAM: Final = """
import asyncio, sys
from pathlib import Path
from psycopg import AsyncConnection
from shared.database.pipelined import BoundStatement, PipelinedConnection
from bench.loop.trips import count_trips, trips_in

directory = Path(sys.argv[2])
count_trips(directory / "one.trips")

async def main():
    connection = await AsyncConnection.connect(sys.argv[1], autocommit=True)
    counts = []

    async def count(work):
        before = trips_in(directory)
        await work
        counts.append(trips_in(directory) - before)

    async def pipeline():
        async with connection.pipeline():
            for number in range(5):
                await connection.execute("select %s::int", [number], prepare=False)

    await count(connection.execute("select 1"))
    await count(pipeline())
    await connection.set_autocommit(False)
    await count(connection.execute("select 1"))
    await count(connection.commit())
    await connection.close()
    connection = await PipelinedConnection.connect(
        sys.argv[1], autocommit=True, prepare_threshold=None
    )
    numbers = [BoundStatement(b"select $1::int", [number]) for number in range(5)]
    await count(connection.run_together(numbers))
    await count(connection.execute("select 1"))
    await connection.close()
    print(*counts)

asyncio.run(main())
"""


def test_each_wait_for_the_server_is_a_trip(database_url: str, tmp_path: Path) -> None:
    """A statement takes one, several together as well; the first of a transaction takes one for its `begin`."""
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM, database_url, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == ["1", "1", "2", "1", "1", "1"]
