"""conversations are answered: turns, answers under way, a summary, memories

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)
_NOW = sa.text("clock_timestamp()")


def upgrade() -> None:
    op.add_column("conversations", sa.Column("turns", sa.Integer(), server_default="0", nullable=False))
    op.add_column("conversations", sa.Column("summary", sa.Text(), server_default="", nullable=False))
    op.add_column("conversations", sa.Column("summarized_turns", sa.Integer(), server_default="0", nullable=False))
    op.add_column("messages", sa.Column("turn", sa.Integer(), nullable=True))
    op.add_column("messages", sa.Column("node_id", sa.Uuid(), nullable=True))
    op.add_column("messages", sa.Column("draft", sa.Integer(), server_default="0", nullable=False))
    op.add_column("messages", sa.Column("looked", JSONB(), server_default="[]", nullable=False))
    op.add_column("messages", sa.Column("citations", JSONB(), server_default="[]", nullable=False))
    op.add_column("messages", sa.Column("completed_at", _MOMENT, nullable=True))
    op.create_table(
        "memories",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("message_id", sa.Uuid(), nullable=True),
        sa.Column("created_at", _MOMENT, server_default=_NOW, nullable=False),
        sa.Column("forgotten_at", _MOMENT, nullable=True),
        sa.CheckConstraint("kind in ('wish', 'fact')", name=op.f("memories_kind_check")),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("memories_agent_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["message_id"], ["messages.id"], name=op.f("memories_message_id_fkey"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f("memories_pkey")),
    )
    op.create_index("memories_active_idx", "memories", ["agent_id", "created_at"], postgresql_where=sa.text("forgotten_at is null"))
    op.create_index("memories_agent_idx", "memories", ["agent_id", "created_at"])
    op.create_index(op.f("memories_message_id_idx"), "memories", ["message_id"])


def downgrade() -> None:
    op.drop_table("memories")
    for column in ("completed_at", "citations", "looked", "draft", "node_id", "turn"):
        op.drop_column("messages", column)
    for column in ("summarized_turns", "summary", "turns"):
        op.drop_column("conversations", column)
