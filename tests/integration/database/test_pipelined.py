"""Connections that run prepared statements together."""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb
from sqlalchemy import text

from shared.database import pipelined
from shared.database.engine import Database
from shared.database.pipelined import PREPARE_AFTER, BoundStatement, PipelinedConnection
from shared.database.statements import BoundQuery, CompiledStatement
from shared.errors import RetrySoonError
from tests.support.seeds import first_seed, repeatable, seed_count
from tests.support.waiting import wait_until

WALKS: Final = seed_count() or 10
TRIPS: Final = 200
"""Round trips of a walk."""
LARGE: Final = 20_000_000
"""Bytes, far more than the buffers of a socket."""


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[PipelinedConnection]:
    async with await PipelinedConnection.connect(
        database_url, autocommit=True, prepare_threshold=None
    ) as opened:
        yield opened


def bound(statement: str, *values: Any) -> BoundStatement:
    return BoundStatement(statement.encode(), values)


async def rows_of(connection: PipelinedConnection, *statements: BoundStatement) -> list[list[Any]]:
    return [result.tuples() for result in await connection.run_together(statements)]


async def prepared(connection: PipelinedConnection) -> dict[str, str]:
    """The prepared statements that the server has: name to text."""
    cursor = await connection.execute("select name, statement from pg_prepared_statements")
    return dict(await cursor.fetchall())


async def test_results_come_in_order_with_the_types_of_psycopg(
    connection: PipelinedConnection,
) -> None:
    values: Sequence[Any] = (
        7,
        2**40,
        "50 % ' \\ é",
        True,
        None,
        Jsonb({"a": [1, None]}),
        UUID(int=1),
        b"\0",
    )
    types = ("int", "bigint", "text", "bool", "text", "jsonb", "uuid", "bytea")
    statements = [
        bound(f"select $1::{type_} as it, $1::{type_}", value)
        for type_, value in zip(types, values, strict=True)
    ]
    results = await connection.run_together([*statements, bound("select 1 where false")])
    rows = [result.rows() for result in results]
    assert rows.pop() == []
    expected = [value.obj if isinstance(value, Jsonb) else value for value in values]
    assert [row.it for (row,) in rows] == expected
    assert [list(row) for (row,) in rows] == [[value, value] for value in expected]


async def test_the_number_of_changed_rows_is_known(connection: PipelinedConnection) -> None:
    results = await connection.run_together(
        [
            bound("create temp table words (word text)"),
            bound("insert into words select unnest($1::text[])", ["a", "b", "c"]),
            bound("update words set word = word where word > $1", "a"),
            bound("delete from words where word = $1", "z"),
        ]
    )
    assert [result.row_count for result in results] == [0, 3, 2, 0]
    assert [result.rows() for result in results] == [[]] * 4


async def test_the_first_error_is_raised_and_the_rest_is_skipped(
    connection: PipelinedConnection,
) -> None:
    await connection.run_together([bound("create temp table words (word text)")])
    with pytest.raises(psycopg.errors.DivisionByZero):
        await connection.run_together(
            [
                bound("insert into words values ($1)", "before"),
                bound("select 1 / $1::int", 0),
                bound("select nothing"),
                bound("insert into words values ($1)", "after"),
            ]
        )
    assert await rows_of(connection, bound("select * from words")) == [[]]


async def test_a_failed_commit_is_an_error(connection: PipelinedConnection) -> None:
    create = "create temp table pairs (a int primary key, b int references pairs deferrable initially deferred)"
    await connection.run_together([bound(create)])
    insert = bound("insert into pairs values (1, 2)")
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        await connection.run_together([insert])
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        await connection.run_together([bound("begin"), insert, bound("commit")])
    assert await rows_of(connection, bound("select * from pairs")) == [[]]
    await connection.run_together([insert, bound("insert into pairs values (2, 1)")])
    assert await rows_of(connection, bound("select count(*) from pairs")) == [[(2,)]]


