"""The contexts that are pinned for steps which are requested together.

Revision ID: 0002
Revises: 0001
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "pinned_contexts",
        sa.Column("iteration_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("round", sa.SmallInteger(), autoincrement=False, nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["iteration_id"],
            ["iterations.id"],
            name=op.f("pinned_contexts_iteration_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "iteration_id", "kind", "round", name=op.f("pinned_contexts_pkey")
        ),
    )


def downgrade() -> None:
    op.drop_table("pinned_contexts")
