"""Deletes what is older than its retention, in small batches beside everything else.

Each batch is a transaction of one agent or one table, under an advisory lock, so that one scheduler prunes at a time. It
locks what it deletes and skips what others have locked: what an open iteration, step, retry or call needs is left for a
later pass. What a batch deletes of an iteration it notes in `pruned_iterations` and `call_days`, which the journal of the
graph covers. See decision 0059.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from services.scheduler import pruning_sql as sql
from shared.database.engine import Database
from shared.database.transaction import Transaction
from shared.enums import RetentionKind
from shared.errors import TransientError
from shared.runtime.background import log_and_continue
from shared.runtime.logging import logger
from shared.workflow.retention import DAY, RetentionPolicy, min_days

LOOK_SECONDS: Final = 60.0
"""How often a scheduler looks whether a pass is due."""
EVERY_SECONDS: Final = 3600.0
PAUSE_SECONDS: Final = 0.05
"""Between two batches, so that others get their turn."""
PASS_SECONDS: Final = 120.0
"""After this time a pass ends, and the next one continues."""
ITERATIONS_PER_BATCH: Final = 20
ROWS_PER_BATCH: Final = 500
CONTEXTS_PER_SEARCH: Final = 20 * ROWS_PER_BATCH
LONGEST_TRANSACTION: Final = timedelta(hours=1)
"""Far longer than a transaction can last: what one writes is looked for from this time before it could be seen."""
KEPT_ITERATIONS: Final = 50
"""The newest iterations of an agent are kept whatever their age: the Observer decides by them whether there is work."""
KEPT_WORKING: Final = 20
"""So are the newest iterations that were not quiet."""

log = logger(__name__)


class _Locked(NamedTuple):
    """Iterations that a batch may prune."""

    ids: Sequence[UUID]
    numbers: Sequence[int]
    last: int | None
    """The number of the last one that was looked at; None: there was none."""


class _OtherSchedulerError(Exception):
    """Another scheduler prunes."""


@dataclass(frozen=True)
class Pruner:
    database: Database
    policy: RetentionPolicy
    every_seconds: float = EVERY_SECONDS
    pause_seconds: float = PAUSE_SECONDS
    pass_seconds: float = PASS_SECONDS
    kept_iterations: int = KEPT_ITERATIONS
    kept_working: int = KEPT_WORKING
    search_ttl: timedelta = timedelta()
    """Answers of the search service are kept for at least this time, since they are used again."""

    async def run(self) -> None:
        """Prune whenever a pass is due, until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await log_and_continue(self.prune_due, "will prune at the next look")

    async def prune_due(self) -> None:
        """Make the passes that are due."""
        for kind in RetentionKind:
            params = {"kind": kind, "every": self.every_seconds}
            async with self.database.transaction() as transaction:
                await transaction.execute(sql.REGISTER, self._setting(kind))
                is_due = await transaction.scalar(sql.CLAIM, params) is not None
            if is_due:
                await self.prune(kind)

    async def prune(self, kind: RetentionKind, now: datetime | None = None) -> int:
        """Make one pass, as at the time `now` (None: the database's). Returns how many rows it has pruned."""
        before = await self._before(kind, now)
        if before is None:
            if kind in self.policy.max_bytes:
                await self._note(kind, 0, is_whole=True)
            return 0
        ends = time.monotonic() + self.pass_seconds
        pruned, is_whole = 0, True
        try:
            async with aclosing(self._batches(kind, before)) as batches:
                async for batch in batches:
                    pruned += batch
                    if time.monotonic() > ends:
                        is_whole = False
                        break
                    await asyncio.sleep(self.pause_seconds)
        except _OtherSchedulerError:
            is_whole = False
        await self._note(kind, pruned, is_whole=is_whole)
        return pruned

    async def _before(self, kind: RetentionKind, now: datetime | None) -> datetime | None:
        """Rows from before this time are deleted; None: none are."""
        age, most = self.policy.ages.get(kind), self.policy.max_bytes.get(kind)
        has_answers = kind in (RetentionKind.TRANSCRIPTS, RetentionKind.ITERATIONS)
        least = max(DAY * min_days(kind), self.search_ttl if has_answers else timedelta())
        async with self.database.transaction() as transaction:
            now = now or (await transaction.execute(sql.NOW)).scalar_one()
            limits = [] if age is None else [now - max(age, least)]
            size = (
                await transaction.scalar(sql.MEASURE, {"kind": kind}) if most is not None else None
            )
            if most is not None and size and size > most:
                of_share = await transaction.scalar(
                    sql.OLDEST_SHARE[kind], {"share": 1 - most / size}
                )
                limits += [min(of_share, now - least)] if of_share else []
        return max(limits, default=None)

    def _setting(self, kind: RetentionKind) -> Mapping[str, Any]:
        days, max_bytes = self.policy.days(kind), self.policy.max_bytes.get(kind)
        return {"kind": kind, "days": days, "max_bytes": max_bytes}

    def _limits(self, before: datetime) -> Mapping[str, Any]:
        return {
            "before": before,
            "most": ITERATIONS_PER_BATCH,
            "kept": self.kept_iterations,
            "kept_working": self.kept_working,
        }

    async def _note(self, kind: RetentionKind, pruned: int, *, is_whole: bool) -> None:
        async with self.database.transaction() as transaction:
            await transaction.execute(sql.REGISTER, self._setting(kind))
            is_limited = kind in self.policy.max_bytes
            await transaction.execute(
                sql.NOTE_PASS,
                {
                    "kind": kind,
                    "rows": pruned,
                    "is_whole": is_whole,
                    "oldest_at": await transaction.scalar(sql.OLDEST[kind]),
                    "bytes": await transaction.scalar(sql.MEASURE, {"kind": kind})
                    if is_limited
                    else None,
                },
            )
        if pruned:
            log.info("deleted what was old", kind=kind, rows=pruned)

    async def _batches(self, kind: RetentionKind, before: datetime) -> AsyncGenerator[int, None]:
        if kind in sql.DELETE_ROWS:
            async for batch in self._delete_rows(kind, before):
                yield batch
            return
        async with self.database.transaction() as transaction:
            agents = list(await transaction.scalars(sql.AGENTS[kind], self._limits(before)))
        for agent_id in agents:
            try:
                async for batch in self._batches_of_agent(kind, agent_id, before):
                    yield batch
            except TransientError as error:
                log.warning(
                    "left an agent for the next pass", agent_id=str(agent_id), reason=str(error)
                )

    async def _batches_of_agent(
        self, kind: RetentionKind, agent_id: UUID, before: datetime
    ) -> AsyncGenerator[int, None]:
        match kind:
            case RetentionKind.CONTEXTS:
                async for batch in self._prune_contexts(agent_id, before):
                    yield batch
                return
            case RetentionKind.PAGES:
                repeated = self._delete_pages
            case _:
                async for batch in self._prune_iterations(kind, agent_id, before):
                    yield batch
                if kind is RetentionKind.ITERATIONS:
                    return
                repeated = self._delete_lone_runs
        while batch := await repeated(agent_id, before):
            yield batch

    async def _prune_iterations(
        self, kind: RetentionKind, agent_id: UUID, before: datetime
    ) -> AsyncGenerator[int, None]:
        after: int | None = 0
        while after is not None:
            async with self.database.transaction() as transaction:
                await _require_lock(transaction)
                if await transaction.scalar(sql.SHARE_AGENT, {"agent": agent_id}) is None:
                    return
                params = {"agent": agent_id, "after": after, **self._limits(before)}
                locked = await _lock_iterations(transaction, kind, params)
                after = locked.last
                if not locked.ids:
                    continue
                if kind is RetentionKind.TRANSCRIPTS:
                    pruned = await _delete(transaction, sql.DELETE_TEXTS, locked.ids)
                    calls = 0
                else:
                    calls = await _delete(transaction, sql.DELETE_CALLS, locked.ids)
                    await transaction.execute(sql.KEEP_INSIGHTS, {"ids": locked.ids})
                    await transaction.execute(sql.DELETE_ITERATIONS, {"ids": locked.ids})
                    await transaction.execute(
                        sql.DELETE_NEWS, {"agent": agent_id, "before": before}
                    )
                    pruned = len(locked.ids)
                await transaction.execute(
                    sql.NOTE_ITERATIONS,
                    {
                        "agent": agent_id,
                        "numbers": locked.numbers,
                        "is_deleted": kind is RetentionKind.ITERATIONS,
                        "calls": calls,
                    },
                )
            yield pruned

    async def _delete_lone_runs(self, agent_id: UUID, before: datetime) -> int:
        """Phase runs of steps without an iteration. The steps stay: they have the status of an answer."""
        async with self.database.transaction() as transaction:
            await _require_lock(transaction)
            if await transaction.scalar(sql.SHARE_AGENT, {"agent": agent_id}) is None:
                return 0
            params = {"agent": agent_id, "before": before, "most": ITERATIONS_PER_BATCH}
            ids = list(await transaction.scalars(sql.LOCK_LONE_STEPS, params))
            if not ids:
                return 0
            calls = await _delete(transaction, sql.DELETE_LONE_CALLS, ids)
            await transaction.execute(
                sql.NOTE_ITERATIONS,
                {"agent": agent_id, "numbers": [], "is_deleted": False, "calls": calls},
            )
            return await _delete(transaction, sql.DELETE_LONE_RUNS, ids)

    async def _prune_contexts(self, agent_id: UUID, before: datetime) -> AsyncGenerator[int, None]:
        params = {"agent": agent_id, "before": before, "most": CONTEXTS_PER_SEARCH}
        while True:
            async with self.database.transaction() as transaction:
                since = (await transaction.execute(sql.NOW)).scalar_one() - LONGEST_TRANSACTION
                found = list(await transaction.scalars(sql.UNNEEDED_CONTEXTS, params))
            for first in range(0, len(found), ROWS_PER_BATCH):
                batch = found[first : first + ROWS_PER_BATCH]
                if not (
                    deleted := await self._delete_contexts(
                        params | {"since": since, "unneeded": batch}
                    )
                ):
                    return
                yield deleted
            if len(found) < CONTEXTS_PER_SEARCH:
                return

    async def _delete_contexts(self, params: Mapping[str, Any]) -> int:
        """Deletes a batch of unneeded ones, without those that became needed since. Writers wait meanwhile."""
        try:
            async with self.database.transaction() as transaction:
                await _require_lock(transaction)
                await transaction.execute(sql.LOCK_TIMEOUT)
                await transaction.execute(sql.LOCK_CONTEXTS)
                return int((await transaction.execute(sql.DELETE_CONTEXTS, params)).scalar_one())
        except TransientError as error:
            # Another transaction writes for longer than others may wait behind this lock.
            log.info(
                "left contexts for the next pass", agent_id=str(params["agent"]), reason=str(error)
            )
            return 0

    async def _delete_pages(self, agent_id: UUID, before: datetime) -> int:
        params = {"agent": agent_id, "before": before, "most": ROWS_PER_BATCH}
        async with self.database.transaction() as transaction:
            await _require_lock(transaction)
            await transaction.execute(sql.LOCK_TIMEOUT)
            if (
                await transaction.scalar(sql.STOP_AGENT, params) is None
                or not await transaction.scalar(sql.LOCK_GRAPH, params)
                or await transaction.scalar(sql.IS_AT_WORK, params)
            ):
                return 0
            return int((await transaction.execute(sql.DELETE_PAGES, params)).scalar_one())

    async def _delete_rows(
        self, kind: RetentionKind, before: datetime
    ) -> AsyncGenerator[int, None]:
        while True:
            try:
                async with self.database.transaction() as transaction:
                    await _require_lock(transaction)
                    await transaction.execute(sql.LOCK_TIMEOUT)
                    params = {"before": before, "most": ROWS_PER_BATCH}
                    pruned = (await transaction.execute(sql.DELETE_ROWS[kind], params)).scalar_one()
            except TransientError as error:
                # Another transaction writes some of the rows. Waiting longer could end in a deadlock with it.
                log.info("left rows for the next pass", kind=kind, reason=str(error))
                return
            if not pruned:
                return
            yield pruned


