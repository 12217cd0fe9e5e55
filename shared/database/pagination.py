"""Keyset pagination, and the cursors of the API.

Rows that come or go in between move nothing: none is told twice, none that stays is left out. A row that moves itself
(a node that is touched while the pages are read) is told where it is then.
"""

import base64
import binascii
import json
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar, TypeVarTuple, cast
from uuid import UUID

from sqlalchemy import ColumnElement, Select, literal, tuple_
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import InstrumentedAttribute

from shared.errors import VigilError
from shared.schemas.base import LARGEST_PAGE, Page, Wanted

VERSION: Final = 1
LONGEST_CHARACTERS: Final = 2_000
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1

Place = tuple[UUID | datetime | int | str, ...]
"""The values of a list's order at one of its rows."""


class BadCursorError(VigilError):
    """What was given as a cursor is none, or is another list's."""


def written(name: str, place: Place) -> str:
    """The cursor of that place in the list `name`. It holds nothing that the page itself does not."""
    plain = [value if isinstance(value, int) else _text(value) for value in place]
    whole = json.dumps([VERSION, name, *plain], separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(whole.encode()).rstrip(b"=").decode()


def read(name: str, kinds: Sequence[type], cursor: str) -> Place:
    """Raises BadCursorError where it was not `written` for the list `name`, by this version."""
    try:
        version, of, *plain = _unpacked(cursor)
        if (version, of, len(plain)) != (VERSION, name, len(kinds)):
            raise ValueError
        return tuple(_value(kind, each) for kind, each in zip(kinds, plain, strict=True))
    except (ValueError, TypeError) as error:
        raise BadCursorError(
            f"{cursor[:40]!r} is no cursor of this list: take `next` of one of its pages,"
            " or leave it out to begin with the first page"
        ) from error


def _text(value: UUID | datetime | str) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _unpacked(cursor: str) -> list[Any]:
    if len(cursor) > LONGEST_CHARACTERS:
        raise ValueError
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        found = json.loads(raw)
    except (binascii.Error, RecursionError) as error:
        raise ValueError from error
    if not isinstance(found, list):
        raise ValueError
    return found


def _value(kind: type, plain: Any) -> UUID | datetime | int | str:
    """Only what Postgres can compare with a column of that kind."""
    if kind is int:
        if type(plain) is not int or not _SMALLEST <= plain <= _LARGEST:
            raise ValueError
        return plain
    if not isinstance(plain, str):
        raise ValueError
    if kind is UUID:
        return UUID(plain)
    if kind is datetime:
        moment = datetime.fromisoformat(plain)
        if moment.tzinfo is None:
            raise ValueError
        return moment
    if "\x00" in plain:
        raise ValueError
    plain.encode()
    return plain


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
        place = read(self.name, kinds, cursor)
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
    place = None if is_last else cast(Place, tuple(found[limit - 1])[-keys:])
    return Slice(rows, None if place is None else written(order.name, place))


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
