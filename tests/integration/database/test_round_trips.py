"""Statements that are sent in one round trip."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy.exc import InvalidRequestError

from shared.database.engine import Database
from shared.database.statements import Batch, BoundQuery, CompiledStatement
from shared.database.tables import User
from tests.support.waiting import wait_until

_NUMBER = CompiledStatement("select cast(:number as integer) as it")
_NAMES = CompiledStatement("select name from users order by name")


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="trips", pool_size=1)
    yield database
    await database.close()


def number(value: int) -> BoundQuery[int]:
    return BoundQuery(_NUMBER, {"number": value}, lambda rows: rows[0].it)


def names() -> BoundQuery[list[str]]:
    return BoundQuery(_NAMES, {}, lambda rows: [row.name for row in rows])


async def test_each_query_gets_its_own_result(pool: Database) -> None:
    batch = Batch()
    one, no_names, two = batch.add(number(1)), batch.add(names()), batch.add(number(2))
    async with pool.transaction() as session:
        await batch.execute(session)
        assert await number(3).execute(session) == 3
    assert (one.value, no_names.value, two.value) == (1, [], 2)


async def test_queries_see_changes_and_run_in_the_savepoint(
    pool: Database,
) -> None:
    async with pool.transaction() as session:
        with suppress(RuntimeError):
            async with session.savepoint():
                await session.insert(User, id=uuid4(), name="within")
                batch = Batch()
                within = batch.add(names())
                await batch.execute(session)
                raise RuntimeError("undo")
        batch = Batch()
        behind = batch.add(names())
        await batch.execute(session)
    assert (within.value, behind.value) == (["within"], [])


async def test_a_failed_statement_fails_the_transaction_but_not_the_connection(
    pool: Database,
) -> None:
    insert_user = CompiledStatement("insert into users (id, name) values (:of_user, 'undone')")
    divide = CompiledStatement("select 1 / cast(:number as integer)")

    async def fail() -> None:
        async with pool.transaction() as session:
            await insert_user.run(session, {"of_user": uuid4()})
            batch = Batch()
            batch.add(number(1))
            batch.add(BoundQuery(divide, {"number": 0}, list[Any]))
            batch.add(number(2))
            await batch.execute(session)

    with pytest.raises(psycopg.errors.DivisionByZero):
        await fail()
    async with pool.transaction() as session:
        assert await names().execute(session) == []
        batch = Batch()
        again = batch.add(number(4))
        await batch.execute(session)
    assert again.value == 4


async def test_a_missing_parameter_fails_the_transaction_but_not_the_connection(
    pool: Database,
) -> None:
    async def fail() -> None:
        async with pool.transaction() as session:
            batch = Batch()
            batch.add(number(1))
            batch.add(BoundQuery(_NUMBER, {}, len))
            await batch.execute(session)

    with pytest.raises(InvalidRequestError, match="'number'"):
        await fail()
    async with pool.transaction() as session:
        assert await number(5).execute(session) == 5


@pytest.mark.parametrize("others", [0, 1])
async def test_a_statement_without_rows_runs_alone_and_beside_queries(
    pool: Database, others: int
) -> None:
    insert_user = CompiledStatement("insert into users (id, name) values (:of_user, 'made')")
    batch = Batch()
    inserted = batch.add(BoundQuery(insert_user, {"of_user": uuid4()}, len))
    results = [batch.add(names()) for _ in range(others)]
    async with pool.transaction() as session:
        await batch.execute(session)
    assert (inserted.value, [result.value for result in results]) == (0, [["made"]] * others)
    async with pool.transaction() as session:
        assert await names().execute(session) == ["made"]


async def test_an_empty_round_trip_begins_no_transaction(pool: Database) -> None:
    async with pool.transaction() as session:
        await Batch().execute(session)
        assert not session.is_begun


async def test_a_cancelled_round_trip_leaves_the_pool_usable(
    pool: Database, database: Database
) -> None:
    sleep = CompiledStatement("select pg_sleep(cast(:seconds as integer))")
    asleep = CompiledStatement(
        "select count(*) from pg_stat_activity where wait_event = 'PgSleep'"
        " and datname = current_database()"
    )

    async def wait() -> None:
        async with pool.transaction() as session:
            batch = Batch()
            batch.add(number(1))
            batch.add(BoundQuery(sleep, {"seconds": 3600}, len))
            batch.add(number(2))
            await batch.execute(session)

    async def is_asleep() -> bool:
        async with database.transaction() as session:
            return bool(await asleep.value(session))

    async def is_over() -> bool:
        return not await is_asleep()

    waiting = asyncio.create_task(wait())
    await wait_until(is_asleep, what="the statement to run")
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with asyncio.timeout(20), pool.transaction() as session:
        assert await number(6).execute(session) == 6
    await wait_until(is_over, what="the server to give up the statement")
