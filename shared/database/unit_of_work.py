"""Groups all writes of a step between two external calls into one commit.

Commits are expensive, and a worker needs one only before something that cannot be undone: a paid call or an event.
Until then its writes wait: the response that was paid for, what follows from it, and the record of the next call. Those
that need no results of earlier statements are deferred, and need no session: they are sent together.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.engine import Database
from shared.database.statements import (
    BEFORE_COMMIT,
    BoundQuery,
    Executor,
    RoundTrip,
    Transaction,
    UndoneError,
    flush,
)
from shared.errors import TransientError
from shared.telemetry import tracing

T = TypeVar("T")
Write = Callable[[AsyncSession], Awaitable[T]]
FollowUp = Callable[[Executor], Awaitable[None]]


@dataclass(frozen=True)
class Note:
    """A follow-up that runs statements only where a statement of its write forbids to commit: see `RoundTrip.make`."""

    run: FollowUp


DeferredWrite = Callable[[RoundTrip], FollowUp | Note | None]
"""Adds its statements to the round trip, and returns what must run after it, if anything, in the same transaction."""

SAVE_RETRY_SECONDS = 0.5
_COMMIT_ATTRIBUTES: Final[tracing.Attributes] = {
    "db.system.name": "postgresql",
    "db.operation.name": "commit",
}
_NO_EXECUTOR: Any = None
"""For notes after a commit."""


@dataclass
class Changes:
    """What the next commit writes in addition to what its session has written."""

    deferred: list[DeferredWrite] = field(default_factory=list)
    of_writer: dict[Any, Any] = field(default_factory=dict)
    """What the deferred write of each writer will write."""
    on_commit: list[Callable[[], None]] = field(default_factory=list)


class UnitOfWork:
    """One transaction at a time, ended by `commit`. It is open only if something was read or written in it, with a session
    or without one; a transaction of the other kind is committed before.

    Concurrent users wait for each other. Any error inside rolls back what is not committed, except for what `save` and
    `commit_durably` wrote, which is then committed before the error is raised.
    """

    def __init__(
        self,
        database: Database,
        fence: BoundQuery[Any],
        *,
        claim: BoundQuery[Any] | None = None,
        waits: bool = True,
        agent_id: UUID | None = None,
    ) -> None:
        """Each transaction starts with `fence`, whose `read` raises if writing is not allowed any more.

        The first one that is committed starts with `claim` instead, if given. Unless the unit `waits`, everything is
        committed at once. For `agent_id` see `Database.write`.
        """
        self._database = database
        self._fence = fence
        self._claim = claim
        self._waits = waits
        self._agent_id = agent_id
        self._lock = asyncio.Lock()
        self._stack: AsyncExitStack | None = None
        self._session: AsyncSession | None = None
        self._direct: Transaction | None = None
        """The transaction that is open without a session."""
        self._durable_writes: list[Write[Any]] = []
        self._changes = Changes()
        self._after_commit: list[Callable[[], None]] = []
        self._external_calls = 0

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """The open transaction, or a new one. Raises what the fence raises, and TransientError."""
        async with self._lock:
            try:
                session = await self._open()
                yield session
                await flush(session)
                if self._commits_at_once:
                    await self._commit()
            except BaseException as error:
                await self._roll_back(error)
                raise

    @asynccontextmanager
    async def direct_transaction(self, trip: RoundTrip) -> AsyncIterator[Transaction]:
        """The same without a session. Makes `trip` in it; if it is new, it begins in that round trip."""
        async with self._lock:
            try:
                yield await self._open_direct(trip)
                if self._commits_at_once:
                    await self._commit()
            except BaseException as error:
                await self._roll_back(error)
                raise

    async def save(
        self, write: Callable[[], None], prepare: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Calls `write`, which defers writes, and has them committed even if others are rolled back.

        For responses that were paid for. `prepare` reads what `write` needs. Waits for PostgreSQL while it is unavailable,
        since giving up would mean to pay again. Both may be called more than once.
        """

        async def add() -> None:
            if prepare is not None:
                await prepare()
            async with self._lock:
                write()
                self._durable_writes.append(_without_session(write))

        await self._until_done(add)
        await self._until_done(self.commit_unless_waiting)

    async def commit_durably(self, write: Callable[[AsyncSession], Awaitable[T]]) -> T:
        """Does the same for a write that needs a session; returns its result.

        Call it only when nothing else is waiting to be committed.
        """

        async def write_durably() -> T:
            async with self.transaction() as session:
                result = await write(session)
            if self._session is not None:
                self._durable_writes.append(write)
            return result

        return await self._until_done(write_durably)

    @property
    def changes(self) -> Changes:
        """What the next commit writes. A rollback discards it."""
        return self._changes

    def defer(self, write: DeferredWrite, *, first: bool = False) -> None:
        """Runs `write` right before the commit, in one round trip with all others: rows with much contention are locked
        only briefly. It comes last, or `first`.
        """
        self._changes.deferred.insert(0 if first else len(self._changes.deferred), write)

    def defer_query(self, query: BoundQuery[Any]) -> None:
        """Defers a query whose result is not needed."""

        def write(trip: RoundTrip) -> None:
            trip.ask(query)

        self.defer(write)

    async def flush_deferred(self) -> None:
        """Runs the deferred writes now, for a caller that writes the very end of the transaction itself."""
        assert self._session is not None
        await _write_deferred(self._changes, self._session)

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
            if not self._is_open:
                trip = RoundTrip()
                trip.ask(self._claim)
                async with self._database.writing(trip):
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

    async def commit_unless_waiting(self) -> None:
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
        return bool(self._external_calls) or not self._waits

    @property
    def _is_open(self) -> bool:
        return self._session is not None or self._direct is not None

    @property
    def _is_clean(self) -> bool:
        return not (self._is_open or self._changes.deferred or self._claim)

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

    async def _open(self) -> AsyncSession:
        if self._direct is not None:
            await self._commit()
        if self._session is None:
            stack = AsyncExitStack()
            session = await stack.enter_async_context(self._database.transaction())
            self._stack, self._session = stack, session
            await self._begin.answer(session)
        return self._session

    async def _open_direct(self, trip: RoundTrip) -> Transaction:
        if self._session is not None:
            await self._commit()
        if self._direct is not None:
            await trip.make(self._direct)
        else:
            trip.ask_first(self._begin)
            stack = AsyncExitStack()
            self._direct = await stack.enter_async_context(self._database.direct_transaction(trip))
            self._stack = stack
        return self._direct

    async def _commit(self) -> None:
        if self._is_clean:
            return
        with tracing.child("commit", "client", _COMMIT_ATTRIBUTES):
            await self._commit_changes()

    async def _commit_changes(self) -> None:
        # Whatever is deferred from here on is for the next commit.
        changes, self._changes = self._changes, Changes()
        after_commit, self._after_commit = self._after_commit, []
        try:
            if self._direct is not None:
                await self._commit_direct(changes, self._direct)
            elif self._session is not None:
                await _write_deferred(changes, self._session)
            else:
                await self._write_alone(changes)
            stack, self._stack, self._session, self._direct = self._stack, None, None, None
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
        trip, followups = self._trip(changes, None)
        is_signed = self._database.signer is not None
        if not is_signed and all(isinstance(followup, Note) for followup in followups):
            with suppress(UndoneError):
                await self._database.write(trip, self._agent_id)
                await _follow_up(followups, _NO_EXECUTOR)
                return
            trip, followups = self._trip(changes, None)
        async with self._database.writing(trip) as connection:
            await _follow_up(followups, connection)

    async def _commit_direct(self, changes: Changes, transaction: Transaction) -> None:
        """Writes what is deferred, and commits."""
        connection = transaction.connection
        trip, followups = self._trip(changes, transaction)
        is_signed = self._database.signer is not None
        if not is_signed and all(isinstance(followup, Note) for followup in followups):
            with suppress(UndoneError):
                await trip.make(connection, commits=True)
                await _follow_up(followups, _NO_EXECUTOR)
                return
            await connection.execute(f"rollback to savepoint {BEFORE_COMMIT}".encode())
            trip, followups = self._trip(changes, transaction)
        await trip.make(connection)
        await _follow_up(followups, connection)
        await self._database.sign(connection)
        await connection.execute("commit")

    def _trip(
        self, changes: Changes, transaction: Transaction | None
    ) -> tuple[RoundTrip, Sequence[FollowUp | Note]]:
        trip = RoundTrip()
        if transaction is None:
            trip.ask(self._begin)
        elif transaction.buffer is not None:
            transaction.buffer.ask(trip)
        return trip, _add_all(changes.deferred, trip)

    async def _roll_back(self, error: BaseException) -> None:
        """Rolls back and commits what was kept. Raises the error as the database reports it, unless it is the same."""
        stack, self._stack, self._session, self._direct = self._stack, None, None, None
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
                async with self._database.transaction() as session:
                    await self._begin.answer(session)
                    for write in durable_writes:
                        await write(session)
                    await _write_deferred(self._changes, session)
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
    trip = RoundTrip()
    followups = _add_all(deferred, trip)
    changes.of_writer.clear()
    await trip.make(executor)
    await _follow_up(followups, executor)


def _add_all(writes: Sequence[DeferredWrite], trip: RoundTrip) -> Sequence[FollowUp | Note]:
    followups = [write(trip) for write in writes]
    return [followup for followup in followups if followup is not None]


async def _follow_up(followups: Sequence[FollowUp | Note], executor: Executor) -> None:
    for followup in followups:
        run = followup.run if isinstance(followup, Note) else followup
        await run(executor)


def _without_session(write: Callable[[], None]) -> Write[None]:
    async def run(_: AsyncSession) -> None:
        write()

    return run
