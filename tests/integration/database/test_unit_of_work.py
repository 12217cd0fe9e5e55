"""What a worker writes between two attempts: one commit; what was paid for is kept whatever becomes of the rest."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from uuid import uuid4

import pytest
from sqlalchemy import bindparam, func, select, text
from sqlalchemy.ext.asyncio import AsyncSession

from shared.database.engine import Database
from shared.database.statements import CompiledStatement
from shared.database.tables import User
from shared.database.unit_of_work import UnitOfWork
from shared.errors import TransientError
from tests.support.locked import SLOW_COMMIT, slow_commits
from tests.support.waiting import until

_COUNT = CompiledStatement(
    select(func.count()).select_from(User).where(User.name == bindparam("called"))
)


class NoMoreError(TransientError):
    is_final = True


@pytest.fixture
async def workers(database_url: str) -> AsyncIterator[Database]:
    """As many connections as wanted."""
    pool = Database(database_url, name="worker", pool_size=3)
    yield pool
    await pool.close()


@pytest.fixture
def unit(workers: Database) -> UnitOfWork:
    return UnitOfWork(workers, _begin)


async def _begin(_: AsyncSession) -> None:
    """Whoever asks may write."""


async def _write(session: AsyncSession, name: str) -> str:
    session.add(User(id=uuid4(), name=name))
    return name


async def _fail(unit: UnitOfWork, name: str, error: Exception) -> None:
    async with unit.transaction() as session:
        await _write(session, name)
        raise error


async def _is_safe(database: Database, name: str) -> bool:
    async with database.transaction() as session:
        return bool(await _COUNT.value(session, {"called": name}))


async def test_what_is_written_waits_for_the_commit(unit: UnitOfWork, database: Database) -> None:
    for name in ("first", "second"):
        async with unit.transaction() as session:
            await _write(session, name)
    assert not await _is_safe(database, "first")
    await unit.commit()
    assert await _is_safe(database, "first")
    assert await _is_safe(database, "second")


async def test_all_of_it_is_one_transaction(unit: UnitOfWork) -> None:
    numbers = set()
    for name in ("first", "second"):
        async with unit.transaction() as session:
            await _write(session, name)
            await session.flush()
            numbers.add((await session.execute(text("select pg_current_xact_id()"))).scalar_one())
    await unit.commit()
    assert len(numbers) == 1


async def test_while_something_is_out_nothing_waits(unit: UnitOfWork, database: Database) -> None:
    with unit.external_call_in_progress():
        async with unit.transaction() as session:
            await _write(session, "meanwhile")
        assert await _is_safe(database, "meanwhile")


async def test_one_that_does_not_wait_commits_each_time(
    workers: Database, database: Database
) -> None:
    unit = UnitOfWork(workers, _begin, waits=False)
    async with unit.transaction() as session:
        await _write(session, "at once")
    assert await _is_safe(database, "at once")


async def test_an_error_undoes_what_waits_but_for_what_is_kept(
    unit: UnitOfWork, database: Database
) -> None:
    assert await unit.commit_durably(partial(_write, name="paid for")) == "paid for"
    async with unit.transaction() as session:
        await _write(session, "followed from it")
    with pytest.raises(RuntimeError, match="a fault"):
        await _fail(unit, "half done", RuntimeError("a fault"))
    assert await _is_safe(database, "paid for")
    assert not await _is_safe(database, "followed from it")
    assert not await _is_safe(database, "half done")


async def test_what_is_kept_outlives_a_connection_that_is_lost(
    unit: UnitOfWork, database: Database
) -> None:
    await unit.commit_durably(partial(_write, name="paid for"))
    with pytest.raises(TransientError, match="PostgreSQL"):
        async with unit.transaction() as session:
            await session.execute(text("select pg_terminate_backend(pg_backend_pid())"))
    assert await _is_safe(database, "paid for")
    async with unit.transaction() as session:
        await _write(session, "afterwards")
    await unit.commit()
    assert await _is_safe(database, "afterwards")


async def test_a_cancelled_worker_leaves_what_was_paid_for(
    unit: UnitOfWork, database: Database
) -> None:
    await unit.commit_durably(partial(_write, name="paid for"))
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
    assert await _is_safe(database, "paid for")
    assert not await _is_safe(database, "half done")


@pytest.mark.parametrize("waits", [True, False])
async def test_who_is_cancelled_while_it_keeps_what_was_paid_for_has_kept_it(
    workers: Database, database: Database, waits: bool
) -> None:
    unit = UnitOfWork(workers, _begin, waits=waits)
    within = asyncio.Event()

    async def write(session: AsyncSession) -> None:
        await _write(session, "paid for")
        if not within.is_set():
            within.set()
            await asyncio.Event().wait()

    keeping = asyncio.create_task(unit.commit_durably(write))
    await within.wait()
    keeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await keeping
    with pytest.raises(RuntimeError, match="a fault"):
        await _fail(unit, "half done", RuntimeError("a fault"))
    assert await _is_safe(database, "paid for")


async def test_who_is_cancelled_while_a_commit_fails_keeps_what_was_paid_for_and_does_not_go_on(
    workers: Database, database: Database
) -> None:
    unit = UnitOfWork(workers, _begin, waits=False)

    async def committing() -> bool:
        async with database.transaction() as session:
            return bool(await session.scalar(SLOW_COMMIT))

    async with database.transaction() as session:
        await slow_commits(session, "insert on users")
    async with database.transaction() as session:
        await session.execute(text("select pg_advisory_xact_lock(1)"))
        keeping = asyncio.create_task(unit.commit_durably(partial(_write, name="paid for")))
        await until(committing, what="the commit")
        keeping.cancel()
        await session.execute(text(f"select pg_terminate_backend(pid) from ({SLOW_COMMIT}) as it"))
    with pytest.raises(asyncio.CancelledError):
        await keeping
    assert await _is_safe(database, "paid for")


async def test_who_may_write_no_more_keeps_nothing(workers: Database, database: Database) -> None:
    may_write = [True]

    async def begin(_: AsyncSession) -> None:
        if not may_write[0]:
            raise NoMoreError("the step is another's", counts=False)

    unit = UnitOfWork(workers, begin)
    await unit.commit_durably(partial(_write, name="paid for"))
    may_write[0] = False
    with pytest.raises(NoMoreError):
        await _fail(unit, "half done", RuntimeError("a fault"))
    assert not await _is_safe(database, "paid for")
    with pytest.raises(NoMoreError):
        await unit.commit_durably(partial(_write, name="paid for"))


async def test_what_comes_last_comes_before_the_commit_and_once(
    unit: UnitOfWork, database: Database
) -> None:
    order: list[str] = []

    async def last(session: AsyncSession) -> None:
        order.append("last")
        await _write(session, "last")

    async with unit.transaction() as session:
        unit.defer(lambda *_: last)
        order.append("within")
        await _write(session, "within")
    unit.after_commit(lambda: order.append("committed"))
    assert order == ["within"]
    await unit.commit()
    await unit.commit()
    assert order == ["within", "last", "committed"]
    assert await _is_safe(database, "last")


async def test_what_comes_last_is_undone_with_the_rest(unit: UnitOfWork) -> None:
    order: list[str] = []

    async def last(_: AsyncSession) -> None:
        order.append("last")

    async with unit.transaction():
        unit.defer(lambda *_: last)
    with pytest.raises(RuntimeError):
        await _fail(unit, "half done", RuntimeError("a fault"))
    await unit.commit()
    assert order == []


async def test_what_hangs_on_a_commit_is_not_told_where_it_is_undone(unit: UnitOfWork) -> None:
    told: list[str] = []
    async with unit.transaction():
        unit.on_commit(lambda: told.append("undone"))
    with pytest.raises(RuntimeError):
        await _fail(unit, "half done", RuntimeError("a fault"))
    async with unit.transaction():
        unit.on_commit(lambda: told.append("committed"))
    assert told == []
    await unit.commit()
    assert told == ["committed"]


async def test_who_begins_otherwise_does_so_from_the_commit_on(workers: Database) -> None:
    begun: list[str] = []

    async def first(_: AsyncSession) -> None:
        begun.append("first")

    async def second(_: AsyncSession) -> None:
        begun.append("second")

    unit = UnitOfWork(workers, first)
    async with unit.transaction():
        unit.begin_with(second)
    with pytest.raises(RuntimeError):
        await _fail(unit, "half done", RuntimeError("a fault"))
    for _ in range(2):
        async with unit.transaction():
            pass
        await unit.commit()
    assert begun == ["first", "first", "second"]


async def test_two_at_once_take_turns(unit: UnitOfWork, database: Database) -> None:
    names = [f"number {number}" for number in range(20)]

    async def work(name: str) -> None:
        async with unit.transaction() as session:
            await _write(session, name)
            await session.flush()

    await asyncio.gather(*map(work, names))
    await unit.commit()
    assert [name for name in names if not await _is_safe(database, name)] == []
