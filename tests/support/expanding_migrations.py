"""What a migration may do while services of the previous release run: only add what they need not know."""

import io
import re
from collections.abc import Iterator, Sequence, Set
from types import ModuleType
from typing import Any, Final

from alembic.operations import Operations, ops
from alembic.runtime.migration import MigrationContext

SMALL: Final = {
    "users",
    "agents",
    "conversations",
    "dead_letters",
    "graph_node_types",
    "graph_edge_types",
}
"""Small tables; a full scan of one blocks nothing for long."""

IN_TWO_RELEASES: Final = (
    "do it in two releases: one whose code does without it, and after it, when no older service runs any more, one whose"
    " migration does this and says so by `contracts = 'since which release nobody uses it'`"
)
REMOVES: Final = (ops.DropTableOp, ops.DropColumnOp, ops.DropConstraintOp, ops.DropIndexOp)
VOLATILE: Final = re.compile(r"clock_timestamp|random|uuid|nextval", re.IGNORECASE)
LOWERED: Final = re.compile(r"^lower\((\w+)\)$")
FILLS_TABLE: Final = re.compile(r"insert into (?P<table>\w+) \([\w, ]+\) select\b", re.IGNORECASE)
FILLS: Final = re.compile(r"update (?P<table>\w+) set (?P<column>\w+)\b", re.IGNORECASE)
UNNOTICED: Final = re.compile(
    r"create extension if not exists \w+|lock table [\w, ]+ in share row exclusive mode"
    r"|analyze \w+|alter index \w+ (?:re)?set \([\w =,]+\)"
    r"|alter table \w+ set \((?:(?:toast\.)?autovacuum_\w+ = [\d.]+(?:, )?)+\)",
    re.IGNORECASE,
)
"""Statements that older services need not know, and that lock only for a moment."""
ADDS_WRITES: Final = re.compile(
    r"create function \w+\([\w ,]*\) returns \w+\b.*"
    r"|create or replace function graph_leaf\(\w+\) returns bytea\b.*"
    r"|create or replace function \w+\(\) returns trigger\b.*"
    r"|create (?:or replace )?(?:constraint )?trigger \w+ after (?:insert|update|delete) on \w+\b.*"
    r"|drop function note_\w+\(\)"
    r"|with leaves as \(.*\binsert into graph_changes\b.*|select close_graph_journal\(\)",
    re.IGNORECASE | re.DOTALL,
)
"""Functions, and triggers that run after a statement: they add to what older services write, and change none of it."""
WIDENS_CHECK: Final = re.compile(
    r"alter table \w+ drop constraint (?P<name>\w+_check), add constraint (?P=name) check \(\w+ in \(.*\)\) not valid",
    re.IGNORECASE,
)
"""Replaces a list of permitted values. Older services write none of the new ones; no row is read."""
WIDENS_KEY: Final = re.compile(
    r"alter table (?P<table>\w+) drop constraint (?P=table)_pkey,"
    r" add constraint \w+ unique nulls not distinct \((?P<old>\w+), (?P<column>\w+)\)",
    re.IGNORECASE,
)
"""Replaces a key by one with a new column more, which older services leave null: what they write is permitted as before."""
BESIDE_WRITERS: Final = re.compile(
    r'(?:re)?set lock_timeout|drop index concurrently if exists "(?P<index>\w+)"', re.IGNORECASE
)


def faults(migration: ModuleType) -> list[str]:
    """Describe each operation of `migration` that would disturb running services, and what to do instead."""
    operations = _record_operations(migration)
    checker = _Checker(
        operations,
        contracts=bool(getattr(migration, "contracts", "")),
        loosens=getattr(migration, "loosens", set()),
    )
    messages = checker.faults()
    return [f"{migration.revision}: {fault}" for fault in messages]


def _record_operations(migration: ModuleType) -> Sequence[ops.MigrateOperation]:
    """Record the operations in order without executing them."""
    offline: Any = {"as_sql": True, "output_buffer": io.StringIO()}
    context = MigrationContext.configure(dialect_name="postgresql", opts=offline)
    recorded: list[ops.MigrateOperation] = []
    with Operations.context(context) as operations:
        operations.invoke = recorded.append  # type: ignore[method-assign, assignment]  # instead of executing it
        migration.upgrade()
    return recorded


