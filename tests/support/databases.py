"""Databases of single tests: copies of a migrated template, emptied and used again where that is enough.

A copy of the template takes about ten times as long as emptying one.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, LiteralString
from uuid import uuid4

import psycopg
from psycopg import sql

from tests.support.engines import Postgres
from tests.support.waiting import wait_for

TEMPLATE: Final = "vigil_template"
MAX_TABLE_BYTES: Final = 1_000_000
"""A database with a larger table, dead rows included, is not used again."""

_PREPARE: Final = """
create schema vigil_test;
create table vigil_test.changes (command text);
create function vigil_test.note_change() returns event_trigger language plpgsql security definer as
  $$ begin insert into vigil_test.changes values (tg_tag); end $$;
create event trigger vigil_test_command on ddl_command_end execute function vigil_test.note_change();
create event trigger vigil_test_drop on sql_drop execute function vigil_test.note_change();
"""
_IS_CHANGED: Final = """
select exists (select from vigil_test.changes)
  or exists (select from pg_sequences where last_value is not null)
  or exists (select from pg_statistic join pg_class on pg_class.oid = starelid
    where relnamespace = 'public'::regnamespace)
  or exists (select from pg_class where relnamespace = 'public'::regnamespace
    and pg_relation_size(oid) > %(max_bytes)s)
  or exists (select from pg_database where datname = current_database() and (datacl is not null
    or exists (select from pg_db_role_setting where setdatabase = pg_database.oid)))
"""
"""Whether a database differs from a new one in more than its rows."""
_TABLES: Final = "select tablename from pg_tables where schemaname = 'public'"
_TABLES_IN_USE: Final = """
select relname from pg_class
where relnamespace = 'public'::regnamespace and relkind = 'r' and pg_relation_size(oid) > 0
"""
_FOR_EMPTYING: Final = "set local session_replication_role = replica; set local lock_timeout = '1s'"
_LEFT_UNUSABLE: Final = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.OperationalError,
)
"""Errors with a database that a test left locked, read-only, closed to connections or dropped."""
END_CONNECTIONS: Final = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"


class DatabasePool:
    """The databases of one server. The template must have been migrated before."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._server = self._connect()
        self._free: list[str] = []
        with psycopg.connect(postgres.url(TEMPLATE), autocommit=True) as template:
            tables = [name for (name,) in template.execute(_TABLES).fetchall()]
            self._initial = {
                name: rows
                for name in tables
                if (rows := template.execute(_select_all(name)).fetchall())
            }
            template.execute(_PREPARE)

    def close(self) -> None:
        self._server.close()

    def take(self) -> str:
        """The name of a database equal to the template. The name was never used before."""
        name = f"test_{uuid4().hex}"
        if self._free:
            self._rename(self._free.pop(), name)
        else:
            query = "create database {} template {} strategy file_copy"
            self._execute(sql.SQL(query).format(sql.Identifier(name), sql.Identifier(TEMPLATE)))
        return name

    def give_back(self, name: str) -> None:
        """Ends all connections to the database, and empties or drops it."""
        self._execute(END_CONNECTIONS, [name])
        with suppress(*_LEFT_UNUSABLE):
            if self._is_emptied(name):
                self._free.append(name)
                return
        self._execute(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        )

    def _connect(self) -> psycopg.Connection:
        return psycopg.connect(self._postgres.dsn, autocommit=True)

    def _execute(
        self, statement: LiteralString | sql.Composed, params: Sequence[str] | None = None
    ) -> None:
        """Connects again if the connection was lost: else all later tests of this process would fail. The server ends all
        connections if one of its processes is killed, as when memory runs out.
        """

        def reconnect() -> psycopg.Connection | None:
            try:
                return self._connect()
            except psycopg.OperationalError:  # it still recovers
                return None

        try:
            self._server.execute(statement, params)
        except psycopg.OperationalError:
            if not self._server.broken:
                raise
            self._server = wait_for(reconnect, "PostgreSQL to accept connections again")
            self._server.execute(statement, params)

    def _is_emptied(self, name: str) -> bool:
        with psycopg.connect(self._postgres.url(name)) as connection:
            [is_changed] = connection.execute(
                _IS_CHANGED, {"max_bytes": MAX_TABLE_BYTES}
            ).fetchone() or [True]
            if is_changed:
                return False
            _empty(connection)
            for table, rows in self._initial.items():
                values = sql.SQL(", ").join([sql.Placeholder()] * len(rows[0]))
                insert = sql.SQL("insert into {} values ({})").format(sql.Identifier(table), values)
                connection.cursor().executemany(insert, rows)
        return True

    def _rename(self, old: str, new: str) -> None:
        """Clients of the test before, which may connect again, do not find it under the new name."""
        query = sql.SQL("alter database {} rename to {}").format(
            sql.Identifier(old), sql.Identifier(new)
        )

        def rename() -> bool | None:
            try:
                self._execute(query)
            except psycopg.errors.ObjectInUse:
                self._execute(END_CONNECTIONS, [old])
                return None
            return True

        wait_for(rename, f"the connections to {old} to end")


class StoredRows:
    """The rows that something writes into a database, to be written into others in which there is what was there before."""

    def __init__(self, url: str) -> None:
        """`url` is the database before they are written."""
        with psycopg.connect(url) as connection:
            self._counts_before = _count_rows(connection)
        self._copies: list[tuple[sql.Composed, bytes]] = []

    def store(self, url: str) -> None:
        with psycopg.connect(url) as connection:
            for name in _tables_in_use(connection):
                write = sql.SQL("copy {} to stdout (format binary)").format(name)
                read = sql.SQL("copy {} from stdin (format binary)").format(name)
                with connection.cursor().copy(write) as rows:
                    self._copies.append((read, b"".join(rows)))

    def write(self, url: str) -> None:
        """Without triggers, so that the journals are those that were stored."""
        with psycopg.connect(url) as connection:
            counts = _count_rows(connection)
            assert counts == self._counts_before, f"other rows would be lost: {counts}"
            _empty(connection)
            for copy, rows in self._copies:
                with connection.cursor().copy(copy) as copied:
                    copied.write(rows)


def _count_rows(connection: psycopg.Connection) -> Mapping[str, int]:
    counts = [
        sql.SQL("select {}, count(*) from {}").format(sql.Literal(name.as_string()), name)
        for name in _tables_in_use(connection)
    ]
    rows = connection.execute(sql.SQL(" union all ").join(counts)).fetchall()
    return {name: count for name, count in rows if count}


def _tables_in_use(connection: psycopg.Connection) -> list[sql.Identifier]:
    return [sql.Identifier(name) for (name,) in connection.execute(_TABLES_IN_USE).fetchall()]


def _empty(connection: psycopg.Connection) -> None:
    """Until the transaction ends, triggers do not fire."""
    deletes = [sql.SQL("delete from {}").format(name) for name in _tables_in_use(connection)]
    connection.execute(sql.SQL("; ").join([sql.SQL(_FOR_EMPTYING), *deletes]))


def _select_all(table: str) -> sql.Composed:
    return sql.SQL("select * from {}").format(sql.Identifier(table))
