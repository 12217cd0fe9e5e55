"""Groups all writes of a step between two external calls into one commit.

Commits are expensive, and a worker needs one only before something that cannot be undone: a paid call or an event.
Until then its writes wait in one transaction: the response that was paid for, what follows from it, and the record of
the next call.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, TypeVar

from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.engine import Database
from shared.database.statements import RoundTrip, flush
from shared.errors import TransientError

T = TypeVar("T")
Write = Callable[[AsyncSession], Awaitable[T]]
DeferredWrite = Callable[[AsyncSession, RoundTrip], Write[None] | None]
"""Adds its statements to the round trip, and returns what must run after it, if anything."""

SAVE_RETRY_SECONDS = 0.5


class UnitOfWork:
    """One transaction at a time, begun on first use and ended by `commit`.

    Concurrent users wait for each other. Any error inside rolls back what is not committed, except for what `commit_durably`
    wrote, which is then committed before the error is raised.
    """

    def __init__(self, database: Database, begin: Write[None], *, waits: bool = True) -> None:
        """Each transaction starts with `begin`, which raises if writing is not allowed any more.

        Unless it `waits`, every `transaction` is committed at its end.
        """
        self._database = database
        self._begin = begin
        self._waits = waits
        self._lock = asyncio.Lock()
        self._stack: AsyncExitStack | None = None
        self._session: AsyncSession | None = None
        self._durable_writes: list[Write[Any]] = []
        self._deferred: list[DeferredWrite] = []
        self._after_commit: list[Callable[[], None]] = []
        self._on_commit: list[Callable[[], None]] = []
        self._external_calls = 0

    def begin_with(self, begin: Write[None]) -> None:
        """Replaces `begin`, from the next commit on."""
        self.after_commit(lambda: setattr(self, "_begin", begin))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """The open transaction, or a new one. Raises what `begin` raises, and TransientError."""
        async with self._lock:
            try:
                session = await self._open()
                yield session
                await flush(session)
                if self._external_calls or not self._waits:
                    await self._commit()
            except BaseException as error:
                await self._roll_back(error)
                raise

    async def commit_durably(self, write: Write[T]) -> T:
        """Runs `write` so that it is committed even if the rest is rolled back; returns its result.

        For responses that were paid for. Waits for PostgreSQL while it is unavailable, since giving up would mean to
        pay again. `write` may run more than once. Call it only when nothing else is waiting to be committed.
        """
        while True:
            try:
                return await self._write_durably(write)
            except asyncio.CancelledError:
                # Cancelled just as the response arrived: without it, the next worker would pay again.
                await self._write_durably(write)
                raise
            except TransientError as error:
                if error.counts or error.is_final:
                    raise
                await asyncio.sleep(SAVE_RETRY_SECONDS)

    def defer(self, write: DeferredWrite) -> None:
        """Runs `write` right before the commit, in one round trip with all others: rows with much contention are locked
        only briefly.
        """
        self._deferred.append(write)

    async def flush_deferred(self) -> None:
        """Runs the deferred writes now, for a caller that writes the very end of the transaction itself."""
        assert self._session is not None
        await self._flush_deferred(self._session)

    def after_commit(self, call: Callable[[], None]) -> None:
        """Calls `call` when everything written so far is committed: at once, if nothing is waiting."""
        if self._session is None:
            call()
        else:
            self._after_commit.append(call)

    def on_commit(self, call: Callable[[], None]) -> None:
        """Calls `call` when the current transaction is committed; never, if it is rolled back."""
        self._on_commit.append(call)

    async def commit(self) -> None:
        """Commits everything. Raises TransientError; what `commit_durably` wrote is committed even then."""
        async with self._lock:
            try:
                await self._commit()
            except BaseException as error:
                await self._roll_back(error)
                raise

    @contextmanager
    def external_call_in_progress(self) -> Iterator[None]:
        """While an external call is in progress, each transaction is committed at once: the call may take long."""
        self._external_calls += 1
        try:
            yield
        finally:
            self._external_calls -= 1

    async def _write_durably(self, write: Write[T]) -> T:
        async with self.transaction() as session:
            result = await write(session)
        if self._session is not None:
            self._durable_writes.append(write)
        return result

    async def _open(self) -> AsyncSession:
        if self._session is None:
            stack = AsyncExitStack()
            session = await stack.enter_async_context(self._database.transaction())
            self._stack, self._session = stack, session
            await self._begin(session)
        return self._session

    async def _commit(self) -> None:
        if self._session is None:
            return
        assert self._stack is not None
        await self._flush_deferred(self._session)
        stack, self._stack, self._session = self._stack, None, None
        await stack.aclose()
        self._durable_writes = []
        self._call_after_commit()

    def _call_after_commit(self) -> None:
        calls = self._on_commit + self._after_commit
        self._on_commit, self._after_commit = [], []
        for call in calls:
            call()

    async def _flush_deferred(self, session: AsyncSession) -> None:
        deferred_writes, self._deferred = self._deferred, []
        trip = RoundTrip()
        followups = [write(session, trip) for write in deferred_writes]
        await trip.make(session)
        for followup in followups:
            if followup is not None:
                await followup(session)

    async def _roll_back(self, error: BaseException) -> None:
        """Rolls back and commits what was kept. Raises the error as the database reports it, unless it is the same."""
        stack, self._stack, self._session = self._stack, None, None
        durable_writes, self._durable_writes = self._durable_writes, []
        self._deferred, self._on_commit = [], []
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
                async with self._database.transaction() as session:
                    await self._begin(session)
                    for write in durable_writes:
                        await write(session)
                    await self._flush_deferred(session)
            except TransientError as error:
                if error.counts or error.is_final:
                    raise
                self._deferred, self._on_commit = [], []
                await asyncio.sleep(SAVE_RETRY_SECONDS)
            else:
                self._call_after_commit()
                return
