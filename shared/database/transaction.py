"""Transactions: compiled statements, statements of SQLAlchemy Core, savepoints and inserts on one connection of psycopg."""

from collections import namedtuple
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from typing import Any, Final, Generic, Never, Protocol, TypeVar, TypeVarTuple, overload

from psycopg.errors import InFailedSqlTransaction
from psycopg.pq import TransactionStatus
from sqlalchemy import ClauseElement, ColumnElement, Executable, Select, inspect, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import IteratorResult, ScalarResult
from sqlalchemy.engine.result import SimpleResultMetaData
from sqlalchemy.exc import NoResultFound
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.selectable import TypedReturnsRows

from shared.database.pipelined import BoundStatement, PipelinedConnection, Result
from shared.database.statements import DIALECT, Batch, CompiledStatement
from shared.database.tables.base import Base

T = TypeVar("T")
Values = TypeVarTuple("Values")
Table = TypeVar("Table", bound=Base)

_BEGIN: Final = BoundStatement(b"begin", ())
_BEGIN_SNAPSHOT: Final = BoundStatement(b"begin isolation level repeatable read read only", ())


class Buffer(Protocol):
    """Writes that wait in a transaction until it runs another statement, which must see them, or ends."""

    def add_to(self, batch: Batch) -> None:
        """Adds what waits, if anything, to `batch`. It goes on waiting, since the batch may fail."""

    def clear(self) -> None:
        """Nothing waits any more."""


class StatementResult(IteratorResult[*Values], Generic[*Values]):
    """The rows of a statement, and the number of rows that it changed."""

    rowcount: int = 0


class Transaction:
    """An open transaction. BEGIN is sent together with its first statement.

    A row of a whole table is a named tuple with the columns and the properties of the table. Errors of psycopg are not
    wrapped.
    """

    def __init__(
        self,
        connection: PipelinedConnection,
        *,
        is_begun: bool = False,
        is_snapshot: bool = False,
    ) -> None:
        self.connection = connection
        self.buffer: Buffer | None = None
        self.cache: dict[Any, Any] = {}
        """Empty at the start. A savepoint shares it, and empties it when it is rolled back."""
        self._begin = _BEGIN_SNAPSHOT if is_snapshot else _BEGIN
        self.is_begun = is_begun

    async def run_together(self, statements: Sequence[BoundStatement]) -> list[Result]:
        """Runs the statements in one round trip, after what waits. Raises the error of the first that fails."""
        await self.flush()
        if self.is_begun:
            return await self.connection.run_together(statements)
        try:
            results = await self.connection.run_together([self._begin, *statements])
        finally:
            # Also if a statement has failed after BEGIN.
            status = self.connection.info.transaction_status
            self.is_begun = status is not TransactionStatus.IDLE
        return results[1:]

    async def flush(self) -> None:
        """Writes what waits in the buffer."""
        buffer, self.buffer = self.buffer, None
        if buffer is None:
            return
        try:
            batch = Batch()
            buffer.add_to(batch)
            await batch.execute(self)
            buffer.clear()
        finally:
            self.buffer = buffer

    async def commit(self) -> None:
        """Commits, if anything was run. Raises InFailedSqlTransaction if a statement has failed, and nothing was written."""
        if not self.is_begun:
            return
        ended = await self.connection.execute("commit")
        self.is_begun = False
        if ended.statusmessage == "ROLLBACK":
            raise InFailedSqlTransaction("a statement has failed, so nothing was committed")

    async def rollback(self) -> None:
        """Undoes everything. What is run next begins another transaction."""
        self.cache.clear()
        if self.buffer is not None:
            self.buffer.clear()
        if self.is_begun:
            await self.connection.execute("rollback")
            self.is_begun = False

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """What the block writes is undone if it raises. What waited before stays."""
        await self.run_together([BoundStatement(b"savepoint part", ())])
        try:
            yield
            await self.flush()
        except BaseException:
            self.cache.clear()
            if self.buffer is not None:
                self.buffer.clear()
            if not self.connection.closed:
                # Without RELEASE, it would hide an outer savepoint, which has the same name.
                undo = [b"rollback to savepoint part", b"release savepoint part"]
                await self.connection.run_together([BoundStatement(sql, ()) for sql in undo])
            raise
        await self.connection.execute("release savepoint part")

    @overload
    async def execute(
        self, statement: TypedReturnsRows[*Values], params: Mapping[str, Any] | None = None
    ) -> StatementResult[*Values]: ...
    @overload
    async def execute(
        self, statement: Executable, params: Mapping[str, Any] | None = None
    ) -> StatementResult[*tuple[Any, ...]]: ...
    async def execute(
        self, statement: Executable, params: Mapping[str, Any] | None = None
    ) -> StatementResult[*tuple[Any, ...]]:
        """Compiles and runs a statement of SQLAlchemy Core, for statements that are built as needed."""
        statement, read_row, keys = _with_columns(statement)
        (result,) = await self.run_together([_bind(statement, params)])
        rows = result.tuples()
        names = keys if keys is not None else result.columns
        loaded: StatementResult[*tuple[Any, ...]] = StatementResult(
            SimpleResultMetaData(names), iter([read_row(row) for row in rows] if read_row else rows)
        )
        loaded.rowcount = result.row_count
        return loaded

    @overload
    async def scalars(
        self, statement: TypedReturnsRows[Never], params: Mapping[str, Any] | None = None
    ) -> ScalarResult[Any]: ...
    @overload
    async def scalars(
        self, statement: TypedReturnsRows[T], params: Mapping[str, Any] | None = None
    ) -> ScalarResult[T]: ...
    @overload
    async def scalars(
        self, statement: Executable, params: Mapping[str, Any] | None = None
    ) -> ScalarResult[Any]: ...
    async def scalars(
        self, statement: Executable, params: Mapping[str, Any] | None = None
    ) -> ScalarResult[Any]:
        """The first value of each row."""
        return (await self.execute(statement, params)).scalars()

    @overload
    async def scalar(
        self, statement: TypedReturnsRows[Never], params: Mapping[str, Any] | None = None
    ) -> Any: ...
    @overload
    async def scalar(
        self, statement: TypedReturnsRows[T], params: Mapping[str, Any] | None = None
    ) -> T | None: ...
    @overload
    async def scalar(
        self, statement: Executable, params: Mapping[str, Any] | None = None
    ) -> Any: ...
    async def scalar(self, statement: Executable, params: Mapping[str, Any] | None = None) -> Any:
        """The first value of the first row, or None."""
        return (await self.execute(statement, params)).scalars().first()

    async def get(self, table: type[Table], key: Any) -> Table | None:
        """The row with this primary key, or None."""
        return await self.scalar(_select(table).where(*_has_key(table, key)))

    async def get_one(self, table: type[Table], key: Any) -> Table:
        """The row with this primary key. Raises NoResultFound."""
        row = await self.get(table, key)
        if row is None:
            raise NoResultFound(f"there is no row {key} in {table.__tablename__}")
        return row

    async def insert(self, table: type[Table], **values: Any) -> Table:
        """Inserts a row, and returns it with the defaults of the database."""
        return await self._write(table, postgresql.insert(table).values(values))

    async def insert_all(self, table: type[Base], rows: Iterable[Mapping[str, Any]]) -> None:
        """Inserts rows, all with the same columns, however many they are."""
        await self.execute_each(postgresql.insert(table), list(rows))

    async def update(self, table: type[Table], key: Any, **values: Any) -> Table:
        """Changes the row with this primary key, and returns it. Raises NoResultFound."""
        return await self._write(table, update(table).where(*_has_key(table, key)).values(values))

    async def _write(self, table: type[Table], statement: Any) -> Table:
        """Runs a statement that writes one row, and returns the row."""
        columns = [getattr(table, key) for key in _keys(inspect(table))]
        row: Table = _entity_row(table)((await self.execute(statement.returning(*columns))).one())
        return row

    async def execute_each(
        self, statement: ClauseElement, params: Sequence[Mapping[str, Any]]
    ) -> None:
        """Runs a statement once for each set of parameters, all in one round trip."""
        if params:
            compiled = CompiledStatement(statement, columns=list(params[0]))
            await self.run_together([compiled.bind(each) for each in params])


