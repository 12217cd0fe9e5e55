"""What code reads in a page, and the rules by which evidence was checked.

Revision ID: 0005
Revises: 0004
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sources", sa.Column("reading", postgresql.JSONB(), nullable=True))
    op.add_column("evidence", sa.Column("rules", sa.SmallInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("evidence", "rules")
    op.drop_column("sources", "reading")
