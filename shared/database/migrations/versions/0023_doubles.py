"""whose name is whose, which node was found to be another, and why types were made

Revision ID: 0023
Revises: 0022
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)
_BY_BYTES = sa.Text(collation="C")
_NOW = sa.text("clock_timestamp()")


def upgrade() -> None:
    op.create_table(
        "graph_names",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("key", _BY_BYTES, nullable=False),
        sa.Column("backwards", _BY_BYTES, nullable=False),
        sa.Column("by_length", _BY_BYTES, nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("node_id", sa.Uuid(), nullable=False),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.Column("created_at", _MOMENT, server_default=_NOW, nullable=False),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("graph_names_agent_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["node_id"], ["graph_nodes.id"], name=op.f("graph_names_node_id_fkey"), ondelete="CASCADE", deferrable=True, initially="DEFERRED"),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name=op.f("graph_names_step_id_fkey"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("agent_id", "type", "key", name=op.f("graph_names_pkey")),
    )
    op.create_index("graph_names_backwards_idx", "graph_names", ["agent_id", "type", "backwards"])
    op.create_index("graph_names_by_length_idx", "graph_names", ["agent_id", "type", "by_length"])
    op.create_index(op.f("graph_names_node_id_idx"), "graph_names", ["node_id"])
    op.create_index(op.f("graph_names_step_id_idx"), "graph_names", ["step_id"])
    op.create_table(
        "graph_merges",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("kept_id", sa.Uuid(), nullable=False),
        sa.Column("gone_id", sa.Uuid(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("gone", JSONB(), nullable=False),
        sa.Column("moved", JSONB(), nullable=False),
        sa.Column("made_by", sa.Uuid(), nullable=True),
        sa.Column("made_at", _MOMENT, server_default=_NOW, nullable=False),
        sa.Column("undone_at", _MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("graph_merges_agent_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["made_by"], ["users.id"], name=op.f("graph_merges_made_by_fkey"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("graph_merges_pkey")),
    )
    op.create_index("graph_merges_agent_made_idx", "graph_merges", ["agent_id", "made_at"])
    for column in ("kept_id", "gone_id"):
        op.create_index(op.f(f"graph_merges_{column}_idx"), "graph_merges", [column])
    op.create_table(
        "graph_moves",
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("gone_id", sa.Uuid(), nullable=False),
        sa.Column("kept_id", sa.Uuid(), nullable=False),
        sa.Column("merge_id", sa.Uuid(), nullable=False),
        sa.CheckConstraint("gone_id <> kept_id", name=op.f("graph_moves_elsewhere_check")),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("graph_moves_agent_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["merge_id"], ["graph_merges.id"], name=op.f("graph_moves_merge_id_fkey"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("agent_id", "gone_id", name=op.f("graph_moves_pkey")),
    )
    op.create_index("graph_moves_merge_idx", "graph_moves", ["merge_id"])
    op.create_index("graph_moves_kept_idx", "graph_moves", ["agent_id", "kept_id"])
    for table in ("graph_node_types", "graph_edge_types"):
        op.add_column(table, sa.Column("justification", sa.Text(), nullable=True))


def downgrade() -> None:
    for table in ("graph_node_types", "graph_edge_types"):
        op.drop_column(table, "justification")
    op.drop_table("graph_moves")
    op.drop_table("graph_merges")
    op.drop_table("graph_names")
