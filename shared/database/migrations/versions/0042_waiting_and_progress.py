"""steps say since when they wait for a provider, and calls how much of their answer has come

Revision ID: 0042
Revises: 0041
"""

import sqlalchemy as sa
from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("steps", sa.Column("waiting_since", sa.DateTime(timezone=True), nullable=True))
    op.add_column("steps", sa.Column("waits", sa.Integer(), server_default="0", nullable=False))
    op.add_column("calls", sa.Column("sent_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("calls", sa.Column("received_chars", sa.Integer(), nullable=True))
    op.add_column("calls", sa.Column("progressed_at", sa.DateTime(timezone=True), nullable=True))


def downgrade() -> None:
    op.drop_column("calls", "progressed_at")
    op.drop_column("calls", "received_chars")
    op.drop_column("calls", "sent_at")
    op.drop_column("steps", "waits")
    op.drop_column("steps", "waiting_since")
