"""PostgreSQL privileges per service: which tables, columns and rows each role may read and write, from `grants.toml`.

A table has one line: "read", or the columns ("*" for all, "@name" for a named list) that the role may `select`, `insert`
and `update`, whether it may `delete` rows, and which rows: `selects`, `inserts`, `updates`, `deletes`, and `writes` for rows
that are inserted or updated. Rows are named by the values of a column, by `{ not = [values] }`, "not null" or "old"; "facts"
are all but conclusions; of a list, one condition is enough.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shared.enums import ADVICE_TYPE, ANALYSIS_TYPE

ALL: Final = ("*",)
"""All columns."""

Columns = tuple[str, ...]


@dataclass(frozen=True)
class RowFilter:
    """Rows whose `column` is one of `values`; with `negated`, all other rows."""

    column: str
    values: tuple[str, ...]
    negated: bool = False


@dataclass(frozen=True)
class NotNull:
    """Rows whose `column` is not null."""

    column: str


@dataclass(frozen=True)
class OlderThan:
    """Rows whose time in `column` is at least this long ago."""

    column: str
    days: float


@dataclass(frozen=True)
class AnyOf:
    """Rows that meet one of the conditions."""

    conditions: "tuple[RowCondition, ...]"


RowCondition = RowFilter | NotNull | OlderThan | AnyOf


@dataclass(frozen=True)
class Grant:
    """Privileges of one role on one table. Empty columns grant nothing of that kind.

    `selects` restricts the rows that may be read, and `inserts`, `updates` and `deletes` those that may be written; None
    restricts nothing.
    """

    select: Columns = ()
    insert: Columns = ()
    update: Columns = ()
    delete: bool = False
    selects: RowCondition | None = None
    inserts: RowCondition | None = None
    updates: RowCondition | None = None
    deletes: RowCondition | None = None


MIN_RETENTION_DAYS: Final = 2.0
"""The least age of what may be deleted: a budget of a phase counts the calls of today, and an iteration may run through
midnight.
"""


def role_name(name: str) -> str:
    """The PostgreSQL role of a service."""
    return f"vigil_{name}"


def _load_grants(path: Path) -> Mapping[str, Mapping[str, Grant]]:
    content = tomllib.loads(path.read_text("utf-8"))
    columns: Mapping[str, list[str]] = content["columns"]

    def entries(section: Mapping[str, Any]) -> dict[str, Any]:
        merged: dict[str, Any] = {}
        for group in section.get("groups", ()):
            merged |= entries(content["groups"][group])
        return merged | {table: entry for table, entry in section.items() if table != "groups"}

    return {
        service: {table: _grant(entry, columns) for table, entry in entries(section).items()}
        for service, section in content["services"].items()
    }


def _grant(entry: Any, columns: Mapping[str, list[str]]) -> Grant:
    if entry == "read":
        return Grant(select=ALL)
    values = dict(entry)
    if "writes" in values:
        values["inserts"] = values["updates"] = values.pop("writes")
    for kind in ("select", "insert", "update"):
        if kind in values:
            values[kind] = _columns(values[kind], columns)
    for kind in ("selects", "inserts", "updates", "deletes"):
        if kind in values:
            values[kind] = _condition(values[kind])
    return Grant(**values)


def _columns(names: str | list[str], columns: Mapping[str, list[str]]) -> Columns:
    if names == "*":
        return ALL
    return tuple(
        column
        for name in names
        for column in (columns[name.removeprefix("@")] if name.startswith("@") else [name])
    )


def _condition(rows: Any) -> RowCondition:
    if rows == "facts":
        return RowFilter("type", (ANALYSIS_TYPE, ADVICE_TYPE), negated=True)
    if isinstance(rows, list):
        return AnyOf(tuple(map(_condition, rows)))
    [(column, which)] = rows.items()
    match which:
        case "not null":
            return NotNull(column)
        case "old":
            return OlderThan(column, MIN_RETENTION_DAYS)
        case {"not": values}:
            return RowFilter(column, tuple(values), negated=True)
        case _:
            return RowFilter(column, tuple(which))


GRANTS: Final = _load_grants(Path(__file__).with_suffix(".toml"))
"""By service and table. The service's role is `role_name(service)`."""
