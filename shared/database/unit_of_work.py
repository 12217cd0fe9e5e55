"""Groups all writes of a step between two external calls into one commit.

Commits are expensive, and a worker needs one only before something that cannot be undone: a paid call or an event.
Until then its writes wait: the response that was paid for, what follows from it, and the record of the next call. Those
that need no results of earlier statements are deferred, and are sent together.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from shared.database.engine import Database
from shared.database.statements import BEFORE_COMMIT, Batch, BoundQuery, Executor, UndoneError
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
    on_commit: list[Callable[[], None]] = field(default_factory=list)


class UnitOfWork:
    """One transaction at a time, ended by `commit`. It is open only if something was read or written in it.

    Concurrent users wait for each other. Any error inside rolls back what is not committed, except for what `save` and
    `commit_durably` wrote, which is then committed before the error is raised.
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
        self._durable_writes: list[Write[Any]] = []
        self._changes = Changes()
        self._after_commit: list[Callable[[], None]] = []
        self._external_calls = 0

    @asynccontextmanager
    async def transaction(self, batch: Batch | None = None) -> AsyncIterator[Transaction]:
        """The open transaction, or a new one, in which `batch` was executed. A new one begins in the round trip of `batch`.

        The end of the block commits nothing, unless everything is committed at once: `commit` does. It is called before
        a paid call is sent (`PaidCalls.get_call`, `CallSender.send`) and at the step's end (`StepRunner`). Raises what
        the fence raises, and TransientError.
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

    async def save(self, write: Callable[[], None]) -> None:
        """Calls `write`, which defers writes, and has them committed even if others are rolled back.

        For responses that were paid for. Waits for PostgreSQL while it is unavailable, since giving up would mean to pay
        again. `write` may be called more than once.
        """

        async def add() -> None:
            async with self._lock:
                write()
                self._durable_writes.append(_as_write(write))

        await self._until_done(add)
        await self._until_done(self.commit_if_immediate)

    async def commit_durably(self, write: Write[T]) -> T:
        """Like `save`, for a write that needs results of its statements; returns its result.

        Call it only when nothing else is waiting to be committed.
        """

        async def write_durably() -> T:
            async with self.transaction() as transaction:
                result = await write(transaction)
            if self._open is not None:
                self._durable_writes.append(write)
            return result

        return await self._until_done(write_durably)

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

    def after_commit(self, call: Callable[[], None]) -> None:
        """Calls `call` when everything written so far is committed: at once, if nothing is waiting."""
        if self._is_clean:
            call()
        else:
            self._after_commit.append(call)

    def on_commit(self, call: Callable[[], None]) -> None:
        """Calls `call` when the current transaction is committed; never, if it is rolled back."""
        self._changes.on_commit.append(call)

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

    async def _until_done(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Repeats `attempt` while PostgreSQL is unavailable."""
        try:
            while True:
                try:
                    return await attempt()
                except TransientError as error:
                    if error.counts or error.is_final:
                        raise
                await asyncio.sleep(SAVE_RETRY_SECONDS)
        except asyncio.CancelledError:
            # Cancelled just as the response arrived: without it, the next worker would pay again.
            await attempt()
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
        after_commit, self._after_commit = self._after_commit, []
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
            self._after_commit = after_commit + self._after_commit
            raise
        self._durable_writes, self._claim = [], None
        for call in changes.on_commit + after_commit:
            call()

    async def _write_alone(self, changes: Changes) -> None:
        """Writes what is deferred in a transaction of its own."""
        if self._database.signer is None:
            with suppress(UndoneError):
                await self._database.write(self._batch(changes, None, checks_once=True))
                return
        async with self._database.transaction(self._batch(changes, None)):
            pass

    async def _commit_open(self, changes: Changes, transaction: Transaction) -> None:
        """Writes what is deferred, and commits."""
        connection = transaction.connection
        if self._database.signer is None:
            with suppress(UndoneError):
                await self._batch(changes, transaction).execute(connection, commits=True)
                return
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
        durable_writes, self._durable_writes = self._durable_writes, []
        self._changes = Changes()
        try:
            if stack is not None:
                await stack.__aexit__(type(error), error, error.__traceback__)
        finally:
            if durable_writes:
                await self._save_durable_writes(durable_writes)

    async def _save_durable_writes(self, durable_writes: list[Write[Any]]) -> None:
        """Commits what was paid for in its own transaction."""
        while True:
            try:
                async with self._database.transaction() as transaction:
                    await self._begin.execute(transaction)
                    for write in durable_writes:
                        await write(transaction)
                    await _write_deferred(self._changes, transaction)
            except TransientError as error:
                self._changes = Changes()
                if error.counts or error.is_final:
                    raise
                await asyncio.sleep(SAVE_RETRY_SECONDS)
            else:
                break
        calls = self._changes.on_commit + self._after_commit
        self._changes, self._after_commit, self._claim = Changes(), [], None
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