def _has_key(table: type[Base], key: Any) -> list[ColumnElement[bool]]:
    values = key if isinstance(key, tuple) else (key,)
    columns = inspect(table).primary_key
    return [column == value for column, value in zip(columns, values, strict=True)]


def _select(table: type[Table]) -> Select[Table]:
    return Select(table)


def _bind(statement: Executable, params: Mapping[str, Any] | None) -> BoundStatement:
    assert isinstance(statement, ClauseElement)
    compiled = statement.compile(dialect=DIALECT)
    assert isinstance(compiled, SQLCompiler)
    # With one placeholder for each value of a list.
    expanded = compiled.construct_expanded_state(params)
    processors = {**compiled._bind_processors, **expanded.processors}
    values = []
    for name in expanded.positiontup or ():
        value, processor = expanded.parameters[name], processors.get(name)
        values.append(processor(value) if callable(processor) else value)
    return BoundStatement(expanded.statement.encode(), values)


_ReadRow = Callable[[Sequence[Any]], Any]


def _with_columns(
    statement: Executable,
) -> tuple[Executable, _ReadRow | None, Sequence[str] | None]:
    """The statement with columns in place of whole tables, how to read its rows, and the names of its values."""
    if not isinstance(statement, Select):
        return statement, None, None
    described = statement.column_descriptions
    tables = [_is_table(value) for value in described]
    if not any(tables):
        return statement, None, [value["name"] for value in described]
    columns: list[Any] = []
    readers: list[_ReadRow | None] = []
    for value, is_table in zip(described, tables, strict=True):
        if is_table:
            entity = value["expr"]
            attributes = [getattr(entity, key) for key in _keys(inspect(entity).mapper)]
            columns.extend(attributes)
            readers.append(_entity_row(inspect(entity).mapper.class_))
        else:
            columns.append(value["expr"])
            readers.append(None)

    widths = [
        len(_keys(inspect(value["expr"]).mapper)) if is_table else 1
        for value, is_table in zip(described, tables, strict=True)
    ]

    def read(row: Sequence[Any]) -> tuple[Any, ...]:
        values, place = [], 0
        for reader, width in zip(readers, widths, strict=True):
            part = row[place : place + width]
            if reader is None:
                values.append(part[0])
            else:
                # Of an outer join without a match.
                values.append(None if all(one is None for one in part) else reader(part))
            place += width
        return tuple(values)

    return statement.with_only_columns(*columns), read, [value["name"] for value in described]


def _is_table(description: Mapping[str, Any]) -> bool:
    entity = description.get("entity")
    return entity is not None and description["expr"] is entity


def _keys(mapper: Any) -> list[str]:
    return [attribute.key for attribute in mapper.column_attrs]


@lru_cache
def _entity_row(table: type[Base]) -> _ReadRow:
    columns: Any = namedtuple(table.__name__, _keys(inspect(table)))  # type: ignore[misc]
    derived = {name: value for name, value in vars(table).items() if isinstance(value, property)}
    row_class: Any = type(table.__name__, (columns,), {"__slots__": (), **derived})
    make: _ReadRow = row_class._make
    return make
