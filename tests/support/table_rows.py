"""Rows of tables in tests: insert, change and delete one."""

from typing import Any, TypeVar

from sqlalchemy import delete, inspect

from shared.database.tables import Iteration, Step
from shared.database.tables.base import Base
from shared.database.transaction import Transaction
from shared.workflow.iterations import IterationRow, StepRow

T = TypeVar("T")


async def add(session: Transaction, *rows: Base) -> None:
    """Inserts the columns that are set."""
    for row in rows:
        names = [attribute.key for attribute in inspect(type(row)).column_attrs]
        values = {name: row.__dict__[name] for name in names if name in row.__dict__}
        await session.insert(type(row), **values)


async def change(session: Transaction, row: Any, **values: Any) -> Any:
    """Changes columns of a row that was loaded; returns the row as it is then."""
    return await session.update(_table(row), _key(row), **values)


def replaced(row: T, **values: Any) -> T:
    """A row that was loaded, with other values, which are not written."""
    changed: T = row._replace(**values)  # type: ignore[attr-defined]  # a named tuple
    return changed


def as_iteration(row: Iteration) -> IterationRow:
    """The columns of a whole row that the join needs."""
    return IterationRow(*(getattr(row, name) for name in IterationRow._fields))


def as_step(row: Step) -> StepRow:
    """The columns of a whole row that workers need."""
    return StepRow(*(getattr(row, name) for name in StepRow._fields))


async def remove(session: Transaction, row: Any) -> None:
    """Deletes a row that was loaded."""
    table = _table(row)
    columns = inspect(table).primary_key
    conditions = [column == value for column, value in zip(columns, _key(row), strict=True)]
    await session.execute(delete(table).where(*conditions))


def _table(row: Any) -> type[Base]:
    """The table of a row, whose class has the table's name, or that with `Row`."""
    name = type(row).__name__.removesuffix("Row")
    [table] = [each.class_ for each in Base.registry.mappers if each.class_.__name__ == name]
    return table


def _key(row: Any) -> tuple[Any, ...]:
    mapper = inspect(_table(row))
    return tuple(
        getattr(row, mapper.get_property_by_column(column).key) for column in mapper.primary_key
    )
