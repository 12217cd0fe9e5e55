"""Every migration after the first can be applied while services of the previous release are running."""

from pathlib import Path
from types import ModuleType

import pytest
import sqlalchemy as sa
from alembic import op
from alembic.script import ScriptDirectory

from shared.database import migrate
from shared.database.migrations.indexes import create_index_beside_writers
from shared.database.tables import Base
from tests.support import expanding_migrations
from tests.support.expanding_migrations import faults
from tests.support.migration_factory import history_with


def later_migrations(scripts: Path) -> list[ModuleType]:
    """Return every migration in `scripts` except the first, newest first."""
    history = ScriptDirectory(str(scripts)).walk_revisions()
    return [script.module for script in history if script.down_revision is not None]


def test_migrations_only_expand() -> None:
    assert [
        fault for migration in later_migrations(migrate.SCRIPTS) for fault in faults(migration)
    ] == []


def test_every_later_migration_is_checked(tmp_path: Path) -> None:
    drops = history_with(
        tmp_path, 'op.add_column("users", sa.Column("n", sa.Text()))', 'op.drop_table("calls")'
    )
    last, before = later_migrations(drops)[:2]
    assert [len(faults(last)), len(faults(before))] == [1, 0]


def test_small_tables_exist() -> None:
    assert Base.metadata.tables.keys() >= expanding_migrations.SMALL


class _Migration(ModuleType):
    """A migration that is in no release."""

    def __init__(self, *, contracts: str = "") -> None:
        super().__init__("made_up")
        self.revision = "9999"
        self.contracts = contracts


def table() -> None:
    op.create_table("moods", sa.Column("id", sa.Uuid(), primary_key=True))
    op.create_index("moods_idx", "moods", ["id"], unique=True)
    op.add_column("moods", sa.Column("name", sa.Text(), nullable=False))


def filled_table() -> None:
    table()
    op.execute("insert into moods (id, name) select id, model from calls")


def filled_old_table() -> None:
    op.execute("insert into calls (id) select id from agents")


def nullable_column() -> None:
    op.add_column("calls", sa.Column("mood", sa.Text(), nullable=True))
    op.execute("update calls set mood = 'good'")


def column_with_default() -> None:
    op.add_column("calls", sa.Column("n", sa.Integer(), server_default="0", nullable=False))


def harmless_statements() -> None:
    op.execute("create extension if not exists pg_trgm")
    op.execute("analyze calls")
    op.execute("alter table calls set (autovacuum_vacuum_scale_factor = 0.05)")


def small_index() -> None:
    op.create_index("agents_idx", "agents", ["name"])


def index_beside_writers() -> None:
    create_index_beside_writers("calls_idx", "calls", ["model"])


def unique_index_of_a_new_null_column() -> None:
    op.add_column("agents", sa.Column("nick", sa.Text(), nullable=True))
    op.create_index("agents_nick_idx", "agents", [sa.literal_column("lower(nick)")], unique=True)


def unique_index_with_an_existing_column() -> None:
    op.add_column("agents", sa.Column("nick", sa.Text(), nullable=True))
    op.create_index("agents_nick_idx", "agents", ["name", "nick"], unique=True)


def unique_index_of_a_default() -> None:
    op.add_column("agents", sa.Column("nick", sa.Text(), server_default="x", nullable=True))
    op.create_index("agents_nick_idx", "agents", ["nick"], unique=True)


def not_null() -> None:
    op.add_column("calls", sa.Column("mood", sa.Text(), nullable=False))


def volatile_default() -> None:
    now = sa.text("clock_timestamp()")
    op.add_column("calls", sa.Column("seen", sa.DateTime(), server_default=now, nullable=False))


def unique_column() -> None:
    op.add_column("calls", sa.Column("mood", sa.Text(), nullable=True, unique=True))


def blocking_index() -> None:
    op.create_index("calls_idx", "calls", ["model"])


def unique_index() -> None:
    op.create_index("agents_idx", "agents", ["name"], unique=True)


def column_and_index() -> None:
    nullable_column()
    index_beside_writers()


def rename_table() -> None:
    op.rename_table("calls", "ledger")


def rename_column() -> None:
    op.alter_column("calls", "model", new_column_name="engine")


