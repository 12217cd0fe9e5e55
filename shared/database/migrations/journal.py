"""Functions and triggers with which the journal of a graph covers the rows of a table."""

from collections.abc import Iterator
from typing import Final

EVENTS: Final = {
    "insert": "new table as new_rows",
    "update": "old table as old_rows new table as new_rows",
    "delete": "old table as old_rows",
}
_TIMES: Final = ("valid_from", "valid_to", "as_of")
"""Columns of times whose names do not end in `_at`."""
_BYTES: Final = ("quote_sha256", "seal")


def _leaf_sql(kind: int, columns: str, row: str, added: str | None = None) -> str:
    """The hash of a row: the number of its table, and 31 bytes of SHA-256. Independent of all settings.

    Columns that were `added` later count where they are not null.
    """
    values = ", ".join(_value_sql(row, column) for column in columns.split())
    array = f"jsonb_build_array({values})"
    for column in (added or "").split():
        value = _value_sql(row, column)
        array = (
            f"({array} || case when {value} is null then '[]' else jsonb_build_array({value}) end)"
        )
    content = f"convert_to({array}::text, 'UTF8')"
    return f"set_byte(sha256({content}), 0, {kind})"


def _value_sql(row: str, column: str) -> str:
    value = f"{row}.{column}"
    if column in _BYTES:
        return f"encode({value}, 'hex')"
    is_time = column.endswith("_at") or column in _TIMES
    return f"{value} at time zone 'UTC'" if is_time else value


def covering(table: str, kind: int, columns: str) -> Iterator[str]:
    """Statements with which the journal covers a table from now on.

    `kind` is the first byte of the hash of its rows. `columns` are those that are hashed, in an order that never changes,
    among them `agent_id`; the names of times end in `_at`.
    """
    yield (
        f"create function graph_leaf({table}) returns bytea language sql stable parallel safe as"
        f" $$ select {_leaf_sql(kind, columns, '$1')} $$"
    )
    yield _note_function(table, kind, columns).strip()
    for event, rows in EVENTS.items():
        yield (
            f"create or replace trigger note_{event} after {event} on {table} referencing {rows}"
            f" for each statement execute function note_{table}()"
        )


def covering_added(table: str, kind: int, columns: str, added: str) -> Iterator[str]:
    """Statements with which the journal also covers columns that were added to a covered table, in the order of their
    addition.

    A row in which one is null has the hash that it had without the column. Columns of one type must not be mistaken for
    each other.
    """
    yield (
        f"create or replace function graph_leaf({table}) returns bytea language sql stable parallel safe as"
        f" $$ select {_leaf_sql(kind, columns, '$1', added)} $$"
    )
    function = _note_function(table, kind, columns, added).strip()
    yield function.replace("create function", "create or replace function", 1)


def _note_function(table: str, kind: int, columns: str, added: str | None = None) -> str:
    """A function that notes what a statement has inserted, changed or deleted.

    The hashes are noted only for Vigil's own connections, so that verification finds what others have changed.
    """
    start = "insert into graph_changes (transaction_id, is_first, step_id, agent_id"
    noted = "select own_id, begins, step, of_agent"
    leaf = _leaf_sql(kind, columns, "each", added)
    new, old = (
        f"select {row}.agent_id as of_agent, {row}.* from {row}" for row in ("new_rows", "old_rows")
    )

    def array(value: str, condition: str) -> str:
        return f"coalesce(array_agg({value}) filter (where {condition}), '{{}}')"

    return f"""
create function note_{table}() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  is_own boolean := starts_with(current_setting('application_name'), 'vigil-');
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    {start}, changed, added)
    {noted}, '{{}}', {array(leaf, "is_own")}
    from ({new}) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then
    {start}, added, removed)
    {noted}, {array("leaf", "is_own and is_new")}, {array("leaf", "is_own and not is_new")}
    from (
      select true as is_new, of_agent, {leaf} as leaf from ({new}) as each
      union all
      select false, of_agent, {leaf} from ({old}) as each
    ) as each
    where of_agent is not null group by of_agent;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    {start}, deleted, removed)
    {noted}, '{{}}', {array(leaf, "is_own")}
    from ({old}) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$
"""
