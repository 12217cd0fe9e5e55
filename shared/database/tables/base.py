"""Shared by all tables: column types, constraint names, the database's clock."""

from collections.abc import Iterable
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from sqlalchemy import CheckConstraint, DateTime, MetaData, Text, Uuid, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import DeclarativeBase, mapped_column

Json = dict[str, Any]

Id = Annotated[UUID, mapped_column(Uuid, primary_key=True)]
Moment = Annotated[datetime, mapped_column(DateTime(timezone=True))]
# The database's clock, so that machines whose clocks differ agree on the order of events.
Created = Annotated[
    datetime, mapped_column(DateTime(timezone=True), server_default=func.clock_timestamp())
]


class Base(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "pk": "%(table_name)s_pkey",
            "ix": "%(table_name)s_%(column_0_N_name)s_idx",
            "uq": "%(table_name)s_%(column_0_N_name)s_key",
            "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
            "ck": "%(table_name)s_%(constraint_name)s_check",
        }
    )
    type_annotation_map = {  # noqa: RUF012  SQLAlchemy reads it from the class
        str: Text,
        datetime: DateTime(timezone=True),
        Json: JSONB,
        list[Json]: JSONB,
        list[str]: JSONB,
    }


def one_of(column: str, words: Iterable[str]) -> CheckConstraint:
    """A check that `column` holds one of `words`, which may be an enumeration."""
    literals = ", ".join(f"'{word}'" for word in words)
    return CheckConstraint(f"{column} in ({literals})", name=column)