def change_type() -> None:
    op.alter_column("calls", "model", type_=sa.Integer())


def forbid_null() -> None:
    op.alter_column("calls", "model", nullable=False)


def allow_null() -> None:
    op.alter_column("calls", "model", nullable=True)


def drop_default() -> None:
    op.alter_column("steps", "attempts", server_default=None)


def drop_column() -> None:
    op.drop_column("calls", "model")


def drop_table() -> None:
    op.drop_table("calls")


def drop_index() -> None:
    op.execute('drop index concurrently if exists "steps_open_idx"')


def constraint() -> None:
    op.create_check_constraint("n", "calls", "input_tokens > 0")


def any_sql() -> None:
    op.execute("alter table calls rename to ledger")


def overwrite() -> None:
    op.execute("update calls set model = 'x'")


def trigger_after_a_statement() -> None:
    op.execute("create function note() returns trigger language plpgsql as $$begin end$$")
    op.execute(
        "create trigger note_insert after insert on calls referencing new table as new_rows"
        " for each statement execute function note()"
    )


def trigger_before_a_statement() -> None:
    op.execute(
        "create trigger change before insert on calls for each row execute function change()"
    )


def other_function() -> None:
    op.execute("create or replace function roll_back() returns boolean language sql as 'select 1'")


@pytest.mark.parametrize(
    "body",
    [
        table,
        filled_table,
        trigger_after_a_statement,
        nullable_column,
        column_with_default,
        harmless_statements,
        small_index,
        index_beside_writers,
        unique_index_of_a_new_null_column,
    ],
)
def test_expanding_migrations_pass(body: object) -> None:
    assert faults(_migration(body)) == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (not_null, "calls.mood, which is not null and has no server default"),
        (volatile_default, "calls.seen with a default that differs from row to row"),
        (unique_column, "makes calls.mood unique"),
        (blocking_index, "makes index calls_idx of calls, which can be large"),
        (unique_index, "makes agents_idx unique"),
        (unique_index_with_an_existing_column, "makes agents_nick_idx unique"),
        (unique_index_of_a_default, "makes agents_nick_idx unique"),
        (column_and_index, "that index needs a migration of its own"),
        (rename_table, "RenameTable of calls: .* in two releases"),
        (rename_column, "changes calls.model: .* in two releases"),
        (change_type, "changes calls.model: .* in two releases"),
        (forbid_null, "changes calls.model: .* in two releases"),
        (allow_null, "lets calls.model be null: .* by `loosens = "),
        (drop_default, "changes steps.attempts: .* in two releases"),
        (drop_column, "DropColumn of calls: .* in two releases"),
        (trigger_before_a_statement, "runs 'create trigger change before"),
        (other_function, 'runs "create or replace function roll_back'),
        (drop_table, "DropTable of calls: .* in two releases"),
        (drop_index, "runs 'drop index"),
        (constraint, "CreateCheckConstraint of calls: .* in two releases"),
        (any_sql, "runs 'alter table calls rename to ledger'"),
        (filled_old_table, "runs 'insert into calls"),
        (overwrite, "runs 'update calls set model = 'x''|runs \"update calls"),
    ],
)
def test_other_migrations_are_reported_with_a_hint(body: object, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        assert "\n".join(faults(_migration(body))) == ""


@pytest.mark.parametrize("body", [drop_column, drop_table])
def test_the_second_of_two_releases_may_drop(body: object) -> None:
    assert faults(_migration(body, contracts="nobody reads it since 0.2")) == []


def test_not_even_the_second_release_may_rename() -> None:
    assert faults(_migration(rename_table, contracts="nobody reads it since 0.2")) != []


def test_a_column_listed_in_loosens_may_become_nullable() -> None:
    assert faults(_migration(allow_null, loosens={"calls.model"})) == []
    assert faults(_migration(allow_null, loosens={"calls.mood"})) != []
    assert faults(_migration(forbid_null, loosens={"calls.model"})) != []


def _migration(
    body: object, *, contracts: str = "", loosens: frozenset[str] | set[str] = frozenset()
) -> _Migration:
    migration = _Migration(contracts=contracts)
    migration.__dict__["loosens"] = loosens
    migration.__dict__["upgrade"] = body
    return migration
