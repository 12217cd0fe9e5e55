"""Reads rows as response models with SQLAlchemy Core: columns are selected, and no mapped object is loaded."""

from collections.abc import Mapping
from typing import Any, TypeVar, TypeVarTuple

from pydantic import BaseModel
from sqlalchemy import ColumnElement, Select

from shared.database.pagination import Keyset, paginate
from shared.database.tables import Base
from shared.database.transaction import Transaction
from shared.schemas.base import Page, PageRequest

M = TypeVar("M", bound=BaseModel)
Row = TypeVarTuple("Row")


def columns_of(
    table: type[Base], model: type[BaseModel], **others: Any
) -> list[ColumnElement[Any]]:
    """Returns the columns of `table` that are fields of `model` by their names, and `others` under the given names."""
    own = [column.key for column in table.__table__.columns if column.key in model.model_fields]
    return [
        *(getattr(table, name) for name in own if name not in others),
        *(column.label(name) for name, column in others.items()),
    ]


async def paginate_rows(
    session: Transaction, statement: Select[*Row], order: Keyset, page_request: PageRequest
) -> tuple[list[dict[str, Any]], str | None]:
    """Returns the rows of a page by the names of their columns, and the next cursor. Raises InvalidCursorError."""
    names = [str(name) for name in statement.selected_columns.keys()]  # noqa: SIM118  no dict
    page_slice = await paginate(session, statement, order, page_request)
    rows: list[tuple[Any, ...]] = list(page_slice.rows)
    return [dict(zip(names, row, strict=True)) for row in rows], page_slice.next


async def read_page(
    session: Transaction,
    model: type[M],
    statement: Select[*Row],
    order: Keyset,
    page_request: PageRequest,
) -> Page[M]:
    """Returns a page of `statement`, whose columns have the names of the fields. Raises InvalidCursorError."""
    rows, following = await paginate_rows(session, statement, order, page_request)
    return Page(items=[model.model_validate(row) for row in rows], next=following)


async def read_all(
    session: Transaction,
    model: type[M],
    statement: Select[*Row],
    params: Mapping[str, Any] | None = None,
) -> list[M]:
    rows = (await session.execute(statement, params)).mappings()
    return [model.model_validate(dict(row)) for row in rows]


async def read_one(session: Transaction, model: type[M], statement: Select[*Row]) -> M | None:
    """Returns the only row, or None."""
    row = (await session.execute(statement)).mappings().one_or_none()
    return None if row is None else model.model_validate(dict(row))
