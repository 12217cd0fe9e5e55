"""Short ids of nodes and edges: the numbers by which models read and write them.

Revision ID: 0010
Revises: 0009
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "element_numbers",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("element_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent_id", "number"),
        sa.UniqueConstraint("agent_id", "element_id"),
        sa.CheckConstraint("kind in ('n', 'e')", name="element_numbers_kind_check"),
    )


def downgrade() -> None:
    op.drop_table("element_numbers")
