"""Domains that an agent's owner prefers, and domains that the owner bars.

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

COLUMNS = ("preferred_domains", "barred_domains")


def upgrade() -> None:
    domains = postgresql.ARRAY(sa.Text(), dimensions=1)
    for column in COLUMNS:
        op.add_column("agents", sa.Column(column, domains, server_default="{}", nullable=False))


def downgrade() -> None:
    for column in reversed(COLUMNS):
        op.drop_column("agents", column)
