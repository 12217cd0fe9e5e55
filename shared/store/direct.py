"""Statements that are run often, given to psycopg as they are.

SQLAlchemy takes some 0.4 ms of processor time to run what PostgreSQL answers in a tenth of that. What is written here is in
its language too, and is of the session's transaction; it is compiled once, and neither it nor its rows pass through it
again.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import namedtuple_row
from sqlalchemy import ClauseElement, Dialect, text
from sqlalchemy.dialects.postgresql.psycopg import PGDialectAsync_psycopg
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.sql.compiler import SQLCompiler

from shared.store.within import within

T = TypeVar("T")
Row = Any
"""Its columns by their names, and in their order."""

_DIALECT: Final[Dialect] = PGDialectAsync_psycopg()  # type: ignore[no-untyped-call]


class Direct:
    """One statement, which is given other values each time. What psycopg raises comes as it is: see `Database`."""

    def __init__(self, statement: ClauseElement | str, columns: Sequence[str] = ()) -> None:
        """`columns` are those that an INSERT or UPDATE is given each time."""
        self._statement = text(statement) if isinstance(statement, str) else statement
        self._columns = list(columns) or None

    async def rows(
        self, session: AsyncSession, given: Mapping[str, Any] | None = None
    ) -> list[Row]:
        """All rows of a statement that returns any."""
        cursor = await self._executed(session, given or {})
        return await cursor.fetchall()

    async def row(self, session: AsyncSession, given: Mapping[str, Any] | None = None) -> Row:
        """The first row; None where there is none."""
        cursor = await self._executed(session, given or {})
        return await cursor.fetchone()

    async def value(self, session: AsyncSession, given: Mapping[str, Any] | None = None) -> Any:
        """The first row's first column; None where there is none."""
        row = await self.row(session, given)
        return None if row is None else row[0]

    async def run(self, session: AsyncSession, given: Mapping[str, Any] | None = None) -> int:
        """How many rows it has changed."""
        cursor = await self._executed(session, given or {})
        return cursor.rowcount

    async def _executed(self, session: AsyncSession, given: Mapping[str, Any]) -> AsyncCursor[Row]:
        await flush(session)
        return await self.sent(await _driver_of(session), given)

    async def sent(
        self, driver: AsyncConnection[Any], given: Mapping[str, Any]
    ) -> AsyncCursor[Row]:
        """Within a pipeline its answer is still to come."""
        cursor = AsyncCursor(driver, row_factory=namedtuple_row)
        await cursor.execute(self._sql, self._bound(given))
        return cursor

    @cached_property
    def _compiled(self) -> SQLCompiler:
        compiled = self._statement.compile(dialect=_DIALECT, column_keys=self._columns)
        assert isinstance(compiled, SQLCompiler)
        return compiled

    @cached_property
    def _sql(self) -> bytes:
        return self._compiled.string.encode()

    @cached_property
    def _processors(self) -> dict[str, Any]:
        """What makes a value what psycopg expects, where its type needs that: JSON."""
        processors = {
            name: bound.type.dialect_impl(_DIALECT).bind_processor(_DIALECT)
            for bound, name in self._compiled.bind_names.items()
        }
        return {name: processor for name, processor in processors.items() if processor}

    def _bound(self, given: Mapping[str, Any]) -> dict[str, Any]:
        values = dict(self._compiled.construct_params(dict(given), _check=True))
        for name, processor in self._processors.items():
            values[name] = processor(values[name])
        return values


@dataclass(frozen=True)
class Asked(Generic[T]):
    """A statement with its values, and what its rows mean."""

    statement: Direct
    given: Mapping[str, Any]
    read: Callable[[list[Row]], T]

    async def answer(self, session: AsyncSession) -> T:
        return self.read(await self.statement.rows(session, self.given))


@dataclass(frozen=True)
class RoundTrip:
    """Looks that do not depend on each other, sent together: a round trip costs more than most answers do."""

    _asked: list[tuple[Asked[Any], "Answer[Any]"]] = field(default_factory=list)

    def ask(self, asked: Asked[T]) -> "Answer[T]":
        """The answer is there when the trip is made."""
        answer = Answer[T]()
        self._asked.append((asked, answer))
        return answer

    async def make(self, session: AsyncSession) -> None:
        await flush(session)
        driver = await _driver_of(session)
        async with driver.pipeline():
            cursors = [await asked.statement.sent(driver, asked.given) for asked, _ in self._asked]
        for (asked, answer), cursor in zip(self._asked, cursors, strict=True):
            answer.value = asked.read(await cursor.fetchall())


class Answer(Generic[T]):
    value: T


async def flush(session: AsyncSession) -> None:
    """As the session's own; where nothing waits to be written, at a tenth of what that takes."""
    if not session.sync_session._is_clean():  # what it asks itself first
        await session.flush()


async def _driver_of(session: AsyncSession) -> AsyncConnection[Any]:
    """It is asked for once in a transaction, and once in each savepoint: asking is what sets it."""
    driver = within(session).get(AsyncConnection)
    if driver is None:
        connection = await (await session.connection()).get_raw_connection()
        driver = connection.driver_connection
        assert isinstance(driver, AsyncConnection)
        # Asked again: this may have begun it.
        within(session)[AsyncConnection] = driver
    return driver
