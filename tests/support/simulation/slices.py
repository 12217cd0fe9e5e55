"""Slices of the installation's daily budget: leased by a worker, extended, shrunk, and returned when the worker has ended.

All transactions lock slices before the day of the installation.
"""

from functools import partial
from typing import Final, NamedTuple

from tests.support.simulation.breakages import Breakage
from tests.support.simulation.database import Database, Key, Outcome, Statement, Transaction
from tests.support.simulation.rows import (
    INSTALLATION,
    LEASE_SECONDS,
    InstallationDay,
    Slice,
)
from tests.support.simulation.scheduler import Process, Task

SLICE: Final = 40
"""How much a worker takes at once, unless the cap is near."""


class Grant(NamedTuple):
    """The slice after it was extended; `is_there` is False if it had been returned."""

    is_there: bool
    free: int = 0


class SliceHolder:
    """A worker's current slice."""

    def __init__(
        self, database: Database, process: Process, worker: int, breakage: Breakage | None
    ) -> None:
        self._database = database
        self._process = process
        self._worker = worker
        self._breakage = breakage
        self._count = 0
        self.slice_id = 0
        self.day = -1
        self.free = 0
        """What this worker believes is free. The fence has the last word."""

    def drop(self) -> None:
        """Give up the slice: it has lapsed, or it was shrunk. What is held of it stays valid."""
        self.slice_id, self.free = 0, 0

    def lease(self, needed: int, day: int) -> Task[bool]:
        """Make sure that `needed` is free. The generator returns whether it is; else the cap is reached."""
        if day != self.day:
            self.drop()
            self.day = day
        has_returned_lapsed = False
        while True:
            is_new = not self.slice_id
            slice_id = self.slice_id or self._next_id()
            extend = partial(self._extend, slice_id=slice_id, day=day, needed=needed, is_new=is_new)
            locks: list[Key] = [("slice", slice_id), ("installation", day)]
            outcome: Outcome = yield from self._database.execute(
                [Statement(extend, locks)], self._process
            )
            if not outcome.is_known:
                # What was granted to an id that nobody uses returns when its lease has lapsed.
                self.drop()
                return False
            grant: Grant = outcome.results[0]
            if grant.is_there:
                self.slice_id, self.free = slice_id, grant.free
                if grant.free >= needed:
                    return True
                if has_returned_lapsed:
                    return False
                has_returned_lapsed = True
                yield from self._return_lapsed(day)
            else:
                # It had lapsed and was returned. Its id is not used again: the calls of its time refer to it.
                self.drop()

    def renewal(self) -> Statement | None:
        """The statement that extends the slice's lease, and returns what a lowered cap leaves no room for."""
        if not self.slice_id:
            return None
        slice_id, day = self.slice_id, self.day

        def renew(transaction: Transaction) -> None:
            part: Slice | None = transaction.read(("slice", slice_id))
            if part is None or part.lease_until < transaction.now:
                return
            installation: InstallationDay = transaction.read(("installation", day))
            cap = transaction.read(("cap", INSTALLATION))
            excess = max(installation.granted + installation.spent - cap, 0)
            returned = min(excess, part.free)
            transaction.write(
                ("slice", slice_id),
                part._replace(
                    granted=part.granted - returned, lease_until=transaction.now + LEASE_SECONDS
                ),
            )
            transaction.write(
                ("installation", day),
                installation._replace(granted=installation.granted - returned),
            )

        return Statement(renew, [("slice", slice_id), ("installation", day)])

    def _next_id(self) -> int:
        self._count += 1
        return self._worker * 1000 + self._count

    def _extend(
        self, transaction: Transaction, slice_id: int, day: int, needed: int, *, is_new: bool
    ) -> "Grant":
        """Add what is needed, as far as the cap allows."""
        day_key: Key = ("installation", day)
        installation: InstallationDay = transaction.read(day_key) or InstallationDay(0, 0)
        part: Slice | None = transaction.read(("slice", slice_id))
        if part is None:
            if not is_new and self._breakage is not Breakage.SLICE_ID_USED_AGAIN:
                return Grant(False)
            part = Slice(self._worker, day, 0, 0, 0, 0.0)
            known: tuple[int, ...] = transaction.read(("slices", day)) or ()
            transaction.write(("slices", day), (*known, slice_id))
        cap: int = transaction.read(("cap", INSTALLATION))
        room = max(cap - installation.granted - installation.spent, 0)
        granted = min(max(needed - part.free, SLICE), room)
        changed = part._replace(
            granted=part.granted + granted, lease_until=transaction.now + LEASE_SECONDS
        )
        transaction.write(("slice", slice_id), changed)
        transaction.write(day_key, installation._replace(granted=installation.granted + granted))
        return Grant(True, changed.free)

    def _return_lapsed(self, day: int) -> Task[None]:
        """Return what workers that have ended have not used."""
        known: tuple[int, ...] = self._database.read(("slices", day)) or ()
        keys: list[Key] = [
            ("slice", slice_id)
            for slice_id in sorted(known)
            if self._database.read(("slice", slice_id)) is not None
        ]

        def close(transaction: Transaction) -> None:
            installation: InstallationDay | None = transaction.read(("installation", day))
            for key in keys:
                part: Slice | None = transaction.read(key)
                if part is None or part.lease_until >= transaction.now:
                    continue
                assert installation is not None
                if part.held and self._breakage is not Breakage.SLICE_RETURNED_WHILE_HELD:
                    used = part.spent + part.held
                    transaction.write(key, part._replace(granted=used))
                    installation = installation._replace(
                        granted=installation.granted - part.granted + used
                    )
                else:
                    transaction.write(key, None)
                    installation = InstallationDay(
                        installation.granted - part.granted, installation.spent + part.spent
                    )
                transaction.write(("installation", day), installation)

        yield from self._database.execute(
            [Statement(close, [*keys, ("installation", day)])], self._process
        )
