"""pages that were read, and which span of them supports what the graph says

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "sources",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=True),
        sa.Column("published", _MOMENT, nullable=True),
        sa.Column("fetched_at", _MOMENT, nullable=False),
        sa.Column("sha256", sa.LargeBinary(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("seal", sa.LargeBinary(), nullable=False),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.Column("retracted_at", _MOMENT, nullable=True),
        sa.Column("retracted_because", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("sources_agent_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name=op.f("sources_step_id_fkey"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("sources_pkey")),
        sa.UniqueConstraint("agent_id", "url", "sha256", name=op.f("sources_agent_id_url_sha256_key")),
    )
    op.create_index("sources_agent_fetched_idx", "sources", ["agent_id", "fetched_at"])
    op.create_index(op.f("sources_step_id_idx"), "sources", ["step_id"])
    op.create_table(
        "evidence",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("node_id", sa.Uuid(), nullable=True),
        sa.Column("edge_id", sa.Uuid(), nullable=True),
        sa.Column("source_id", sa.Uuid(), nullable=False),
        sa.Column("first_byte", sa.Integer(), nullable=False),
        sa.Column("end_byte", sa.Integer(), nullable=False),
        sa.Column("quote_sha256", sa.LargeBinary(), nullable=False),
        sa.Column("claims", JSONB(), nullable=False),
        sa.Column("valid_from", _MOMENT, nullable=True),
        sa.Column("valid_to", _MOMENT, nullable=True),
        sa.Column("as_of", _MOMENT, nullable=False),
        sa.Column("learned_at", _MOMENT, nullable=False),
        sa.Column("seal", sa.LargeBinary(), nullable=False),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.CheckConstraint("num_nonnulls(node_id, edge_id) = 1", name=op.f("evidence_of_one_thing_check")),
        sa.CheckConstraint("0 <= first_byte and first_byte < end_byte", name=op.f("evidence_span_check")),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("evidence_agent_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["node_id"], ["graph_nodes.id"], name=op.f("evidence_node_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["edge_id"], ["graph_edges.id"], name=op.f("evidence_edge_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["source_id"], ["sources.id"], name=op.f("evidence_source_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name=op.f("evidence_step_id_fkey"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("evidence_pkey")),
    )
    for column in ("agent_id", "node_id", "edge_id", "source_id", "step_id"):
        op.create_index(op.f(f"evidence_{column}_idx"), "evidence", [column])
    for table in ("graph_nodes", "graph_edges"):
        op.add_column(table, sa.Column("seal", sa.LargeBinary(), nullable=True))


def downgrade() -> None:
    for table in ("graph_nodes", "graph_edges"):
        op.drop_column(table, "seal")
    op.drop_table("evidence")
    op.drop_table("sources")
