"""The journal of a graph covers the content of every row: each entry has the hashes of the rows that it added and removed.

Revision ID: 0007
Revises: 0006
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Final, NamedTuple

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

LEAVES = postgresql.ARRAY(sa.LargeBinary(), dimensions=1)


class Covered(NamedTuple):
    """A table whose rows the journal covers."""

    kind: int
    """First byte of the hash of its rows."""
    columns: str
    """Those that are hashed, in an order that never changes."""
    agent: str = "{row}.agent_id"
    note: tuple[str, str, str] | None = None
    """Where the journal names changed rows, and deleted ones, and by which column."""


_OF_CONCLUSION: Final = "(select agent_id from graph_nodes where id = {row}.conclusion_id)"
_OF_RETRACTION: Final = "(select agent_id from retractions where id = {row}.retraction_id)"
_ELEMENT: Final = "seal unsupported_since iteration_id step_id created_at updated_at"
_TYPE: Final = "name description properties_schema example_properties created_by justification"
TABLES: Final = {
    "graph_nodes": Covered(
        1, f"id agent_id type name properties rules {_ELEMENT}", note=("changed", "deleted", "id")
    ),
    "graph_edges": Covered(
        2,
        f"id agent_id type source_id target_id properties {_ELEMENT}",
        note=("changed", "deleted", "id"),
    ),
    "graph_node_types": Covered(
        3, f"agent_id {_TYPE} created_at", note=("types", "types", "name")
    ),
    "graph_edge_types": Covered(
        4,
        f"agent_id {_TYPE} source_types target_types created_at",
        note=("types", "types", "name"),
    ),
    "graph_names": Covered(
        5, "agent_id type key reversed_key sorted_words_key name node_id step_id created_at"
    ),
    # The text is covered by its hash.
    "sources": Covered(
        6,
        "id agent_id url title published fetched_at sha256 reading seal step_id retracted_at retraction_reason",
    ),
    "evidence": Covered(
        7,
        "id agent_id node_id edge_id source_id first_byte end_byte quote_sha256 claims valid_from valid_to as_of"
        " learned_at rules seal step_id",
    ),
    # Not who made it: that is forgotten with the user.
    "graph_merges": Covered(
        8, "id agent_id kept_id merged_id reason merged_node journal made_at undone_at"
    ),
    "graph_redirects": Covered(9, "agent_id merged_id kept_id merge_id"),
    "retractions": Covered(
        10, "id agent_id url source_id reason created_at restored_at due_at"
    ),
    "retracted_sources": Covered(
        11, "retraction_id source_id is_due through", agent=_OF_RETRACTION
    ),
    "citations": Covered(12, "conclusion_id cited_id", agent=_OF_CONCLUSION),
    "doubts": Covered(
        13,
        "id conclusion_id element_id source_id since evaluated_at resolved_at",
        agent=_OF_CONCLUSION,
    ),
}
_TIMES: Final = (
    "created_at updated_at unsupported_since published fetched_at retracted_at valid_from valid_to as_of learned_at"
    " made_at undone_at restored_at due_at since evaluated_at resolved_at"
).split()
_BYTES: Final = ("seal", "sha256", "quote_sha256")
EVENTS: Final = {
    "insert": "new table as new_rows",
    "update": "old table as old_rows new table as new_rows",
    "delete": "old table as old_rows",
}


def leaf_sql(covered: Covered, row: str) -> str:
    """The hash of a row: the number of its table, and 31 bytes of SHA-256. Independent of all settings."""
    values = ", ".join(_value_sql(row, column) for column in covered.columns.split())
    content = f"convert_to(jsonb_build_array({values})::text, 'UTF8')"
    return f"set_byte(sha256({content}), 0, {covered.kind})"


def _value_sql(row: str, column: str) -> str:
    value = f"{row}.{column}"
    if column in _TIMES:
        return f"{value} at time zone 'UTC'"
    return f"encode({value}, 'hex')" if column in _BYTES else value


def covering(table: str, covered: Covered) -> Iterator[str]:
    """Statements with which the journal covers a table from now on."""
    yield _leaf_function(table, covered)
    yield _note_function(table, covered).strip()
    for event, rows in EVENTS.items():
        yield (
            f"create or replace trigger note_{event} after {event} on {table} referencing {rows}"
            f" for each statement execute function note_{table}()"
        )


def _leaf_function(table: str, covered: Covered) -> str:
    return (
        f"create function graph_leaf({table}) returns bytea language sql stable parallel safe as"
        f" $$ select {leaf_sql(covered, '$1')} $$"
    )


def _note_function(table: str, covered: Covered) -> str:
    """A function that notes what a statement has inserted, changed or deleted.

    The hashes are noted only for Vigil's own connections, so that verification finds what others have changed.
    """
    column, deleted_column, key = covered.note or ("changed", "deleted", "null::uuid")
    start = "insert into graph_changes (transaction_id, is_first, step_id, agent_id"
    noted = "select own_id, begins, step, of_agent"
    new, old = (
        f"select {covered.agent.format(row=row)} as of_agent, {row}.* from {row}"
        for row in ("new_rows", "old_rows")
    )

    def array(value: str, condition: str = "true") -> str:
        return f"coalesce(array_agg({value}) filter (where {condition}), '{{}}')"

    if covered.note:
        updated = f"""
    {start}, {column}, added, removed)
    {noted}, array_agg({key}), {array("new_leaf", "is_own")}, {array("old_leaf", "is_own")}
    from (
      select of_agent, {key}, {leaf_sql(covered, "new_row")} as new_leaf, {leaf_sql(covered, "old_row")} as old_leaf
      from ({new}) as new_row join old_rows as old_row using (agent_id, {key})
    ) as each
    -- By the hashes: to jsonb, 1 and 1.0 are equal.
    where new_leaf <> old_leaf group by of_agent;"""
        ids_of_new, ids_of_old = f"array_agg(each.{key})", f"array_agg(each.{key})"
    else:
        updated = f"""
    {start}, added, removed)
    {noted}, {array("leaf", "is_own and is_new")}, {array("leaf", "is_own and not is_new")}
    from (
      select true as is_new, of_agent, {leaf_sql(covered, "each")} as leaf from ({new}) as each
      union all
      select false, of_agent, {leaf_sql(covered, "each")} from ({old}) as each
    ) as each
    where of_agent is not null group by of_agent;"""
        ids_of_new = ids_of_old = "'{}'"
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
    {start}, {column}, added)
    {noted}, {ids_of_new}, {array(leaf_sql(covered, "each"), "is_own")}
    from ({new}) as each
    where of_agent is not null group by of_agent;
  elsif tg_op = 'UPDATE' then{updated}
  else
    -- The agent of a row that is deleted with its agent is gone already.
    {start}, {deleted_column}, removed)
    {noted}, {ids_of_old}, {array(leaf_sql(covered, "each"), "is_own")}
    from ({old}) as each
    where exists (select from agents where agents.id = of_agent) group by of_agent;
  end if;
  return null;
end
$$
"""


