"""Positions of agents on subjects, and the actions that their advice may have.

Revision ID: 0034
Revises: 0033
"""

from typing import Final

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

from shared.database.migrations.journal import covering

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None

KIND: Final = 17
COLUMNS: Final = (
    "advice_id agent_id subject confidence horizon stated_at confirmations ended_at replaced_by reason"
)
ACTIONS: Final = '{"BUY": "Begin or do more.", "HOLD": "Change nothing.", "SELL": "End or do less."}'


def upgrade() -> None:
    op.add_column(
        "agents",
        sa.Column("actions", postgresql.JSONB(), server_default=ACTIONS, nullable=False),
    )
    op.create_table(
        "positions",
        sa.Column("advice_id", sa.Uuid(), nullable=False),
        sa.Column("agent_id", sa.Uuid(), nullable=False),
        sa.Column("subject", postgresql.ARRAY(sa.Uuid(), dimensions=1), nullable=False),
        sa.Column("confidence", sa.Numeric(), nullable=True),
        sa.Column("horizon", sa.Date(), nullable=True),
        sa.Column("stated_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("confirmations", sa.Integer(), server_default="0", nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("replaced_by", sa.Uuid(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["advice_id"],
            ["graph_nodes.id"],
            name="positions_advice_id_fkey",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("advice_id", name="positions_pkey"),
    )
    op.create_index(
        "positions_open_idx",
        "positions",
        ["agent_id"],
        postgresql_where=sa.text("ended_at is null"),
    )
    op.create_index(
        "positions_replaced_by_idx",
        "positions",
        ["replaced_by"],
        postgresql_where=sa.text("replaced_by is not null"),
    )
    for statement in covering("positions", KIND, COLUMNS):
        op.execute(statement)
