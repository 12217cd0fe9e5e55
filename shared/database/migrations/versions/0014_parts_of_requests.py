"""Input tokens by the part of the request.

Revision ID: 0014
Revises: 0013
"""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

COLUMNS = ("system_tokens", "tools_tokens", "context_tokens", "results_tokens")


def upgrade() -> None:
    for column in COLUMNS:
        op.add_column("calls", sa.Column(column, sa.Integer(), server_default="0", nullable=False))


def downgrade() -> None:
    for column in reversed(COLUMNS):
        op.drop_column("calls", column)