# As in revision 0003, with the leaves. Entries from before have no root; the rest of their hash is computed in the same way.
WRITE_JOURNAL: Final = """
create or replace function write_graph_journal() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  perform close_graph_journal();
  return null;
end
$$
"""
CLOSE_JOURNAL: Final = """
create function close_graph_journal() returns table (of_agent uuid, of_seq bigint, of_hash bytea)
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
declare
  noted record;
  head record;
  now_written timestamptz;
  new_root bytea;
  new_hash bytea;
  written_by text := current_setting('application_name');
  cited bytea := decode(nullif(current_setting('vigil.cited_root', true), ''), 'hex');
begin
  if pg_current_xact_id_if_assigned() is null then
    return;
  end if;
  for noted in
    with taken as (
      delete from graph_changes where transaction_id = pg_current_xact_id()::text::bigint returning *
    ), leaves as (
      select agent_id, leaf, sum(sign) as sign from (
        select agent_id, unnest(added) as leaf, 1 as sign from taken
        union all
        select agent_id, unnest(removed), -1 from taken
      ) as each
      group by agent_id, leaf having sum(sign) <> 0
    ), contents as (
      select agent_id,
        coalesce(array_agg(leaf order by leaf) filter (where sign > 0), '{}') as added,
        coalesce(array_agg(leaf order by leaf) filter (where sign < 0), '{}') as removed
      from leaves group by agent_id
    ), elements as (
      select taken.agent_id, (array_agg(taken.step_id))[1] as step_id,
        array_remove(array_agg(distinct each.changed), null) as changed,
        array_remove(array_agg(distinct each.deleted), null) as deleted,
        array_remove(array_agg(distinct each.type), null) as types
      from taken left join lateral unnest(taken.changed, taken.deleted, taken.types)
        as each (changed, deleted, type) on true
      where exists (select from agents where agents.id = taken.agent_id)
      group by taken.agent_id
    )
    select elements.*, coalesce(added, '{}') as added, coalesce(removed, '{}') as removed
    from elements left join contents using (agent_id)
    order by agent_id
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
    -- A change by another program has an entry without leaves, which names it.
    if noted.changed = '{}' and noted.deleted = '{}' and noted.types = '{}'
      and noted.added = '{}' and noted.removed = '{}' and starts_with(written_by, 'vigil-') then
      continue;
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
    new_root := sha256(array_send(noted.added) || array_send(noted.removed));
    new_hash := sha256(
      head.hash || int8send(head.seq + 1)
      || int8send((extract(epoch from now_written) * 1000000)::bigint)
      || coalesce(uuid_send(noted.step_id), '') || array_send(noted.changed) || array_send(noted.deleted)
      || array_send(noted.types) || new_root || int4send(octet_length(written_by))
      || convert_to(written_by, 'UTF8') || coalesce(cited, '')
    );
    insert into graph_journal (agent_id, seq, step_id, changed, deleted, types, hash, written_at,
      added, removed, root, writer, cited_root)
    values (noted.agent_id, head.seq + 1, noted.step_id, noted.changed, noted.deleted, noted.types,
      new_hash, now_written, noted.added, noted.removed, new_root, written_by, cited);
    update graph_head set seq = head.seq + 1, hash = new_hash where agent_id = noted.agent_id;
    of_agent := noted.agent_id;
    of_seq := head.seq + 1;
    of_hash := new_hash;
    return next;
  end loop;
end
$$
"""
# No service may change the journal, only add a signature that is missing. A wrong one is found by verification.
SIGN_JOURNAL: Final = """
create function sign_graph_journal(of_agent uuid, of_seq bigint, of_signature bytea) returns void
language sql security definer set search_path = pg_catalog, public, pg_temp as $$
  update graph_journal set signature = of_signature
  where agent_id = of_agent and seq = of_seq and signature is null
$$
"""
ADOPT_ROWS: Final = f"""
with leaves as (
{" union all ".join(f"select {covered.agent.format(row=table)} as agent_id, graph_leaf({table}) as leaf from {table}" for table, covered in TABLES.items())}
), rows as (
  select agent_id, array_agg(leaf order by leaf) as added from leaves
  where agent_id in (select id from agents) group by agent_id
)
insert into graph_changes (transaction_id, is_first, agent_id, added)
select pg_current_xact_id()::text::bigint, false, agent_id, added from rows
"""
"""What was written before counts as it is."""


