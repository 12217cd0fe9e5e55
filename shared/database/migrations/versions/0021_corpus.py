"""The corpus that the sandbox's search reads for an agent.

Revision ID: 0021
Revises: 0020
"""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("agents", sa.Column("corpus", sa.Text(), nullable=True))


def downgrade() -> None:
    op.drop_column("agents", "corpus")
