"""Checks the pages of a large graph on all cores: the rules take minutes of processor time for a million quotes.

The parts of a page are checked by processes of this module. They start with the first page of several parts, see the
snapshot of its transaction, and end when they have been idle for a while, or when the API is gone.
"""

import asyncio
import gc
import os
from pathlib import Path
from typing import Final
from uuid import UUID

from pydantic import BaseModel, Field
from sqlalchemy import text

from shared.database.engine import Database
from shared.database.transaction import Transaction
from shared.errors import RetrySoonError
from shared.graph.scope import GraphScope
from shared.graph.verification.verifier import PART_ROWS, check_page, find_parts, join_parts
from shared.runtime.credentials import build_database_url
from shared.runtime.settings import Settings
from shared.runtime.worker_processes import WorkerEndedError, WorkerPool, serve
from shared.schemas.provenance import VerificationPage

MAX_PROCESSES: Final = 4
_CPU_LIMIT: Final = Path("/sys/fs/cgroup/cpu.max")
"""Of a container: microseconds of processor time in a period, and the period's length."""
_COLLECTION_THRESHOLD: Final = 50_000
"""Of Python's garbage collector. Hardly anything that the rules make is in a cycle."""
_EXPORT_SNAPSHOT: Final = text(
    # This transaction waits idle for the parts, which see its snapshot, however long they take.
    "select pg_export_snapshot(), set_config('idle_in_transaction_session_timeout', '0', true)"
)


class _Task(BaseModel):
    """A part of a page. It names the connection too: other users of the machine could see the environment's."""

    database_url: str
    connection_name: str
    snapshot: str = Field(pattern=r"^[0-9A-F-]+$")
    owner_id: UUID
    agent_id: UUID
    cursor: str | None
    rows: int
    since: str | None


class _Outcome(BaseModel):
    page: VerificationPage | None = None
    unavailable: str = ""
    """Why PostgreSQL did not answer."""


class GraphVerifier:
    """Checks pages for the API. It is given the API's own connections for small ones."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        *,
        processes: int | None = None,
        part_rows: int = PART_ROWS,
    ) -> None:
        """There is one process for each core, unless `processes` says how many; with 1, the API's own does it all."""
        self._database = database
        self._url = build_database_url(settings, "api")
        self._name = f"api@{settings.worker_name}"
        self._processes = processes or min(_count_cores(), MAX_PROCESSES)
        self._part_rows = part_rows
        self._workers = WorkerPool("services.api.verification", self._processes)

    async def check(
        self,
        session: Transaction,
        scope: GraphScope,
        *,
        cursor: str | None,
        rows: int,
        since: str | None = None,
    ) -> VerificationPage:
        """Like `check_page`, in a transaction that reads a snapshot. Raises InvalidCursorError and RetrySoonError."""
        parts: list[str | None] = [cursor]
        if self._processes > 1:
            parts = await find_parts(
                session, scope, cursor=cursor, rows=rows, part_rows=self._part_rows
            )
        if len(parts) == 1:
            return await check_page(
                session,
                scope,
                cursor=cursor,
                rows=min(rows, self._part_rows),
                since=None if since is None else bytes.fromhex(since),
                signer=self._database.signer,
            )
        snapshot = str(await session.scalar(_EXPORT_SNAPSHOT))
        tasks = [
            _Task(
                database_url=self._url,
                connection_name=self._name,
                snapshot=snapshot,
                owner_id=scope.owner_id,
                agent_id=scope.agent_id,
                cursor=part,
                rows=self._part_rows,
                since=since,
            )
            for part in parts
        ]
        checks = [asyncio.create_task(self._check_part(task)) for task in tasks]
        try:
            return join_parts(await asyncio.gather(*checks))
        except BaseException:
            # The snapshot ends with the caller's transaction.
            for check in checks:
                check.cancel()
            await asyncio.gather(*checks, return_exceptions=True)
            raise

    async def close(self) -> None:
        """End the processes."""
        await self._workers.close()

    async def _check_part(self, task: _Task) -> VerificationPage:
        try:
            answer = await self._workers.call(task.model_dump_json().encode())
        except WorkerEndedError as error:
            raise RetrySoonError(
                "the process that checked part of the graph ended unexpectedly"
            ) from error
        outcome = _Outcome.model_validate_json(answer)
        if outcome.page is None:
            raise RetrySoonError(outcome.unavailable)
        return outcome.page


def _count_cores() -> int:
    """The whole cores that this process may use: a container may have fewer than the machine."""
    cores = os.cpu_count() or 1
    try:
        quota, period = _CPU_LIMIT.read_text().split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))


async def _check(database: Database, task: _Task) -> _Outcome:
    try:
        async with database.snapshot() as session:
            await session.execute(text(f"set transaction snapshot '{task.snapshot}'"))
            page = await check_page(
                session,
                GraphScope(task.owner_id, task.agent_id),
                cursor=task.cursor,
                rows=task.rows,
                since=None if task.since is None else bytes.fromhex(task.since),
            )
        return _Outcome(page=page)
    except RetrySoonError as error:
        return _Outcome(unavailable=str(error))


def main() -> None:
    """Check the parts that arrive on standard input, until it ends."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_COLLECTION_THRESHOLD)
    database: Database | None = None
    with asyncio.Runner() as runner:

        def check(message: bytes) -> bytes:
            nonlocal database
            task = _Task.model_validate_json(message)
            database = database or Database(
                task.database_url, name=task.connection_name, pool_size=1
            )
            return runner.run(_check(database, task)).model_dump_json().encode()

        serve(check)
        if database is not None:
            runner.run(database.close())


if __name__ == "__main__":
    main()
