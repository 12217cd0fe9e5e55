"""Bad attempts to come in: looked up without a query for each, and counted by where they come from and what was shown.

Every credential is looked up before anything is counted, so a valid one passes whatever else comes from its address.
What a flood of bad ones costs is bounded by `ValidityCheck`, which looks up all that wait by one query. The counters are
in this process's memory: to write each attempt down in Postgres would make a flood of attempts into a flood of writes,
and secrets of 256 bits need no help against guessing. With n replicas of the api there are n times as many attempts.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Generic, TypeVar

from sqlalchemy.ext.asyncio import AsyncSession

from shared.store.database import Database

WINDOW_SECONDS: Final = 60.0
MOST_ADDRESSES: Final = 10_000
MOST_KNOWN: Final = 10_000
LOOKUP_SECONDS: Final = 0.01
"""Between two queries for credentials: at most 100 a second, of each kind, however many are shown."""

T = TypeVar("T")
Find = Callable[[AsyncSession, Collection[T]], Awaitable[set[T]]]
"""Of some keys, such as digests of credentials, those that are valid."""


class Attempts:
    """How many there were of each key, such as an address, in its present minute, or another time."""

    def __init__(
        self,
        limit: int,
        clock: Callable[[], float] = monotonic,
        *,
        window_seconds: float = WINDOW_SECONDS,
    ) -> None:
        self._limit = limit
        self._window_seconds = window_seconds
        self._clock = clock
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_seconds(self, address: str) -> float:
        """How long until the minute of a key that has reached the limit is over; 0 where it has not."""
        began, count = self._window(address)
        return 0.0 if count < self._limit else began + self._window_seconds - self._clock()

    def add(self, address: str) -> bool:
        """Whether this one is the first beyond the limit in its minute."""
        began, count = self._window(address)
        self._seen[address] = (began, count + 1)
        while len(self._seen) > MOST_ADDRESSES:
            self._seen.popitem(last=False)
        return count == self._limit

    def _window(self, address: str) -> tuple[float, int]:
        now = self._clock()
        began, count = self._seen.get(address, (now, 0))
        if now - began < self._window_seconds:
            return began, count
        del self._seen[address]
        return now, 0


class Known:
    """Digests of the credentials that were valid most recently."""

    def __init__(self) -> None:
        self._digests: OrderedDict[bytes, None] = OrderedDict()

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def add(self, digest: bytes) -> None:
        self._digests[digest] = None
        self._digests.move_to_end(digest)
        if len(self._digests) > MOST_KNOWN:
            self._digests.popitem(last=False)

    def discard(self, digest: bytes) -> None:
        self._digests.pop(digest, None)


@dataclass(eq=False)
class _Batch(Generic[T]):
    keys: set[T] = field(default_factory=set)
    task: "asyncio.Task[set[T]] | None" = None


class ValidityCheck(Generic[T]):
    """Whether credentials are valid: one query at a time, for all that have come while the one before was running."""

    def __init__(self, database: Database, find: Find[T]) -> None:
        self._database = database
        self._find = find
        self._running = asyncio.Lock()
        self._next: _Batch[T] | None = None
        self._free_at = 0.0

    async def is_valid(self, key: T) -> bool:
        """Raises TransientError where Postgres is away."""
        if self._next is None:
            self._next = _Batch()
            self._next.task = asyncio.create_task(self._look_up(self._next))
        batch = self._next
        batch.keys.add(key)
        assert batch.task is not None
        return key in await asyncio.shield(batch.task)

    async def _look_up(self, batch: _Batch[T]) -> set[T]:
        async with self._running:
            await asyncio.sleep(self._free_at - monotonic())
            self._next = None
            try:
                async with self._database.transaction() as session:
                    return await self._find(session, batch.keys)
            finally:
                self._free_at = monotonic() + LOOKUP_SECONDS
