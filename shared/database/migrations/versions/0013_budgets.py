"""budgets: caps, what was spent in a day, what is reserved, and notices in the inbox

Revision ID: 0013
Revises: 0012
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

# Older readers join an item with its advice, and so do not see notices at all.
loosens = {"inbox_items.node_id"}

_USD = sa.Numeric(14, 8)
_MOMENT = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "installation_budget",
        sa.Column("id", sa.Integer(), server_default="1", autoincrement=False, nullable=False),
        sa.Column("usd_per_day", _USD, nullable=True),
        sa.Column("calls_per_day", sa.Integer(), nullable=True),
        sa.CheckConstraint("id = 1", name=op.f("installation_budget_one_row_check")),
        sa.PrimaryKeyConstraint("id", name=op.f("installation_budget_pkey")),
    )
    op.create_table(
        "budget_days",
        sa.Column("scope", sa.Uuid(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("spent_usd", _USD, server_default="0", nullable=False),
        sa.Column("reserved_usd", _USD, server_default="0", nullable=False),
        sa.Column("spent_calls", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reserved_calls", sa.Integer(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("scope", "day", name=op.f("budget_days_pkey")),
    )
    op.add_column("agents", sa.Column("budget_usd_per_day", _USD, nullable=True))
    op.add_column("agents", sa.Column("budget_calls_per_day", sa.Integer(), nullable=True))
    op.add_column("agents", sa.Column("resting_until", _MOMENT, nullable=True))
    op.add_column("calls", sa.Column("sendings", sa.Integer(), server_default="0", nullable=False))
    op.add_column("calls", sa.Column("reserved_usd", _USD, nullable=True))
    op.add_column("calls", sa.Column("reserved_on", sa.Date(), nullable=True))
    op.add_column("calls", sa.Column("presumed_usd", _USD, server_default="0", nullable=False))
    op.add_column("inbox_items", sa.Column("kind", sa.Text(), server_default="advice", nullable=False))
    op.alter_column("inbox_items", "node_id", nullable=True)


def downgrade() -> None:
    op.execute("delete from inbox_items where node_id is null")
    op.alter_column("inbox_items", "node_id", nullable=False)
    op.drop_column("inbox_items", "kind")
    op.drop_column("calls", "presumed_usd")
    op.drop_column("calls", "reserved_on")
    op.drop_column("calls", "reserved_usd")
    op.drop_column("calls", "sendings")
    op.drop_column("agents", "resting_until")
    op.drop_column("agents", "budget_calls_per_day")
    op.drop_column("agents", "budget_usd_per_day")
    op.drop_table("budget_days")
    op.drop_table("installation_budget")
