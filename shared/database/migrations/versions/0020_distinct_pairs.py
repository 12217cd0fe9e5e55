"""Pairs of nodes with similar names that a person declared distinct.

Revision ID: 0020
Revises: 0019
"""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "graph_distinct_pairs",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("one_id", sa.Uuid(), nullable=False),
        sa.Column("other_id", sa.Uuid(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("one_name", sa.Text(), nullable=False),
        sa.Column("other_name", sa.Text(), nullable=False),
        sa.Column("made_by", sa.Uuid(), nullable=True),
        sa.Column(
            "made_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("clock_timestamp()"),
            nullable=False,
        ),
        sa.CheckConstraint("one_id < other_id", name=op.f("graph_distinct_pairs_ordered_check")),
        sa.ForeignKeyConstraint(
            ["agent_id"],
            ["agents.id"],
            name=op.f("graph_distinct_pairs_agent_id_fkey"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["made_by"],
            ["users.id"],
            name=op.f("graph_distinct_pairs_made_by_fkey"),
            ondelete="SET NULL",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("graph_distinct_pairs_pkey")),
        sa.UniqueConstraint(
            "agent_id",
            "one_id",
            "other_id",
            name=op.f("graph_distinct_pairs_agent_id_one_id_other_id_key"),
        ),
    )
    op.create_index(
        "graph_distinct_pairs_other_idx", "graph_distinct_pairs", ["agent_id", "other_id"]
    )
    op.create_index(
        "graph_distinct_pairs_agent_made_idx", "graph_distinct_pairs", ["agent_id", "made_at"]
    )


def downgrade() -> None:
    op.drop_table("graph_distinct_pairs")
