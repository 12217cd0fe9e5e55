"""The writes of a worker between two external calls are one commit; a paid response survives their rollback."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import bindparam, func, insert, select, text

from shared.database.engine import Database
from shared.database.statements import Batch, BoundQuery, CompiledStatement
from shared.database.tables import User
from shared.database.transaction import Transaction
from shared.database.unit_of_work import DeferredWrite, UnitOfWork
from shared.errors import RetrySoonError, TransientError
from tests.support.fences import EVERYONE, FAILURE
from tests.support.lock_probe import SLOW_COMMIT, slow_commits
from tests.support.waiting import wait_until

_INSERT = CompiledStatement(insert(User), columns=["id", "name"])
_COUNT = CompiledStatement(
    select(func.count()).select_from(User).where(User.name == bindparam("called"))
)


class NoMoreError(TransientError):
    is_final = True


@pytest.fixture
async def workers(database_url: str) -> AsyncIterator[Database]:
    """A pool of several connections."""
    pool = Database(database_url, name="worker", pool_size=3)
    yield pool
    await pool.close()


@pytest.fixture
def unit(workers: Database) -> UnitOfWork:
    return UnitOfWork(workers, EVERYONE)


async def _write(session: Transaction, name: str) -> str:
    await session.insert(User, id=uuid4(), name=name)
    return name


async def _fail(unit: UnitOfWork, name: str, error: Exception) -> None:
    async with unit.transaction() as session:
        await _write(session, name)
        raise error


async def _is_committed(database: Database, name: str) -> bool:
    async with database.transaction() as session:
        return bool(await _COUNT.value(session, {"called": name}))


async def test_writes_wait_for_the_commit(unit: UnitOfWork, database: Database) -> None:
    for name in ("first", "second"):
        async with unit.transaction() as session:
            await _write(session, name)
    assert not await _is_committed(database, "first")
    await unit.commit()
    assert await _is_committed(database, "first")
    assert await _is_committed(database, "second")


async def test_all_writes_are_one_transaction(unit: UnitOfWork) -> None:
    numbers = set()
    for name in ("first", "second"):
        async with unit.transaction() as session:
            await _write(session, name)
            numbers.add((await session.execute(text("select pg_current_xact_id()"))).scalar_one())
    await unit.commit()
    assert len(numbers) == 1


async def test_writes_during_an_external_call_are_committed_at_once(
    unit: UnitOfWork, database: Database
) -> None:
    with unit.external_call_in_progress():
        async with unit.transaction() as session:
            await _write(session, "meanwhile")
        assert await _is_committed(database, "meanwhile")


async def test_a_unit_that_does_not_wait_commits_each_transaction(
    workers: Database, database: Database
) -> None:
    unit = UnitOfWork(workers, EVERYONE, is_immediate=True)
    async with unit.transaction() as session:
        await _write(session, "at once")
    assert await _is_committed(database, "at once")


async def test_an_error_rolls_back_all_but_durable_writes(
    unit: UnitOfWork, database: Database
) -> None:
    assert await unit.write_durably(partial(_write, name="paid for")) == "paid for"
    async with unit.transaction() as session:
        await _write(session, "followed from it")
    with pytest.raises(RuntimeError, match="a fault"):
        await _fail(unit, "half done", RuntimeError("a fault"))
    assert await _is_committed(database, "paid for")
    assert not await _is_committed(database, "followed from it")
    assert not await _is_committed(database, "half done")


async def test_a_durable_write_survives_a_lost_connection(
    unit: UnitOfWork, database: Database
) -> None:
    await unit.write_durably(partial(_write, name="paid for"))
    with pytest.raises(TransientError, match="PostgreSQL"):
        async with unit.transaction() as session:
            await session.execute(text("select pg_terminate_backend(pg_backend_pid())"))
    assert await _is_committed(database, "paid for")
    async with unit.transaction() as session:
        await _write(session, "afterwards")
    await unit.commit()
    assert await _is_committed(database, "afterwards")


async def test_a_durable_write_survives_a_cancelled_worker(
    unit: UnitOfWork, database: Database
) -> None:
    await unit.write_durably(partial(_write, name="paid for"))
    within = asyncio.Event()

    async def work() -> None:
        async with unit.transaction() as session:
            await _write(session, "half done")
            within.set()
            await asyncio.Event().wait()

    working = asyncio.create_task(work())
    await within.wait()
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert await _is_committed(database, "paid for")
    assert not await _is_committed(database, "half done")


@pytest.mark.parametrize("is_immediate", [False, True])
async def test_a_durable_commit_completes_though_it_is_cancelled(
    workers: Database, database: Database, is_immediate: bool
) -> None:
    unit = UnitOfWork(workers, EVERYONE, is_immediate=is_immediate)
    within = asyncio.Event()

    async def write(session: Transaction) -> None:
        await _write(session, "paid for")
        if not within.is_set():
            within.set()
            await asyncio.Event().wait()

    keeping = asyncio.create_task(unit.write_durably(write))
    await within.wait()
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping
    with pytest.raises(RuntimeError, match="a fault"):
        await _fail(unit, "half done", RuntimeError("a fault"))
    assert await _is_committed(database, "paid for")


async def test_a_cancelled_durable_commit_is_repeated_when_it_fails(
    workers: Database, database: Database
) -> None:
    unit = UnitOfWork(workers, EVERYONE, is_immediate=True)

    async def committing() -> bool:
        async with database.transaction() as session:
            return bool(await session.scalar(SLOW_COMMIT))

    async with database.transaction() as session:
        await slow_commits(session, "insert on users")
    async with database.transaction() as session:
        await session.execute(text("select pg_advisory_xact_lock(1)"))
        keeping = asyncio.create_task(unit.write_durably(partial(_write, name="paid for")))
        await wait_until(committing, what="the commit")
        keeping.cancel()
        await session.execute(text(f"select pg_terminate_backend(pid) from ({SLOW_COMMIT}) as it"))
    with pytest.raises(asyncio.CancelledError):
        await keeping
    assert await _is_committed(database, "paid for")


async def test_a_worker_that_may_no_longer_write_stores_nothing(
    workers: Database, database: Database
) -> None:
    may_write = [True]

    def check(_: object) -> None:
        if not may_write[0]:
            raise NoMoreError("the step is another's", counts=False)

    unit = UnitOfWork(workers, replace(EVERYONE, read=check))
    await unit.write_durably(partial(_write, name="paid for"))
    may_write[0] = False
    with pytest.raises(NoMoreError):
        await _fail(unit, "half done", RuntimeError("a fault"))
    assert not await _is_committed(database, "paid for")
    with pytest.raises(NoMoreError):
        await unit.write_durably(partial(_write, name="paid for"))


async def test_deferred_writes_run_once_before_the_commit(
    unit: UnitOfWork, database: Database
) -> None:
    order: list[str] = []

    def write_last(batch: Batch) -> None:
        order.append("last")
        _inserting("last")(batch)

    async with unit.transaction() as session:
        unit.defer(write_last)
        order.append("within")
        await _write(session, "within")
    unit.on_next_commit(lambda: order.append("committed"))
    assert order == ["within"]
    await unit.commit()
    await unit.commit()
    assert order == ["within", "last", "committed"]
    assert await _is_committed(database, "last")


async def test_deferred_writes_are_dropped_on_rollback(unit: UnitOfWork) -> None:
    order: list[str] = []

    async with unit.transaction():
        unit.defer(lambda _: order.append("last"))
    with pytest.raises(RuntimeError):
        await _fail(unit, "half done", RuntimeError("a fault"))
    await unit.commit()
    assert order == []


async def test_commit_callbacks_are_not_called_after_a_rollback(unit: UnitOfWork) -> None:
    calls: list[str] = []
    async with unit.transaction():
        unit.on_this_commit(lambda: calls.append("undone"))
    with pytest.raises(RuntimeError):
        await _fail(unit, "half done", RuntimeError("a fault"))
    async with unit.transaction():
        unit.on_this_commit(lambda: calls.append("committed"))
    assert calls == []
    await unit.commit()
    assert calls == ["committed"]


def _noting(begins: list[str], name: str) -> BoundQuery[None]:
    return replace(EVERYONE, read=lambda _: begins.append(name))


async def test_the_fence_replaces_the_claim_after_the_first_commit(workers: Database) -> None:
    begins: list[str] = []
    unit = UnitOfWork(workers, _noting(begins, "fence"), claim=_noting(begins, "claim"))
    with pytest.raises(RuntimeError):
        await _fail(unit, "half done", RuntimeError("a fault"))
    for _ in range(2):
        async with unit.transaction():
            pass
        await unit.commit()
    assert begins == ["claim", "claim", "fence"]


async def test_a_claim_can_be_committed_alone_and_once(workers: Database) -> None:
    begins: list[str] = []
    unit = UnitOfWork(workers, _noting(begins, "fence"), claim=_noting(begins, "claim"))
    unit.defer_query(_noting(begins, "deferred"))
    unit.on_next_commit(lambda: begins.append("committed"))
    assert [await unit.commit_claim() for _ in range(2)] == [True, False]
    assert begins == ["claim"]
    await unit.commit()
    assert begins == ["claim", "fence", "deferred", "committed"]


async def test_a_claim_that_fails_leaves_the_deferred_writes(
    workers: Database, database: Database
) -> None:
    is_away = [True]

    def check(_: object) -> None:
        if is_away:
            is_away.pop()
            raise RetrySoonError("PostgreSQL: it is away")

    unit = UnitOfWork(workers, EVERYONE, claim=replace(EVERYONE, read=check))
    unit.defer(_inserting("deferred"))
    with pytest.raises(RetrySoonError):
        await unit.commit_claim()
    await unit.commit()
    assert await _is_committed(database, "deferred")


def _inserting(name: str) -> DeferredWrite:
    def write(batch: Batch) -> None:
        batch.add(BoundQuery(_INSERT, {"id": uuid4(), "name": name}, lambda _: None))

    return write


async def test_deferred_writes_need_no_session(unit: UnitOfWork, database: Database) -> None:
    unit.defer(_inserting("first"))
    unit.defer(_inserting("second"))
    assert not await _is_committed(database, "first")
    await unit.commit()
    assert await _is_committed(database, "first")
    assert await _is_committed(database, "second")


async def test_a_failed_write_without_a_session_writes_nothing_but_what_was_saved(
    unit: UnitOfWork, database: Database
) -> None:
    await unit.defer_durably(lambda: unit.defer(_inserting("paid for")))
    unit.defer(_inserting("followed from it"))
    unit.defer_query(FAILURE)
    with pytest.raises(psycopg.errors.DivisionByZero):
        await unit.commit()
    assert await _is_committed(database, "paid for")
    assert not await _is_committed(database, "followed from it")
    await unit.commit()
    assert not await _is_committed(database, "followed from it")


@pytest.mark.parametrize("is_cancelled", [False, True])
async def test_what_was_paid_for_is_saved_when_postgresql_is_back(
    unit: UnitOfWork, database: Database, is_cancelled: bool
) -> None:
    """A write is repeated until it succeeds, also for a cancelled worker."""
    attempts = asyncio.Queue[None]()
    is_away = True

    def write() -> None:
        attempts.put_nowait(None)
        if is_away:
            raise RetrySoonError("PostgreSQL: it is away")
        unit.defer(_inserting("paid for"))

    saving = asyncio.create_task(unit.defer_durably(write))
    await attempts.get()
    is_away = False
    if is_cancelled:
        saving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await saving
    else:
        await saving
    await unit.commit()
    assert await _is_committed(database, "paid for")


async def test_a_write_deferred_during_a_commit_is_for_the_next_one(
    unit: UnitOfWork, database: Database
) -> None:
    def defer_another(batch: Batch) -> None:
        batch.then(lambda: unit.defer(_inserting("second")))

    unit.defer(_inserting("first"))
    unit.defer(defer_another)
    await unit.commit()
    assert await _is_committed(database, "first")
    assert not await _is_committed(database, "second")
    await unit.commit()
    assert await _is_committed(database, "second")


async def test_concurrent_transactions_of_a_unit_take_turns(
    unit: UnitOfWork, database: Database
) -> None:
    names = [f"number {number}" for number in range(20)]

    async def work(name: str) -> None:
        async with unit.transaction() as session:
            await _write(session, name)

    await asyncio.gather(*map(work, names))
    await unit.commit()
    assert [name for name in names if not await _is_committed(database, name)] == []
