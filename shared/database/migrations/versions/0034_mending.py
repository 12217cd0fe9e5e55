"""when a doubt was last weighed

Revision ID: 0034
Revises: 0033
"""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("doubts", sa.Column("weighed_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("doubts", "weighed_at")