async def test_a_value_without_representation_sends_nothing(
    connection: PipelinedConnection,
) -> None:
    await connection.run_together([bound("create temp table words (word text)")])
    with pytest.raises(psycopg.DataError):
        await connection.run_together(
            [bound("insert into words values ('one')"), bound("select $1::text", "a\0b")]
        )
    assert await rows_of(connection, bound("select * from words")) == [[]]


async def test_more_bytes_than_the_socket_holds_pass_both_ways(
    connection: PipelinedConnection,
) -> None:
    statements = [bound("select $1::text", letter * LARGE) for letter in "abc"]
    async with asyncio.timeout(60):
        results = await rows_of(connection, *statements)
    assert [(row[0][0], len(row[0])) for (row,) in results] == [(c, LARGE) for c in "abc"]


async def test_a_statement_is_prepared_when_it_is_used_again_and_again(
    connection: PipelinedConnection,
) -> None:
    for _ in range(PREPARE_AFTER):
        await rows_of(connection, bound("select $1::int", 1))
    assert await prepared(connection) == {}
    for _ in range(3):
        assert await rows_of(connection, bound("select $1::int", 1)) == [[(1,)]]
    assert list((await prepared(connection)).values()) == ["select $1::int"]


async def test_the_statements_used_last_stay_prepared(
    connection: PipelinedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelined, "PREPARED_MAX", 2)
    for number in (1, 2, 1, 3):
        for _ in range(PREPARE_AFTER + 1):
            await rows_of(connection, bound(f"select {number}"))
    await rows_of(connection, bound("select 0"))
    assert set((await prepared(connection)).values()) == {"select 1", "select 3"}


async def test_a_statement_is_prepared_anew_when_its_table_has_changed(
    connection: PipelinedConnection,
) -> None:
    read = bound("select * from words")
    await connection.run_together([bound("create temp table words (word text)")])
    for _ in range(PREPARE_AFTER + 1):
        await rows_of(connection, read)
    await connection.run_together([bound("alter table words add column length int default 1")])
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        await rows_of(connection, read)
    await connection.run_together([bound("insert into words values ('one')")])
    assert await rows_of(connection, read) == [[("one", 1)]]


async def test_a_migration_beside_the_worker_uses_up_no_attempt(database_url: str) -> None:
    database = Database(database_url, name="test", pool_size=1)
    read = BoundQuery(CompiledStatement("select * from users"), {}, len)
    for _ in range(PREPARE_AFTER + 1):
        assert await database.run(read) == 0
    async with database.transaction() as session:
        await session.execute(text("alter table users add column added int"))
    with pytest.raises(RetrySoonError, match="cached plan"):
        await database.run(read)
    assert await database.run(read) == 0
    await database.close()


class Sleep:
    """Statements that run long, watched from another connection."""

    SQL: Final = "select pg_sleep(60)"

    def __init__(self, connection: psycopg.AsyncConnection[Any]) -> None:
        self._connection = connection

    async def pids(self) -> list[int]:
        """Of the servers that run it."""
        cursor = await self._connection.execute(
            "select pid from pg_stat_activity where state = 'active' and query = %s", [self.SQL]
        )
        return [pid for (pid,) in await cursor.fetchall()]

    async def kill(self) -> None:
        for pid in await self.pids():
            await self._connection.execute("select pg_terminate_backend(%s)", [pid])

    async def runs(self) -> bool:
        return bool(await self.pids())

    async def has_ended(self) -> bool:
        return not await self.pids()


@pytest.fixture
async def sleep(database_url: str) -> AsyncIterator[Sleep]:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as opened:
        yield Sleep(opened)


