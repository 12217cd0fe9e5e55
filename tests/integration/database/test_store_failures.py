"""Each operation of a store is whole or absent after every failure, and can be repeated."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Generic
from unittest.mock import patch

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from shared.database import unit_of_work
from shared.database.engine import Database
from shared.errors import RetrySoonError
from tests.support.store_walk.operation import (
    Again,
    Fault,
    Operation,
    Part,
    W,
    database_functions,
    writing_modules,
)
from tests.support.store_walk.parts import NOT_WALKED, PARTS
from tests.support.waiting import wait_until


@dataclass
class Requests:
    """The requests so far, and the server processes whose connections had the fault."""

    count: int = 0
    failed_pids: list[int] = field(default_factory=list)
    after_each: Callable[[], None] = lambda: None


@contextmanager
def fault_at(number: int | None, fault: Fault | None = None) -> Iterator[Requests]:
    """Lets the request with this number, counted from 0, have the fault. Without a number, it only counts."""
    requests = Requests()
    execute = AsyncConnection.wait

    async def wait(connection: AsyncConnection[Any], *args: Any, **options: Any) -> Any:
        requests.count += 1
        if requests.count - 1 != number:
            result = await execute(connection, *args, **options)
            requests.after_each()
            return result
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
select relname, array(
  select cast(attname as text) from pg_index join pg_attribute on attrelid = indrelid and attnum = any(indkey)
  where indrelid = pg_class.oid and indisprimary)
from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by relname
"""
_ROWS_SQL: Final = "select {}, jsonb_agg(to_jsonb(each)) from {} as each having count(*) > 0"
_JOURNAL: Final = {"graph_journal", "graph_head"}
_ID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# What differs at each repetition: times, and hashes of them.
_CHANGING: Final = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)?|\\\\x[0-9a-f]+|\b[0-9a-f]{64}\b"
)
Row = dict[str, Any]
Key = tuple[Any, ...]
Tables = Mapping[str, Mapping[Key, Row]]
State = Mapping[str, Sequence[str]]


@dataclass
class Observer:
    """The rows of the database, seen from outside."""

    connection: psycopg.Connection[Any]
    keys: Mapping[str, Sequence[str]]
    """Columns of the primary key, by table."""
    load_rows: sql.Composed
    initial: Tables = field(default_factory=dict)
    known_ids: Set[str] = frozenset()
    current: Tables = field(default_factory=dict)
    """As they were loaded last."""

    @classmethod
    def of(cls, connection: psycopg.Connection[Any]) -> "Observer":
        keys = dict(connection.execute(_TABLES).fetchall())
        load_rows = sql.SQL(" union all ").join(
            sql.SQL(_ROWS_SQL).format(sql.Literal(name), sql.Identifier(name)) for name in keys
        )
        observer = cls(connection, keys, load_rows)
        observer.initial = observer._load()
        rows = [list(rows.values()) for rows in observer.initial.values()]
        observer.known_ids = set(_ID.findall(json.dumps(rows)))
        return observer

    def state(self) -> State:
        """The rows that differ from the initial ones, by table. Of a time, only that it has changed, since it differs at
        each repetition; likewise of bytes. Ids are only known or new, since some are random, and others are derived from
        these.
        """
        self.current = self._load()
        return {
            name: lines
            for name in sorted({*self.initial, *self.current})
            if (lines := self._changes(self.initial.get(name, {}), self.current.get(name, {})))
        }

    def _changes(self, initial: Mapping[Key, Row], current: Mapping[Key, Row]) -> Sequence[str]:
        changed = [
            self._line(row, initial.get(key, {}))
            for key, row in current.items()
            if row != initial.get(key)
        ]
        return sorted(changed + [f"deleted: {key}" for key in initial.keys() - current.keys()])

    def _line(self, row: Row, initial: Row) -> str:
        values = {
            column: "as before" if column in initial and initial[column] == value else value
            for column, value in row.items()
        }
        line = _CHANGING.sub("changed", json.dumps(values))
        return _ID.sub(lambda match: match[0] if match[0] in self.known_ids else "new id", line)

    def restore(self) -> None:
        """Writes the initial rows of tables that differed when they were loaded last."""
        with self.connection.pipeline(), self.connection.transaction():
            self.connection.execute("set local session_replication_role = replica")
            for name in {*self.current, *self.initial}:
                before = self.initial.get(name, {})
                if before == self.current.get(name, {}):
                    continue
                table = sql.Identifier(name)
                self.connection.execute(sql.SQL("delete from {}").format(table))
                inserting = sql.SQL(
                    "insert into {table} select * from jsonb_populate_recordset(cast(null as {table}), %s)"
                ).format(table=table)
                self.connection.execute(inserting, [Jsonb(list(before.values()))])

    async def wait_for_end(self, pids: Sequence[int]) -> None:
        """Until the server has noticed that connections are lost: a request may still be executed."""

        async def have_ended() -> bool:
            query = "select count(*) from pg_stat_activity where pid = any(%s)"
            row = self.connection.execute(query, [list(pids)]).fetchone()
            return row == (0,)

        await wait_until(have_ended, what="the connections to end")

    def _load(self) -> Tables:
        """The rows by table and key."""
        tables = self.connection.execute(self.load_rows, prepare=True).fetchall()
        return {
            name: {tuple(row[column] for column in self.keys[name]): row for row in rows}
            for name, rows in tables
        }


def _without_journal(state: State) -> State:
    return {table: rows for table, rows in state.items() if table not in _JOURNAL}


