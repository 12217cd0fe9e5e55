"""Looks that are sent together."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy.exc import InvalidRequestError

from shared.store.database import Database
from shared.store.direct import Direct
from shared.store.round_trip import Asked, RoundTrip
from shared.store.tables import User

_NUMBER = Direct("select cast(:number as integer) as it")
_NAMES = Direct("select name from users order by name")


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="trips", pool_size=1)
    yield database
    await database.close()


def number(given: int) -> Asked[int]:
    return Asked(_NUMBER, {"number": given}, lambda rows: rows[0].it)


def names() -> Asked[list[str]]:
    return Asked(_NAMES, {}, lambda rows: [row.name for row in rows])


async def test_each_is_given_its_own_answer(pool: Database) -> None:
    trip = RoundTrip()
    one, nobody, two = trip.ask(number(1)), trip.ask(names()), trip.ask(number(2))
    async with pool.transaction() as session:
        await trip.make(session)
        assert await number(3).answer(session) == 3
    assert (one.value, nobody.value, two.value) == (1, [], 2)


async def test_they_see_what_the_session_has_yet_to_write_and_are_of_its_savepoint(
    pool: Database,
) -> None:
    async with pool.transaction() as session:
        async with session.begin_nested() as attempt:
            session.add(User(id=uuid4(), name="within"))
            trip = RoundTrip()
            within = trip.ask(names())
            await trip.make(session)
            await attempt.rollback()
        trip = RoundTrip()
        behind = trip.ask(names())
        await trip.make(session)
    assert (within.value, behind.value) == (["within"], [])


async def test_one_that_fails_fails_the_transaction_and_not_the_connection(pool: Database) -> None:
    make = Direct("insert into users (id, name) values (:of_user, 'undone')")
    nothing = Direct("select 1 / cast(:number as integer)")

    async def fail() -> None:
        async with pool.transaction() as session:
            await make.run(session, {"of_user": uuid4()})
            trip = RoundTrip()
            trip.ask(number(1))
            trip.ask(Asked(nothing, {"number": 0}, list[Any]))
            trip.ask(number(2))
            await trip.make(session)

    with pytest.raises(psycopg.errors.DivisionByZero):
        await fail()
    async with pool.transaction() as session:
        assert await names().answer(session) == []
        trip = RoundTrip()
        again = trip.ask(number(4))
        await trip.make(session)
    assert again.value == 4


async def test_one_that_lacks_a_value_fails_the_transaction_and_not_the_connection(
    pool: Database,
) -> None:
    async def fail() -> None:
        async with pool.transaction() as session:
            trip = RoundTrip()
            trip.ask(number(1))
            trip.ask(Asked(_NUMBER, {}, len))
            await trip.make(session)

    with pytest.raises(InvalidRequestError, match="'number'"):
        await fail()
    async with pool.transaction() as session:
        assert await number(5).answer(session) == 5