async def test_a_lost_connection_is_closed(connection: PipelinedConnection, sleep: Sleep) -> None:
    sleeping = asyncio.create_task(rows_of(connection, bound(sleep.SQL)))
    await wait_until(sleep.runs, what="the statement to run")
    await sleep.kill()
    with pytest.raises(psycopg.OperationalError):
        await sleeping
    assert connection.closed
    with pytest.raises(psycopg.OperationalError):
        await rows_of(connection, bound("select 1"))


async def test_a_cancelled_trip_ends_its_statement(
    database_url: str, sleep: Sleep, caplog: pytest.LogCaptureFixture
) -> None:
    database = Database(database_url, name="test", pool_size=1)
    read = BoundQuery(CompiledStatement(sleep.SQL), {}, lambda rows: rows)
    sleeping = asyncio.create_task(database.run(read))
    await wait_until(sleep.runs, what="the statement to run")
    sleeping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sleeping
    assert "interrupted" not in caplog.text, "psycopg reads the result of the canceled statement"
    await wait_until(sleep.has_ended, what="the statement to end")
    one = BoundQuery(CompiledStatement("select 1"), {}, lambda rows: rows[0][0])
    assert await database.run(one) == 1
    await database.close()


class Walk:
    """Random round trips, with a model of the table that they write."""

    def __init__(self, connection: PipelinedConnection, seed: int) -> None:
        self.connection = connection
        self.random = random.Random(seed)
        self.saved: list[int] = []
        """What is committed."""
        self.open: list[int] | None = None
        """What the open transaction sees."""
        self.next_number = 0

    async def step(self) -> None:
        statements: list[BoundStatement] = []
        seen = list(self.saved if self.open is None else self.open)
        expected: list[list[Any]] = []
        if self.open is None and self.random.random() < 0.3:
            statements.append(bound("begin"))
            expected.append([])
            self.open = []
        for _ in range(self.random.randrange(1, 6)):
            self.next_number += 1
            match self.random.randrange(3):
                case 0:
                    seen.append(self.next_number)
                    statements.append(bound("insert into numbers values ($1)", self.next_number))
                    expected.append([])
                case 1:
                    statements.append(bound("select n from numbers order by n"))
                    expected.append([(number,) for number in seen])
                case _:
                    # Of one of many texts, so that some are prepared, and some evicted.
                    number = self.random.randrange(12)
                    sum_ = bound(f"select $1::int + {number} - $1", self.random.choice([1, 2**20]))
                    statements.append(sum_)
                    expected.append([(number,)])
        fails = self.random.random() < 0.15
        if fails:
            place = self.random.randrange(len(statements) + 1)
            broken = [bound("select 1 / $1::int", 0), bound("select wrong"), bound("nonsense")]
            statements.insert(place, self.random.choice(broken))
        commits = self.open is not None and self.random.random() < 0.4
        if commits:
            statements.append(bound("commit"))
            expected.append([])
        if fails:
            with pytest.raises(psycopg.Error):
                await self.connection.run_together(statements)
            if self.open is not None:
                await self.connection.rollback()
                self.open = None
            return
        assert await rows_of(self.connection, *statements) == expected
        if commits or self.open is None:
            self.saved, self.open = seen, None
        else:
            self.open = seen

    async def check(self) -> None:
        assert self.connection.info.transaction_status.name in ("IDLE", "INTRANS")
        known = {name.decode() for name in self.connection._names.values()}
        closing = {name.decode() for name in self.connection._to_close}
        assert set(await prepared(self.connection)) == known | closing
        assert len(known) <= pipelined.PREPARED_MAX


async def test_random_trips_return_what_they_should(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipelined, "PREPARED_MAX", 6)
    start = first_seed()
    for seed in range(start, start + WALKS):
        async with await PipelinedConnection.connect(
            database_url, autocommit=True, prepare_threshold=None
        ) as opened:
            await opened.execute("create temp table numbers (n int)")
            walk = Walk(opened, seed)
            with repeatable(seed):
                for _ in range(TRIPS):
                    await walk.step()
                    await walk.check()
