"""Proofs of conclusions: what each states, with the sentence that says it, as it was when it was concluded.

Revision ID: 0037
Revises: 0036
"""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from shared.database.migrations.journal import covering

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None

KIND: Final = 19
COLUMNS: Final = (
    "conclusion_id number agent_id sentence stated kind element_id type name property value source_id first_byte end_byte"
)


def upgrade() -> None:
    op.create_table(
        "conclusion_proofs",
        sa.Column("conclusion_id", sa.Uuid(), nullable=False),
        sa.Column("number", sa.SmallInteger(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("sentence", sa.SmallInteger(), nullable=False),
        sa.Column("stated", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("element_id", sa.Uuid(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("property", sa.Text(), nullable=True),
        sa.Column("value", postgresql.JSONB(), nullable=True),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("first_byte", sa.Integer(), nullable=False),
        sa.Column("end_byte", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["conclusion_id"], ["graph_nodes.id"], ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("conclusion_id", "number"),
        sa.CheckConstraint("kind in ('node', 'edge')", name="conclusion_proofs_kind_check"),
        sa.CheckConstraint(
            "0 <= first_byte and first_byte < end_byte", name="conclusion_proofs_span_check"
        ),
    )
    op.create_index("conclusion_proofs_agent_idx", "conclusion_proofs", ["agent_id"])
    op.create_index("conclusion_proofs_source_id_idx", "conclusion_proofs", ["source_id"])
    for statement in covering("conclusion_proofs", KIND, COLUMNS):
        op.execute(statement)