# As before: what the hashes covered besides is dropped. Roots that were noted elsewhere are lost.
SEAL_AS_BEFORE: Final = """
do $$
declare
  entry record;
  agent uuid;
  previous bytea;
begin
  for entry in select * from graph_journal order by agent_id, seq loop
    if agent is distinct from entry.agent_id then
      agent := entry.agent_id;
      previous := '';
    end if;
    previous := sha256(
      previous || int8send(entry.seq) || int8send((extract(epoch from entry.written_at) * 1000000)::bigint)
      || coalesce(uuid_send(entry.step_id), '') || array_send(entry.changed) || array_send(entry.deleted)
      || array_send(entry.types)
    );
    update graph_journal set hash = previous where agent_id = agent and seq = entry.seq;
    update graph_head set hash = previous where agent_id = agent;
  end loop;
end
$$
"""


def upgrade() -> None:
    # In one order, before anything else: writers hold these tables and wait for the journal's.
    op.execute(f"lock table {', '.join(TABLES)} in share row exclusive mode")
    for column in ("added", "removed"):
        op.add_column(
            "graph_changes", sa.Column(column, LEAVES, server_default="{}", nullable=False)
        )
        op.add_column("graph_journal", sa.Column(column, LEAVES, nullable=True))
    for column in ("root", "cited_root", "signature"):
        op.add_column("graph_journal", sa.Column(column, sa.LargeBinary(), nullable=True))
    op.add_column("graph_journal", sa.Column("writer", sa.Text(), nullable=True))
    op.add_column("iterations", sa.Column("graph_root", sa.LargeBinary(), nullable=True))
    for function in (CLOSE_JOURNAL, WRITE_JOURNAL, SIGN_JOURNAL):
        op.execute(function.strip())
    for table, covered in TABLES.items():
        for statement in covering(table, covered):
            op.execute(statement)
    op.execute(ADOPT_ROWS.strip())
    op.execute("select close_graph_journal()")
    for function in ("note_graph_elements", "note_graph_types"):
        op.execute(f"drop function {function}()")


def downgrade() -> None:
    before = import_module("shared.database.migrations.versions.0003_graph_journal")
    for table in TABLES:
        for event in EVENTS:
            op.execute(f"drop trigger note_{event} on {table}")
        op.execute(f"drop function note_{table}()")
        op.execute(f"drop function graph_leaf({table})")
    op.execute("drop function sign_graph_journal(uuid, bigint, bytea)")
    before.create_functions()
    before.create_note_triggers()
    op.execute("drop function close_graph_journal()")
    op.execute(SEAL_AS_BEFORE.strip())
    op.drop_column("iterations", "graph_root")
    for column in ("added", "removed", "root", "writer", "cited_root", "signature"):
        op.drop_column("graph_journal", column)
    for column in ("added", "removed"):
        op.drop_column("graph_changes", column)