@pytest.fixture
def monitor(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@dataclass(frozen=True)
class Walk(Generic[W]):
    """One operation, in one of the ways in which it is executed."""

    world: W
    operation: Operation[W]
    run: Callable[[W], Awaitable[object]]
    observer: Observer

    async def without_failure(self, *, repeats: bool) -> tuple[Sequence[State], int]:
        """The states before, after each transaction and at the end; and the number of requests.

        With `repeats`, executes it again: LOST_AFTER does too.
        """
        states: list[State] = [{}]
        with fault_at(None) as requests:
            if self.operation.is_batched:
                requests.after_each = lambda: states.append(self.observer.state())
            await self.run(self.world)
        states.append(self.observer.state())
        assert states[-1], "the operation does nothing"
        if repeats:
            await self.repeat(states[-1])
        self.observer.restore()
        return states, requests.count

    async def repeat(self, after: State) -> None:
        """Executes what was committed once more."""
        expected = self.operation.again
        if isinstance(expected, type):
            with pytest.raises(expected):
                await self.run(self.world)
        else:
            await self.run(self.world)
        state = self.observer.state()
        match expected:
            case Again.WRITES:
                assert state != after
            case Again.JOURNAL:
                assert _without_journal(state) == _without_journal(after)
            case _:
                assert state == after

    async def fail(
        self,
        number: int,
        fault: Fault,
        states: Sequence[State],
        *,
        is_last: bool,
        is_absent_repeated: bool,
    ) -> None:
        """With `is_absent_repeated`, executes it again after the failure if it is absent; else the next failure does."""
        try:
            with fault_at(number, fault) as requests:
                await self._run_with(fault)
            await self.observer.wait_for_end(requests.failed_pids)
            state = self.observer.state()
            self._check(state, fault, states, is_last=is_last)
            await self.world.database.ping()
            await wait_until(self._is_pool_free, what="all connections to be free")
            if state == states[-1]:
                await self.repeat(state)
            elif state or is_absent_repeated:
                await self.run(self.world)
                assert self.observer.state() == states[-1]
        except BaseException:
            self.observer.state()
            raise
        finally:
            self.observer.restore()

    async def _run_with(self, fault: Fault) -> None:
        task = asyncio.ensure_future(self.run(self.world))
        if fault.is_cancellation:
            with pytest.raises(asyncio.CancelledError):
                await task
        elif self.operation.hides_errors:
            await task
        elif self.operation.is_durable:
            with suppress(RetrySoonError):
                await task
        else:
            with pytest.raises(RetrySoonError):
                await task

    def _check(self, state: State, fault: Fault, states: Sequence[State], *, is_last: bool) -> None:
        after = states[-1]
        if self.operation.is_durable:
            assert state == after, "what was paid for was lost"
        elif self.operation.is_batched:
            assert state in states, "a part of a transaction was written"
        elif not is_last or fault.is_before:
            assert not state, "a part was written"
        elif fault is Fault.LOST_AFTER:
            assert state == after, "a part was lost"
        else:
            assert state in ({}, after), "it is neither whole nor absent"

    async def _is_pool_free(self) -> bool:
        return self.world.database.pool_use()["busy"] == 0


def test_no_operation_is_missing() -> None:
    for part in PARTS:
        known = {*part.operations, *part.reads, *part.frames}
        found = {each for store in part.stores for each in database_functions(store)}
        assert {each.__qualname__ for each in found - known} == set()
        assert {each.__qualname__ for each in (part.reads | part.frames) - found} == set()
        assert not set(part.operations) & (part.reads | part.frames)
        assert not part.reads & part.frames


def test_no_module_that_writes_is_missing() -> None:
    root = Path(__file__).parents[3]
    walked = {store.__name__ for part in PARTS for store in part.stores}
    assert writing_modules(root, ["shared", "services"]) - walked == set(NOT_WALKED)


async def _walk_all(
    part: Part[W],
    database: Database,
    monitor: psycopg.Connection[Any],
    subtests: pytest.Subtests,
    *,
    at_any_request: bool,
) -> None:
    faults = tuple(Fault) if at_any_request else part.short_faults
    world = await part.make_world(database)
    unprepared = Observer.of(monitor)
    for name, operation in part.all_operations:
        for statement in operation.prepare:
            await world.execute(statement)
        observer = Observer.of(monitor) if operation.prepare else unprepared
        for way, run in operation.ways.items():
            walk = Walk(world, operation, run, observer)
            with subtests.test(f"{name} {way}"):
                states, count = await walk.without_failure(repeats=Fault.LOST_AFTER not in faults)
                for number in range(0 if at_any_request else count - 1, count):
                    for fault in faults:
                        with subtests.test(f"{name} {way}: {fault} {number}"):
                            await walk.fail(
                                number,
                                fault,
                                states,
                                is_last=number == count - 1,
                                is_absent_repeated=at_any_request
                                or fault is faults[-1]
                                or not fault.is_before,
                            )
        unprepared.state()
        unprepared.restore()


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit_of_work, "SAVE_RETRY_SECONDS", 0.0)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
async def test_an_operation_is_whole_or_absent_after_a_failure(
    part: Part[Any],
    database: Database,
    monitor: psycopg.Connection[Any],
    subtests: pytest.Subtests,
) -> None:
    """At its last request, which commits."""
    await _walk_all(part, database, monitor, subtests, at_any_request=False)


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
async def test_an_operation_is_whole_or_absent_after_a_failure_at_any_request(
    part: Part[Any],
    database: Database,
    monitor: psycopg.Connection[Any],
    subtests: pytest.Subtests,
) -> None:
    await _walk_all(part, database, monitor, subtests, at_any_request=True)
