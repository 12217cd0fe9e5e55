"""When validities of evidence begin and end, so that the properties that follow from it change on that day.

Revision ID: 0039
Revises: 0038
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)
# What its as_of has reached already is applied when it is written.
NOTE: Final = """
create or replace function note_validity() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  insert into validity_boundaries (evidence_id, moment, agent_id, due_at)
  select new.id, moment, new.agent_id, case when moment > new.as_of or moment = new.valid_to then moment end
  from unnest(array[new.valid_from, new.valid_to]) as moment where moment is not null;
  return null;
end
$$
"""
TRIGGER: Final = """
create trigger note_validity after insert on evidence for each row
when (num_nonnulls(new.valid_from, new.valid_to) > 0) execute function note_validity()
"""
# Another archive date is another now.
NOTE_NOW: Final = """
create or replace function note_archive_date() returns trigger
language plpgsql security definer set search_path = pg_catalog, public, pg_temp as $$
begin
  update validity_boundaries set due_at = '-infinity' where agent_id = new.id;
  return null;
end
$$
"""
TRIGGER_OF_NOW: Final = """
create trigger note_archive_date after update on agents for each row
when (old.archive_date is distinct from new.archive_date) execute function note_archive_date()
"""
# Older releases have projected it without validity, so that all of it is due.
FILL: Final = """
insert into validity_boundaries (evidence_id, moment, agent_id, due_at)
select id, moment, agent_id, '-infinity' from evidence cross join unnest(array[valid_from, valid_to]) as moment
where moment is not null
"""


def upgrade() -> None:
    op.create_table(
        "validity_boundaries",
        sa.Column("evidence_id", sa.Uuid(), nullable=False),
        sa.Column("moment", TIME, nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("due_at", TIME, nullable=True),
        sa.ForeignKeyConstraint(["evidence_id"], ["evidence.id"], onupdate="CASCADE", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("evidence_id", "moment"),
    )
    op.create_index("validity_boundaries_agent_idx", "validity_boundaries", ["agent_id", "moment"])
    op.create_index(
        "validity_boundaries_due_idx",
        "validity_boundaries",
        ["due_at"],
        postgresql_where=sa.text("due_at is not null"),
    )
    # The trigger first: what is written while the table is filled is noted by it.
    for statement in (NOTE, TRIGGER, NOTE_NOW, TRIGGER_OF_NOW, FILL):
        op.execute(statement.strip())
