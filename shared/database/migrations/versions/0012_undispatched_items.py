"""the inbox items that no delivery was made of yet are found by an index

Revision ID: 0012
Revises: 0011
"""

import sqlalchemy as sa
from alembic import op

from shared.database.migrations.indexes import create_index_beside_writers

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index_beside_writers(
        "inbox_items_undispatched_idx", "inbox_items", ["created_at"], postgresql_where=sa.text("dispatched_at is null")
    )


def downgrade() -> None:
    op.drop_index("inbox_items_undispatched_idx", table_name="inbox_items", postgresql_where=sa.text("dispatched_at is null"))
