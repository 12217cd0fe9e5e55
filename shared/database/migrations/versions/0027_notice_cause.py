"""The cause of a notice that is open until its cause ends.

Revision ID: 0027
Revises: 0026
"""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("inbox_items", sa.Column("cause", sa.Text()))
