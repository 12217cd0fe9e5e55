"""what nodes mean, as vectors

Plain numbers: the tables are the same on servers that have no pgvector. What only pgvector can do is made by every
migrating, behind the history (`shared.database.pgvector`), so that it comes as soon as the server has it.

Revision ID: 0035
Revises: 0034
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "node_embeddings",
        sa.Column("node_id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("text_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("meaning", ARRAY(sa.REAL(), dimensions=1), nullable=False),
        sa.Column("updated_at", _MOMENT, server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.CheckConstraint("cardinality(meaning) = 256", name=op.f("node_embeddings_dimensions_check")),
        sa.ForeignKeyConstraint(["node_id"], ["graph_nodes.id"], name=op.f("node_embeddings_node_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("node_embeddings_agent_id_fkey"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("node_id", name=op.f("node_embeddings_pkey")),
    )
    op.create_index("node_embeddings_agent_model_idx", "node_embeddings", ["agent_id", "model"])
    op.create_table(
        "embedding_sweeps",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("through_at", _MOMENT, nullable=False),
        sa.Column("through_id", sa.Uuid(), server_default=sa.text("'00000000-0000-0000-0000-000000000000'"), nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("embedding_sweeps_agent_id_fkey"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent_id", name=op.f("embedding_sweeps_pkey")),
    )


def downgrade() -> None:
    op.drop_table("embedding_sweeps")
    op.drop_table("node_embeddings")
