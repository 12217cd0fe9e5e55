"""A transaction is forbidden to commit without an error.

Revision ID: 0032
Revises: 0025
"""

from alembic import op

revision = "0032"
down_revision = "0025"
branch_labels = None
depends_on = None

# The client has prepared COMMIT as `vigil_commit`, and sends its execution together with the statements before it.
FORBID_COMMIT = """create function forbid_commit() returns boolean language plpgsql as $$
begin
  execute 'deallocate vigil_commit';
  execute 'prepare vigil_commit as select true';
  return true;
end
$$
"""


def upgrade() -> None:
    op.execute(FORBID_COMMIT)


def downgrade() -> None:
    op.execute("drop function forbid_commit()")
