"""The history of each graph, which triggers write.

Revision ID: 0003
Revises: 0002
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

UUIDS = postgresql.ARRAY(sa.Uuid(), dimensions=1)
TEXTS = postgresql.ARRAY(sa.Text(), dimensions=1)



def _note_sql(function: str, column: str, deleted_column: str, key: str) -> str:
    """A function that notes what a statement has inserted, changed or deleted. An update that changes nothing is left out."""
    columns = "transaction_id, is_first, step_id, agent_id"
    return f"""
create function {function}() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  own_id bigint := pg_current_xact_id()::text::bigint;
  step uuid := nullif(current_setting('vigil.step_id', true), '')::uuid;
  begins boolean := not exists (select from graph_changes where transaction_id = own_id);
begin
  if tg_op = 'INSERT' then
    insert into graph_changes ({columns}, {column})
    select own_id, begins, step, agent_id, array_agg({key}) from new_rows group by agent_id;
  elsif tg_op = 'UPDATE' then
    insert into graph_changes ({columns}, {column})
    select own_id, begins, step, agent_id, array_agg({key})
    from new_rows join old_rows using (agent_id, {key})
    where new_rows is distinct from old_rows
    group by agent_id;
  else
    -- The agent of a row that is deleted with its agent is gone already.
    insert into graph_changes ({columns}, {deleted_column})
    select own_id, begins, step, agent_id, array_agg({key}) from old_rows
    where exists (select from agents where agents.id = agent_id)
    group by agent_id;
  end if;
  return null;
end
$$
"""


# Runs when the transaction is committed, once: for the first row that it has noted. A head that is
# locked here is the last lock of the transaction; those of several graphs are locked in the order of their agents.
WRITE_JOURNAL = """
create function write_graph_journal() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  noted record;
  head record;
  now_written timestamptz;
  new_hash bytea;
begin
  for noted in
    with taken as (
      delete from graph_changes where transaction_id = new.transaction_id returning *
    )
    select taken.agent_id, (array_agg(taken.step_id))[1] as step_id,
      array_remove(array_agg(distinct each.changed), null) as changed,
      array_remove(array_agg(distinct each.deleted), null) as deleted,
      array_remove(array_agg(distinct each.type), null) as types
    from taken, unnest(taken.changed, taken.deleted, taken.types) as each (changed, deleted, type)
    where exists (select from agents where agents.id = taken.agent_id)
    group by taken.agent_id
    order by taken.agent_id
  loop
    if noted.deleted <> '{}' then
      -- It may have been inserted again.
      noted.deleted := array(
        select id from unnest(noted.deleted) as id
        where not exists (select from graph_nodes where graph_nodes.id = id.id)
          and not exists (select from graph_edges where graph_edges.id = id.id)
      );
      noted.changed := array(
        select unnest(noted.changed) as id except select unnest(noted.deleted) order by id
      );
    end if;
    select seq, hash into head from graph_head
    where agent_id = noted.agent_id for no key update;
    if not found then
      insert into graph_head (agent_id, seq, hash) values (noted.agent_id, 0, '')
      on conflict do nothing;
      select seq, hash into head from graph_head
      where agent_id = noted.agent_id for no key update;
    end if;
    now_written := clock_timestamp();
    new_hash := sha256(
      head.hash || int8send(head.seq + 1)
      || int8send((extract(epoch from now_written) * 1000000)::bigint)
      || coalesce(uuid_send(noted.step_id), '') || array_send(noted.changed) || array_send(noted.deleted)
      || array_send(noted.types)
    );
    insert into graph_journal (agent_id, seq, step_id, changed, deleted, types, hash, written_at)
    values (noted.agent_id, head.seq + 1, noted.step_id, noted.changed, noted.deleted, noted.types,
      new_hash, now_written);
    update graph_head set seq = head.seq + 1, hash = new_hash where agent_id = noted.agent_id;
  end loop;
  return null;
end
$$
"""
FUNCTIONS = ("note_graph_elements", "note_graph_types", "write_graph_journal")
NOTERS = {
    "graph_nodes": "note_graph_elements",
    "graph_edges": "note_graph_elements",
    "graph_node_types": "note_graph_types",
    "graph_edge_types": "note_graph_types",
}
ROWS = {
    "insert": "new table as new_rows",
    "update": "old table as old_rows new table as new_rows",
    "delete": "old table as old_rows",
}


def upgrade() -> None:
    op.create_table(
        "graph_head",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["agent_id"], ["agents.id"], name=op.f("graph_head_agent_id_fkey"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("agent_id", name=op.f("graph_head_pkey")),
    )
    op.create_table(
        "graph_journal",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.Column("changed", UUIDS, nullable=False),
        sa.Column("deleted", UUIDS, nullable=False),
        sa.Column("types", TEXTS, nullable=False),
        sa.Column("hash", sa.LargeBinary(), nullable=False),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["agent_id"],
            ["graph_head.agent_id"],
            name=op.f("graph_journal_agent_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("agent_id", "seq", name=op.f("graph_journal_pkey")),
    )
    op.create_table(
        "graph_changes",
        sa.Column("transaction_id", sa.BigInteger(), nullable=False),
        sa.Column("is_first", sa.Boolean(), nullable=False),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("changed", UUIDS, server_default="{}", nullable=False),
        sa.Column("deleted", UUIDS, server_default="{}", nullable=False),
        sa.Column("types", TEXTS, server_default="{}", nullable=False),
        prefixes=["UNLOGGED"],
    )
    op.create_index("graph_changes_transaction_idx", "graph_changes", ["transaction_id"])
    create_functions()
    op.execute(
        "create constraint trigger write_graph_journal after insert on graph_changes deferrable"
        " initially deferred for each row when (new.is_first) execute function write_graph_journal()"
    )
    create_note_triggers()


def create_functions() -> None:
    for function in (
        _note_sql("note_graph_elements", "changed", "deleted", "id"),
        _note_sql("note_graph_types", "types", "types", "name"),
        WRITE_JOURNAL,
    ):
        op.execute(function.strip().replace("create function", "create or replace function", 1))


def create_note_triggers() -> None:
    for table, function in NOTERS.items():
        for event, rows in ROWS.items():
            op.execute(
                f"create trigger note_{event} after {event} on {table} referencing {rows}"
                f" for each statement execute function {function}()"
            )


def downgrade() -> None:
    for table in NOTERS:
        for event in ROWS:
            op.execute(f"drop trigger note_{event} on {table}")
    for table in ("graph_changes", "graph_journal", "graph_head"):
        op.drop_table(table)
    for function in FUNCTIONS:
        op.execute(f"drop function {function}()")
