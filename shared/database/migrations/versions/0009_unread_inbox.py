"""what is unread in an inbox, the newest first

Revision ID: 0009
Revises: 0008
"""

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers("inbox_items_unread_idx", "inbox_items", ["owner_id", "created_at"], postgresql_where=sa.text("read_at is null"))


def downgrade() -> None:
    op.drop_index("inbox_items_unread_idx", table_name="inbox_items")
