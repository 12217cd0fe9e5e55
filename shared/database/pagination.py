"""Keyset pagination and the cursors of the API.

Inserts and deletes between two pages cause no repeated and no missing rows. A row whose own sort key changes meanwhile
appears at its new position.
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
from sqlalchemy.orm import InstrumentedAttribute

from shared.database.transaction import Transaction
from shared.errors import VigilError
from shared.schemas.base import LARGEST_PAGE, Page, PageRequest

VERSION: Final = 1
MAX_CURSOR_CHARS: Final = 2_000
_MIN_BIGINT, _MAX_BIGINT = -(2**63), 2**63 - 1

SortKey = tuple[UUID | datetime | int | str, ...]
"""The values of a list's sort key at one of its rows."""


class InvalidCursorError(VigilError):
    """The cursor is malformed, or belongs to another list."""


def encode_cursor(name: str, sort_key: SortKey) -> str:
    """The cursor of `sort_key` in the list `name`. It contains nothing that the page itself does not."""
    plain = [value if isinstance(value, int) else _text(value) for value in sort_key]
    payload = json.dumps([VERSION, name, *plain], separators=(",", ":"), ensure_ascii=False)
    return base64.urlsafe_b64encode(payload.encode()).rstrip(b"=").decode()


def decode_cursor(name: str, kinds: Sequence[type], cursor: str) -> SortKey:
    """The sort key in `cursor`. Raises InvalidCursorError if it was not made for the list `name` by this version."""
    try:
        version, list_name, *plain = _decode_json(cursor)
        if (version, list_name, len(plain)) != (VERSION, name, len(kinds)):
            raise ValueError
        return tuple(_value(kind, value) for kind, value in zip(kinds, plain, strict=True))
    except (ValueError, TypeError) as error:
        raise InvalidCursorError(
            f"{cursor[:40]!r} is not a cursor of this list: use `next` of one of its pages,"
            " or omit it to start with the first page"
        ) from error


def _text(value: UUID | datetime | str) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _decode_json(cursor: str) -> list[Any]:
    if len(cursor) > MAX_CURSOR_CHARS:
        raise ValueError
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        values = json.loads(raw)
    except (binascii.Error, RecursionError) as error:
        raise ValueError from error
    if not isinstance(values, list):
        raise ValueError
    return values


def _value(column_type: type, raw: Any) -> UUID | datetime | int | str:
    """`raw` as a value that PostgreSQL can compare with a column of that type. Raises ValueError."""
    if column_type is int:
        if type(raw) is not int or not _MIN_BIGINT <= raw <= _MAX_BIGINT:
            raise ValueError
        return raw
    if not isinstance(raw, str):
        raise ValueError
    if column_type is UUID:
        return UUID(raw)
    if column_type is datetime:
        moment = datetime.fromisoformat(raw)
        if moment.tzinfo is None:
            raise ValueError
        return moment
    if "\x00" in raw:
        raise ValueError
    raw.encode()
    return raw


T = TypeVar("T")
Row = TypeVarTuple("Row")

Column = ColumnElement[Any] | InstrumentedAttribute[Any]


@dataclass(frozen=True)
class Keyset:
    """The sort order of the list `name`: all of `columns`, in one direction. Together they are unique and never null.

    There must be an index with the filtered columns followed by these; it may lack a final id that only separates rows
    of the same time.
    """

    name: str
    columns: tuple[Column, ...]
    descending: bool = True

    def after(self, cursor: str) -> ColumnElement[bool]:
        """The condition for rows after `cursor`. Raises InvalidCursorError."""
        kinds = [column.type.python_type for column in self.columns]
        sort_key = decode_cursor(self.name, kinds, cursor)
        columns = tuple_(*self.columns)
        values = tuple_(
            *(
                literal(value, column.type)
                for value, column in zip(sort_key, self.columns, strict=True)
            )
        )
        return columns < values if self.descending else columns > values

    def ordered(self, statement: Select[*Row]) -> Select[*Row]:
        return statement.order_by(
            *(column.desc() if self.descending else column.asc() for column in self.columns)
        )


@dataclass(frozen=True)
class PageSlice(Generic[*Row]):
    """One page of rows, as the statement selects them."""

    rows: list[tuple[*Row]]
    next: str | None

    def page(self, view: Callable[[*Row], T]) -> Page[T]:
        return Page(items=[view(*row) for row in self.rows], next=self.next)


async def paginate(
    transaction: Transaction, statement: Select[*Row], order: Keyset, page_request: PageRequest
) -> PageSlice[*Row]:
    """One page of `statement`, which must not be ordered. Raises InvalidCursorError."""
    limit = max(1, min(page_request.limit, LARGEST_PAGE))
    return await fetch_slice(transaction, statement, order, limit, page_request.cursor)


async def fetch_slice(
    transaction: Transaction,
    statement: Select[*Row],
    order: Keyset,
    limit: int,
    cursor: str | None = None,
) -> PageSlice[*Row]:
    """Like `paginate`, without the maximum page size. For internal use."""
    if cursor is not None:
        statement = statement.where(order.after(cursor))
    fetched_rows = (
        await transaction.execute(
            order.ordered(statement).add_columns(*order.columns).limit(limit + 1)
        )
    ).all()
    keys = len(order.columns)
    rows = [cast("tuple[*Row]", tuple(row)[:-keys]) for row in fetched_rows[:limit]]
    is_last = len(fetched_rows) <= limit
    sort_key = None if is_last else cast(SortKey, tuple(fetched_rows[limit - 1])[-keys:])
    return PageSlice(rows, None if sort_key is None else encode_cursor(order.name, sort_key))


async def iterate_batches(
    transaction: Transaction, statement: Select[*Row], order: Keyset, limit: int
) -> AsyncIterator[list[tuple[*Row]]]:
    """All rows of `statement`, in batches of `limit`."""
    cursor: str | None = None
    while True:
        page = await fetch_slice(transaction, statement, order, limit, cursor)
        yield page.rows
        cursor = page.next
        if cursor is None:
            return
