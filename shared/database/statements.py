"""Compiled statements, and several of them in one round trip.

SQLAlchemy takes some 0.4 ms of processor time to run what PostgreSQL answers in a tenth of that. What is written here is in
its language too, and is of the session's transaction; it is compiled once, and neither it nor its rows pass through it
again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import AsyncRowFactory, namedtuple_row, tuple_row
from sqlalchemy import ARRAY, ClauseElement, Dialect, Text, Uuid, any_, bindparam, cast, text
from sqlalchemy.dialects.postgresql.psycopg import PGDialectAsync_psycopg
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import SessionTransaction
from sqlalchemy.sql.compiler import SQLCompiler

_KNOWN: Final = "within"
"""Where a session keeps it."""


class _Within(NamedTuple):
    transaction: SessionTransaction | None
    known: dict[Any, Any]


def within(session: AsyncSession) -> dict[Any, Any]:
    """Empty when a transaction begins, and in each savepoint; and again behind one: what was undone is known to nobody."""
    innermost = _innermost(session)
    held: _Within | None = session.info.get(_KNOWN)
    if held is None or held.transaction is not innermost:
        held = session.info[_KNOWN] = _Within(innermost, {})
    return held.known


def _innermost(session: AsyncSession) -> SessionTransaction | None:
    inside = session.sync_session
    return inside.get_nested_transaction() or inside.get_transaction()


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
        """All rows; none of a statement that returns nothing."""
        return await returned(await self._executed(session, given or {}))

    async def tuples(
        self, session: AsyncSession, given: Mapping[str, Any] | None = None
    ) -> list[tuple[Any, ...]]:
        """As `rows`, without the names of columns: for very many rows, which psycopg makes several times as fast then."""
        cursor = await self._executed(session, given or {}, tuple_row)
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

    async def _executed(
        self,
        session: AsyncSession,
        given: Mapping[str, Any],
        made_by: AsyncRowFactory[Row] = namedtuple_row,
    ) -> AsyncCursor[Row]:
        await flush(session)
        return await self.sent(await driver_of(session), given, made_by)

    async def sent(
        self,
        driver: AsyncConnection[Any],
        given: Mapping[str, Any],
        made_by: AsyncRowFactory[Row] = namedtuple_row,
    ) -> AsyncCursor[Row]:
        """Within a pipeline its answer is still to come."""
        cursor = AsyncCursor(driver, row_factory=made_by)
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

    @cached_property
    def _asked_for(self) -> dict[str, str]:
        """What must be given each time, by the name it has in the statement."""
        bound = self._compiled.bind_names.items()
        return {name: each.key for each, name in bound if each.required}

    @cached_property
    def _own(self) -> dict[str, Any]:
        """The values that stand in the statement itself."""
        bound = self._compiled.bind_names.items()
        return {name: each.effective_value for each, name in bound if not each.required}

    def _bound(self, given: Mapping[str, Any]) -> dict[str, Any]:
        try:
            values = {name: given[key] for name, key in self._asked_for.items()}
        except KeyError as missing:
            raise InvalidRequestError(f"a value is required for bind parameter {missing}") from None
        values |= self._own
        for name, processor in self._processors.items():
            values[name] = processor(values[name])
        return values


async def returned(cursor: AsyncCursor[Row]) -> list[Row]:
    """All rows; none of a statement that returns nothing."""
    return [] if cursor.description is None else await cursor.fetchall()


async def flush(session: AsyncSession) -> None:
    """As the session's own; where nothing waits to be written, at a tenth of what that takes."""
    if not session.sync_session._is_clean():  # what it asks itself first
        await session.flush()


async def driver_of(session: AsyncSession) -> AsyncConnection[Any]:
    """It is asked for once in a transaction, and once in each savepoint: asking is what sets it."""
    driver = within(session).get(AsyncConnection)
    if driver is None:
        connection = await (await session.connection()).get_raw_connection()
        driver = connection.driver_connection
        assert isinstance(driver, AsyncConnection)
        # Asked again: this may have begun it.
        within(session)[AsyncConnection] = driver
    return driver


T = TypeVar("T")


@dataclass(frozen=True)
class Asked(Generic[T]):
    """A statement with its values, and what its rows mean."""

    statement: Direct
    given: Mapping[str, Any]
    read: Callable[[list[Row]], T]

    async def answer(self, session: AsyncSession) -> T:
        """By itself."""
        return self.read(await self.statement.rows(session, self.given))


class Answer(Generic[T]):
    """`value` is there when the trip has been made."""

    value: T


@dataclass(frozen=True)
class RoundTrip:
    """Statements that need nothing of each other's answers, sent together: to wait for each takes longer than to do it."""

    _asked: list[tuple[Asked[Any], Answer[Any]]] = field(default_factory=list)

    def ask(self, asked: Asked[T]) -> Answer[T]:
        answer = Answer[T]()
        self._asked.append((asked, answer))
        return answer

    async def make(self, session: AsyncSession) -> None:
        """In the order in which they were asked. What psycopg raises comes as it is, and is of the first that fails."""
        match self._asked:
            case []:
                return
            case [(asked, answer)]:
                answer.value = await asked.answer(session)
                return
        await flush(session)
        driver = await driver_of(session)
        async with driver.pipeline():
            cursors = [await asked.statement.sent(driver, asked.given) for asked, _ in self._asked]
        for (asked, answer), cursor in zip(self._asked, cursors, strict=True):
            answer.value = asked.read(await returned(cursor))


_KEPT: Final = 128


def spelled(sql: str, name: str, values: Sequence[Any]) -> tuple[Direct, dict[str, Any]]:
    """`sql` with the placeholders of so many values instead of `{values}`, and these by their names.

    None at all are one that nothing is equal to.
    """
    given = {f"{name}{place}": value for place, value in enumerate(values)}
    return _of(sql, tuple(given)), given


@lru_cache(maxsize=_KEPT)
def _of(sql: str, names: tuple[str, ...]) -> Direct:
    return Direct(sql.format(values=", ".join(f":{name}" for name in names) or "null"))


ANY_OF_IDS: Final = any_(cast(bindparam("ids", type_=Text), ARRAY(Uuid)))
"""What an id equals that is among `ids`, in statements that are given these, `listed`, each time."""


def listed(ids: Iterable[UUID]) -> str:
    """For `cast(… as uuid[])`. Written at once: psycopg would look for the spelling of each, which takes far longer."""
    return "{" + ",".join([each.hex for each in ids]) + "}"
