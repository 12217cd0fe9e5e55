"""What a migration may do while actors of the release before it are at work: only add what they need not know of."""

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
"""Tables that people fill, and not work: to go through one of them holds up nobody."""

IN_TWO_RELEASES: Final = (
    "do it in two releases: one whose code does without it, and after it, when no older actor runs any more, one whose"
    " migration does this and says so by `contracts = 'since which release nobody uses it'`"
)
REMOVES: Final = (ops.DropTableOp, ops.DropColumnOp, ops.DropConstraintOp, ops.DropIndexOp)
VOLATILE: Final = re.compile(r"clock_timestamp|random|uuid|nextval", re.IGNORECASE)
LOWERED: Final = re.compile(r"^lower\((\w+)\)$")
FILLS: Final = re.compile(r"update (?P<table>\w+) set (?P<column>\w+)\b", re.IGNORECASE)
UNNOTICED: Final = re.compile(
    r"create extension if not exists \w+|analyze \w+|alter index \w+ (?:re)?set \([\w =,]+\)",
    re.IGNORECASE,
)
"""What nobody has to know of, and nobody waits for longer than a moment."""
BESIDE_WRITERS: Final = re.compile(
    r'(?:re)?set lock_timeout|drop index concurrently if exists "(?P<index>\w+)"', re.IGNORECASE
)


def faults(migration: ModuleType) -> list[str]:
    """What of `migration` would disturb those who are at work, in words, each with what to do instead."""
    done = _recorded(migration)
    judge = _Judge(
        done,
        contracts=bool(getattr(migration, "contracts", "")),
        loosens=getattr(migration, "loosens", set()),
    )
    found = judge.faults()
    return [f"{migration.revision}: {fault}" for fault in found]


def _recorded(migration: ModuleType) -> Sequence[ops.MigrateOperation]:
    """What it would do, in order; nothing of it is done."""
    offline: Any = {"as_sql": True, "output_buffer": io.StringIO()}
    context = MigrationContext.configure(dialect_name="postgresql", opts=offline)
    done: list[ops.MigrateOperation] = []
    with Operations.context(context) as operations:
        operations.invoke = done.append  # type: ignore[method-assign, assignment]  # in place of doing it
        migration.upgrade()
    return done


class _Judge:
    def __init__(
        self, done: Sequence[ops.MigrateOperation], *, contracts: bool, loosens: Set[str]
    ) -> None:
        self._done = done
        self._contracts = contracts
        self._loosens = loosens
        self._new_tables = {each.table_name for each in done if isinstance(each, ops.CreateTableOp)}
        added = [each for each in done if isinstance(each, ops.AddColumnOp)]
        self._new_columns = {(each.table_name, each.column.name) for each in added}
        self._left_null = {
            (each.table_name, each.column.name)
            for each in added
            if each.column.nullable and each.column.server_default is None
        }

    def faults(self) -> Iterator[str]:
        for each in self._done:
            yield from self._of(each)
        indexes = [each for each in self._done if isinstance(each, ops.CreateIndexOp)]
        beside = [each for each in indexes if _is_beside_writers(each)]
        others = [each for each in self._done if not isinstance(each, ops.ExecuteSQLOp)]
        if beside and len(others) > 1:
            yield (
                f"makes index {beside[0].index_name} beside writers, and other things: that index needs a migration"
                " of its own, for it is in no transaction and what stands beside it may be done twice"
            )

    def _of(self, done: ops.MigrateOperation) -> Iterator[str]:
        match done:
            case ops.CreateTableOp():
                return
            case ops.AddColumnOp():
                yield from self._of_column(done)
            case ops.CreateIndexOp():
                yield from self._of_index(done)
            case ops.AlterColumnOp():
                yield from self._of_change(done)
            case ops.ExecuteSQLOp():
                yield from self._of_sql(str(done.sqltext))
            case _ if isinstance(done, REMOVES) and self._contracts:
                return
            case _:
                table = getattr(done, "table_name", None) or getattr(done, "source_table", "?")
                what = type(done).__name__.removesuffix("Op")
                yield f"{what} of {table}: older actors still read and write what was there; {IN_TWO_RELEASES}"

    def _of_column(self, done: ops.AddColumnOp) -> Iterator[str]:
        column, table = done.column, done.table_name
        default: Any = column.server_default
        if table in self._new_tables:
            return
        if not column.nullable and default is None:
            yield (
                f"adds {table}.{column.name}, which is not null and has no server default: older actors would write"
                " rows without it, and be refused; make it nullable, or give it a server default"
            )
        if column.unique:
            yield from _of_unique(f"{table}.{column.name}")
        if default is not None and table not in SMALL and VOLATILE.search(str(default.arg)):
            yield (
                f"adds {table}.{column.name} with a default that differs from row to row: the whole table would be"
                " written anew while everybody waits; make it nullable and let the code fill it in"
            )

    def _of_index(self, done: ops.CreateIndexOp) -> Iterator[str]:
        if done.table_name in self._new_tables:
            return
        if done.unique and not self._is_of_unknown_columns(done):
            yield from _of_unique(str(done.index_name))
        if done.table_name not in SMALL and not _is_beside_writers(done):
            yield (
                f"makes index {done.index_name} of {done.table_name}, which can be large: who writes to it would wait"
                " until it is made; use shared.database.migrations.indexes.create_index_beside_writers"
            )

    def _is_of_unknown_columns(self, done: ops.CreateIndexOp) -> bool:
        """Whether older actors leave all of its columns null, which is never the same as another null."""
        names = [LOWERED.sub(r"\1", str(getattr(each, "name", each))) for each in done.columns]
        return all((done.table_name, name) in self._left_null for name in names)

    def _of_change(self, done: ops.AlterColumnOp) -> Iterator[str]:
        changed = done.modify_type, done.modify_nullable, done.modify_name
        new = (done.table_name, done.column_name) in self._new_columns
        if changed == (None, True, None):
            yield from self._of_null(f"{done.table_name}.{done.column_name}")
        elif any(each is not None for each in changed) or not new:
            yield f"changes {done.table_name}.{done.column_name}: older actors know it as it was; {IN_TWO_RELEASES}"

    def _of_null(self, column: str) -> Iterator[str]:
        if column not in self._loosens:
            yield (
                f"lets {column} be null: older actors may read it and break; where none does, say so by"
                f" `loosens = {{'{column}'}}` and why in a comment"
            )

    def _of_sql(self, sql: str) -> Iterator[str]:
        if (beside := BESIDE_WRITERS.match(sql)) is not None:
            made = {each.index_name for each in self._done if isinstance(each, ops.CreateIndexOp)}
            if beside["index"] is None or beside["index"] in made:
                return
        if UNNOTICED.fullmatch(sql):
            return
        filled = FILLS.match(sql)
        if filled is None or (filled["table"], filled["column"]) not in self._new_columns:
            yield (
                f"runs {sql!r}: all that SQL may do here is to fill a column that the same migration adds; for the rest"
                " there are Alembic's operations, which can be judged"
            )


def _is_beside_writers(done: ops.CreateIndexOp) -> bool:
    return bool(done.kw.get("postgresql_concurrently"))


def _of_unique(what: str) -> Iterator[str]:
    yield (
        f"makes {what} unique: older actors may still write what it refuses, and fail; {IN_TWO_RELEASES}"
    )
