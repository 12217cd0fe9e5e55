"""what Analyzers lack, and how often an iteration may go and look for it

Revision ID: 0022
Revises: 0021
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_MOMENT = sa.DateTime(timezone=True)
_TABLE = "investigation_requests"


def upgrade() -> None:
    op.create_table(
        _TABLE,
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("iteration_id", sa.Uuid(), nullable=True),
        sa.Column("iteration_number", sa.Integer(), nullable=False),
        sa.Column("step_id", sa.Uuid(), nullable=True),
        sa.Column("objective", sa.Text(), nullable=False),
        sa.Column("reasoning", sa.Text(), nullable=False),
        sa.Column("search_hints", JSONB(), server_default="[]", nullable=False),
        sa.Column("created_at", _MOMENT, server_default=sa.text("clock_timestamp()"), nullable=False),
        sa.Column("answered_at", _MOMENT, nullable=True),
        sa.Column("answered_by", sa.Uuid(), nullable=True),
        sa.Column("dropped_at", _MOMENT, nullable=True),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f(f"{_TABLE}_agent_id_fkey"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["iteration_id"], ["iterations.id"], name=op.f(f"{_TABLE}_iteration_id_fkey"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["step_id"], ["steps.id"], name=op.f(f"{_TABLE}_step_id_fkey"), ondelete="SET NULL"),
        sa.ForeignKeyConstraint(["answered_by"], ["steps.id"], name=op.f(f"{_TABLE}_answered_by_fkey"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("id", name=op.f(f"{_TABLE}_pkey")),
    )
    for column in ("iteration_id", "step_id", "answered_by"):
        op.create_index(op.f(f"{_TABLE}_{column}_idx"), _TABLE, [column])
    op.create_index(f"{_TABLE}_agent_idx", _TABLE, ["agent_id", "created_at", "id"])
    op.create_index(
        f"{_TABLE}_open_idx",
        _TABLE,
        ["agent_id", "created_at", "id"],
        postgresql_where=sa.text("answered_at is null and dropped_at is null"),
    )
    rounds = sa.CheckConstraint("feedback_rounds between 0 and 2", name=op.f("agents_feedback_rounds_check"))
    op.add_column("agents", sa.Column("feedback_rounds", sa.Integer(), rounds, server_default="0", nullable=False))


def downgrade() -> None:
    op.drop_column("agents", "feedback_rounds")
    op.drop_table(_TABLE)
