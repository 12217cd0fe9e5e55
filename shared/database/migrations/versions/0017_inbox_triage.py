"""What the owner decided about inbox items, their feedback, and until when items are snoozed.

Revision ID: 0017
Revises: 0016
"""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

TEXTS = ("outcome", "feedback")
MOMENTS = ("answered_at", "snoozed_until", "resolved_at")


def upgrade() -> None:
    for name in TEXTS:
        op.add_column("inbox_items", sa.Column(name, sa.Text(), nullable=True))
    op.add_column("inbox_items", sa.Column("useful", sa.Boolean(), nullable=True))
    for name in MOMENTS:
        op.add_column("inbox_items", sa.Column(name, sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    for name in (*MOMENTS, "useful", *TEXTS):
        op.drop_column("inbox_items", name)