class _Checker:
    def __init__(
        self, operations: Sequence[ops.MigrateOperation], *, contracts: bool, loosens: Set[str]
    ) -> None:
        self._operations = operations
        self._contracts = contracts
        self._loosens = loosens
        self._new_tables = {
            operation.table_name
            for operation in operations
            if isinstance(operation, ops.CreateTableOp)
        }
        added_columns = [
            operation for operation in operations if isinstance(operation, ops.AddColumnOp)
        ]
        self._new_columns = {
            (operation.table_name, operation.column.name) for operation in added_columns
        }
        self._null_columns = {
            (operation.table_name, operation.column.name)
            for operation in added_columns
            if operation.column.nullable and operation.column.server_default is None
        }

    def faults(self) -> Iterator[str]:
        for operation in self._operations:
            yield from self._operation_faults(operation)
        indexes = [
            operation for operation in self._operations if isinstance(operation, ops.CreateIndexOp)
        ]
        beside = [operation for operation in indexes if _is_beside_writers(operation)]
        others = [
            operation
            for operation in self._operations
            if not isinstance(operation, ops.ExecuteSQLOp)
        ]
        if beside and len(others) > 1:
            yield (
                f"makes index {beside[0].index_name} beside writers, and other things: that index needs a migration"
                " of its own, for it is in no transaction and what stands beside it may be done twice"
            )

    def _operation_faults(self, operation: ops.MigrateOperation) -> Iterator[str]:
        match operation:
            case ops.CreateTableOp():
                return
            case ops.AddColumnOp():
                yield from self._column_faults(operation)
            case ops.CreateIndexOp():
                yield from self._index_faults(operation)
            case ops.AlterColumnOp():
                yield from self._change_faults(operation)
            case ops.ExecuteSQLOp():
                yield from self._sql_faults(str(operation.sqltext))
            case _ if isinstance(operation, REMOVES) and self._contracts:
                return
            case _:
                table = getattr(operation, "table_name", None) or getattr(
                    operation, "source_table", "?"
                )
                name = type(operation).__name__.removesuffix("Op")
                yield f"{name} of {table}: older services still read and write what was there; {IN_TWO_RELEASES}"

    def _column_faults(self, operation: ops.AddColumnOp) -> Iterator[str]:
        column, table = operation.column, operation.table_name
        default: Any = column.server_default
        if table in self._new_tables:
            return
        if not column.nullable and default is None:
            yield (
                f"adds {table}.{column.name}, which is not null and has no server default: older services would write"
                " rows without it, and be refused; make it nullable, or give it a server default"
            )
        if column.unique:
            yield from _unique_fault(f"{table}.{column.name}")
        if default is not None and table not in SMALL and VOLATILE.search(str(default.arg)):
            yield (
                f"adds {table}.{column.name} with a default that differs from row to row: the whole table would be"
                " written anew while everybody waits; make it nullable and let the code fill it in"
            )

    def _index_faults(self, operation: ops.CreateIndexOp) -> Iterator[str]:
        if operation.table_name in self._new_tables:
            return
        if operation.unique and not self._has_only_null_columns(operation):
            yield from _unique_fault(str(operation.index_name))
        if operation.table_name not in SMALL and not _is_beside_writers(operation):
            yield (
                f"makes index {operation.index_name} of {operation.table_name}, which can be large: who writes to it"
                " would wait until it is made; use shared.database.migrations.indexes.create_index_beside_writers"
            )

    def _has_only_null_columns(self, operation: ops.CreateIndexOp) -> bool:
        """Whether older services leave all its columns null; nulls are distinct from each other."""
        names = [
            LOWERED.sub(r"\1", str(getattr(column, "name", column))) for column in operation.columns
        ]
        return all((operation.table_name, name) in self._null_columns for name in names)

    def _change_faults(self, operation: ops.AlterColumnOp) -> Iterator[str]:
        changes = operation.modify_type, operation.modify_nullable, operation.modify_name
        is_new = (operation.table_name, operation.column_name) in self._new_columns
        if changes == (None, True, None):
            yield from self._nullable_faults(f"{operation.table_name}.{operation.column_name}")
        elif any(change is not None for change in changes) or not is_new:
            column = f"{operation.table_name}.{operation.column_name}"
            yield f"changes {column}: older services know it as it was; {IN_TWO_RELEASES}"

    def _nullable_faults(self, column: str) -> Iterator[str]:
        if column not in self._loosens:
            yield (
                f"lets {column} be null: older services may read it and break; where none does, say so by"
                f" `loosens = {{'{column}'}}` and why in a comment"
            )

    def _sql_faults(self, sql: str) -> Iterator[str]:
        if (match := BESIDE_WRITERS.match(sql)) is not None:
            new_indexes = {
                operation.index_name
                for operation in self._operations
                if isinstance(operation, ops.CreateIndexOp)
            }
            if match["index"] is None or match["index"] in new_indexes:
                return
        if any(known.fullmatch(sql) for known in (UNNOTICED, ADDS_WRITES, WIDENS_CHECK)):
            return
        wider = WIDENS_KEY.fullmatch(sql)
        if wider is not None and (wider["table"], wider["column"]) in self._null_columns:
            return
        fill = FILLS_TABLE.match(" ".join(sql.split()))
        if fill is not None and fill["table"] in self._new_tables:
            return
        fill = FILLS.match(sql)
        if fill is None or (fill["table"], fill["column"]) not in self._new_columns:
            yield (
                f"runs {sql!r}: all that SQL may do here is to fill a column or table that the same migration adds; for the"
                " rest there are Alembic's operations, which can be judged"
            )


def _is_beside_writers(operation: ops.CreateIndexOp) -> bool:
    return bool(operation.kw.get("postgresql_concurrently"))


def _unique_fault(name: str) -> Iterator[str]:
    yield (
        f"makes {name} unique: older services may still write what it refuses, and fail; {IN_TWO_RELEASES}"
    )