async def _require_lock(transaction: Transaction) -> None:
    """Raises _OtherSchedulerError."""
    if not await transaction.scalar(sql.TRY_LOCK):
        raise _OtherSchedulerError


async def _lock_iterations(
    transaction: Transaction, kind: RetentionKind, params: Mapping[str, Any]
) -> _Locked:
    """Locks the next old iterations and their steps, without those that something still needs."""
    rows = (await transaction.execute(sql.LOCK_ITERATIONS[kind], params)).all()
    if not rows:
        return _Locked((), (), None)
    ids = {"ids": [row.id for row in rows]}
    closed: dict[UUID, int] = {}
    of_steps = {**ids, "before": params["before"]}
    for iteration_id, is_open in await transaction.execute(sql.LOCK_STEPS, of_steps):
        closed[iteration_id] = closed.get(iteration_id, 0) + (not is_open)
    needed = {
        row.iteration_id
        for row in await transaction.execute(sql.COUNT_STEPS, ids)
        if row.is_needed or closed.get(row.iteration_id) != row.steps
    }
    free = [row for row in rows if row.id not in needed]
    return _Locked([row.id for row in free], [row.number for row in free], rows[-1].number)


async def _delete(transaction: Transaction, statement: Any, ids: Sequence[UUID]) -> int:
    return int((await transaction.execute(statement, {"ids": ids})).scalar_one())
