"""Tokens that a provider read from its cache, and tokens of reasoning.

Revision ID: 0011
Revises: 0010
"""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

COLUMNS = ("cached_tokens", "reasoning_tokens")


def upgrade() -> None:
    for column in COLUMNS:
        op.add_column("calls", sa.Column(column, sa.Integer(), server_default="0", nullable=False))


def downgrade() -> None:
    for column in reversed(COLUMNS):
        op.drop_column("calls", column)
