"""PostgreSQL in virtual time: one request at a time, in an order that depends on the seed alone."""

import asyncio
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import psycopg
import pytest
from psycopg import AsyncConnection, waiting
from psycopg.errors import QueryCanceled
from psycopg.pq import TransactionStatus
from psycopg.waiting import Ready, Wait

from tests.support.simulation.clock import EPOCH, PROCESS, Process, VirtualLoop

BLOCKED_AFTER_SECONDS: Final = 0.02
"""Real time after which a request is suspected to wait for a lock. PostgreSQL has looked for deadlocks by then."""
LATENCY_SECONDS: Final = 0.002
LATE_ANSWERS: Final = 0.2
"""Share of answers that take virtual time; after the others, the task continues at once."""
MAX_WAIT_SECONDS: Final = 60.0
"""Real time that PostgreSQL may take for a request."""
_sleep: Final = time.sleep
_real_time: Final = time.monotonic

_PREPARE: Final = """
create schema simulation;
create sequence simulation.ids;
create function simulation.clock_timestamp() returns timestamptz language sql volatile as
  $$ select pg_catalog.to_timestamp(pg_catalog.pg_read_file('{clock}')::float8) $$;
create function simulation.statement_timestamp() returns timestamptz language sql stable as
  $$ select pg_catalog.to_timestamp(pg_catalog.pg_read_file('{clock}')::float8) $$;
create function simulation.transaction_timestamp() returns timestamptz language sql stable as
  $$ select simulation.statement_timestamp() $$;
create function simulation.now() returns timestamptz language sql stable as
  $$ select simulation.statement_timestamp() $$;
create function simulation.gen_random_uuid() returns uuid language sql volatile as
  $$ select pg_catalog.md5(pg_catalog.nextval('simulation.ids')::text)::uuid $$;
create function simulation.random() returns float8 language sql volatile as
  $$ select ('x' || substr(simulation.gen_random_uuid()::text, 1, 7))::bit(28)::int / 268435456.0 $$;
"""
_SEARCH_PATH: Final = "simulation, pg_catalog, public"
_CLOCK_DEFAULTS: Final = """
select format('alter table %I alter column %I set default simulation.clock_timestamp()', relname, attname)
from pg_attrdef join pg_class on pg_class.oid = adrelid
join pg_attribute on attrelid = adrelid and attnum = adnum
where relnamespace = 'public'::regnamespace and pg_get_expr(adbin, adrelid) ~ 'clock_timestamp|now\\(\\)'
"""
_FUNCTIONS_WITH_A_PATH: Final = """
select format('alter function %s set search_path = simulation, pg_catalog, public, pg_temp', oid::regprocedure)
from pg_proc where pronamespace = 'public'::regnamespace and array_to_string(proconfig, ',') like '%search_path%'
"""
_WITHOUT_VACUUM: Final = """
select format('alter table %I set (autovacuum_enabled = false)', tablename)
from pg_tables where schemaname = 'public'
"""
_WITHOUT_TIMEOUTS: Final = b"set statement_timeout = 0; set idle_in_transaction_session_timeout = 0"
"""They are in real time."""
_TABLES_IN_USE: Final = """
select relname from pg_class
where relnamespace = 'public'::regnamespace and relkind = 'r' and pg_relation_size(oid) > 0
"""
_TERMINATE_OTHERS: Final = """
select pg_terminate_backend(pid) from pg_stat_activity
where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
"""


@dataclass(eq=False)
class _Blocked:
    """A request that waits for a lock."""

    connection: AsyncConnection[Any]
    pid: int
    """Of the server process. A closed connection no longer has it."""
    generator: Any
    wait: Wait
    result: asyncio.Future[Any]
    is_abandoned: bool = False
    """Whether its process was killed meanwhile. PostgreSQL executes it all the same."""


