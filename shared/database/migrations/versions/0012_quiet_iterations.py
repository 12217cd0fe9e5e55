"""Quiet iterations: what the last check of each page found, and an interval that grows.

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

PERMIT = (
    "alter table iterations drop constraint iterations_status_check,"
    " add constraint iterations_status_check check (status in ({})) not valid"
)
BEFORE = "'running', 'completed', 'failed'"


def upgrade() -> None:
    op.create_table(
        "page_probes",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("etag", sa.Text(), nullable=True),
        sa.Column("last_modified", sa.Text(), nullable=True),
        sa.Column("digest", sa.LargeBinary(), nullable=True),
        sa.Column("entries", postgresql.JSONB(), nullable=True),
        sa.Column("changes", sa.Integer(), server_default="0", nullable=False),
        sa.Column("failures", sa.Integer(), server_default="0", nullable=False),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("checked_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent_id", "url"),
        sa.CheckConstraint("kind in ('page', 'feed')", name="page_probes_kind_check"),
    )
    op.execute(PERMIT.format(f"{BEFORE}, 'quiet'"))
    op.add_column("agents", sa.Column("max_interval_seconds", sa.Integer(), nullable=True))


def downgrade() -> None:
    op.drop_column("agents", "max_interval_seconds")
    op.execute("update iterations set status = 'completed' where status = 'quiet'")
    op.execute(PERMIT.format(BEFORE))
    op.drop_table("page_probes")
