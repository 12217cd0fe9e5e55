"""The rules that accepted a conclusion, and whether advice may rest on one analysis.

Revision ID: 0006
Revises: 0005
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("graph_nodes", sa.Column("rules", postgresql.JSONB(), nullable=True))
    op.add_column(
        "agents",
        sa.Column(
            "advice_from_one_analysis",
            sa.Boolean(),
            server_default=sa.text("false"),
            nullable=False,
        ),
    )


def downgrade() -> None:
    op.drop_column("agents", "advice_from_one_analysis")
    op.drop_column("graph_nodes", "rules")