class SimulatedPostgres:
    """A database whose clocks are those of the simulation.

    Processes send one request at a time, since PostgreSQL itself would execute several at once in an order of its own. Only
    one that waits for a lock stays open while others are sent; its server process is stopped, so that those that wait for
    one lock continue one after the other. Between a task's request and its execution, and between that
    and the answer, virtual time passes, in which other tasks send theirs.
    """

    def __init__(self, url: str, clock: Path) -> None:
        """`url` is a migrated database of its own. PostgreSQL reads the time from the file `clock`."""
        self.url = url
        self._clock = clock.open("w+b", buffering=0)
        self._set_clock(0.0)
        self.monitor = psycopg.connect(url, autocommit=True)
        self._prepare(clock)
        self._initial = self._load_initial()
        self._blocked: list[_Blocked] = []
        self._loop: VirtualLoop | None = None
        self._chance = Random(0)
        self._lose: Callable[[Process], str | None] = lambda _: None
        self.trace: Callable[[str], None] = lambda line: None

    def close(self) -> None:
        self.monitor.close()
        self._clock.close()

    def reset(self) -> None:
        """Empties all tables: equal seeds find equal files."""
        tables = [name for (name,) in self.monitor.execute(_TABLES_IN_USE).fetchall()]
        with self.monitor.transaction():
            self.monitor.execute("set local session_replication_role = replica")
            if tables:
                self.monitor.execute(f"truncate {', '.join(tables)} restart identity cascade")
            for name, rows in self._initial.items():
                marks = ", ".join(["%s"] * len(rows[0]))
                self.monitor.cursor().executemany(f"insert into {name} values ({marks})", rows)
            self.monitor.execute("select setval('simulation.ids', 1, false)")

    @contextmanager
    def running(
        self,
        loop: VirtualLoop,
        chance: Random,
        lose: Callable[[Process], str | None],
    ) -> Iterator[None]:
        """Replaces the I/O of psycopg. `lose` says of a request whether its connection is lost `before` or `after` it."""
        self._loop, self._chance, self._lose = loop, chance, lose
        server = self

        async def wait(connection: AsyncConnection[Any], generator: Any, *_: Any, **__: Any) -> Any:
            return await server._request(connection, generator)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AsyncConnection, "wait", wait)
            patch.setattr(waiting, "wait_conn_async", self._connect)
            yield

    def end_all(self, processes: Iterable[Process]) -> None:
        """Ends the connections of all processes, and every server process, so that the next simulation finds no locks."""
        for blocked in self._blocked:
            os.kill(blocked.pid, signal.SIGCONT)
            blocked.connection.pgconn.finish()
        self._blocked.clear()
        for process in processes:
            for connection in process.connections:
                connection.pgconn.finish()
        self._wait_until(
            lambda: not self.monitor.execute(_TERMINATE_OTHERS).fetchall(),
            "the server processes to end",
        )

    def end_connections(self, process: Process) -> None:
        """Ends the connections of a process that was killed, or waits until their requests have their locks."""
        connections, process.connections = process.connections, []
        for connection in connections:
            self._end(connection)
        self._resume_blocked()

    def end_transactions(self, process: Process) -> None:
        """Ends the connections of a frozen process that are in a transaction: idle_in_transaction_session_timeout."""
        waiting_for_locks = [each.connection for each in self._blocked]
        for connection in process.connections:
            if connection.closed or connection in waiting_for_locks:
                continue
            if connection.info.transaction_status != TransactionStatus.IDLE:
                self._end(connection)
        self._resume_blocked()

    def _end(self, connection: AsyncConnection[Any]) -> None:
        if connection.closed:
            return
        for blocked in self._blocked:
            if blocked.connection is connection:
                blocked.is_abandoned = True
                return
        pid, status = connection.info.backend_pid, connection.info.transaction_status
        connection.pgconn.finish()
        if status != TransactionStatus.IDLE:
            self._wait_until(
                lambda: not self._ask("select true from pg_stat_activity where pid = %s", pid),
                "a connection to end",
            )

    async def _connect(
        self, generator: Any, interval: float = 0.0, timeout: float | None = None
    ) -> Any:
        process = PROCESS.get()
        if process is not None:
            await self._pass_time()
        connection = waiting.wait_conn(generator, interval=0.1, timeout=timeout)
        connection.pgconn.exec_(_WITHOUT_TIMEOUTS)
        if process is not None:
            process.connections = [each for each in process.connections if not each.closed]
            process.connections.append(connection)
        return connection

    async def _request(self, connection: AsyncConnection[Any], generator: Any) -> Any:
        process = PROCESS.get()
        if process is None:
            return self._execute(connection, generator)
        await self._pass_time()
        lost = self._lose(process)
        if lost == "before":
            self._end(connection)
            self._resume_blocked()
            raise psycopg.OperationalError("the connection was lost before the request")
        self.trace(f"request in {connection.info.transaction_status.name}")
        result = self._execute(connection, generator)
        if isinstance(result, _Blocked):
            blocked = result
            try:
                result = await blocked.result
            except asyncio.CancelledError:
                self._cancel(blocked)
                raise
        if lost == "after":
            self._end(connection)
            self._resume_blocked()
            raise psycopg.OperationalError("the connection was lost after the request")
        if self._chance.random() < LATE_ANSWERS:
            await self._pass_time()
        return result

    async def _pass_time(self) -> None:
        await asyncio.sleep(self._chance.expovariate(1 / LATENCY_SECONDS))

    def _execute(self, connection: AsyncConnection[Any], generator: Any) -> Any:
        """Executes a request. Returns its result, or a `_Blocked` if it waits for a lock."""
        assert self._loop is not None
        self._set_clock(self._loop.time())
        try:
            return self._drive(connection, generator, None)
        finally:
            if self._blocked:
                self._resume_blocked()

    def _drive(self, connection: AsyncConnection[Any], generator: Any, wait: Wait | None) -> Any:
        pgconn = connection.pgconn
        try:
            if wait is None:
                wait = next(generator)
            began = _real_time()
            while True:
                ready = _poll(pgconn.socket, wait, BLOCKED_AFTER_SECONDS)
                if ready:
                    wait = generator.send(ready)
                elif self._is_waiting(connection.info.backend_pid) and not self._is_deadlocked(
                    connection.info.backend_pid
                ):
                    return self._block(connection, generator, wait)
                elif _real_time() - began > MAX_WAIT_SECONDS:
                    raise TimeoutError("PostgreSQL does not answer")
        except StopIteration as stop:
            return stop.value

    def _is_deadlocked(self, pid: int) -> bool:
        """Whether the request waits, through others, for itself. PostgreSQL then refuses it."""
        waiting_pids, found = {each.pid for each in self._blocked}, {pid}
        while True:
            blockers = {
                blocker
                for (pids,) in self.monitor.execute(
                    "select pg_blocking_pids(pid) from unnest(%s::int[]) as pid", [sorted(found)]
                )
                for blocker in pids
            }
            if pid in blockers:
                return True
            if (blockers & waiting_pids) <= found:
                return False
            found |= blockers & waiting_pids

    def _block(self, connection: AsyncConnection[Any], generator: Any, wait: Wait) -> _Blocked:
        assert self._loop is not None
        known = [each for each in self._blocked if each.connection is connection]
        if known:
            [blocked] = known
            blocked.wait = wait
        else:
            pid, result = connection.info.backend_pid, self._loop.create_future()
            blocked = _Blocked(connection, pid, generator, wait, result)
            self._blocked.append(blocked)
        os.kill(blocked.pid, signal.SIGSTOP)
        self.trace("waits for a lock")
        return blocked

    def _resume_blocked(self) -> None:
        """Completes the requests whose locks were released meanwhile."""
        while free := [each for each in self._blocked if not self._is_waiting(each.pid)]:
            blocked = free[0]
            os.kill(blocked.pid, signal.SIGCONT)
            try:
                result = self._drive(blocked.connection, blocked.generator, blocked.wait)
            except psycopg.Error as error:
                _settle(blocked.result, error=error)
            else:
                if result is blocked:
                    continue
                _settle(blocked.result, value=result)
            self._blocked.remove(blocked)
            self.trace("has its lock")
            if blocked.is_abandoned:
                self._end(blocked.connection)

    def _cancel(self, blocked: _Blocked) -> None:
        """Cancels the request of a cancelled task, and receives its answer, as psycopg does."""
        if blocked not in self._blocked:
            return
        self._blocked.remove(blocked)
        self._ask("select pg_cancel_backend(%s)", blocked.pid)
        os.kill(blocked.pid, signal.SIGCONT)
        self._wait_until(
            lambda: not self._is_waiting(blocked.pid), "a cancelled request to leave its queue"
        )
        with suppress(QueryCanceled):
            self._drive(blocked.connection, blocked.generator, blocked.wait)
        self.trace("was cancelled while it waited for a lock")
        self._resume_blocked()

    def _is_waiting(self, pid: int) -> bool:
        return self._ask("select pg_blocking_pids(%s) <> '{}'", pid)

    def _ask(self, query: str, pid: int) -> bool:
        row = self.monitor.execute(query, [pid]).fetchone()
        return bool(row and row[0])

    def _wait_until(self, condition: Callable[[], bool], what: str) -> None:
        began = _real_time()
        while not condition():
            if _real_time() - began > MAX_WAIT_SECONDS:
                raise TimeoutError(f"waited for {what}")
            _sleep(0.0005)

    def _set_clock(self, seconds: float) -> None:
        self._clock.seek(0)
        self._clock.write(b"%017.6f" % (EPOCH + seconds))

    def _prepare(self, clock: Path) -> None:
        execute = self.monitor.execute
        execute(_PREPARE.format(clock=clock))
        for query in (_CLOCK_DEFAULTS, _FUNCTIONS_WITH_A_PATH, _WITHOUT_VACUUM):
            for (statement,) in execute(query).fetchall():
                execute(statement)
        name = self.monitor.info.dbname
        for setting in (f"search_path = {_SEARCH_PATH}", "deadlock_timeout = '3ms'", "jit = off"):
            execute(f'alter database "{name}" set {setting}')
        execute(f"set search_path = {_SEARCH_PATH}")

    def _load_initial(self) -> dict[str, list[Any]]:
        tables = [name for (name,) in self.monitor.execute(_TABLES_IN_USE).fetchall()]
        return {name: self.monitor.execute(f"select * from {name}").fetchall() for name in tables}


def _settle(
    future: asyncio.Future[Any], value: Any = None, error: BaseException | None = None
) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    else:
        future.set_exception(error)


def _poll(descriptor: int, wait: Wait, seconds: float) -> int:
    poll = select.poll()
    events = 0
    if wait & Wait.R:
        events |= select.POLLIN
    if wait & Wait.W:
        events |= select.POLLOUT
    poll.register(descriptor, events)
    ready = 0
    for _, event in poll.poll(seconds * 1000):
        if event & ~select.POLLOUT:
            ready |= Ready.R
        if event & ~select.POLLIN:
            ready |= Ready.W
    return ready
