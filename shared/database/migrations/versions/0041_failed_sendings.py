"""sendings of calls that brought no usable answer

Revision ID: 0041
Revises: 0040
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("calls", sa.Column("failures", JSONB(), server_default="[]", nullable=False))


def downgrade() -> None:
    op.drop_column("calls", "failures")
