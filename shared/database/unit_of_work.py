"""Groups all writes of a step between two external calls into one commit.

Commits are expensive, and a worker needs one only before something that cannot be undone: a paid call or an event.
Until then its writes wait: the response that was paid for, what follows from it, and the record of the next call. Those
that need no results of earlier statements are deferred, and are sent together.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from shared.database.engine import Database
from shared.database.statements import (
    BEFORE_COMMIT,
    Batch,
    BoundQuery,
    CommitForbiddenError,
    Executor,
)
from shared.database.transaction import Transaction
from shared.errors import TransientError
from shared.telemetry import tracing

T = TypeVar("T")
Write = Callable[[Transaction], Awaitable[T]]
DeferredWrite = Callable[[Batch], None]
"""Adds its statements to the batch that is about to be committed. May be called more than once."""

SAVE_RETRY_SECONDS = 0.5
_COMMIT_ATTRIBUTES: Final[tracing.Attributes] = {
    "db.system.name": "postgresql",
    "db.operation.name": "commit",
}


@dataclass
class Changes:
    """Deferred writes of the next commit, and callbacks for its success."""

    deferred: list[DeferredWrite] = field(default_factory=list)
    of_writer: dict[Any, Any] = field(default_factory=dict)
    """The data of each writer's deferred write."""
    on_this_commit: list[Callable[[], None]] = field(default_factory=list)


