"""All that the worker of a step writes between two sendings, as one commit.

What is committed is safe, and each commit costs; a worker needs one only where it lets something out that cannot be taken
back, which is a call that is paid for, or an event. Until then what it writes waits in one transaction: the answer that
was paid for, what follows from it, and the record of the next call.
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
Last = Callable[[AsyncSession, RoundTrip], Write[None] | None]
"""Asks for what is to be written, and gives what is still to be done when it has been."""

SAVE_AGAIN_SECONDS = 0.5


class UnitOfWork:
    """One transaction at a time, begun by the first who writes or looks and ended by `commit`.

    Who writes while others do waits for its turn. Whatever is raised within it undoes all that was not committed, but for
    what was to be kept, which is committed then before the error goes on.
    """

    def __init__(self, database: Database, begin: Write[None], *, waits: bool = True) -> None:
        """Each transaction begins with `begin`, which raises where nothing may be written any more.

        Unless it `waits`, every transaction is committed at its end.
        """
        self._database = database
        self._begin = begin
        self._waits = waits
        self._turn = asyncio.Lock()
        self._stack: AsyncExitStack | None = None
        self._session: AsyncSession | None = None
        self._kept: list[Write[Any]] = []
        self._last: list[Last] = []
        self._once_committed: list[Callable[[], None]] = []
        self._if_committed: list[Callable[[], None]] = []
        self._sendings = 0

    def begin_with(self, begin: Write[None]) -> None:
        """From the next commit on."""
        self.once_committed(lambda: setattr(self, "_begin", begin))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """Part of the transaction that is open, or of a new one. Raises what `begin` does, and TransientError."""
        async with self._turn:
            try:
                session = await self._opened()
                yield session
                await flush(session)
                if self._sendings or not self._waits:
                    await self._commit()
            except BaseException as error:
                await self._undo(error)
                raise

    async def keep(self, write: Write[T]) -> T:
        """What `write` gives, which writes what was paid for: it is committed whatever becomes of the rest.

        Waits for Postgres where it is away: to give up would be to pay again. `write` may run more than once. To be called
        where nothing waits to be committed, or nothing but what is kept too.
        """
        while True:
            try:
                return await self._kept_once(write)
            except asyncio.CancelledError:
                # Told to stop just as the answer has come: whoever goes on would pay for it again.
                await self._kept_once(write)
                raise
            except TransientError as error:
                if error.counts or error.is_final:
                    raise
                await asyncio.sleep(SAVE_AGAIN_SECONDS)

    def last(self, write: Last) -> None:
        """`write` comes at the end of the transaction, before its commit, in one round trip with all others that do: what
        many wait for is held for a moment only.
        """
        self._last.append(write)

    async def write_last(self) -> None:
        """Now, for who writes the very end of the transaction itself, and holds it."""
        assert self._session is not None
        await self._write_last(self._session)

    def once_committed(self, call: Callable[[], None]) -> None:
        """When all that was written so far is: now, where nothing waits."""
        if self._session is None:
            call()
        else:
            self._once_committed.append(call)

    def if_committed(self, call: Callable[[], None]) -> None:
        """When what is being written is; never, where that is undone."""
        self._if_committed.append(call)

    async def commit(self) -> None:
        """Returns when all that was written is safe. Raises TransientError; what was kept is safe then all the same."""
        async with self._turn:
            try:
                await self._commit()
            except BaseException as error:
                await self._undo(error)
                raise

    @contextmanager
    def sending(self) -> Iterator[None]:
        """While something is out: whatever is written meanwhile is committed at once, for nobody knows how long it takes."""
        self._sendings += 1
        try:
            yield
        finally:
            self._sendings -= 1

    async def _kept_once(self, write: Write[T]) -> T:
        async with self.transaction() as session:
            result = await write(session)
        if self._session is not None:
            self._kept.append(write)
        return result

    async def _opened(self) -> AsyncSession:
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
        await self._write_last(self._session)
        stack, self._stack, self._session = self._stack, None, None
        await stack.aclose()
        self._kept = []
        self._tell_committed()

    def _tell_committed(self) -> None:
        calls = self._if_committed + self._once_committed
        self._if_committed, self._once_committed = [], []
        for call in calls:
            call()

    async def _write_last(self, session: AsyncSession) -> None:
        writes, self._last = self._last, []
        trip = RoundTrip()
        rest = [write(session, trip) for write in writes]
        await trip.make(session)
        for each in rest:
            if each is not None:
                await each(session)

    async def _undo(self, error: BaseException) -> None:
        """Raises it as the database tells it, unless that is the same."""
        stack, self._stack, self._session = self._stack, None, None
        kept, self._kept = self._kept, []
        self._last, self._if_committed = [], []
        try:
            if stack is not None:
                await stack.__aexit__(type(error), error, error.__traceback__)
        finally:
            if kept:
                await self._save(kept)

    async def _save(self, kept: list[Write[Any]]) -> None:
        """Commits what was paid for in a transaction of its own, whatever else was to go with it."""
        while True:
            try:
                async with self._database.transaction() as session:
                    await self._begin(session)
                    for write in kept:
                        await write(session)
                    await self._write_last(session)
            except TransientError as error:
                if error.counts or error.is_final:
                    raise
                self._last, self._if_committed = [], []
                await asyncio.sleep(SAVE_AGAIN_SECONDS)
            else:
                self._tell_committed()
                return
