"""Transactions of a unit of work without a session: read in one round trip, written and committed in another."""

import random
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final
from uuid import uuid4

import pytest
from sqlalchemy import insert, select

from shared.database.engine import Database
from shared.database.statements import (
    STRICT,
    Batch,
    BoundQuery,
    CommitForbiddenError,
    CompiledStatement,
    Executor,
)
from shared.database.tables import User
from shared.database.transaction import Transaction
from shared.database.unit_of_work import UnitOfWork
from shared.errors import RetrySoonError
from tests.support.fences import EVERYONE
from tests.support.seeds import first_seed, repeatable, seed_count

WALKS: Final = seed_count() or 20
STEPS: Final = 25
_INSERT: Final = CompiledStatement(insert(User), columns=["id", "name"])
_NAMES: Final = CompiledStatement(select(User.name))
_FAILURE: Final = CompiledStatement("select 1 / cast(:zero as integer)")
_VETO: Final = CompiledStatement("select case when :strict then forbid_commit() end as is_undone")
_UNDONE: Final = CompiledStatement(
    "select case when :strict then forbid_commit() else true end as is_undone"
)
_VETOED: Final[BoundQuery[None]] = BoundQuery(_UNDONE, {STRICT: False}, lambda _: None)


@pytest.fixture
async def workers(database_url: str) -> AsyncIterator[Database]:
    pool = Database(database_url, name="worker", pool_size=3)
    yield pool
    await pool.close()


def inserting(name: str) -> BoundQuery[None]:
    return BoundQuery(_INSERT, {"id": uuid4(), "name": name}, lambda _: None)


async def names_in(database: Database) -> set[str]:
    return set(await database.run(BoundQuery(_NAMES, {}, lambda rows: [row.name for row in rows])))


async def test_a_verdict_counts_although_a_later_statement_fails(workers: Database) -> None:
    """As of a worker that has lost its step, and then inserts rows that refer to it."""
    for _ in range(3):
        batch = Batch()
        batch.add(inserting("undone"))
        batch.add(BoundQuery(_VETO, {STRICT: False}, list))
        batch.add(BoundQuery(_FAILURE, {"zero": 0}, list))
        with pytest.raises(CommitForbiddenError):
            await workers.write(batch)
        name = f"user {uuid4()}"
        committed = Batch()
        committed.add(inserting(name))
        await workers.write(committed)
        assert name in await names_in(workers)
    assert "undone" not in await names_in(workers)


class _FaultError(Exception):
    pass


@dataclass
class Walk:
    """Random use of one unit, with a model of what must be committed."""

    database: Database
    unit: UnitOfWork
    chance: random.Random
    committed: set[str]
    pending: list[str] = field(default_factory=list)
    saved: list[str] = field(default_factory=list)
    number: Iterator[int] = field(default_factory=count)

    async def step(self) -> None:
        action = self.chance.choice(
            [self.defer, self.save, self.commit, self.veto, *[self.write_directly] * 3, self.write]
        )
        try:
            await action()
        except _FaultError:
            # Only what was saved stays, and is committed at once.
            self.committed |= set(self.saved)
            self._reset()
        assert await names_in(self.database) == self.committed, action.__name__

    def _name(self) -> str:
        return f"user {next(self.number)} {uuid4()}"

    def _reset(self) -> None:
        self.pending, self.saved = [], []

    def _commit(self) -> None:
        self.committed |= set(self.pending)
        self._reset()

    def _fails(self) -> bool:
        return self.chance.random() < 0.2

    async def defer(self) -> None:
        self.unit.defer_query(inserting(name := self._name()))
        self.pending.append(name)

    async def save(self) -> None:
        name = self._name()
        await self.unit.defer_durably(lambda: self.unit.defer_query(inserting(name)))
        self.pending.append(name)
        self.saved.append(name)

    async def veto(self) -> None:
        """A statement that forbids a commit, and whose fallback writes."""
        name = self._name()

        async def insert_alone(executor: Executor) -> None:
            await inserting(name).execute(executor)

        def write(batch: Batch) -> None:
            batch.add(_VETOED, fallback=insert_alone)

        self.unit.defer(write)
        self.pending.append(name)

    async def commit(self) -> None:
        await self.unit.commit()
        self._commit()

    async def write_directly(self) -> None:
        batch = Batch()
        found = batch.add(BoundQuery(_NAMES, {}, len))
        async with self.unit.transaction(batch) as transaction:
            assert found.value >= len(self.committed)
            await self._write(transaction)
            if self.chance.random() < 0.3:
                with pytest.raises(_FaultError):
                    await self._fail_in_savepoint(transaction)
            if self._fails():
                raise _FaultError

    async def _fail_in_savepoint(self, transaction: Transaction) -> None:
        async with transaction.savepoint():
            await inserting(self._name()).execute(transaction)
            raise _FaultError

    async def write(self) -> None:
        async with self.unit.transaction() as session:
            await self._write(session)
            if self._fails():
                raise _FaultError

    async def _write(self, executor: Executor) -> None:
        name = self._name()
        await inserting(name).execute(executor)
        self.pending.append(name)


async def test_what_is_committed_is_whole(database: Database, workers: Database) -> None:
    first = first_seed()
    for seed in range(first, first + WALKS):
        with repeatable(seed):
            walk = Walk(
                database,
                UnitOfWork(workers, EVERYONE),
                random.Random(seed),
                await names_in(database),
            )
            for _ in range(STEPS):
                await walk.step()
            await walk.commit()
            assert await names_in(database) == walk.committed


@dataclass
class Waiting:
    """A buffer: names that wait."""

    names: list[str]
    is_refused: bool = False

    def add_to(self, batch: Batch) -> None:
        for name in self.names:
            batch.add(inserting(name))
        if self.is_refused:
            batch.add(BoundQuery(_VETO, {STRICT: False}, self._refuse))

    def _refuse(self, _: object) -> None:
        raise RetrySoonError("written by another transaction in the meantime")

    def clear(self) -> None:
        self.names.clear()


async def _open(unit: UnitOfWork, buffer: Waiting) -> Transaction:
    async with unit.transaction(Batch()) as transaction:
        transaction.buffer = buffer
    return transaction


async def test_what_waits_in_the_buffer_is_seen_and_committed(
    database: Database, workers: Database
) -> None:
    unit = UnitOfWork(workers, EVERYONE)
    transaction = await _open(unit, buffer := Waiting(["first"]))
    assert "first" in [row.name for row in await _NAMES.rows(transaction)]
    buffer.names.append("second")
    assert await names_in(database) == set()
    await unit.commit()
    assert await names_in(database) == {"first", "second"}


async def test_a_buffer_that_is_refused_commits_only_what_was_saved(
    database: Database, workers: Database
) -> None:
    unit = UnitOfWork(workers, EVERYONE)
    await unit.defer_durably(lambda: unit.defer_query(inserting("paid for")))
    await _open(unit, Waiting(["first"], is_refused=True))
    unit.defer_query(inserting("followed from it"))
    with pytest.raises(RetrySoonError, match="in the meantime"):
        await unit.commit()
    assert await names_in(database) == {"paid for"}