class UnitOfWork:
    """One transaction at a time, ended by `commit`. It is open only if something was read or written in it.

    Concurrent users wait for each other. Any error inside rolls back what is not committed, except for what `defer_durably`
    and `write_durably` wrote, which is then committed before the error is raised. A killed process loses it.
    """

    def __init__(
        self,
        database: Database,
        fence: BoundQuery[Any],
        *,
        claim: BoundQuery[Any] | None = None,
        is_immediate: bool = False,
    ) -> None:
        """Each transaction starts with `fence`, whose `read` raises if writing is not allowed any more.

        The first one that is committed starts with `claim` instead, if given. An immediate unit commits everything at
        once.
        """
        self._database = database
        self._fence = fence
        self._claim = claim
        self._is_immediate = is_immediate
        self._lock = asyncio.Lock()
        self._stack: AsyncExitStack | None = None
        self._open: Transaction | None = None
        """The open transaction."""
        self._kept_on_rollback: list[Write[Any]] = []
        self._changes = Changes()
        self._on_next_commit: list[Callable[[], None]] = []
        self._external_calls = 0

    @asynccontextmanager
    async def transaction(self, batch: Batch | None = None) -> AsyncIterator[Transaction]:
        """The open transaction, or a new one, in which `batch` was executed. A new one begins in the round trip of `batch`.

        The end of the block commits nothing: `commit` does, before a paid call is sent (`PaidCalls.commit_call`,
        `CallSender.send`) and at the step's end (`StepRunner`). In an immediate unit, and while an external call is in
        progress, the end of the block commits. Raises what the fence raises, and TransientError.
        """
        async with self._lock:
            try:
                transaction = await self._continue(batch or Batch())
                yield transaction
                if self._commits_at_once:
                    await self._commit()
            except BaseException as error:
                await self._roll_back(error)
                raise

    async def defer_durably(self, write: Callable[[], None]) -> None:
        """Calls `write`, which defers writes, and has them committed even if others are rolled back.

        For responses that were paid for. Waits for PostgreSQL while it is unavailable, since giving up would mean to pay
        again. `write` may be called more than once.
        """

        async def add() -> None:
            async with self._lock:
                write()
                self._kept_on_rollback.append(_as_write(write))

        await self._until_done(add)
        await self._until_done(self.commit_if_immediate)

    async def write_durably(self, write: Write[T]) -> T:
        """Runs `write` now and returns its result. If others are rolled back, it is repeated and committed.

        Call it only when nothing else is waiting to be committed.
        """

        async def execute() -> T:
            async with self.transaction() as transaction:
                result = await write(transaction)
            if self._open is not None:
                self._kept_on_rollback.append(write)
            return result

        return await self._until_done(execute)

    @property
    def changes(self) -> Changes:
        """Deferred writes of the next commit. A rollback discards them."""
        return self._changes

    def defer(self, write: DeferredWrite, *, first: bool = False) -> None:
        """Runs `write` right before the commit, in one round trip with all others: rows with much contention are locked
        only briefly. It comes last, or `first`.
        """
        self._changes.deferred.insert(0 if first else len(self._changes.deferred), write)

    def defer_query(self, query: BoundQuery[Any]) -> None:
        """Defers a query whose result is not needed."""

        def write(batch: Batch) -> None:
            batch.add(query)

        self.defer(write)

    async def flush_deferred(self) -> None:
        """Runs the deferred writes now, for a caller that writes the very end of the transaction itself."""
        assert self._open is not None
        await _write_deferred(self._changes, self._open)

    def on_next_commit(self, call: Callable[[], None]) -> None:
        """Calls `call` at the next commit, also after a rollback before it: at once, if nothing is waiting."""
        if self._is_clean:
            call()
        else:
            self._on_next_commit.append(call)

    def on_this_commit(self, call: Callable[[], None]) -> None:
        """Calls `call` when what is deferred now is committed; never, if it is rolled back."""
        self._changes.on_this_commit.append(call)

    async def commit_claim(self) -> bool:
        """Commits the claim alone, if no commit has yet. Returns False if one has.

        An open transaction has claimed already. What is deferred stays deferred, also after an error.
        """
        async with self._lock:
            if self._claim is None:
                return False
            if self._open is None:
                batch = Batch()
                batch.add(self._claim)
                async with self._database.transaction(batch):
                    pass
                self._claim = None
            return True

    async def commit(self) -> None:
        """Commits everything. Raises TransientError; what was saved durably is committed even then."""
        async with self._lock:
            try:
                await self._commit()
            except BaseException as error:
                await self._roll_back(error)
                raise

    async def commit_if_immediate(self) -> None:
        """Commits everything if everything is to be committed at once."""
        if self._commits_at_once:
            await self.commit()

    @contextmanager
    def external_call_in_progress(self) -> Iterator[None]:
        """While an external call is in progress, everything is committed at once: the call may take long."""
        self._external_calls += 1
        try:
            yield
        finally:
            self._external_calls -= 1

    @property
    def _commits_at_once(self) -> bool:
        return bool(self._external_calls) or self._is_immediate

    @property
    def _is_clean(self) -> bool:
        return not (self._open or self._changes.deferred or self._claim)

    @property
    def _begin(self) -> BoundQuery[Any]:
        """The first statement of a transaction."""
        return self._claim or self._fence

    async def _until_done(self, write: Callable[[], Awaitable[T]]) -> T:
        """Repeats `write` while PostgreSQL is unavailable."""
        try:
            while True:
                try:
                    return await write()
                except TransientError as error:
                    if error.counts or error.is_final:
                        raise
                await asyncio.sleep(SAVE_RETRY_SECONDS)
        except asyncio.CancelledError:
            # Cancelled just as the response arrived: without it, the next worker would pay again.
            await write()
            raise

    async def _continue(self, batch: Batch) -> Transaction:
        if self._open is not None:
            await batch.execute(self._open)
        else:
            batch.add_first(self._begin)
            stack = AsyncExitStack()
            self._open = await stack.enter_async_context(self._database.begin(batch))
            self._stack = stack
        return self._open

    async def _commit(self) -> None:
        if self._is_clean:
            return
        # Whatever is deferred from here on is for the next commit.
        changes, self._changes = self._changes, Changes()
        on_next_commit, self._on_next_commit = self._on_next_commit, []
        try:
            with tracing.child("commit", "client", _COMMIT_ATTRIBUTES):
                if self._open is not None:
                    await self._commit_open(changes, self._open)
                else:
                    await self._write_alone(changes)
                stack, self._stack, self._open = self._stack, None, None
                if stack is not None:
                    await stack.aclose()
        except BaseException:
            self._on_next_commit = on_next_commit + self._on_next_commit
            raise
        self._kept_on_rollback, self._claim = [], None
        for call in changes.on_this_commit + on_next_commit:
            call()

    async def _write_alone(self, changes: Changes) -> None:
        """Writes what is deferred in a transaction of its own."""
        if self._database.signer is None:
            try:
                await self._database.write(self._batch(changes, None, checks_once=True))
                return
            except CommitForbiddenError:
                pass  # Executed below again, step by step where a statement cannot do the whole.
        async with self._database.transaction(self._batch(changes, None)):
            pass

    async def _commit_open(self, changes: Changes, transaction: Transaction) -> None:
        """Writes what is deferred, and commits."""
        connection = transaction.connection
        if self._database.signer is None:
            try:
                await self._batch(changes, transaction).execute(connection, commits=True)
                return
            except CommitForbiddenError:
                # Executed below again, step by step where a statement cannot do the whole.
                await connection.execute(f"rollback to savepoint {BEFORE_COMMIT}".encode())
        await self._batch(changes, transaction).execute(connection)
        await self._database.sign(connection)
        await connection.execute("commit")

    def _batch(
        self, changes: Changes, transaction: Transaction | None, *, checks_once: bool = False
    ) -> Batch:
        """With `checks_once`, without the fence if each of the statements checks the lease itself."""
        batch = Batch()
        if transaction is not None and transaction.buffer is not None:
            transaction.buffer.add_to(batch)
        for write in changes.deferred:
            write(batch)
        is_checked = checks_once and self._claim is None and batch.checks_lease
        if transaction is None and not is_checked:
            batch.add_first(self._begin)
        return batch

    async def _roll_back(self, error: BaseException) -> None:
        """Rolls back and commits what was kept. Raises the error as the database reports it, unless it is the same."""
        stack, self._stack, self._open = self._stack, None, None
        kept_writes, self._kept_on_rollback = self._kept_on_rollback, []
        self._changes = Changes()
        try:
            if stack is not None:
                await stack.__aexit__(type(error), error, error.__traceback__)
        finally:
            if kept_writes:
                await self._commit_kept(kept_writes)

    async def _commit_kept(self, kept_writes: list[Write[Any]]) -> None:
        """Commits what was paid for in its own transaction."""
        while True:
            try:
                async with self._database.transaction() as transaction:
                    await self._begin.execute(transaction)
                    for write in kept_writes:
                        await write(transaction)
                    await _write_deferred(self._changes, transaction)
            except TransientError as error:
                self._changes = Changes()
                if error.counts or error.is_final:
                    raise
                await asyncio.sleep(SAVE_RETRY_SECONDS)
            else:
                break
        calls = self._changes.on_this_commit + self._on_next_commit
        self._changes, self._on_next_commit, self._claim = Changes(), [], None
        for call in calls:
            call()


async def _write_deferred(changes: Changes, executor: Executor) -> None:
    deferred, changes.deferred = changes.deferred, []
    batch = Batch()
    for write in deferred:
        write(batch)
    changes.of_writer.clear()
    await batch.execute(executor)


def _as_write(write: Callable[[], None]) -> Write[None]:
    async def run(_: Transaction) -> None:
        write()

    return run
