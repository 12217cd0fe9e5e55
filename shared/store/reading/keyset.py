"""Reading a list page by page, by where the last page ended: the millionth row costs what the first does.

Rows that come or go in between move nothing: none is told twice, none that stays is left out. A row that moves itself
(a node that is touched while the pages are read) is told where it is then.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, TypeVarTuple, cast

from sqlalchemy import ColumnElement, Select, literal, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from shared.store.reading import cursors
from shared.store.reading.page import LARGEST_PAGE, Page, Wanted

T = TypeVar("T")
Row = TypeVarTuple("Row")

Column = ColumnElement[Any] | InstrumentedAttribute[Any]


@dataclass(frozen=True)
class Keyset:
    """The order of the list `name`: by all of `columns` in one direction. Together they are unique, and never null.

    An index has them in this order, after what the list is filtered by, or all of them but a last id that only parts
    rows of the same moment.
    """

    name: str
    columns: tuple[Column, ...]
    descending: bool = True

    def after(self, cursor: str) -> ColumnElement[bool]:
        """Raises BadCursorError."""
        kinds = [column.type.python_type for column in self.columns]
        place = cursors.read(self.name, kinds, cursor)
        columns = tuple_(*self.columns)
        values = tuple_(
            *(
                literal(value, column.type)
                for value, column in zip(place, self.columns, strict=True)
            )
        )
        return columns < values if self.descending else columns > values

    def ordered(self, statement: Select[*Row]) -> Select[*Row]:
        return statement.order_by(
            *(column.desc() if self.descending else column.asc() for column in self.columns)
        )


@dataclass(frozen=True)
class Slice(Generic[*Row]):
    """The rows of one page as the statement selects them."""

    rows: list[tuple[*Row]]
    next: str | None

    def page(self, view: Callable[[*Row], T]) -> Page[T]:
        return Page(items=[view(*row) for row in self.rows], next=self.next)


async def slice_of(
    session: AsyncSession, statement: Select[*Row], order: Keyset, wanted: Wanted
) -> Slice[*Row]:
    """The rows of `statement`, which has no order of its own. Raises BadCursorError."""
    limit = max(1, min(wanted.limit, LARGEST_PAGE))
    return await long_slice_of(session, statement, order, limit, wanted.cursor)


async def long_slice_of(
    session: AsyncSession,
    statement: Select[*Row],
    order: Keyset,
    limit: int,
    cursor: str | None = None,
) -> Slice[*Row]:
    """The same for programs, which may want more rows at once than people."""
    if cursor is not None:
        statement = statement.where(order.after(cursor))
    found = (
        await session.execute(
            order.ordered(statement)
            .add_columns(*order.columns)
            .limit(limit + 1)
            .execution_options(populate_existing=True)
        )
    ).all()
    keys = len(order.columns)
    rows = [cast("tuple[*Row]", tuple(row)[:-keys]) for row in found[:limit]]
    is_last = len(found) <= limit
    place = None if is_last else cast(cursors.Place, tuple(found[limit - 1])[-keys:])
    return Slice(rows, None if place is None else cursors.written(order.name, place))


async def slices_of(
    session: AsyncSession, statement: Select[*Row], order: Keyset, limit: int
) -> AsyncIterator[list[tuple[*Row]]]:
    """All rows of `statement`, so many at a time."""
    cursor: str | None = None
    while True:
        found = await long_slice_of(session, statement, order, limit, cursor)
        yield found.rows
        cursor = found.next
        if cursor is None:
            return
