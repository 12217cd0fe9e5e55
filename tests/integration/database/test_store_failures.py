"""Each operation of a store is whole or absent after every failure, and can be repeated."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from types import ModuleType
from typing import Any, Final
from unittest.mock import patch

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from shared.database.engine import Database
from shared.errors import RetrySoonError
from tests.support.store_operations import (
    FRAMES,
    OPERATIONS,
    READS,
    STORES,
    Again,
    Operation,
    World,
    database_functions,
    make_world,
    operations_of,
)
from tests.support.waiting import wait_until


class Fault(StrEnum):
    CANCELLED_BEFORE = "cancelled before"
    CANCELLED_DURING = "cancelled during"
    """The request has been sent."""
    LOST_BEFORE = "connection lost before"
    LOST_AFTER = "connection lost after"
    """PostgreSQL has executed the request."""

    @property
    def is_cancellation(self) -> bool:
        return self in (Fault.CANCELLED_BEFORE, Fault.CANCELLED_DURING)


@dataclass
class Requests:
    """The requests so far, and the server processes whose connections had the fault."""

    count: int = 0
    failed_pids: list[int] = field(default_factory=list)


@contextmanager
def fault_at(number: int | None, fault: Fault | None = None) -> Iterator[Requests]:
    """Lets the request with this number, counted from 0, have the fault. Without a number, it only counts."""
    requests = Requests()
    execute = AsyncConnection.wait

    async def wait(connection: AsyncConnection[Any], *args: Any, **options: Any) -> Any:
        requests.count += 1
        if requests.count - 1 != number:
            return await execute(connection, *args, **options)
        requests.failed_pids.append(connection.info.backend_pid)
        if fault is not None and fault.is_cancellation:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            if fault is Fault.CANCELLED_BEFORE:
                await asyncio.sleep(0)
            return await execute(connection, *args, **options)
        if fault is Fault.LOST_AFTER:
            await execute(connection, *args, **options)
        connection.pgconn.finish()
        raise psycopg.OperationalError(f"{fault} the request")

    with patch.object(AsyncConnection, "wait", wait):
        yield requests


_TABLES: Final = """
select relname from pg_class
where relnamespace = 'public'::regnamespace and relkind = 'r' and pg_relation_size(oid) > 0 order by relname
"""
_KEYS: Final = """
select attname from pg_index join pg_attribute on attrelid = indrelid and attnum = any(indkey)
where indrelid = %s::regclass and indisprimary
"""
_JSONB: Final = 3802
"""Identifies the type."""
_RANDOM: Final = {("inbox_items", "id")}
Key = tuple[Any, ...]
Table = dict[Key, dict[str, Any]]
State = Mapping[str, Sequence[str]]
Run = Callable[[World], Awaitable[None]]


def test_no_operation_is_missing() -> None:
    known = {*OPERATIONS, *READS, *FRAMES}
    found = {each for store in STORES for each in database_functions(store)}
    assert {each.__qualname__ for each in found - known} == set()
    assert {each.__qualname__ for each in known - found} == set()
    assert not set(OPERATIONS) & (READS | FRAMES)


@dataclass
class Observer:
    """The rows of the database, seen from outside."""

    connection: psycopg.Connection[Any]
    initial: Mapping[str, Table]

    @classmethod
    def of(cls, connection: psycopg.Connection[Any]) -> "Observer":
        return cls(connection, _load_tables(connection))

    def state(self) -> State:
        """The rows now. Of a time, only whether it is the initial one, since it differs at each repetition."""
        return {
            name: sorted(self._line(name, key, row) for key, row in rows.items())
            for name, rows in _load_tables(self.connection).items()
            if rows
        }

    def _line(self, table: str, key: Key, row: Mapping[str, Any]) -> str:
        initial = self.initial.get(table, {}).get(key, {})
        return str(
            {
                column: _comparable(value, initial.get(column))
                for column, value in row.items()
                if (table, column) not in _RANDOM
            }
        )

    def restore(self) -> None:
        """Writes the initial rows of tables that have changed."""
        current = _load_tables(self.connection)
        with self.connection.transaction():
            self.connection.execute("set local session_replication_role = replica")
            for name in {*current, *self.initial}:
                before, after = self.initial.get(name, {}), current.get(name, {})
                if str(before) == str(after):
                    continue
                table = sql.Identifier(name)
                self.connection.execute(sql.SQL("delete from {}").format(table))
                for row in before.values():
                    inserting = sql.SQL("insert into {} ({}) values ({})").format(
                        table,
                        sql.SQL(", ").join(map(sql.Identifier, row)),
                        sql.SQL(", ").join([sql.Placeholder()] * len(row)),
                    )
                    self.connection.execute(inserting, list(row.values()))

    async def wait_for_end(self, pids: Sequence[int]) -> None:
        """Until the server has noticed that connections are lost: a request may still be executed."""

        async def have_ended() -> bool:
            query = "select count(*) from pg_stat_activity where pid = any(%s)"
            row = self.connection.execute(query, [list(pids)]).fetchone()
            return row == (0,)

        await wait_until(have_ended, what="the connections to end")


def _comparable(value: Any, initial: Any) -> Any:
    if isinstance(value, datetime):
        return "as before" if value == initial else "changed"
    if isinstance(value, Jsonb):
        # The time of a failed attempt.
        return re.sub(r"'at': '[^']*'", "'at'", str(value.obj))
    return value


def _load_tables(connection: psycopg.Connection[Any]) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for (name,) in connection.execute(_TABLES).fetchall():
        keys = [key for (key,) in connection.execute(_KEYS, [name]).fetchall()]
        cursor = connection.execute(sql.SQL("select * from {}").format(sql.Identifier(name)))
        columns = [(column.name, column.type_code) for column in cursor.description or ()]
        rows = [
            {
                column: Jsonb(value) if kind == _JSONB and value is not None else value
                for (column, kind), value in zip(columns, row, strict=True)
            }
            for row in cursor
        ]
        tables[name] = {tuple(row[key] for key in keys): row for row in rows}
    return tables


@pytest.fixture
def monitor(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@dataclass(frozen=True)
class Walk:
    """One operation, in one of the ways in which it is executed."""

    world: World
    operation: Operation
    run: Run
    observer: Observer

    async def without_failure(self) -> tuple[State, State, int]:
        """The states before and after, and the number of requests."""
        before = self.observer.state()
        with fault_at(None) as requests:
            await self.run(self.world)
        after = self.observer.state()
        assert after != before, "the operation does nothing"
        await self.repeat(after)
        self.observer.restore()
        assert self.observer.state() == before
        return before, after, requests.count

    async def repeat(self, after: State) -> None:
        """Executes what was committed once more."""
        expected = self.operation.again
        if isinstance(expected, type):
            with pytest.raises(expected):
                await self.run(self.world)
        else:
            await self.run(self.world)
        if expected is Again.BOOKS:
            assert self.observer.state() != after
        else:
            assert self.observer.state() == after

    async def fail(self, number: int, fault: Fault, last: int, before: State, after: State) -> None:
        with fault_at(number, fault) as requests:
            task = asyncio.ensure_future(self.run(self.world))
            if fault.is_cancellation:
                with pytest.raises(asyncio.CancelledError):
                    await task
            elif self.operation.hides_errors:
                await task
            else:
                with pytest.raises(RetrySoonError):
                    await task
        await self.observer.wait_for_end(requests.failed_pids)
        state = self.observer.state()
        if number < last or fault in (Fault.CANCELLED_BEFORE, Fault.LOST_BEFORE):
            assert state == before, "a part was written"
        elif fault is Fault.LOST_AFTER:
            assert state == after, "a part was lost"
        else:
            assert state in (before, after), "it is neither whole nor absent"
        await self.world.database.ping()
        if state == after:
            await self.repeat(after)
        else:
            await self.run(self.world)
            assert self.observer.state() == after
        self.observer.restore()


async def _walk_all(
    store: ModuleType,
    database: Database,
    monitor: psycopg.Connection[Any],
    subtests: pytest.Subtests,
    *,
    requests: Callable[[int], Sequence[int]],
) -> None:
    world = await make_world(database)
    unprepared = Observer.of(monitor)
    for function, operation in operations_of(store).items():
        for statement in operation.prepare:
            await world.execute(statement)
        observer = Observer.of(monitor)
        ways: dict[str, Run] = {"in a transaction": operation.execute}
        if operation.query is not None:
            ways["in one round trip"] = operation.write
        for way, run in ways.items():
            walk = Walk(world, operation, run, observer)
            with subtests.test(f"{function.__qualname__} {way}"):
                before, after, count = await walk.without_failure()
                for number in requests(count):
                    for fault in Fault:
                        with subtests.test(f"{function.__qualname__} {way}: {fault} {number}"):
                            await walk.fail(number, fault, count - 1, before, after)
        unprepared.restore()


_WRITING: Final = [store for store in STORES if operations_of(store)]


@pytest.mark.parametrize("store", _WRITING, ids=lambda store: store.__name__.split(".")[-1])
async def test_an_operation_is_whole_or_absent_after_a_failure(
    store: ModuleType,
    database: Database,
    monitor: psycopg.Connection[Any],
    subtests: pytest.Subtests,
) -> None:
    """At its last request, which commits."""
    await _walk_all(store, database, monitor, subtests, requests=lambda count: [count - 1])


@pytest.mark.slow
@pytest.mark.parametrize("store", _WRITING, ids=lambda store: store.__name__.split(".")[-1])
async def test_an_operation_is_whole_or_absent_after_a_failure_at_any_request(
    store: ModuleType,
    database: Database,
    monitor: psycopg.Connection[Any],
    subtests: pytest.Subtests,
) -> None:
    await _walk_all(store, database, monitor, subtests, requests=range)
